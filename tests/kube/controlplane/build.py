"""Build the programs of a control plane from the pinned `go.mod` and `go.sum` beside this file, once.

    PYTHONPATH=tests python -m kube.controlplane.build [kube-scheduler kube-controller-manager ...]

Without names it builds what the tests need, and says which tests are left out where a part of it cannot be built. Exit
status 3: there is no Go, or its modules cannot be downloaded. Nothing else is needed: no git, no C compiler, no package
of the system. The programs go to a cache folder outside the project (`$FAIRWAY_CONTROLPLANE`, else
`$XDG_CACHE_HOME/fairway/controlplane`), in a folder named after the pins: other pins, other programs.
"""

from __future__ import annotations

import fcntl
import hashlib
import os
import re
import shutil
import subprocess
import sys
import time
from collections.abc import Sequence
from pathlib import Path

from agent import peers
from kube.controlplane import ocm_build, volcano_build

HERE = Path(__file__).parent
NEEDED = ("etcd", "kube-apiserver", "kubectl")
_DOWNLOAD = 600
"""Seconds."""
_OTHER_PACKAGES = {"etcd": "go.etcd.io/etcd/server/v3"}


def cache_folder() -> Path:
    """Where the programs of these pins are kept."""
    given = os.environ.get("FAIRWAY_CONTROLPLANE")
    cache = Path(os.environ.get("XDG_CACHE_HOME") or Path.home() / ".cache")
    pins = hashlib.sha256((HERE / "go.mod").read_bytes() + (HERE / "go.sum").read_bytes()).hexdigest()
    return (Path(given) if given else cache / "fairway" / "controlplane") / pins[:12]


def missing(names: Sequence[str] = NEEDED) -> list[str]:
    """Those that are not built yet."""
    folder = cache_folder()
    return [name for name in names if not os.access(folder / name, os.X_OK)]


def build(names: Sequence[str] = NEEDED) -> None:
    """Build what is missing. Two that build at once do not disturb each other; an interrupted build leaves nothing."""
    folder = cache_folder()
    folder.mkdir(parents=True, exist_ok=True)
    with (folder / ".lock").open("w") as lock:
        fcntl.flock(lock, fcntl.LOCK_EX)
        for name in missing(names):
            begin = time.monotonic()
            _say(f"building {name} (some minutes, once)")
            partial = folder / f".{name}.partial"
            package = _package(name)
            command = ["go", "build", "-ldflags", _version_flags(), "-o", str(partial), package]
            subprocess.run(command, cwd=HERE, env=_environment(), check=True)
            partial.rename(folder / name)
            _say(f"built {name} in {time.monotonic() - begin:.0f} s")


def unavailable(names: Sequence[str]) -> str:
    """Why the sources of these cannot be had, "" if they can: they are downloaded here, and compiled later."""
    if not missing(names):
        return ""
    if shutil.which("go") is None:
        return "Go is not installed"
    command = ["go", "list", "-deps", *map(_package, missing(names))]
    try:
        done = subprocess.run(
            command, cwd=HERE, env=_environment(), capture_output=True, text=True, check=False, timeout=_DOWNLOAD
        )
    except subprocess.TimeoutExpired:
        return f"Go's modules were not downloaded within {_DOWNLOAD} s"
    if done.returncode == 0:
        return ""
    assert "SECURITY ERROR" not in done.stderr, done.stderr
    return f"Go's modules cannot be downloaded: {(done.stderr.strip().splitlines() or ['no reason is given'])[-1]}"


def _package(name: str) -> str:
    return _OTHER_PACKAGES.get(name, f"k8s.io/kubernetes/cmd/{name}")


def _environment() -> dict[str, str]:
    return {**os.environ, "CGO_ENABLED": "0", "GOFLAGS": "-mod=readonly -trimpath -buildvcs=false"}


def _version_flags() -> str:
    """What the server says of itself at /version; plain `go build` would leave it at a development version."""
    found = re.search(r"^require k8s\.io/kubernetes v(\d+)\.(\d+)\.(\d+)$", (HERE / "go.mod").read_text(), re.MULTILINE)
    assert found is not None
    major, minor, patch = found.groups()
    values = {"gitVersion": f"v{major}.{minor}.{patch}", "gitMajor": major, "gitMinor": minor, "gitTreeState": "clean"}
    return "-s -w " + " ".join(f"-X k8s.io/component-base/version.{name}={text}" for name, text in values.items())


def _say(text: str) -> None:
    sys.stderr.write(text + "\n")


def main(names: Sequence[str]) -> int:
    wanted = tuple(names) or NEEDED
    if problem := unavailable(wanted):
        _say(f"skipped, as no API server can be built here: {problem}")
        return 3
    build(wanted)
    if not names:
        for what, more in (
            ("device plugins in Go", peers.build),
            ("Volcano's controllers", volcano_build.build),
            ("OCM's placement controller", ocm_build.build),
        ):
            if problem := more():
                _say(f"tests with {what} are left out: {problem}")
    return 0


if __name__ == "__main__":
    sys.exit(main(sys.argv[1:]))
