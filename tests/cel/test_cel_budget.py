"""No expression takes more than its budget, whatever it says: time, memory and answers are bounded."""

from __future__ import annotations

import tracemalloc

import pytest

from fairway.cel import MAX_COST, Environment

ENVIRONMENT = Environment({"m": "dyn"})


def doubling(start: str, times: int, end: str) -> str:
    text = end.format(f"v{times}")
    for i in range(times, 0, -1):
        text = f"cel.bind(v{i}, v{i - 1} + v{i - 1}, {text})"
    return f"cel.bind(v0, {start}, {text})"


def twice(times: int) -> str:
    text = f"v{times} == v{times}"
    for i in range(times, 0, -1):
        text = f"cel.bind(v{i}, [v{i - 1}, v{i - 1}], {text})"
    return f"cel.bind(v0, [1], {text})"


TEN = "[1,2,3,4,5,6,7,8,9,10]"
BOMBS = {
    "text": doubling('"aaaaaaaaaa"', 25, "size({}) > 0"),
    "list": doubling("[1, 2, 3]", 25, "size({}) > 0"),
    "nested list": doubling("[[1, 2, 3]]", 25, "{0} == {0}"),
    "itself twice": twice(25),
    "replace": 'size("a"' + '.replace("a", "aaaaaaaaaa")' * 12 + ") > 0",
    "replace nothing": 'size("aaaa"' + '.replace("", "aaaa")' * 14 + ") > 0",
    "join": 'size(lists.range(9999).map(x, "' + "a" * 500 + '").join("' + "b" * 500 + '")) > 0',
    "format": 'size("' + "%s" * 1000 + '".format(lists.range(1000).map(x, "' + "a" * 2000 + '"))) > 0',
    "all": f"{TEN}.all(a, {TEN}.all(b, {TEN}.all(c, {TEN}.all(d, {TEN}.all(e, true)))))",
    "map": f"{TEN}.map(a, {TEN}.map(b, {TEN}.map(c, {TEN}.map(d, {TEN}.map(e, 1))))) == []",
    "range": "lists.range(10000).all(a, lists.range(10000).all(b, true))",
    "flatten": doubling("[[1]]", 25, "size({}.flatten()) > 0"),
    "distinct": "size(lists.range(10000).distinct()) > 0",
    "regex": doubling('"aaaaaaaaaa"', 16, '{}.matches("(a*)*(a*)*(a*)*(a*)*(a*)*b")'),
    "regex of all": doubling('"ab"', 16, 'size({}.findAll("a|b|ab|(a|b)*c")) > 0'),
    "split": doubling('"a,"', 25, 'size({}.split(",")) > 0'),
    "sets": "sets.contains(lists.range(5000), lists.range(5000))",
    "equal": "lists.range(9000).all(x, lists.range(9000) == lists.range(9000))",
}


@pytest.mark.parametrize("name", BOMBS)
def test_bombs_are_given_up(name: str) -> None:
    answer = ENVIRONMENT.program(BOMBS[name]).run({"m": {}})
    assert answer.failed, answer
    assert answer.error == "the evaluation costs too much"


@pytest.mark.parametrize("name", ["text", "list", "replace", "split"])
def test_nothing_large_is_made_before_it_is_given_up(name: str) -> None:
    program = ENVIRONMENT.program(BOMBS[name])
    tracemalloc.start()
    program.run({"m": {}})
    peak = tracemalloc.get_traced_memory()[1]
    tracemalloc.stop()
    assert peak < 100 << 20


def test_what_people_write_is_far_below_the_budget() -> None:
    claims = [{"name": f"claim-{i}", "value": f"v1.{i}.0"} for i in range(100)]
    text = 'm.claims.exists(c, c.name == "claim-99" && semver(c.value.substring(1)).isGreaterThan(semver("1.30.0")))'
    assert ENVIRONMENT.program(text).run({"m": {"claims": claims}}, MAX_COST // 20).value is True


@pytest.mark.parametrize(
    ("text", "error"),
    [
        ('quantity("1' + "0" * 200 + '") == quantity("1")', "not a quantity"),
        ('semver("1.' + "0" * 200 + '.0") == semver("1.0.0")', "not a semantic version"),
        ('ip("' + "1" * 200 + '") == ip("::1")', "not an IP address"),
        ('"%.999999f".format([1.5]) == ""', "precision"),
        ("lists.range(1000000) == []", "expected 0 to 10000"),
        ('"a".matches("(a{1000}){1000}")', "invalid repetition size"),
        ('"a".matches(r"' + r"\pL{900}" * 4 + '")', "pattern too large"),
        ('"a".matches("(?=a)")', "invalid perl operator"),
        ('"a".matches("a**")', "bad repetition operator"),
        ("int('9999999999999999999999') == 1", "overflow"),
    ],
)
def test_giant_and_odd_values_are_errors(text: str, error: str) -> None:
    answer = ENVIRONMENT.program(text).run({"m": {}})
    assert error in answer.error
