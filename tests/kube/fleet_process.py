"""`fairway fleet` as operators start it, a process of its own that can be killed at any time."""

from __future__ import annotations

import os
import signal
import subprocess
import sys
import tempfile
from pathlib import Path

from kube.hub import Hub


class FleetProcess:
    """Started anew by `start` after it was killed."""

    def __init__(self, hub: Hub, kubeconfig: Path | None = None) -> None:
        """By another way to the hub than the direct one, where a kubeconfig is given."""
        self._command = [sys.executable, "-m", "fairway.cli.main", "fleet", "--no-leader-elect", "--http-address", ""]
        self._command += ["--kubeconfig", str(kubeconfig or hub.plane.kubeconfig("fleet")), "--min-interval", "0.01"]
        self._process: subprocess.Popen[bytes] | None = None
        self._log, path = tempfile.mkstemp()
        Path(path).unlink()

    def start(self) -> None:
        self._process = subprocess.Popen(self._command, stdin=subprocess.DEVNULL, stdout=self._log, stderr=self._log)

    def last_words(self) -> str:
        """What it said last, for a test that fails; with the status of one that ended by itself."""
        said = os.pread(self._log, 4000, max(0, os.lseek(self._log, 0, os.SEEK_END) - 4000))
        ended = None if self._process is None else self._process.poll()
        return f"ended with {ended}: " + said.decode("utf-8", "replace")

    def kill(self) -> None:
        """kill -9."""
        if self._process is not None and self._process.poll() is None:
            os.kill(self._process.pid, signal.SIGKILL)
            self._process.wait(30)
