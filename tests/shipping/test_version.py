"""`fairway version` names the commit of a wheel, of a checkout, and of nothing else."""

import json
import os
import re
import shutil
import subprocess
import sys
import zipfile
from pathlib import Path

import pytest

from fairway import __version__
from fairway.cli.version import commit_of
from support.cli import invoke

ROOT = Path(__file__).parents[2]
COMMIT = "0123456789abcdef0123456789abcdef01234567"


def git(folder: Path, *arguments: str) -> str:
    command = ["git", "-C", str(folder), "-c", "user.name=a", "-c", "user.email=a@example.com", *arguments]
    return subprocess.run(command, capture_output=True, text=True, check=True).stdout.strip()


def checkout(folder: Path) -> Path:
    """A repository of one commit with the package in `src`, where this project has it."""
    package = folder / "src" / "fairway"
    package.mkdir(parents=True)
    (package / "__init__.py").write_text("")
    git(folder, "init", "--quiet")
    git(folder, "add", ".")
    git(folder, "commit", "--quiet", "--message", "first")
    return package


def build(folder: Path, commit: str) -> Path:
    """The wheel of a copy of the sources without a repository and without the page's sources, as in the image."""
    for name in ("pyproject.toml", "hatch_build.py", "README.md", "LICENSE"):
        shutil.copy(ROOT / name, folder / name)
    shutil.copytree(ROOT / "src", folder / "src", ignore=shutil.ignore_patterns("__pycache__", "page"))
    (folder / "tools").mkdir()
    shutil.copy(ROOT / "tools" / "build_page.py", folder / "tools")
    environment = {**os.environ, "FAIRWAY_COMMIT": commit}
    command = [sys.executable, "-m", "hatchling", "build", "-t", "wheel", "-d", str(folder / "dist")]
    subprocess.run(command, cwd=folder, env=environment, capture_output=True, text=True, check=True)
    (wheel,) = (folder / "dist").glob("*.whl")
    return wheel


def test_the_command_and_the_option_print_version_and_commit() -> None:
    for arguments in (["version"], ["--version"], ["-V"]):
        result = invoke(*arguments)
        assert result.code == 0
        assert re.fullmatch(
            rf"fairway {re.escape(__version__)} \(commit (unknown|[0-9a-f]{{40}}(-modified)?)\)\n", result.out
        )


def test_json_has_the_same(fairway_commit: str) -> None:
    assert json.loads(invoke("version", "-o", "json").out) == {"version": __version__, "commit": fairway_commit}


@pytest.fixture
def fairway_commit() -> str:
    return invoke("version").out.partition("(commit ")[2].removesuffix(")\n")


def test_a_checkout_is_known_by_git(tmp_path: Path) -> None:
    package = checkout(tmp_path)
    head = git(tmp_path, "rev-parse", "HEAD")
    git(tmp_path, "tag", "--annotate", "v9.9.9", "--message", "a tag does not replace the commit")
    assert commit_of(package) == head
    (package / "__init__.py").write_text("x = 1\n")
    assert commit_of(package) == f"{head}-modified"


def test_a_package_in_another_projects_repository_is_unknown(tmp_path: Path) -> None:
    checkout(tmp_path)
    installed = tmp_path / ".venv" / "lib" / "python3.11" / "site-packages" / "fairway"
    vendored = tmp_path / "vendored" / "src" / "fairway"
    for package in (installed, vendored):
        package.mkdir(parents=True)
        assert commit_of(package) == "unknown"


def test_without_git_the_commit_is_unknown(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    package = checkout(tmp_path)
    monkeypatch.setenv("PATH", str(tmp_path / "nothing"))
    assert commit_of(package) == "unknown"


@pytest.mark.parametrize("commit", [COMMIT, ""])
def test_a_wheel_carries_its_commit(commit: str, tmp_path: Path) -> None:
    source, target = tmp_path / "source", tmp_path / "target"
    source.mkdir()
    with zipfile.ZipFile(build(source, commit)) as wheel:
        wheel.extractall(target)
    command = [sys.executable, "-c", "from fairway.cli.main import main; main(['version'])"]
    environment = {**os.environ, "PYTHONPATH": str(target)}
    printed = subprocess.run(command, cwd=tmp_path, env=environment, capture_output=True, text=True, check=True).stdout
    assert printed == f"fairway {__version__} (commit {commit or 'unknown'})\n"
