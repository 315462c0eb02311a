"""Regular expressions in CEL: RE2 does the matching, a budget bounds it.

Kubernetes evaluates `matches` with Go's regexp package, which is RE2: linear in the text, no backtracking, the leftmost
match, and of several the one that a backtracking search would find first. google-re2 is the same engine, so the same
patterns are accepted and the same text matches. It replaced an engine of our own that needed 40 to 2,000 times as long.

A tenant writes both pattern and text, so both are bounded before RE2 sees them. RE2 limits the memory of a compiled
pattern (`MAX_MEMORY`) and refuses counted repetitions beyond 1,000. The time of a search is bounded by the budget,
which is charged as Kubernetes estimates it: characters of the text times a quarter of the characters of the pattern.
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
_ESCAPE: Final = re.compile(r"\\(.)", re.DOTALL)


def search(pattern: str, text: str, budget: Budget) -> tuple[int, int] | None:
    """The span of the first match. An invalid pattern raises EvaluationError."""
    match = next(_matches(pattern, text, budget), None)
    return None if match is None else match.span()


def find_all(pattern: str, text: str, budget: Budget, limit: int) -> list[str]:
    """All matches from left to right, at most `limit` of them unless it is negative."""
    matches: list[str] = []
    end_of_last = -1
    if limit == 0:
        return matches
    for match in _matches(pattern, text, budget):
        begin, end = match.span()
        # Every match is a search of its own, and each may read the text to its end before it knows where it ended.
        budget.spend(1 + (len(text) - begin) // 100)
        # An empty match right behind another match does not count in Go; google-re2 reports it.
        if begin == end == end_of_last:
            continue
        matches.append(text[begin:end])
        end_of_last = end
        if len(matches) == limit:
            break
    return matches


def _matches(pattern: str, text: str, budget: Budget) -> Iterator[Any]:
    budget.spend((1 + len(text) // 10) * (1 + len(pattern) // _PATTERN_CHARACTERS_PER_UNIT))
    compiled = _compiled(pattern)
    if isinstance(compiled, EvaluationError):
        raise compiled
    if not text.isascii() and any("\ud800" <= character <= "\udfff" for character in text):
        raise EvaluationError("the text has a surrogate, which is not valid Unicode")
    matches: Iterator[Any] = compiled.finditer(text)
    return matches


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
