"""OCM's own definitions, read from its released Go module: nothing of it is kept in this repository."""

from __future__ import annotations

import functools
import json
import shutil
import subprocess
import tempfile
from collections.abc import Iterable
from pathlib import Path
from typing import Any

import pytest

from fairway.api.text import YamlReader

MODULE = "open-cluster-management.io/ocm@v1.2.1"
FOLDER = "manifests/cluster-manager/hub/crds"
GROUP = "cluster.open-cluster-management.io"
V1, V1BETA1, V1BETA2 = f"{GROUP}/v1", f"{GROUP}/v1beta1", f"{GROUP}/v1beta2"
SCORES = V1ALPHA1 = f"{GROUP}/v1alpha1"
_OLD_API = "open-cluster-management.io/api@v0.6.0"
"""The last release in which Placements were v1alpha1 and nothing else."""


@functools.cache
def module_folder(module: str = MODULE) -> Path:
    """Where Go keeps the module; downloaded once."""
    if shutil.which("go") is None:
        pytest.skip("go is not installed: OCM's definitions come from its Go module")
    with tempfile.TemporaryDirectory() as folder:
        (Path(folder) / "go.mod").write_text("module definitions\n")
        command = ["go", "mod", "download", "-json", module]
        done = subprocess.run(command, cwd=folder, capture_output=True, text=True, timeout=600, check=False)
    found = json.loads(done.stdout or "{}")
    if "Dir" not in found:
        pytest.skip(f"{module} cannot be downloaded: {found.get('Error') or done.stderr}")
    return Path(found["Dir"])


@functools.cache
def definitions() -> tuple[dict[str, Any], ...]:
    """The CRDs of clusters, placements and ManifestWorks, as they are."""
    files = [
        *(module_folder() / FOLDER).glob("*_clusters.open-cluster-management.io_*.yaml"),
        *(module_folder() / FOLDER).glob("*_manifestworks.crd.yaml"),
    ]
    return _read(files)


@functools.cache
def old_definitions() -> tuple[dict[str, Any], ...]:
    """The CRDs of a hub of 2022, where sets, bindings, placements and decisions are all v1alpha1."""
    folder = module_folder(_OLD_API) / "cluster"
    return _read([*(folder / "v1").glob("*managedclusters.crd.yaml"), *(folder / "v1alpha1").glob("0000_0[01345]*")])


def _read(files: Iterable[Path]) -> tuple[dict[str, Any], ...]:
    found: list[dict[str, Any]] = []
    for path in sorted(files):
        documents = [document for document in YamlReader(path.read_text()).documents() if document]
        assert len(documents) == 1
        assert isinstance(documents[0], dict)
        found.append(documents[0])
    return tuple(found)
