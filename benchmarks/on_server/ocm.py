"""Open Cluster Management's own placement controller, built from its released Go module: nothing of it is kept here."""

from __future__ import annotations

import os
import subprocess
import sys
from pathlib import Path
from tempfile import TemporaryDirectory

from benchmarks.on_server.programs import Program, start
from kube.controlplane.build import cache_folder
from kube.controlplane.plane import ControlPlane

VERSION = "v1.2.1"
_PACKAGE = "open-cluster-management.io/ocm/cmd/placement"


def build() -> Path:
    """The program; built once, which takes minutes."""
    made = cache_folder().parent / f"ocm-{VERSION}" / "placement"
    if os.access(made, os.X_OK):
        return made
    sys.stderr.write(f"building OCM's placement controller {VERSION} (some minutes, once)\n")
    made.parent.mkdir(parents=True, exist_ok=True)
    environment = {**os.environ, "CGO_ENABLED": "0"}
    with TemporaryDirectory() as folder:
        (Path(folder) / "go.mod").write_text("module placement\n\ngo 1.24\n")
        partial = made.with_suffix(".partial")
        for command in (
            ["go", "get", f"{_PACKAGE}@{VERSION}"],
            ["go", "build", "-trimpath", "-o", str(partial), _PACKAGE],
        ):
            subprocess.run(command, cwd=folder, env=environment, check=True)
    partial.rename(made)
    return made


async def placement_controller(plane: ControlPlane, binary: Path) -> Program:
    """Without a lease, and with no limit of its own on requests that matters."""
    command = [str(binary), "controller", "--disable-leader-election", "--kubeconfig", str(plane.kubeconfig())]
    command += ["--kube-api-qps", "5000", "--kube-api-burst", "5000", "--namespace", "default"]
    return await start(command)
