"""Open Cluster Management's own placement controller, built once from its released Go module. None of it is kept here.

PYTHONPATH=tests python -m kube.controlplane.ocm_build
"""

from __future__ import annotations

import fcntl
import os
import shutil
import subprocess
import sys
from pathlib import Path
from tempfile import TemporaryDirectory

VERSION = "v1.2.1"
_PACKAGE = "open-cluster-management.io/ocm/cmd/placement"


def program() -> Path:
    """Where it is, or will be."""
    given = os.environ.get("FAIRWAY_CONTROLPLANE")
    cache = Path(os.environ.get("XDG_CACHE_HOME") or Path.home() / ".cache")
    return (Path(given) if given else cache / "fairway" / "controlplane") / f"ocm-{VERSION}" / "placement"


def command(kubeconfig: Path) -> list[str]:
    """Without a lease, and with no limit of its own on requests that matters."""
    limits = ["--kube-api-qps", "5000", "--kube-api-burst", "5000"]
    lease = ["--disable-leader-election", "--namespace", "default"]
    return [str(program()), "controller", "--kubeconfig", str(kubeconfig), *lease, *limits]


def build() -> str:
    """Build it if it is missing, which takes minutes; why that cannot be, "" if it can."""
    made = program()
    if os.access(made, os.X_OK):
        return ""
    if shutil.which("go") is None:
        return "Go is not installed"
    made.parent.mkdir(parents=True, exist_ok=True)
    with (made.parent / ".lock").open("w") as lock:
        fcntl.flock(lock, fcntl.LOCK_EX)
        if os.access(made, os.X_OK):
            return ""
        sys.stderr.write(f"building OCM's placement controller {VERSION} (some minutes, once)\n")
        with TemporaryDirectory(dir=made.parent) as folder:
            return _build(Path(folder), made)


def _build(work: Path, made: Path) -> str:
    (work / "go.mod").write_text("module placement\n\ngo 1.24\n")
    environment = {**os.environ, "CGO_ENABLED": "0"}
    partial = work / "placement"
    for step in (
        ["go", "get", f"{_PACKAGE}@{VERSION}"],
        ["go", "build", "-trimpath", "-o", str(partial), _PACKAGE],
    ):
        done = subprocess.run(step, cwd=work, env=environment, capture_output=True, text=True, check=False)
        if done.returncode != 0:
            return f"{' '.join(step[:2])}: {done.stderr.strip()[-300:]}"
    partial.rename(made)
    return ""


if __name__ == "__main__":
    problem = build()
    sys.stderr.write(f"OCM's placement controller: {problem}\n" if problem else "")
    sys.exit(3 if problem else 0)
