"""Regular expressions: the same matches as Python's own engine, which searches in another way."""

from __future__ import annotations

import contextlib
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
    assert left[0] > left[1] > left[3]
    assert left[0] > left[2] > left[3]


def _search_many(patterns: list[str], budget: Budget) -> None:
    for pattern in patterns:
        with contextlib.suppress(EvaluationError):
            search(pattern, "a", budget)


def test_computed_patterns_run_out_of_budget_before_they_take_time(monkeypatch: pytest.MonkeyPatch) -> None:
    """3,481 patterns, computed in a loop, took two minutes within the budget of one evaluation."""
    from fairway.cel import regex

    compiled: list[str] = []

    def compiling(pattern: str) -> object:
        compiled.append(pattern)
        return original(pattern)

    original = regex._compiled.__wrapped__
    monkeypatch.setattr(regex, "_compiled", compiling)
    for pattern in (r"\pL{{3{}}}", r"\pL{{1,29}}{}", "x{}"):
        compiled.clear()
        budget = Budget(100_000)
        with pytest.raises(BudgetError):
            _search_many([pattern.format(number) for number in range(10_000)], budget)
        assert len(compiled) <= 1_000, "100 us each, for a small one"
    assert len(compiled) > 100, "many small ones may be used"


@pytest.mark.parametrize("pattern", ["(?s).*a.{500}b", ".{1000}", "(.{30}){30}"])
def test_a_short_pattern_with_a_large_automaton_costs_by_its_size(pattern: str) -> None:
    budget = Budget(1_000_000)
    search(pattern, "a" * 10_000, budget)
    assert 1_000_000 - budget.left > 50_000


def test_the_cost_does_not_depend_on_what_was_compiled_before() -> None:
    costs = []
    for _ in range(2):
        budget = Budget(10_000)
        search(r"^\pL{2}-[0-9]+$", "ab-12", budget)
        search(r"^\pL{2}-[0-9]+$", "ab-12", budget)
        costs.append(10_000 - budget.left)
    assert costs[0] == costs[1]


def test_patterns_that_people_write_cost_little() -> None:
    for pattern in ("^v1[.]3[0-9]", "^(a100|h100|h200)-[0-9]+gb$", r"^\d+\.\d+\.\d+$", "(?i)nvidia"):
        budget = Budget(1_000)
        search(pattern, "v1.34.2-nvidia-h100-80gb", budget)
        assert 1_000 - budget.left < 60, pattern
