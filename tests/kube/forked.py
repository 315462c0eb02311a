"""`ForkServer`: starts commands of Fairway in milliseconds, as children of a process that has read all modules already.

    with ForkServer() as server:
        process = server.start(["run", "--config", path], log)

Each is a process of its own that can be killed; a start by a shell differs only in that it reads the modules first. For
tests that start one hundreds of times.
"""

from __future__ import annotations

import json
import os
import select
import signal
import subprocess
import sys
import threading
import time
import traceback
from collections.abc import Callable
from pathlib import Path
from types import TracebackType

_LOOK = 0.02
"""Seconds between two looks for children that ended."""


class ForkedProcess:
    """What tests need of `subprocess.Popen`."""

    def __init__(self, server: ForkServer, pid: int) -> None:
        self.pid = pid
        self._server = server

    def poll(self) -> int | None:
        """As of a child: minus the signal that ended it."""
        return self._server.ended.get(self.pid)

    def wait(self, timeout: float) -> int:
        end = time.monotonic() + timeout
        while (code := self.poll()) is None:
            if time.monotonic() > end:
                raise subprocess.TimeoutExpired("fairway", timeout)
            time.sleep(_LOOK / 2)
        return code

    def send_signal(self, number: signal.Signals) -> None:
        if self.poll() is None:
            os.kill(self.pid, number)


class ForkServer:
    """One thread for each test may start processes."""

    def __init__(self) -> None:
        self.ended: dict[int, int] = {}
        self._started: list[int] = []
        self._told = threading.Condition()

    def __enter__(self) -> ForkServer:
        pipe = subprocess.PIPE
        self._process = subprocess.Popen([sys.executable, __file__], stdin=pipe, stdout=pipe, text=True)
        self._reader = threading.Thread(target=self._read, name="fork-server", daemon=True)
        self._reader.start()
        return self

    def __exit__(
        self, kind: type[BaseException] | None, error: BaseException | None, trace: TracebackType | None
    ) -> None:
        assert self._process.stdin is not None
        assert self._process.stdout is not None
        self._process.stdin.close()
        self._process.wait(60)
        self._reader.join(60)
        self._process.stdout.close()

    def start(self, arguments: list[str], log: Path) -> ForkedProcess:
        assert self._process.stdin is not None
        with self._told:
            before = len(self._started)
            self._process.stdin.write(json.dumps({"arguments": arguments, "log": str(log)}) + "\n")
            self._process.stdin.flush()
            assert self._told.wait_for(lambda: len(self._started) > before, 60), "the fork server does not answer"
            return ForkedProcess(self, self._started[-1])

    def _read(self) -> None:
        assert self._process.stdout is not None
        for line in self._process.stdout:
            what, pid, code = line.split()
            with self._told:
                if what == "started":
                    self._started.append(int(pid))
                else:
                    self.ended[int(pid)] = int(code)
                self._told.notify_all()


# -- in the server -----------------------------------------------------------------------------------------------------


def _serve() -> None:
    import fairway.app.live.service  # noqa: F401 - read once, for all
    from fairway.cli.main import main

    children: set[int] = set()
    rest = b""
    is_open = True
    while is_open or children:
        if select.select([0] if is_open else [], [], [], _LOOK)[0]:
            chunk = os.read(0, 1 << 16)
            is_open = bool(chunk)
            *lines, rest = (rest + chunk).split(b"\n")
            for line in lines:
                asked = json.loads(line)
                pid = os.fork()
                if pid == 0:
                    _become(asked["log"])
                    os._exit(_code(lambda: main(asked["arguments"])))  # noqa: B023 - called here
                children.add(pid)
                _tell("started", pid, 0)
        for pid in list(children):
            ended, status = os.waitpid(pid, os.WNOHANG)
            if ended:
                children.discard(pid)
                _tell("ended", pid, os.waitstatus_to_exitcode(status))


def _become(log: str) -> None:
    """A process with nothing of the server's but its modules."""
    nothing = os.open(os.devnull, os.O_RDONLY)
    out = os.open(log, os.O_WRONLY | os.O_CREAT | os.O_APPEND, 0o644)
    for source, number in ((nothing, 0), (out, 1), (out, 2)):
        os.dup2(source, number)


def _code(main: Callable[[], None]) -> int:
    """What a shell would get."""
    code: object = 1
    try:
        main()
    except SystemExit as end:
        code = end.code
    except BaseException:
        traceback.print_exc()
    sys.stdout.flush()
    sys.stderr.flush()
    return int(code) if isinstance(code, int) else 0


def _tell(what: str, pid: int, code: int) -> None:
    os.write(1, f"{what} {pid} {code}\n".encode())


if __name__ == "__main__":
    _serve()
