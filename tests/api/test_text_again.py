"""The text of manifests goes when all is read, and is read again for errors that are found only then."""

from __future__ import annotations

import gc
import io
import tracemalloc
from pathlib import Path

import pytest

from fairway.api.manifests import Manifests, load

YAML = "apiVersion: v1\nkind: Node\nmetadata:\n  name: one\n---\napiVersion: v1\nkind: Node\nmetadata:\n  name: two\n"
JSON = '{"kind": "List", "items": [\n{"kind": "Node", "apiVersion": "v1",\n "metadata": {\n  "name": "two"}}]}'


def line_of_name(manifests: Manifests) -> int:
    return manifests.problem(manifests.objects[-1], ("metadata", "name"), "is odd").line


@pytest.mark.parametrize(("name", "text", "line"), [("nodes.yaml", YAML, 9), ("nodes.json", JSON, 4)])
def test_a_late_error_has_its_line_as_long_as_the_file_is_the_same(
    tmp_path: Path, name: str, text: str, line: int
) -> None:
    file = tmp_path / name
    file.write_bytes(b"\xef\xbb\xbf" + text.encode())
    manifests = load([str(file)])
    assert line_of_name(manifests) == line
    assert line_of_name(manifests) == line, "and again"
    changed = load([str(file)])
    file.write_text("\n" + text)
    assert line_of_name(changed) == 0
    gone = load([str(file)])
    file.unlink()
    assert line_of_name(gone) == 0
    assert str(gone.problem(gone.objects[-1], ("metadata", "name"), "is odd")).startswith(str(file))


def test_standard_input_cannot_be_read_again_and_is_kept() -> None:
    assert line_of_name(load(["-"], stdin=io.BytesIO(YAML.encode()))) == 9


@pytest.mark.parametrize(("name", "text"), [("nodes.yaml", YAML), ("nodes.json", JSON)])
def test_the_text_is_not_kept(tmp_path: Path, name: str, text: str) -> None:
    """A text of a million blank lines, of which nothing becomes an object."""
    file, many = tmp_path / name, 1_000_000
    file.write_text(text + "\n" * many)
    load([str(file)])
    tracemalloc.start()
    before = tracemalloc.get_traced_memory()[0]
    manifests = load([str(file)])
    gc.collect()
    kept = tracemalloc.get_traced_memory()[0] - before
    tracemalloc.stop()
    assert manifests.objects
    assert kept < many // 10
