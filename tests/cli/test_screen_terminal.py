"""The sandbox on a terminal of its own: it shows itself, ends quietly, and leaves the terminal as it was."""

import fcntl
import os
import pty
import select
import signal
import struct
import subprocess
import sys
import termios
import time
from collections.abc import Callable, Iterator
from pathlib import Path

import pytest

from fairway.app.sandbox.engine import Sandbox
from fairway.app.sandbox.store import Store
from fairway.scheduler.paranoid import check

TIMEOUT = 60.0
QUEUED = 60
"""More texts than Textual queues for its terminal."""
ENTER_SCREEN, LEAVE_SCREEN, SHOW_CURSOR = "\x1b[?1049h", "\x1b[?1049l", "\x1b[?25h"


class TerminalProgram:
    """`fairway sandbox` with a terminal of 80 x 24."""

    def __init__(self, folder: Path, **more: str) -> None:
        self.master, slave = pty.openpty()
        fcntl.ioctl(slave, termios.TIOCSWINSZ, struct.pack("HHHH", 24, 80, 0, 0))
        self.before = termios.tcgetattr(slave)
        environment = {**os.environ, "XDG_STATE_HOME": str(folder / "home"), "TERM": "xterm-256color", **more}
        environment.pop("COLUMNS", None)
        command = [sys.executable, "-m", "fairway.cli.main", "sandbox", "--port", "0", "--speed", "600"]
        self.process = subprocess.Popen(
            [*command, "--state", str(folder / "s.db")], env=environment, stdin=slave, stdout=slave, stderr=slave
        )
        self.slave = slave
        self.shown = ""

    def until(self, true: Callable[[str], bool]) -> str:
        end = time.monotonic() + TIMEOUT
        while not true(self.shown):
            assert time.monotonic() < end, self.shown[-2000:]
            ready, _, _ = select.select([self.master], [], [], 0.05)
            if ready:
                self.shown += os.read(self.master, 1 << 16).decode(errors="replace")
        return self.shown

    def hang_up(self) -> None:
        """Close the terminal's window. It is not the program's controlling terminal, so no SIGHUP tells it."""
        os.close(self.slave)
        os.close(self.master)
        self.master = self.slave = -1

    def close(self) -> None:
        if self.process.poll() is None:
            self.process.kill()
        self.process.wait()
        if self.master >= 0:
            os.close(self.master)
            os.close(self.slave)


@pytest.fixture
def start(tmp_path: Path) -> Iterator[Callable[..., TerminalProgram]]:
    made: list[TerminalProgram] = []

    def started(**more: str) -> TerminalProgram:
        made.append(TerminalProgram(tmp_path, **more))
        return made[-1]

    yield started
    for program in made:
        program.close()


Start = Callable[..., TerminalProgram]


def shows_jobs(shown: str) -> bool:
    return "vision/sweep" in shown


def interrupt(program: TerminalProgram) -> None:
    os.write(program.master, b"\x03")


def terminate(program: TerminalProgram) -> None:
    program.process.send_signal(signal.SIGTERM)


@pytest.mark.parametrize("end", [interrupt, terminate])
def test_it_ends_quietly_and_restores_the_terminal(
    start: Start, tmp_path: Path, end: Callable[[TerminalProgram], None]
) -> None:
    program = start()
    program.until(shows_jobs)
    end(program)
    shown = program.until(lambda shown: "to resume." in shown)
    assert program.process.wait(TIMEOUT) == 0
    assert shown.count(ENTER_SCREEN) == shown.count(LEAVE_SCREEN) == 1
    after = shown[shown.index(LEAVE_SCREEN) :]
    assert SHOW_CURSOR in after
    assert "Stopped. State saved to" in after
    assert "Traceback" not in after
    assert termios.tcgetattr(program.slave) == program.before
    assert not (tmp_path / "home" / "fairway" / "running.json").exists()


def test_it_stops_when_its_terminal_is_gone(start: Start, tmp_path: Path) -> None:
    program = start()
    program.until(shows_jobs)
    program.hang_up()
    program.process.wait(TIMEOUT)
    sandbox = Sandbox(Store(str(tmp_path / "s.db")))
    check(sandbox.state, sandbox.policy, sandbox.now)
    sandbox.close()


def test_one_signal_stops_it_while_its_terminal_reads_nothing(start: Start) -> None:
    program = start()
    program.until(shows_jobs)
    termios.tcflow(program.slave, termios.TCOOFF)  # as Ctrl-S does
    os.write(program.master, b"\t" * QUEUED)  # each changes the view, which is drawn
    time.sleep(2)
    terminate(program)
    assert program.process.wait(TIMEOUT) == 0


def test_killed_it_leaves_a_whole_file(start: Start, tmp_path: Path) -> None:
    program = start()
    program.until(shows_jobs)
    program.process.kill()
    program.process.wait()
    sandbox = Sandbox(Store(str(tmp_path / "s.db")))
    check(sandbox.state, sandbox.policy, sandbox.now)
    sandbox.close()


def test_a_terminal_that_cannot_move_its_cursor_gets_lines(start: Start) -> None:
    program = start(TERM="dumb")
    shown = program.until(lambda shown: " placed " in shown)
    assert "\x1b" not in shown
    program.process.send_signal(signal.SIGINT)
    assert "to resume." in program.until(lambda shown: "to resume." in shown)
    assert program.process.wait(TIMEOUT) == 0
