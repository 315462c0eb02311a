"""The lock files: one for development, and parts of it for the image, the sandbox and the build."""

import re
import tomllib
from pathlib import Path

import pytest
from packaging.requirements import Requirement
from packaging.utils import canonicalize_name
from tools.locked import pinned

ROOT = Path(__file__).parents[2]
LOCKS = ROOT / "locks"
PROJECT = tomllib.loads((ROOT / "pyproject.toml").read_text())
DEVELOPMENT = pinned(LOCKS / "development.lock")


def wanted(*extras: str) -> list[Requirement]:
    """The requirements of the project with these extras, extras of extras included."""
    project = PROJECT["project"]
    found, todo, seen = [*map(Requirement, project["dependencies"])], list(extras), set[str]()
    while todo:
        extra = todo.pop()
        if extra in seen:
            continue
        seen.add(extra)
        for entry in map(Requirement, project["optional-dependencies"][extra]):
            if entry.name == "fairway":
                todo += entry.extras
            else:
                found.append(entry)
    return found


@pytest.mark.parametrize("name", ["production", "sandbox", "build"])
def test_a_lock_is_a_part_of_the_development_lock(name: str) -> None:
    """The same versions with the same hashes: what is tested is what is shipped."""
    lock = pinned(LOCKS / f"{name}.lock")
    assert lock
    assert {package: DEVELOPMENT.get(package) for package in lock} == lock
    assert all(hashes for _, hashes in lock.values())
    assert len(lock) < len(DEVELOPMENT)


@pytest.mark.parametrize(
    ("name", "extra"), [("production", "production"), ("sandbox", "sandbox"), ("development", "dev")]
)
def test_a_lock_has_what_the_project_asks_for(name: str, extra: str) -> None:
    lock = pinned(LOCKS / f"{name}.lock")
    for entry in wanted(extra):
        assert entry.specifier.contains(lock[canonicalize_name(entry.name)][0]), entry


def test_the_build_lock_has_what_builds_the_project() -> None:
    lock = pinned(LOCKS / "build.lock")
    for text in [*PROJECT["build-system"]["requires"], *PROJECT["dependency-groups"]["build"]]:
        entry = Requirement(text)
        assert entry.specifier.contains(lock[canonicalize_name(entry.name)][0]), entry


def test_no_tool_of_development_is_shipped() -> None:
    own = {canonicalize_name(Requirement(text).name) for text in PROJECT["project"]["optional-dependencies"]["dev"]}
    shipped = set(pinned(LOCKS / "production.lock"))
    assert not shipped & (own | {"pip", "setuptools", "wheel", "uv"})


def test_the_image_installs_from_the_production_lock_only() -> None:
    text = (ROOT / "Dockerfile").read_text()
    commands = re.sub(r"#.*|\\\n", "", text)
    into_image = re.findall(r"pip --python /opt/fairway install ([^&\n]*)", commands)
    assert [line.split() for line in into_image] == [
        ["--no-deps", "--require-hashes", "-r", "locks/production.lock"],
        ["--no-deps", "dist/*.whl"],
    ]
    assert "venv --without-pip /opt/fairway" in commands
    last = commands.split("FROM ")[-1]
    assert re.findall(r"COPY --from=\S+ (\S+)", last) == ["/opt/fairway"]
    assert "pip install" not in last
    assert "development" not in commands


def test_the_bases_of_the_image_are_pinned_by_digest() -> None:
    defaults = dict(re.findall(r"^ARG (PYTHON|NODE)=(\S+)$", (ROOT / "Dockerfile").read_text(), re.MULTILINE))
    assert all(re.fullmatch(r"(python|node):[\w.-]+@sha256:[0-9a-f]{64}", base) for base in defaults.values())
    assert len(defaults) == 2
    bases = re.findall(r"^FROM (\S+)", (ROOT / "Dockerfile").read_text(), re.MULTILINE)
    assert set(bases) == {"${NODE}", "${PYTHON}"}


def test_the_image_gets_every_file_that_it_copies() -> None:
    """`.dockerignore` leaves out everything that it does not name."""
    allowed = [line[1:] for line in (ROOT / ".dockerignore").read_text().splitlines() if line.startswith("!")]
    for line in re.findall(r"^COPY (?!--from)(.*)$", (ROOT / "Dockerfile").read_text(), re.MULTILINE):
        for source in line.split()[:-1]:
            assert any(source == name or source.startswith(f"{name}/") for name in allowed), source
            assert (ROOT / source).exists()
