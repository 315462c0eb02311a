"""Volcano's own controller manager, built once from its released Go module and the pins in `volcano/`.

    PYTHONPATH=tests python -m kube.controlplane.volcano_build

The pins raise Kubernetes' modules to those of the control plane here, so that little is compiled twice. One type of the
scheduler's framework has moved to another package since: that name, in a file of Volcano's scheduler, is changed in a
copy. No code of its controllers is. Nothing of Volcano is kept in this repository.
"""

from __future__ import annotations

import fcntl
import hashlib
import json
import os
import shutil
import subprocess
import sys
import tempfile
from pathlib import Path

HERE = Path(__file__).parent / "volcano"
MODULE = "volcano.sh/volcano@v1.14.1"
PROGRAM = "vc-controller-manager"
_MOVED = (
    ("k8sframework.NodeScoreList", "fwk.NodeScoreList"),
    ('\tk8sframework "k8s.io/kubernetes/pkg/scheduler/framework"\n', ""),
)
_MOVED_IN = "pkg/scheduler/api/types.go"


def controller_manager() -> Path:
    """Where the program is, or will be."""
    given = os.environ.get("FAIRWAY_CONTROLPLANE")
    cache = Path(os.environ.get("XDG_CACHE_HOME") or Path.home() / ".cache")
    pins = hashlib.sha256((HERE / "go.mod").read_bytes() + (HERE / "go.sum").read_bytes()).hexdigest()
    return (Path(given) if given else cache / "fairway" / "controlplane") / f"volcano-{pins[:12]}" / PROGRAM


def module_folder(module: str = MODULE) -> Path | None:
    """Where Go keeps a module, downloaded if need be; None where that cannot be."""
    if shutil.which("go") is None:
        return None
    with tempfile.TemporaryDirectory() as folder:
        (Path(folder) / "go.mod").write_text("module definitions\n")
        command = ["go", "mod", "download", "-json", module]
        done = subprocess.run(command, cwd=folder, capture_output=True, text=True, timeout=600, check=False)
    found = json.loads(done.stdout or "{}").get("Dir")
    return None if found is None else Path(found)


def build() -> str:
    """Build it if it is missing; why that cannot be, "" if it can."""
    program = controller_manager()
    if os.access(program, os.X_OK):
        return ""
    if shutil.which("go") is None:
        return "Go is not installed"
    program.parent.mkdir(parents=True, exist_ok=True)
    with (program.parent / ".lock").open("w") as lock:
        fcntl.flock(lock, fcntl.LOCK_EX)
        if os.access(program, os.X_OK):
            return ""
        source = module_folder()
        if source is None:
            return f"{MODULE} cannot be downloaded"
        with tempfile.TemporaryDirectory(dir=program.parent) as folder:
            return _build(source, Path(folder), program)


def _build(source: Path, work: Path, program: Path) -> str:
    for name in ("go.mod", "go.sum"):
        shutil.copy(HERE / name, work / name)
    for part in ("cmd", "pkg", "third_party"):
        if (source / part).exists():
            shutil.copytree(source / part, work / "src" / part, copy_function=shutil.copyfile)
    for path in [work / "src", *(work / "src").rglob("*")]:
        if path.is_dir():
            path.chmod(0o755)  # folders of Go's cache are read-only, and so are their copies
    shutil.copyfile(source / "go.mod", work / "src" / "go.mod")
    moved = work / "src" / _MOVED_IN
    text = moved.read_text()
    for old, new in _MOVED:
        text = text.replace(old, new)
    moved.write_text(text)
    partial = work / PROGRAM
    package = "volcano.sh/volcano/cmd/controller-manager"
    command = ["go", "build", "-ldflags", "-s -w", "-o", str(partial), package]
    environment = {**os.environ, "CGO_ENABLED": "0", "GOFLAGS": "-mod=readonly -trimpath -buildvcs=false"}
    done = subprocess.run(command, cwd=work, env=environment, capture_output=True, text=True, check=False)
    if done.returncode != 0:
        return f"go build: {done.stderr.strip()[-300:]}"
    partial.rename(program)
    return ""


if __name__ == "__main__":
    problem = build()
    sys.stderr.write(f"Volcano's controllers: {problem}\n" if problem else "")
    sys.exit(3 if problem else 0)
