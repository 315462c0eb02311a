"""Manifests on which parsers stumble: giant numbers, control characters, errors behind errors."""

from pathlib import Path

import pytest

from fairway.api.manifests import load
from fairway.errors import ManifestError

MOST = "expected a whole number of at most 2147483647"
LEAST = "expected a whole number of at least 1"
HEAD = '"apiVersion": "scheduling.volcano.sh/v1beta1", "kind": "Queue", "metadata": {"name": "q"}'


def faults(text: str, folder: Path, suffix: str) -> list[str]:
    file = folder / f"queue.{suffix}"
    file.write_text(text)
    with pytest.raises(ManifestError) as raised:
        load([str(file)])
    return [str(fault).removeprefix(f"{file}:1: ") for fault in raised.value.problems]


@pytest.mark.parametrize("suffix", ["json", "yaml"])
@pytest.mark.parametrize(
    ("given", "said"),
    [
        ("1000000000000", f"is the number 1000000000000, {MOST}"),
        ("0", f"is the number 0, {LEAST}"),
        ("9" * 60, f"is the number {'9' * 60}, {MOST}"),
        ("9" * 5000, f"is a number of 5000 characters, {MOST}"),
        ("-" + "9" * 5000, f"is a number of 5001 characters, {LEAST}"),
        ("1e400", f"is the number 1e400, {MOST}"),
    ],
)
def test_nothing_false_is_said_of_a_number(given: str, said: str, suffix: str, tmp_path: Path) -> None:
    text = f'{{{HEAD}, "spec": {{"weight": {given}}}}}'
    assert faults(text, tmp_path, suffix) == [f"spec.weight: {said}"]


@pytest.mark.parametrize("suffix", ["json", "yaml"])
def test_a_giant_is_not_a_text(suffix: str, tmp_path: Path) -> None:
    text = f'{{{HEAD}, "spec": {{"weight": 1, "parent": {"9" * 5000}}}}}'
    found = faults(text, tmp_path, suffix)
    assert found == ["spec.parent: is a number of 5000 characters, expected a string: write it in quotes"]


@pytest.mark.parametrize("suffix", ["json", "yaml"])
def test_a_quantity_of_thousands_of_digits(suffix: str, tmp_path: Path) -> None:
    text = f'{{{HEAD}, "spec": {{"weight": 1, "capability": {{"cpu": {"9" * 5000}}}}}}}'
    (found,) = faults(text, tmp_path, suffix)
    assert found.startswith("spec.capability.cpu: invalid quantity '999")
    assert "5000 characters" in found


def test_several_documents_in_json(tmp_path: Path) -> None:
    file = tmp_path / "two.json"
    file.write_text(f'{{{HEAD}}}\n{{{HEAD.replace("q", "r")}, "spec": {{"weight": {"9" * 5000}}}}}')
    with pytest.raises(ManifestError, match=r"two\.json:2: spec\.weight: is a number of 5000 characters"):
        load([str(file)])


def test_a_control_character_has_a_line(tmp_path: Path) -> None:
    file = tmp_path / "x.yaml"
    file.write_text("kind: Pod\nmetadata:\n  name: a\x01b\n")
    with pytest.raises(ManifestError, match=r"x\.yaml:3: not YAML: the control character U\+0001 is not allowed"):
        load([str(file)])


def test_a_fault_before_a_place_that_is_not_yaml_has_its_line(tmp_path: Path) -> None:
    """The parser that looks up lines reads ahead, and meets what comes after the document."""
    file = tmp_path / "x.yaml"
    file.write_text("apiVersion: v1\nkind: Pod\nmetadata:\n  name: X_bad\n---\na: [\n@\n")
    with pytest.raises(ManifestError) as raised:
        load([str(file)])
    lines = [fault.line for fault in raised.value.problems]
    assert 4 in lines
    assert lines[-1] in (6, 7)
