"""`fairway fleet` as operators start it, a process of its own that can be killed at any time."""

from __future__ import annotations

import os
import signal
import subprocess
import sys
from pathlib import Path

from kube.hub import Hub


class FleetProcess:
    """Started anew by `start` after it was killed."""

    def __init__(self, hub: Hub, kubeconfig: Path | None = None) -> None:
        """By another way to the hub than the direct one, where a kubeconfig is given."""
        self._command = [sys.executable, "-m", "fairway.cli.main", "fleet", "--no-leader-elect", "--http-address", ""]
        self._command += ["--kubeconfig", str(kubeconfig or hub.plane.kubeconfig("fleet")), "--min-interval", "0.01"]
        self._process: subprocess.Popen[bytes] | None = None

    def start(self) -> None:
        quiet = subprocess.DEVNULL
        self._process = subprocess.Popen(self._command, stdin=quiet, stdout=quiet, stderr=quiet)

    def kill(self) -> None:
        """kill -9."""
        if self._process is not None and self._process.poll() is None:
            os.kill(self._process.pid, signal.SIGKILL)
            self._process.wait(30)
