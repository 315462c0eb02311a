"""The YAML reader for hand-written files: values, lines, and files made to hurt."""

import pytest
from hypothesis import given
from hypothesis import strategies as st

from fairway.api.marked_yaml import MAX_CHARACTERS, Marked, read_marked
from fairway.errors import Problem


def read(text: str) -> tuple[Marked | None, list[str]]:
    faults: list[Problem] = []
    return read_marked(text, "f.yaml", faults), [str(fault) for fault in faults]


def plain(text: str) -> object:
    marked, faults = read(text)
    assert not faults
    assert marked is not None
    return marked.plain()


def test_values_are_read_as_yaml_reads_them():
    assert plain('{a: 1, b: -2.5, c: true, d: no, e: null, f: x y, g: "1", h: [1, [2]], i: {}}') == {
        "a": 1,
        "b": -2.5,
        "c": True,
        "d": False,
        "e": None,
        "f": "x y",
        "g": "1",
        "h": [1, [2]],
        "i": {},
    }


def test_dates_stay_text():
    assert plain("a: 2026-01-01") == {"a": "2026-01-01"}


def test_an_entry_has_the_line_of_its_key():
    marked, _ = read("a:\n\n  - 1\n  - b: 2\n")
    assert isinstance(marked.value, dict)
    assert marked.value["a"].line == 1
    items = marked.value["a"].value
    assert [item.line for item in items] == [3, 4]


def test_aliases_are_followed():
    assert plain("a: &x [1, 2]\nb: *x\n") == {"a": [1, 2], "b": [1, 2]}


@pytest.mark.parametrize(
    ("text", "fault"),
    [
        ("", "f.yaml:1: the file is empty"),
        ("# only a comment\n", "f.yaml:1: the file is empty"),
        ("a: 1\na: 2\n", "f.yaml:2: the key 'a' is here twice, first in line 1"),
        ("a: 1\n---\nb: 2\n", "f.yaml:2: a second document starts here, expected one"),
        (
            "a: !!python/name:os.system x\n",
            "f.yaml:1: the tag tag:yaml.org,2002:python/name:os.system is not",
        ),
        ("a: *nowhere\n", "f.yaml:1: the alias *nowhere has no anchor before it"),
        ("? [a, b]\n: 1\n", "f.yaml:1: this key is not a text, expected a name"),
        ("a: [1,\n", "f.yaml:2: not YAML: "),
        ("a: b: c\n", "f.yaml:1: not YAML: mapping values are not allowed in this context"),
        ("a: \x00", "f.yaml: not YAML: "),
        (f"a: {'9' * 5000}\n", "f.yaml:1: a number of 5000 characters, expected at most 64"),
        ("[" * 5000, "f.yaml:1: nested deeper than 32 levels"),
        ("a: &a {b: *a}", "f.yaml:1: the alias *a has no anchor before it"),
        ("x" * (MAX_CHARACTERS + 1), f"f.yaml: {MAX_CHARACTERS + 1} characters, expected at most"),
    ],
)
def test_what_cannot_be_read_is_a_fault_with_its_line(text, fault):
    _, faults = read(text)
    assert len(faults) == 1
    assert faults[0].startswith(fault)


def test_aliases_that_multiply_are_refused_early():
    levels = ["a0: &a0 [x, x, x, x, x, x, x, x, x, x]"]
    levels += [f"a{n}: &a{n} [{', '.join([f'*a{n - 1}'] * 10)}]" for n in range(1, 20)]
    _, faults = read("\n".join(levels))
    assert faults == ["f.yaml:4: more than 20000 values, aliases counted each time"]


@given(st.text(alphabet="ab:-[]{}&*!#|>'\" \n\t1.,?%@", max_size=60))
def test_any_text_gives_a_value_or_a_fault(text):
    marked, faults = read(text)
    assert marked is not None or faults
