"""Regular expressions: the same matches as Python's own engine, which searches in another way."""

from __future__ import annotations

import re

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from fairway.cel.regex import find_all, search
from fairway.cel.values import Budget, BudgetError, EvaluationError
from support.effort import examples

MANY = examples(500, 20_000)
_ATOMS = ["a", "b", "c", ".", "[ab]", "[^a]", "[a-c]", "\\d", "\\w", "\\s", "\\b", "^", "$", "\\.", "1", "[]a]", "[a-]"]
atoms = st.sampled_from(_ATOMS)


def _repeated(inner: str, repeat: str) -> str:
    """What may be empty is not repeated: engines differ in when they stop repeating nothing."""
    return f"({inner})" if _may_be_empty(inner) else f"({inner}){repeat}"


def _may_be_empty(inner: str) -> bool:
    """Somewhere: a word boundary is empty, but not in an empty text."""
    own = re.compile(f"(?:{inner})", re.ASCII)
    spots = [(text, at) for text in ("", "a", " ", " a ", "a\na", "1.") for at in range(len(text) + 1)]
    return any(found.end() == at for text, at in spots if (found := own.match(text, at)))


def _larger(inner: st.SearchStrategy[str]) -> st.SearchStrategy[str]:
    repeat = st.sampled_from(["*", "+", "?", "*?", "+?", "??", "{2}", "{1,2}", "{0,2}?", "{1,}"])
    return st.one_of(
        st.builds("{}{}".format, inner, inner),
        st.builds("(?:{}|{})".format, inner, inner),
        st.builds(_repeated, inner, repeat),
        st.builds("(?i:{})".format, inner),
        st.builds("(?s:{})".format, inner),
    )


patterns = st.recursive(atoms, _larger, max_leaves=6)
texts = st.text(st.sampled_from("abcABC1. \n_-]"), max_size=8)


@settings(max_examples=MANY)
@given(patterns, texts)
def test_the_first_match_is_the_one_that_backtracking_finds(pattern: str, text: str) -> None:
    theirs = re.compile(pattern.replace("$", r"\Z"), re.ASCII).search(text)
    assert search(pattern, text, Budget(100_000)) == (theirs.span() if theirs else None)


@pytest.mark.parametrize(
    ("pattern", "text", "found"),
    [
        ("a", "banana", ["a", "a", "a"]),
        ("a*", "baa", ["", "aa"]),
        ("[0-9]+", "v1.20.3", ["1", "20", "3"]),
        ("x", "abc", []),
        ("", "ab", ["", "", ""]),
    ],
)
def test_all_matches(pattern: str, text: str, found: list[str]) -> None:
    """An empty match right behind another one does not count, as in RE2."""
    assert find_all(pattern, text, Budget(1000), -1) == found
    assert find_all(pattern, text, Budget(1000), 1) == found[:1]


@pytest.mark.parametrize(
    "pattern",
    ["(", ")", "[a", "a{2,1}", "*a", r"\1", r"\C", r"a\\\C", r"\p{No}{2000}", "\ud800", "(?<=a)", "a++", "[z-a]", "\\"],
)
def test_what_is_no_pattern_is_an_error(pattern: str) -> None:
    with pytest.raises(EvaluationError):
        search(pattern, "a", Budget(1000))


def test_posix_classes_and_escapes() -> None:
    budget = Budget(10_000)
    assert search("[[:alpha:]]+", "12ab3", budget) == (2, 4)
    assert search(r"\x41\x{42}", "xAB", budget) == (1, 3)
    assert search(r"(?P<name>a)\z", "ba", budget) == (1, 2)
    assert search("(?m)^b$", "a\nb\nc", budget) == (2, 3)
    assert search(r"\p{Greek}+", "aλβ c", budget) == (1, 3)
    assert search(r"\\C", r"a\C", budget) == (1, 3), "a backslash, then the letter"


def test_an_invalid_text_is_an_error() -> None:
    with pytest.raises(EvaluationError, match="surrogate"):
        search("a", "b\udc00", Budget(1000))


def test_a_search_that_reads_the_text_again_for_every_match_runs_out_of_budget() -> None:
    """Each of 100,000 matches would read to the end of the text: 10^10 characters."""
    with pytest.raises(BudgetError):
        find_all("(a.*b)|c", "c" * 100_000, Budget(1_000_000), -1)


def test_a_pattern_costs_by_its_length_and_the_text() -> None:
    left = []
    for pattern, text in (("a", "b"), ("a" * 400, "b"), ("a", "b" * 400), ("a" * 400, "b" * 400)):
        budget = Budget(100_000)
        search(pattern, text, budget)
        left.append(budget.left)
    assert left == sorted(left, reverse=True)
    assert len(set(left)) > 2
