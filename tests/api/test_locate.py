"""The line that a fault names is the line the thing is on."""

from __future__ import annotations

import json
from typing import Any

import yaml
from hypothesis import given
from hypothesis import strategies as st

from fairway.api.text import JsonLines, Path, YamlLines

MARK = "here-it-is"
KEYS = st.text(alphabet='abé"\\{ ,:', min_size=1, max_size=5).map(lambda text: f"k{text}")
TREES = st.recursive(
    st.integers() | st.booleans() | st.none() | KEYS,
    lambda inner: st.lists(inner, max_size=4) | st.dictionaries(KEYS, inner, max_size=4),
    max_leaves=15,
)


def places(tree: Any, path: Path = ()) -> list[Path]:
    """Every entry of the tree."""
    entries = tree.items() if isinstance(tree, dict) else enumerate(tree) if isinstance(tree, list) else ()
    found: list[Path] = []
    for step, inner in entries:
        found += [(*path, step), *places(inner, (*path, step))]
    return found


def marked(tree: Any, path: Path) -> Any:
    if not path:
        return MARK
    if isinstance(tree, dict):
        return {step: marked(inner, path[1:]) if step == path[0] else inner for step, inner in tree.items()}
    return [marked(inner, path[1:]) if step == path[0] else inner for step, inner in enumerate(tree)]


def line_of_mark(text: str) -> int:
    return next(number for number, line in enumerate(text.splitlines(), 1) if MARK in line)


@given(st.data())
def test_a_place_in_json(data: st.DataObject) -> None:
    tree = {"top": data.draw(TREES)}
    path = data.draw(st.sampled_from(places(tree)))
    indent = data.draw(st.sampled_from([None, 1, "\t"]))
    text = "\n" + json.dumps(marked(tree, path), indent=indent, ensure_ascii=False)
    encoded = text.encode()
    assert JsonLines(encoded).line(1, len(encoded), path) == line_of_mark(text)


@given(st.data())
def test_a_place_in_yaml(data: st.DataObject) -> None:
    tree = {"top": data.draw(TREES)}
    path = data.draw(st.sampled_from(places(tree)))
    documents = [
        "# first",
        *(yaml.safe_dump(document, allow_unicode=True) for document in ({}, marked(tree, path))),  # type: ignore[var-annotated]
    ]
    text = "\n---\n".join(documents)
    assert YamlLines(text).line(1, path) == line_of_mark(text)


def test_what_is_missing_is_where_its_parent_is() -> None:
    text = b'{"a":\n{"b":\n1}}'
    assert JsonLines(text).line(0, len(text), ("a", "c", "d")) == 1
    assert YamlLines("a:\n  b:\n    c: 1\n").line(0, ("a", "b", "x", 3)) == 2
    assert YamlLines("a: 1\n").line(0, ("b",)) == 1


def test_a_key_that_stands_twice_in_json_hides_what_follows() -> None:
    text = b'{"a": 1,\n"b": 2,\n"a": 33,\n"c": 4}'
    assert JsonLines(text).line(0, len(text), ("b",)) == 2
    assert JsonLines(text).line(0, len(text), ("c",)) == 1
