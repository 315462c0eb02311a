"""Regular expressions in CEL: RE2 does the matching, a budget bounds it.

Kubernetes evaluates `matches` with Go's regexp package, which is RE2: linear in the text, no backtracking, the leftmost
match, and of several the one that a backtracking search would find first. google-re2 is the same engine, so the same
patterns are accepted and the same text matches. It replaced an engine of our own that needed 40 to 2,000 times as long.

A tenant writes both pattern and text, so the budget is charged for both. Kubernetes estimates a search at the
characters of the text times a quarter of the characters of the pattern. That is far too little for short patterns with
large automata, so the size of the compiled program counts as well:

- `.*a.{500}b` has 10 characters and 3,500 instructions: a search in 10,000 characters takes 145 ms, because the states
  of its automaton do not fit into memory and are made again and again.
- `\\pL{30}` takes 32 ms to compile. An expression can compute patterns, a new one in each step of a loop: 3,481 of them
  took two minutes within the budget of one evaluation. So a pattern is charged for by its size, in each evaluation that
  uses it, whether it is cached or not: a decision must not depend on what was decided before it.

RE2 limits the memory of a compiled pattern (`MAX_MEMORY`) and refuses counted repetitions beyond 1,000.
"""

from __future__ import annotations

import re
from collections.abc import Iterator
from functools import lru_cache
from typing import Any, Final

from fairway.cel.values import Budget, EvaluationError

MAX_MEMORY: Final = 1 << 20
"""Bytes for one compiled pattern and its automata. With RE2's default of 8 MiB the cache could take 2 GiB."""
_CACHED_PATTERNS: Final = 256
_PATTERN_CHARACTERS_PER_UNIT: Final = 40
_INSTRUCTIONS_PER_UNIT: Final = 50
"""For each ten characters of the text: at worst 4 ns for one instruction and one character."""
_COMPILED_PER_UNIT: Final = 2
"""Instructions that are compiled per unit, at 0.2 to 0.9 us each."""
_TOO_LARGE: Final = 20_000
"""Units for a pattern that is too large: RE2 may notice only after it has compiled all that fits into its memory."""
_PATTERNS: Final = 8
"""Patterns of one evaluation without a charge for compiling them: as many as people write."""
_COMPILATION: Final = 100
_ESCAPE: Final = re.compile(r"\\(.)", re.DOTALL)


def search(pattern: str, text: str, budget: Budget) -> tuple[int, int] | None:
    """The span of the first match. An invalid pattern raises EvaluationError."""
    _, matches = _search(pattern, text, budget)
    match = next(matches, None)
    return None if match is None else match.span()


def find_all(pattern: str, text: str, budget: Budget, limit: int) -> list[str]:
    """All matches from left to right, at most `limit` of them unless it is negative."""
    found: list[str] = []
    end_of_last = -1
    if limit == 0:
        return found
    per_character, matches = _search(pattern, text, budget)
    for match in matches:
        begin, end = match.span()
        # Every match is a search of its own, and each may read the text to its end before it knows where it ended.
        budget.spend(per_character * (1 + (len(text) - begin) // 100))
        # An empty match right behind another match does not count in Go; google-re2 reports it.
        if begin == end == end_of_last:
            continue
        found.append(text[begin:end])
        end_of_last = end
        if len(found) == limit:
            break
    return found


def _search(pattern: str, text: str, budget: Budget) -> tuple[int, Iterator[Any]]:
    """The cost of ten characters of the text, and the matches."""
    by_length = len(pattern) // _PATTERN_CHARACTERS_PER_UNIT
    budget.spend((1 + len(text) // 10) * (1 + by_length))
    compiled = _bought(pattern, budget)
    by_size = compiled.programsize // _INSTRUCTIONS_PER_UNIT
    budget.spend((1 + len(text) // 10) * max(0, by_size - by_length))
    if not text.isascii() and any("\ud800" <= character <= "\udfff" for character in text):
        raise EvaluationError("the text has a surrogate, which is not valid Unicode")
    return 1 + max(by_length, by_size), compiled.finditer(text)


def _bought(pattern: str, budget: Budget) -> Any:
    """The compiled pattern, paid for when the evaluation uses it for the first time."""
    is_new = pattern not in budget.patterns
    if is_new and len(budget.patterns) >= _PATTERNS:
        budget.spend(_COMPILATION)
    budget.patterns.add(pattern)
    compiled = _compiled(pattern)
    if isinstance(compiled, EvaluationError):
        budget.spend(_TOO_LARGE if is_new and "too large" in str(compiled) else 0)
        raise compiled
    budget.spend(compiled.programsize // _COMPILED_PER_UNIT if is_new else 0)
    return compiled


@lru_cache(maxsize=_CACHED_PATTERNS)
def _compiled(pattern: str) -> Any:
    """The compiled pattern, or the error: an invalid pattern is compiled once, not once per device."""
    import re2  # most expressions have no pattern: commands start without it

    if any(escaped == "C" for escaped in _ESCAPE.findall(pattern)):
        # One byte, whatever the character: C++ accepts it, Go does not, and it would cut a character in two.
        return _invalid(pattern, r"invalid escape sequence: \C")
    options = re2.Options()
    options.max_mem = MAX_MEMORY
    options.log_errors = False
    options.never_capture = True
    try:
        return re2.compile(pattern, options)
    except re2.error as error:
        return _invalid(pattern, error.args[0].decode(errors="replace"))
    except UnicodeEncodeError:
        return _invalid(pattern, "not valid Unicode")


def _invalid(pattern: str, detail: str) -> EvaluationError:
    return EvaluationError(f"invalid regular expression {pattern[:80]!r}: {detail[:200]}")
