"""Every long-running program stops at the first signal, whatever became of its standard streams."""

import os
import signal
import socket
import subprocess
import sys
import threading
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from pathlib import Path
from typing import IO

import pytest
import yaml

from fairway.app.sandbox.engine import Sandbox
from fairway.app.sandbox.store import Store

TIMEOUT = 300
Command = Callable[[Path, str], list[str]]


@contextmanager
def silent_server() -> Iterator[str]:
    """An API server that takes connections and never answers; `ready` is set by the first."""
    listener = socket.create_server(("127.0.0.1", 0))
    taken: list[socket.socket] = []

    def take() -> None:
        while True:
            try:
                taken.append(listener.accept()[0])
            except OSError:
                return

    thread = threading.Thread(target=take, daemon=True)
    thread.start()
    yield f"http://127.0.0.1:{listener.getsockname()[1]}"
    listener.shutdown(socket.SHUT_RDWR)
    listener.close()
    thread.join(TIMEOUT)
    for one in taken:
        one.close()


def kubeconfig(folder: Path, server: str) -> str:
    config = {
        "current-context": "c",
        "contexts": [{"name": "c", "context": {"cluster": "c", "user": "u"}}],
        "clusters": [{"name": "c", "cluster": {"server": server}}],
        "users": [{"name": "u", "user": {}}],
    }
    (folder / "kubeconfig").write_text(yaml.safe_dump(config))
    return str(folder / "kubeconfig")


def run(folder: Path, server: str) -> list[str]:
    return ["run", "--kubeconfig", kubeconfig(folder, server), "--http-address", ""]


def fleet(folder: Path, server: str) -> list[str]:
    return ["fleet", "--kubeconfig", kubeconfig(folder, server), "--http-address", ""]


def agent(folder: Path, server: str) -> list[str]:
    folders = ["--plugin-dir", str(folder / "p"), "--state-dir", str(folder / "s"), "--cdi-dir", str(folder / "c")]
    more = ["--kubelet-plugins", str(folder / "k"), "--kubelet-registry", str(folder / "r"), "--http-address", ""]
    return ["agent", "--node-name", "n", "--kubeconfig", kubeconfig(folder, server), *folders, *more]


def sandbox(folder: Path, server: str) -> list[str]:
    return ["sandbox", "--port", "0", "--speed", "3000", "--state", str(folder / "s.db")]


PROGRAMS: list[Command] = [run, fleet, agent, sandbox]


class Started:
    """A program whose standard output and error are one pipe, as `2>&1 | tee log` makes it."""

    def __init__(self, arguments: list[str], folder: Path, *, closed: bool = False) -> None:
        environment = {**os.environ, "XDG_STATE_HOME": str(folder / "home")}
        self.reader, writer = os.pipe()
        self.process = subprocess.Popen(
            [sys.executable, "-m", "fairway.cli.main", *arguments],
            env=environment,
            stdin=subprocess.DEVNULL,
            stdout=writer,
            stderr=writer,
            preexec_fn=_close_streams if closed else None,
        )
        os.close(writer)
        self.file: IO[bytes] | None = os.fdopen(self.reader, "rb", buffering=0)

    def close(self) -> None:
        if self.process.poll() is None:
            self.process.kill()
        self.process.wait()
        self.leave()

    def leave(self) -> None:
        """The reader goes away."""
        if self.file is not None:
            self.file.close()
            self.file = None


def _close_streams() -> None:
    for number in (0, 1, 2):
        os.close(number)


@pytest.fixture
def start(tmp_path: Path) -> Iterator[Callable[..., Started]]:
    made: list[Started] = []

    def started(program: Command, server: str, **more: bool) -> Started:
        made.append(Started(program(tmp_path, server), tmp_path, **more))
        return made[-1]

    yield started
    for one in made:
        one.close()


Start = Callable[..., Started]


def wait_for_signals(started: Started) -> None:
    """Until the program handles signals itself: before, a signal ends it anyway."""
    status = Path(f"/proc/{started.process.pid}/status")
    for _ in range(TIMEOUT * 100):
        assert started.process.poll() is None, "it ended by itself"
        caught = next(line for line in status.read_text().splitlines() if line.startswith("SigCgt"))
        if int(caught.split()[1], 16) >> (signal.SIGTERM - 1) & 1:
            return
        threading.Event().wait(0.01)
    raise AssertionError("it never handled signals")


@pytest.mark.parametrize("program", PROGRAMS)
@pytest.mark.parametrize("number", [signal.SIGINT, signal.SIGTERM])
def test_a_reader_that_is_gone_does_not_keep_it_from_stopping(
    start: Start, program: Command, number: signal.Signals
) -> None:
    """`fairway run ... 2>&1 | tee log` and Ctrl-C: the reader ends first, then the program writes its last lines."""
    with silent_server() as server:
        started = start(program, server)
        wait_for_signals(started)
        started.leave()
        started.process.send_signal(number)
        assert started.process.wait(TIMEOUT) >= 0, "it ended by itself"


@pytest.mark.parametrize("program", PROGRAMS)
def test_a_full_pipe_does_not_keep_it_from_stopping(start: Start, program: Command) -> None:
    with silent_server() as server:
        started = start(program, server)
        fill(started.process.pid)
        wait_for_signals(started)
        started.process.send_signal(signal.SIGTERM)
        assert started.process.wait(TIMEOUT) >= 0


@pytest.mark.parametrize("program", PROGRAMS)
def test_closed_streams_do_not_keep_it_from_stopping(start: Start, program: Command) -> None:
    with silent_server() as server:
        started = start(program, server, closed=True)
        wait_for_signals(started)
        started.process.send_signal(signal.SIGTERM)
        assert started.process.wait(TIMEOUT) >= 0


def test_a_sandbox_whose_reader_stalls_keeps_its_state(start: Start, tmp_path: Path) -> None:
    started = start(sandbox, "")
    wait_for_signals(started)
    threading.Event().wait(1)
    fill(started.process.pid)
    started.process.send_signal(signal.SIGINT)
    assert started.process.wait(TIMEOUT) >= 0
    kept = Sandbox(Store(str(tmp_path / "s.db")))
    assert kept.now > 0
    kept.close()


def fill(pid: int) -> None:
    """Fill the pipe that is the standard error of a process."""
    writer = os.open(f"/proc/{pid}/fd/2", os.O_WRONLY | os.O_NONBLOCK)
    try:
        while True:
            os.write(writer, b"x" * 512)
    except BlockingIOError:
        return
    finally:
        os.close(writer)
