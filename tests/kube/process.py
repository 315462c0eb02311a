"""`RunProcess`: `fairway run` as operators start it, a process of its own that can be killed at any time."""

from __future__ import annotations

import json
import os
import signal
import subprocess
import sys
import threading
import time
from datetime import datetime
from pathlib import Path
from typing import Any

import yaml

from kube.forked import ForkedProcess, ForkServer

OUT_OF_REACH = "the API server was unreachable; listing all objects again"


class RunProcess:
    """Started anew by `start` after it was killed; its log lines stay."""

    def __init__(self, folder: Path, name: str, *, server: ForkServer | None = None, **settings: Any) -> None:
        """`settings` as a file of kind FairwayConfiguration has them. With a server, starts are quick."""
        head = {"apiVersion": "fairway.dev/v1alpha1", "kind": "FairwayConfiguration"}
        fixed = {"httpAddress": "", "logFormat": "json", "logLevel": "info", "minInterval": 0.01}
        self._config = folder / f"{name}.yaml"
        self._config.write_text(yaml.safe_dump({**head, **fixed, **settings}))
        self._log = folder / f"{name}.log"
        self._server = server
        self._process: subprocess.Popen[bytes] | ForkedProcess | None = None
        self._lock = threading.Lock()
        self.kills = 0
        self.lives: list[tuple[float, float]] = []
        """From when to when it ran, on the monotonic clock; without the one that runs."""
        self.starts = 0
        self.begun = 0.0

    def start(self) -> None:
        arguments = ["run", "--config", str(self._config)]
        if self._server is not None:
            self._process = self._server.start(arguments, self._log)
        else:
            command = [sys.executable, "-m", "fairway.cli.main", *arguments]
            with self._log.open("ab") as log:
                self._process = subprocess.Popen(command, stdin=subprocess.DEVNULL, stdout=log, stderr=log)
        self.begun = time.monotonic()
        self.starts += 1

    @property
    def was_killed(self) -> bool:
        return self._process is not None and self._process.poll() == -signal.SIGKILL

    @property
    def is_alive(self) -> bool:
        return self._process is not None and self._process.poll() is None

    def kill(self) -> None:
        """kill -9. Any thread may call it."""
        with self._lock:
            process = self._process
            if process is not None and process.poll() is None:
                self.kills += 1
                os.kill(process.pid, signal.SIGKILL)
                process.wait(30)
                self.lives.append((self.begun, time.monotonic()))

    def suspend(self) -> None:
        """It gets no processor time until `resume`; its connections stay open."""
        assert self._process is not None
        os.kill(self._process.pid, signal.SIGSTOP)

    def resume(self) -> None:
        assert self._process is not None
        os.kill(self._process.pid, signal.SIGCONT)

    def stop(self) -> int:
        """A clean end; its exit status."""
        assert self._process is not None
        if self._process.poll() is None:
            self._process.send_signal(signal.SIGTERM)
        try:
            code = self._process.wait(60)
            self.lives.append((self.begun, time.monotonic()))
            return code
        except subprocess.TimeoutExpired:
            self.kill()
            raise

    @property
    def lines(self) -> list[dict[str, Any]]:
        """What it logged; a line that is no JSON (a traceback) is there as it is."""
        found: list[dict[str, Any]] = []
        for line in self._log.read_text(errors="replace").splitlines() if self._log.exists() else ():
            try:
                found.append(json.loads(line))
            except ValueError:
                found.append({"message": line, "level": "unreadable"})
        return found

    def working(self) -> list[tuple[float, float]]:
        """From when to when it led and had listed all kinds, on the monotonic clock, by what it logged."""
        offset = time.time() - time.monotonic()
        ends = [end for _, end in self.lives]
        found: list[tuple[float, float]] = []
        leads, is_ready, since = False, False, 0.0
        for line in self.lines:
            if "time" not in line:
                continue
            at = datetime.fromisoformat(line["time"]).timestamp() - offset
            while ends and ends[0] < at:  # a life ended before this line
                if leads and is_ready:
                    found.append((since, ends[0]))
                leads = is_ready = False
                ends.pop(0)
            before = leads and is_ready
            leads = {"leading": True, "not leading": False}.get(line["message"], leads)
            is_ready = {"all kinds listed": True, OUT_OF_REACH: False}.get(line["message"], is_ready)
            if leads and is_ready and not before:
                since = at
            elif before and not (leads and is_ready):
                found.append((since, at))
        if leads and is_ready and ends:
            found.append((since, ends[0]))
        return found

    def logged(self, message: str) -> list[dict[str, Any]]:
        return [line for line in self.lines if line.get("message") == message]

    def problems(self) -> list[str]:
        """Errors of its own, and what it was not allowed to do. A line that a kill cut off is none."""
        words = ("this is an error in fairway", "traceback", "forbidden")
        return [str(line) for line in self.lines if any(word in str(line).lower() for word in words)]
