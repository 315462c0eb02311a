"""The first signal asks for a clean stop, the second one exits at once, whatever the main thread is doing."""

import os
import signal
import subprocess
import sys
import threading

import pytest

from fairway.app.stopping import interrupt, stop_signals

TIMEOUT = 300

STUCK = """
import os, signal, sys, time
from fairway.app.stopping import stop_signals
def stop():
    print("asked", flush=True)
with stop_signals(stop, before_exit=lambda: print("restored", flush=True)):
    print("ready", flush=True)
    while True:
        try:
            {stuck}
        except Exception:
            pass
"""


@pytest.mark.parametrize("stuck", ["time.sleep(100)", "os.read(0, 1)", "os.write(3, bytes(1 << 20))", "pass", "1 / 0"])
@pytest.mark.parametrize("number", [signal.SIGINT, signal.SIGTERM])
def test_the_second_signal_exits_at_once(stuck: str, number: signal.Signals) -> None:
    reader, writer = os.pipe()
    code = STUCK.format(stuck=stuck).replace("os.write(3", f"os.write({writer}")
    process = subprocess.Popen(
        [sys.executable, "-c", code],
        stdin=subprocess.PIPE,
        stdout=subprocess.PIPE,
        text=True,
        pass_fds=(writer,),
    )
    assert process.stdout is not None
    assert process.stdout.readline() == "ready\n"
    process.send_signal(number)
    assert process.stdout.readline() == "asked\n"
    process.send_signal(number)
    assert process.wait(TIMEOUT) == 128 + number
    assert process.stdout.read() == "restored\n"
    for end in (reader, writer):
        os.close(end)
    process.communicate()


def test_a_screen_replaces_how_a_program_stops_and_signals_count_together() -> None:
    asked: list[str] = []
    with stop_signals(lambda: asked.append("program")):
        with stop_signals(lambda: asked.append("screen")):
            os.kill(os.getpid(), signal.SIGTERM)
        assert asked == ["screen"]
    assert signal.getsignal(signal.SIGTERM) is signal.SIG_DFL


def test_programs_without_an_event_loop_are_interrupted() -> None:
    def program() -> None:
        with stop_signals(interrupt):
            os.kill(os.getpid(), signal.SIGTERM)
            threading.Event().wait(TIMEOUT)

    with pytest.raises(KeyboardInterrupt):
        program()


def test_outside_the_main_thread_it_has_no_effect() -> None:
    before = signal.getsignal(signal.SIGTERM)
    found: list[object] = []

    def work() -> None:
        with stop_signals(interrupt):
            found.append(signal.getsignal(signal.SIGTERM))

    thread = threading.Thread(target=work)
    thread.start()
    thread.join(TIMEOUT)
    assert found == [before]
