"""Where the examples of property tests come from: the same ones in every ordinary run, new ones in `make fuzz`."""

import ast
import os
import re
import subprocess
import sys
import time
from pathlib import Path

import pytest

from support import rounds

TESTS = Path(__file__).parent
PROPERTY = """
from hypothesis import given, settings
from hypothesis import strategies as st
from support.effort import examples

@settings(max_examples=examples(20))
@given(st.integers())
def test_numbers(number):
    with open("drawn", "a") as file:
        print(number, file=file)
    assert number < 1000 or not FAILS

@given(st.integers())
def test_without_settings(number):
    with open("others", "a") as file:
        print(number, file=file)
"""


def run(folder: Path, environment: dict[str, str], *, fails: bool = False) -> tuple[str, list[str], int]:
    """The output, the numbers drawn, and how many examples a property without settings of its own took."""
    (folder / "test_drawn.py").write_text(PROPERTY.replace("FAILS", str(fails)))
    for name in ("drawn", "others"):
        (folder / name).unlink(missing_ok=True)
    kept = {name: value for name, value in os.environ.items() if not name.startswith("FAIRWAY_") and name != "CI"}
    seed = environment.get("FAIRWAY_SEED")
    command = [sys.executable, "-m", "pytest", "-p", "conftest", *([f"--hypothesis-seed={seed}"] if seed else [])]
    ended = subprocess.run(
        command, cwd=folder, env={**kept, "PYTHONPATH": str(TESTS), **environment}, capture_output=True, text=True
    )
    assert ended.returncode == int(fails), ended.stdout + ended.stderr
    others = len((folder / "others").read_text().split())
    return ended.stdout, (folder / "drawn").read_text().split(), others


def test_an_ordinary_run_takes_the_same_examples_everywhere(tmp_path: Path) -> None:
    _, here, _ = run(tmp_path, {})
    _, in_ci, _ = run(tmp_path, {"CI": "true"})
    assert len(here) == 20
    assert here == in_ci


def test_a_fuzz_run_takes_new_examples_by_its_seed_as_many_as_told_in_rounds(tmp_path: Path) -> None:
    fuzz = {"FAIRWAY_FUZZ": "1", "FAIRWAY_EXAMPLES": "600"}
    output, one, others = run(tmp_path, {**fuzz, "FAIRWAY_SEED": "1"})
    assert (len(one), others) == (600, 600)
    assert re.search(r"  600 +[\d.]+ ms  test_drawn.py::test_numbers", output)
    assert run(tmp_path, {**fuzz, "FAIRWAY_SEED": "1", "FAIRWAY_ROUND": "1"})[1] == one[250:500]
    assert run(tmp_path, {**fuzz, "FAIRWAY_SEED": "2"})[1] != one


def test_a_fuzz_run_prints_how_to_repeat_what_failed(tmp_path: Path) -> None:
    fuzz = {"FAIRWAY_FUZZ": "1", "FAIRWAY_EXAMPLES": "400", "FAIRWAY_SEED": "7"}
    output, _, _ = run(tmp_path, fuzz, fails=True)
    assert "make fuzz SEED=7 EXAMPLES=400 ONLY='test_drawn.py::test_numbers'" in output
    assert "@reproduce_failure(" in output


def test_a_run_ends_when_its_time_is_over_and_says_how_many_examples_it_took(tmp_path: Path) -> None:
    output, drawn, others = run(tmp_path, {"FAIRWAY_FUZZ": "1", "FAIRWAY_SEED": "7", "FAIRWAY_MINUTES": "0.001"})
    assert f"{len(drawn):>9,}" in output
    assert f"{others:>9,}" in output
    assert len(drawn) % 250 == others % 250 == 0


def test_time_that_a_property_does_not_need_is_left_to_those_after_it(monkeypatch: pytest.MonkeyPatch) -> None:
    now = 100.0
    monkeypatch.setattr(time, "monotonic", lambda: now)
    budget = rounds.Budget(seconds=60, properties=4, processes=2)
    assert budget.next_deadline() == 130
    now = 110.0
    assert budget.next_deadline() == 160, "the last of this process: the other one has as many"


def _counts(path: Path) -> list[str]:
    """What stands behind each `max_examples=` of a file, names resolved within the file."""
    tree = ast.parse(path.read_text())
    named = {
        target.id: node.value
        for node in tree.body
        if isinstance(node, ast.Assign)
        for target in node.targets
        if isinstance(target, ast.Name)
    }
    values = [
        keyword.value
        for node in ast.walk(tree)
        if isinstance(node, ast.Call)
        for keyword in node.keywords
        if keyword.arg == "max_examples"
    ]
    return [ast.unparse(named.get(value.id, value) if isinstance(value, ast.Name) else value) for value in values]


def test_every_number_of_examples_can_be_scaled() -> None:
    files = [path for path in sorted(TESTS.rglob("*.py")) if path != Path(rounds.__file__)]
    counts = [(path.name, count) for path in files for count in _counts(path)]
    wrong = [found for found in counts if not re.fullmatch(r"examples\([\d_]+(, (long=)?[\d_]+)?\)", found[1])]
    assert not wrong, "write max_examples=examples(N), with `examples` from support.effort, so that fuzzing scales it"
    assert len(counts) > 50
