"""How the page is built: by Node alone, whichever there is, and with words where that fails."""

from __future__ import annotations

import json
import sys
from pathlib import Path

import pytest
from tools import build_page

PACKAGE = json.loads((build_page.FRONTEND / "package.json").read_text())
LOCK = json.loads((build_page.FRONTEND / "package-lock.json").read_text())["packages"]


def test_scripts_call_no_npm() -> None:
    """The `npm` beside the Node from PyPI does not run: only its own script does, which the build calls."""
    assert not [script for script in PACKAGE["scripts"].values() if "npm" in script]


def test_the_lock_file_has_every_part_of_every_platform_with_its_hash() -> None:
    """`npm ci` refuses it otherwise."""
    parts = {f"node_modules/{name}" for package in LOCK.values() for name in package.get("optionalDependencies", ())}
    assert parts
    assert parts <= LOCK.keys()
    assert [name for name, package in LOCK.items() if name and "integrity" not in package] == []


def test_what_a_failed_step_says_is_its_errors() -> None:
    command = [sys.executable, "-c", "print('start'); print('Error: no such host'); print('end'); raise SystemExit(3)"]
    with pytest.raises(build_page.BuildError, match=r": Error: no such host$"):
        build_page._run(command, {})


def test_a_page_that_cannot_be_built_is_an_error_or_a_sentence(
    monkeypatch: pytest.MonkeyPatch, tmp_path: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    monkeypatch.setattr(build_page, "FRONTEND", tmp_path)
    monkeypatch.setattr(build_page, "BUILT", tmp_path / "index.html")
    assert build_page.main(["--optional"]) == 0
    assert build_page.main([]) == 1
    assert capsys.readouterr().err.count("the page was not built: ") == 2


def test_without_node_the_one_from_pypi_is_taken(monkeypatch: pytest.MonkeyPatch, tmp_path: Path) -> None:
    monkeypatch.setattr("shutil.which", lambda name: None)
    monkeypatch.setattr(build_page, "_node_from_pypi", lambda: tmp_path)
    command, environment = build_page._npm()
    assert command[0] == str(tmp_path / "bin/node")
    assert environment["PATH"].startswith(str(tmp_path / "bin"))


def test_an_old_node_is_passed_over(monkeypatch: pytest.MonkeyPatch, tmp_path: Path) -> None:
    old = tmp_path / "node"
    old.write_text("#!/bin/sh\necho v18.1.0\n")
    old.chmod(0o755)
    assert build_page._version(str(old)) == (18, 1)
    assert build_page._version(str(tmp_path / "none")) == (0,)
