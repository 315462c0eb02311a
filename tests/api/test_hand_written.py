"""The YAML reader for hand-written files: values, lines, and files made to hurt."""

import pytest
from hypothesis import given
from hypothesis import strategies as st

from fairway.api.hand_written import MAX_BYTES, HandWritten, read_document
from fairway.api.text import MAX_DEPTH, LongNumber
from fairway.errors import Problem


def read(text: str) -> tuple[HandWritten | None, list[str]]:
    problems: list[Problem] = []
    return read_document(text, "f.yaml", problems), [str(problem) for problem in problems]


def plain(text: str) -> object:
    document, problems = read(text)
    assert not problems
    assert document is not None
    assert document.marked().plain() == document.data
    return document.data


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


def test_a_lone_letter_is_text():
    assert plain("{a: n, b: Y, c: no}") == {"a": "n", "b": "Y", "c": False}


def test_dates_stay_text():
    assert plain("a: 2026-01-01") == {"a": "2026-01-01"}


def test_an_entry_has_the_line_of_its_key():
    document, _ = read("a:\n\n  - 1\n  - b: 2\n")
    assert document is not None
    marked = document.marked()
    assert marked.value["a"].line == 1
    assert [item.line for item in marked.value["a"].value] == [3, 4]
    assert [document.line(("a",)), document.line(("a", 1, "b")), document.line(("a", 1, "missing"))] == [1, 4, 4]


def test_aliases_are_followed():
    assert plain("a: &x [1, 2]\nb: *x\n") == {"a": [1, 2], "b": [1, 2]}
    assert plain("a: &x {b: 1, c: 2}\nd:\n  <<: *x\n  c: 3\n") == {"a": {"b": 1, "c": 2}, "d": {"b": 1, "c": 3}}


def test_a_giant_number_is_kept_as_text_so_that_its_field_can_be_named():
    assert plain(f"a: {'9' * 5000}\n") == {"a": LongNumber("9" * 5000)}


@pytest.mark.parametrize(
    ("text", "problem"),
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
        ("? [a, b]\n: 1\n", "f.yaml:1: the key is not a scalar, expected a name"),
        ("a: [1,\n", "f.yaml:2: not YAML: "),
        ("a: b: c\n", "f.yaml:1: not YAML: mapping values are not allowed in this context"),
        ("a: \x00", "f.yaml:1: not YAML: the control character U+0000 is not allowed in it"),
        ("[" * 5000, f"f.yaml:1: nested deeper than {MAX_DEPTH} levels"),
        ("a: &a {b: *a}", "f.yaml:1: the alias *a has no anchor before it"),
        ("x" * (MAX_BYTES + 1), f"f.yaml: {MAX_BYTES + 1} characters, expected at most"),
    ],
)
def test_what_cannot_be_read_is_a_problem_with_its_line(text, problem):
    _, problems = read(text)
    assert len(problems) == 1
    assert problems[0].startswith(problem)


def test_aliases_that_multiply_are_refused_early():
    levels = ["a0: &a0 [x, x, x, x, x, x, x, x, x, x]"]
    levels += [f"a{n}: &a{n} [{', '.join([f'*a{n - 1}'] * 10)}]" for n in range(1, 20)]
    _, problems = read("\n".join(levels))
    assert problems == ["f.yaml:5: aliases add more than 100000 values to the document"]


@given(st.text(alphabet="ab:-[]{}&*!#|>'\" \n\t1.,?%@", max_size=60))
def test_any_text_gives_a_value_or_a_problem(text):
    document, problems = read(text)
    assert document is not None or problems
    if document is not None:
        assert document.marked().plain() == document.data
