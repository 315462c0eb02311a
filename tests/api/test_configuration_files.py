"""Files that configure a program: one object, read with limits, and every mistake said with its place."""

from pathlib import Path

import pytest

from fairway.agent.mapping import read_mapping
from fairway.api.hand_written import MAX_BYTES, read_configuration
from fairway.errors import InputError

HEAD = "apiVersion: fairway.dev/v1alpha1\nkind: Example\n"


def said(path: Path) -> str:
    with pytest.raises(InputError) as error:
        read_configuration(path, "fairway.dev/v1alpha1", "Example")
    return str(error.value)


def test_the_fields_without_the_head(tmp_path: Path) -> None:
    path = tmp_path / "f.yaml"
    path.write_text(HEAD + "metadata: {name: x}\na: 1\n")
    assert read_configuration(path, "fairway.dev/v1alpha1", "Example").data == {"a": 1}


@pytest.mark.parametrize(
    ("text", "wanted"),
    [
        (HEAD + "a: 1\nb: 2\na: 3\n", "f.yaml:5: "),
        (HEAD + "a: [1\n", "f.yaml:"),
        (HEAD + "---\n" + HEAD, "expected one object of kind Example"),
        ("- 1\n", "expected one object of kind Example"),
        ("apiVersion: v1\nkind: Pod\n", "f.yaml:2: is Pod of v1, expected Example of fairway.dev/v1alpha1"),
        (HEAD + "#" * MAX_BYTES, f"more than {MAX_BYTES} bytes"),
    ],
)
def test_what_is_wrong_and_where(tmp_path: Path, text: str, wanted: str) -> None:
    path = tmp_path / "f.yaml"
    path.write_text(text)
    assert wanted in said(path)


def test_a_file_that_has_no_end() -> None:
    assert "more than" in said(Path("/dev/zero"))


def test_a_file_that_is_not_there(tmp_path: Path) -> None:
    assert said(tmp_path / "no.yaml").endswith("cannot be read: No such file or directory")


def test_bytes_that_are_no_text(tmp_path: Path) -> None:
    path = tmp_path / "f.yaml"
    path.write_bytes(b"\xff\xfe")
    assert "not a text file" in said(path)


def test_a_resource_that_is_mapped_twice(tmp_path: Path) -> None:
    """The second would silently replace the first."""
    path = tmp_path / "mapping.yaml"
    path.write_text(
        "apiVersion: fairway.dev/v1alpha1\nkind: DeviceMapping\nresources:\n  a.com/gpu: {}\n  a.com/gpu: {}\n"
    )
    with pytest.raises(InputError, match=r"mapping.yaml:5: "):
        read_mapping(path)
