"""Regular expressions in time that grows with the text, never with luck: all ways to match are followed side by side.

The syntax is that of RE2 without classes by script (`\\p{Greek}`); what brackets capture cannot be asked for. As there,
the leftmost match counts, and among those the one that a backtracking search would find first.
"""

from __future__ import annotations

from collections.abc import Callable
from functools import lru_cache
from typing import Final

from fairway.cel.errors import Budget
from fairway.cel.regex_syntax import MATCH, Char, Code, Jump, Mark, Split, compiled

_THREADS_PER_UNIT: Final = 4


def search(pattern: str, text: str, budget: Budget, start: int = 0) -> tuple[int, int] | None:
    """Where the first match is; EvaluationError for what is no pattern."""
    code = _code(pattern)
    budget.spend_size(len(pattern))
    if isinstance(code, str):
        budget.spend_size(len(text))
        place = text.find(code, start)
        return None if place < 0 else (place, place + len(code))
    return _run(code, text, budget, start)


def find_all(pattern: str, text: str, budget: Budget, most: int) -> list[str]:
    """The matches one after the other, at most so many unless that is negative."""
    found: list[str] = []
    at, last = 0, -1
    while at <= len(text) and (most < 0 or len(found) < most):
        match = search(pattern, text, budget, at)
        if match is None:
            break
        begin, end = match
        if begin == end and begin == last:
            at = end + 1
            continue
        budget.spend_size(end - begin)
        found.append(text[begin:end])
        last = end
        at = end if end > begin else end + 1
    return found


@lru_cache(maxsize=1024)
def _code(pattern: str) -> Code | str:
    """The program of a pattern, or the text itself where it has no signs."""
    if pattern.isalnum():
        return pattern
    return compiled(pattern)


def _run(code: Code, text: str, budget: Budget, start: int) -> tuple[int, int] | None:
    """Threads in order of preference, each with where it began. A match ends those that come after it."""
    found: tuple[int, int] | None = None
    threads: list[tuple[int, int]] = []
    seen: set[int] = set()
    size = len(text)
    for place in range(start, size + 1):
        if found is None:
            _add(code, threads, seen, 0, place, place, text)
        if not threads:
            if found is not None or not _may_begin(code):
                break
            budget.spend()
            seen = set()
            continue
        budget.spend(1 + len(threads) // _THREADS_PER_UNIT)
        char = text[place] if place < size else ""
        following: list[tuple[int, int]] = []
        seen = set()
        for number, began in threads:
            step = code[number]
            if step is MATCH:
                found = (began, place)
                break
            if char and isinstance(step, Char) and step.accepts(char):
                _add(code, following, seen, number + 1, began, place + 1, text)
        threads = following
    return found


def _may_begin(code: Code) -> bool:
    """Whether a match can begin later though nothing can begin here."""
    return not (isinstance(code[0], Mark) and code[0].kind == "start")


def _add(
    code: Code, threads: list[tuple[int, int]], seen: set[int], number: int, began: int, place: int, text: str
) -> None:
    stack = [number]
    while stack:
        at = stack.pop()
        if at in seen:
            continue
        seen.add(at)
        step = code[at]
        if isinstance(step, Jump):
            stack.append(at + step.by)
        elif isinstance(step, Split):
            stack += (at + step.second, at + step.first)
        elif isinstance(step, Mark):
            if _MARKS[step.kind](text, place):
                stack.append(at + 1)
        else:
            threads.append((at, began))


def _is_word(text: str, place: int) -> bool:
    return 0 <= place < len(text) and (text[place] == "_" or (text[place].isascii() and text[place].isalnum()))


def _at_boundary(text: str, place: int) -> bool:
    return _is_word(text, place - 1) != _is_word(text, place)


_MARKS: dict[str, Callable[[str, int], bool]] = {
    "start": lambda text, place: place == 0,
    "end": lambda text, place: place == len(text),
    "line start": lambda text, place: place == 0 or text[place - 1] == "\n",
    "line end": lambda text, place: place == len(text) or text[place] == "\n",
    "boundary": _at_boundary,
    "no boundary": lambda text, place: not _at_boundary(text, place),
}
