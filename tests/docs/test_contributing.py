"""The ten-minute path of CONTRIBUTING.md: every file and every table that it names is there."""

import re
from pathlib import Path

import pytest

ROOT = Path(__file__).parents[2]
TEXT = (ROOT / "CONTRIBUTING.md").read_text()
PATHS = sorted(set(re.findall(r"`((?:src|tests|tools|docs|frontend|locks|examples|\.github|\.ci)/[\w./-]*)`", TEXT)))
NAMES = [
    (path, name)
    for path, names in re.findall(r"`([\w./-]+\.(?:py|tsx))`\s+\(((?:`[\w ]+`(?:, )?)+)", TEXT)
    for name in re.findall(r"`([\w ]+)`", names)
]
RECIPES = ("Where a behaviour lives", "Adding a plugin", "Adding an action", "Adding a kind", "Adding a view")


@pytest.mark.parametrize("path", PATHS)
def test_a_named_path_exists(path: str) -> None:
    assert (ROOT / path).exists()


@pytest.mark.parametrize(("path", "name"), NAMES)
def test_a_named_table_is_in_its_file(path: str, name: str) -> None:
    assert re.search(rf"\b{name}\b", (ROOT / path).read_text())


@pytest.mark.parametrize("recipe", RECIPES)
def test_a_recipe_leads_to_code_and_tests(recipe: str) -> None:
    section = TEXT.split(f"### {recipe}\n")[1].split("\n#")[0]
    assert "`src/fairway/" in section
    assert "`tests/" in section


def test_every_package_is_in_the_table_of_behaviours() -> None:
    table = TEXT.split("### Where a behaviour lives\n")[1].split("\n#")[0]
    packages = {path.parent.name for path in (ROOT / "src" / "fairway").glob("*/__init__.py")}
    assert set(re.findall(r"`src/fairway/(\w+)/", table)) == packages


def test_paths_and_names_were_found() -> None:
    assert len(PATHS) > 50
    assert {name for _, name in NAMES} >= {"BUILT_IN", "ACTIONS", "KINDS", "VIEWS", "HOOKS"}
