"""YAML as kubectl reads it, and files made to hurt."""

from __future__ import annotations

import pytest
import yaml
from hypothesis import given
from hypothesis import strategies as st

from fairway.api.text import MAX_ALIASED, MAX_DEPTH, LongNumber, YamlProblem, YamlReader


def read(text: str) -> list[object]:
    return list(YamlReader(text).documents())


def problem(text: str) -> tuple[int, str]:
    with pytest.raises(YamlProblem) as caught:
        read(text)
    return caught.value.line, caught.value.message


@pytest.mark.parametrize(
    ("text", "value"),
    [
        ("yes", True),
        ("On", True),
        ("n", False),
        ("'yes'", "yes"),
        ("~", None),
        ("", None),
        ("12", 12),
        ("-12", -12),
        ("+12", 12),
        ("0", 0),
        ("0644", 420),
        ("0o17", 15),
        ("0x1F", 31),
        ("0b101", 5),
        ("1_000", 1000),
        ("089", 89.0),
        ("1.5", 1.5),
        (".5", 0.5),
        ("1e3", 1000.0),
        ("12e9999", LongNumber("12e9999")),
        ("1.2.3", "1.2.3"),
        ("1:30", "1:30"),
        ("-", [None]),
        (".inf", ".inf"),
        ("100m", "100m"),
        ("2026-01-01T00:00:00Z", "2026-01-01T00:00:00Z"),
        ("2026-01-01", "2026-01-01"),
        ("!!str 12", "12"),
        ("!!int '12'", 12),
        ("! 12", "12"),
        ("9" * 5000, LongNumber("9" * 5000)),
        ("|\n  two\n  lines\n", "two\nlines\n"),
    ],
)
def test_scalars(text: str, value: object) -> None:
    read_back = read(f"a: {text}")[0] if text != "-" else {"a": read("-")[0]}
    assert read_back == {"a": value}
    assert type(read_back["a"]) is type(value)


def test_keys_are_text() -> None:
    assert read("{1: a, yes: b, 010: c, ~: d}") == [{"1": "a", "yes": "b", "010": "c", "~": "d"}]


def test_many_documents() -> None:
    assert read("a: 1\n---\n# nothing\n---\nb: 2\n...\n") == [{"a": 1}, None, {"b": 2}]


def test_aliases_and_merge_keys() -> None:
    text = "base: &b {x: 1, y: 2}\nother: &o {y: 5, z: 6}\none: {<<: *b, y: 3}\ntwo: {<<: [*b, *o]}\nsame: *b\n"
    document = read(text)[0]
    assert document["one"] == {"x": 1, "y": 3}  # type: ignore[index]
    assert document["two"] == {"x": 1, "y": 2, "z": 6}  # type: ignore[index]
    assert document["same"] == {"x": 1, "y": 2}  # type: ignore[index]


def test_anchors_end_with_their_document() -> None:
    assert problem("a: &x 1\n---\nb: *x\n") == (3, "the alias *x has no anchor before it")


def test_repeated_keys_are_collected_and_the_first_counts() -> None:
    reader = YamlReader("a: 1\nb:\n  c: 1\n  c: 2\na: 3\n")
    assert list(reader.documents()) == [{"a": 1, "b": {"c": 1}}]
    assert reader.repeated == [
        (4, "the key 'c' is here twice, first in line 3"),
        (5, "the key 'a' is here twice, first in line 1"),
    ]


def test_aliases_that_explode() -> None:
    levels = ["a0: &a0 [x, x, x, x, x, x, x, x, x, x]"]
    levels += [f"a{n}: &a{n} [{', '.join([f'*a{n - 1}'] * 10)}]" for n in range(1, 30)]
    assert problem("\n".join(levels)) == (5, f"aliases add more than {MAX_ALIASED} values to the document")


def test_an_alias_of_itself() -> None:
    assert problem("a: &a [*a]") == (1, "the alias *a has no anchor before it")


@pytest.mark.parametrize("text", ["[" * 100_000, "- " * 100_000 + "x", "{a: " * 100_000, "? " * 10_000])
def test_nesting_bombs(text: str) -> None:
    line, message = problem(text)
    assert line == 1
    assert message in (f"nested deeper than {MAX_DEPTH} levels", "the key is not a scalar, expected a name")


@pytest.mark.parametrize(
    ("text", "line", "message"),
    [
        ("a: 1\n\tb: 2\n", 2, "not YAML: found a tab character that violates indentation"),
        ("a: [1, 2\nb: 3\n", 2, "not YAML: did not find expected ',' or ']'"),
        ("a: 'open\n", 2, "not YAML: found unexpected end of stream"),
        (
            "a: !!python/object/apply:os.system [ls]",
            1,
            "the tag tag:yaml.org,2002:python/object/apply:os.system",
        ),
        ("a: !Ref x", 1, "the tag !Ref is not supported, expected a plain value"),
        ("[a]: 1", 1, "the key is not a scalar, expected a name"),
        ("a: {<<: 3}", 1, "the merge key << has no mapping, expected one or a list of them"),
        ("a: \x01", 1, "not YAML: the control character U+0001 is not allowed in it"),
    ],
)
def test_what_is_not_read(text: str, line: int, message: str) -> None:
    found = problem(text)
    assert found[0] == line
    assert found[1].startswith(message)


TEXTS = st.text(alphabet="abcé #:'\"-{[&*,\n", max_size=8).map(lambda text: f"x{text}")
SCALARS = st.none() | st.booleans() | st.integers(-(2**40), 2**40) | st.floats(allow_nan=False, allow_infinity=False)
PLAIN = st.recursive(
    SCALARS | TEXTS,
    lambda inner: st.lists(inner, max_size=4) | st.dictionaries(TEXTS, inner, max_size=4),
    max_leaves=12,
)


@given(PLAIN)
def test_reads_what_another_writer_wrote(value: object) -> None:
    text = yaml.safe_dump({"value": value}, allow_unicode=True)
    assert read(text) == [{"value": value}]
