"""What the documents say about the code is true: layers, error tree, public names, links."""

import re
import tomllib
from collections import Counter
from importlib import import_module
from pathlib import Path

import pytest

import fairway
from fairway import errors

ROOT = Path(__file__).parents[1]
SOURCE = Path(fairway.__file__).parent
PACKAGES = sorted(path.parent.name for path in SOURCE.glob("*/__init__.py"))


def drawn_tree() -> dict[str, str]:
    """Each error in the docstring of fairway.errors and the one it is drawn under."""
    parents: dict[str, str] = {}
    above: list[str] = []
    for line in errors.__doc__.splitlines():
        if match := re.match(r"    ([│├└─ ]*)([A-Z]\w+)", line):
            depth = len(match[1]) // 4
            above[depth:] = [match[2]]
            parents[match[2]] = above[depth - 1] if depth else "Exception"
    return parents


def test_the_drawn_tree_of_errors_is_the_real_one():
    real = {
        name: found
        for name, found in vars(errors).items()
        if isinstance(found, type) and issubclass(found, errors.FairwayError)
    }
    drawn = drawn_tree()
    for name, parent in drawn.items():
        assert any(above.__name__ == parent for above in real[name].__mro__[1:]), name
    assert set(real) - set(drawn) <= {"ProblemsError"}, "an error is missing in the drawing"


def test_no_two_test_files_share_a_name():
    """pytest imports test files by their names alone: of two, the second would be an error on a clean machine."""
    names = Counter(path.name for path in (ROOT / "tests").rglob("test_*.py"))
    assert [name for name, times in names.items() if times > 1] == []


def test_every_package_is_in_a_layer_and_on_the_architecture_page():
    contracts = tomllib.loads((ROOT / "pyproject.toml").read_text())["tool"]["importlinter"]["contracts"]
    layered = re.findall(r"\w+", " ".join(contracts[0]["layers"]))
    page = (ROOT / "docs" / "architecture.md").read_text()
    for package in PACKAGES:
        assert package in layered
        assert f"`{package}`" in page


def test_the_page_shows_the_rooms_of_the_scheduler_as_make_check_holds_them():
    contracts = tomllib.loads((ROOT / "pyproject.toml").read_text())["tool"]["importlinter"]["contracts"]
    rooms = next(contract["layers"] for contract in contracts if contract.get("containers") == ["fairway.scheduler"])
    page = (ROOT / "docs" / "architecture.md").read_text()
    table = page.split("### Packages of the scheduler")[1].split("Hooks are")[0]
    named = [re.findall(r"`(\w+)`", row.split("|")[1]) for row in table.splitlines() if row.startswith("| `")]
    drawn = [room for row in named for room in row]
    layers = {room: height for height, layer in enumerate(reversed(rooms)) for room in layer.split(" | ")}
    assert set(drawn) == set(layers)
    assert drawn == sorted(drawn, key=lambda room: layers[room])


@pytest.mark.parametrize("package", PACKAGES)
def test_public_names_exist_and_packages_say_what_they_are(package):
    module = import_module(f"fairway.{package}")
    assert module.__doc__
    names = list(getattr(module, "__all__", []))
    assert [name for name in names if not hasattr(module, name)] == []
    assert len(names) == len(set(names))


@pytest.mark.parametrize(
    "page",
    [
        *sorted(path.name for path in ROOT.glob("*.md")),
        *(f"docs/{path.name}" for path in sorted((ROOT / "docs").glob("*.md"))),
    ],
)
def test_links_between_pages_lead_somewhere(page):
    file = ROOT / page
    for target in re.findall(r"\]\(([^)#:]+)\)", file.read_text()):
        assert (file.parent / target).exists(), target


def test_verbs_of_make_that_the_pages_name_exist():
    verbs = re.findall(r"^([a-z-]+):", (ROOT / "Makefile").read_text(), re.MULTILINE)
    for page in ("README.md", "CONTRIBUTING.md", "RELEASING.md", "SECURITY.md"):
        named = re.findall(r"make ([a-z-]+)[^\n`#]*#|`make ([a-z-]+)", (ROOT / page).read_text())
        assert {one or other for one, other in named} <= set(verbs)


def test_the_readme_names_no_verb_that_is_not_there():
    from fairway.cli.main import COMMANDS

    named = re.findall(r"`fairway (\w+)", (ROOT / "README.md").read_text())
    assert named
    assert set(named) <= set(COMMANDS)


def test_oracles_share_no_code_with_what_they_check():
    """They start from the objects as a user writes them, and read them with the same reader; nothing else is shared."""
    allowed = ("fairway.api.", "fairway.clock", "fairway.resources.algebra", "oracles.")
    imports = re.compile(r"^\s*(?:from|import) ((?:fairway|oracles|support|tests)[\w.]*)", re.M)
    paths = sorted((ROOT / "tests" / "oracles").glob("*.py"))
    assert paths
    for path in paths:
        for module in imports.findall(path.read_text()):
            assert module.startswith(allowed), f"{path.name} imports {module}"


def test_a_class_name_is_used_once():
    """But for the API's objects and the engine's values of them, which the layers tell apart."""
    found = Counter(
        name for path in SOURCE.rglob("*.py") for name in re.findall(r"^class (\w+)", path.read_text(), re.MULTILINE)
    )
    assert {name for name, count in found.items() if count > 1} == {"Device", "QueueStatus", "Reservation"}


def test_the_page_of_supported_fields_is_what_the_tables_say(monkeypatch):
    monkeypatch.syspath_prepend(str(ROOT))
    page = import_module("tools.fields").page()
    assert (ROOT / "docs" / "supported-fields.md").read_text() == page
