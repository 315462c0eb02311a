"""`Shell`: commands as a page of the documents has them, on a real API server."""

from __future__ import annotations

import json
import os
import subprocess
import sys
from pathlib import Path

from kube.controlplane.build import cache_folder
from kube.controlplane.plane import ControlPlane


class Shell:
    """A folder in which `fairway` and `kubectl` are known and the current context is that of the page."""

    def __init__(self, plane: ControlPlane, folder: Path, context: str) -> None:
        self.plane = plane
        self.folder = folder
        config = json.loads(plane.kubeconfig().read_text())
        config["contexts"][0]["name"] = config["current-context"] = context
        (folder / f"{context}.kubeconfig").write_text(json.dumps(config))
        path = f"{Path(sys.executable).parent}:{cache_folder()}:{os.environ['PATH']}"
        self.environment = {**os.environ, "PATH": path, "KUBECONFIG": str(folder / f"{context}.kubeconfig")}

    def run(self, command: str) -> str:
        done = subprocess.run(
            ["bash", "-o", "pipefail", "-c", command],
            cwd=self.folder,
            env=self.environment,
            capture_output=True,
            text=True,
            check=False,
            timeout=120,
        )
        assert done.returncode == 0, (command, done.stdout, done.stderr)
        return done.stdout

    def start(self, command: str) -> subprocess.Popen[bytes]:
        """One that goes on; its port for probes may be taken on this machine."""
        with (self.folder / "log").open("wb") as log:
            return subprocess.Popen(
                [*command.split(), "--http-address", "127.0.0.1:0", "--no-leader-elect"],
                cwd=self.folder,
                env=self.environment,
                stdout=log,
                stderr=log,
            )

    @property
    def log(self) -> str:
        return (self.folder / "log").read_text()
