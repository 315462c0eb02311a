"""Searches for the smallest change that starts a job, where each trial is a run of `decide`.

`Question` tries one set of changed objects, and counts trials against a limit. The searches below it find the largest
or smallest number, or a minimal set, with few trials. All of them assume that a change which is large enough stays
large enough when it grows. Where that fails (schedulers have anomalies), the answer may not be the smallest, but it has
been tried and works: nothing untried is ever returned.
"""

from __future__ import annotations

from collections.abc import Callable, Iterator, Sequence
from typing import NamedTuple, TypeVar

from fairway.api.kinds import ApiObject
from fairway.api.pods import Pod
from fairway.app.explain.model import Effect, SuggestedChange
from fairway.app.explain.situation import Situation
from fairway.resources.quantity import AmountUnit, unit_of

T = TypeVar("T")

MEBI = 1 << 20


class SearchLimit(Exception):  # noqa: N818 - a limit that was reached, not an error
    """The limit on trials is reached."""


class TrialBudget:
    """Counts trials, and raises above a limit."""

    def __init__(self, limit: int) -> None:
        self.spent = 0
        self.limit = limit

    def spend(self) -> None:
        if self.spent >= self.limit:
            raise SearchLimit
        self.spent += 1


class Question:
    """A pending job in a situation, and whether changed objects would start it. Each answer runs `decide` once."""

    def __init__(self, situation: Situation, job: str, queue: str, budget: TrialBudget) -> None:
        self.situation = situation
        self.job = job
        self.queue = queue
        self.pods = situation.waiting_pods(job)
        self.group = situation.group_of(job)
        self.effect = Effect.STARTS
        """What the last change that worked would do. A search ends with the change that it returns."""
        self._budget = budget

    def works(self, changed: Sequence[ApiObject]) -> bool:
        self._budget.spend()
        effect = self.situation.effect(self.job, changed)
        if effect is None:
            return False
        self.effect = effect
        return True

    def works_for_pods(self, edit: Callable[[Pod], Pod | None]) -> bool:
        """As `works`, with all pending pods of the job edited; False if one of them cannot be edited."""
        edited = [pod for pod in map(edit, self.pods) if pod is not None]
        return len(edited) == len(self.pods) and self.works(edited)

    def suggestion(self, kind: str, text: str, size: float, pods: tuple[str, ...] = ()) -> SuggestedChange:
        return SuggestedChange(kind=kind, text=text, effect=self.effect, size=round(size, 6), pods=pods)


class Attempt(NamedTuple):
    """A kind of change, and the search for the smallest one of that kind."""

    kind: str
    text: str
    search: Callable[[Question], SuggestedChange | None]


Attempts = Iterator[Attempt]


def step_of(name: str, amount: int) -> int:
    """Step of a search over amounts: 10m of cpu, 1 MiB of bytes, else whole units; a hundredth of small amounts."""
    step = 10 if name == "cpu" else {AmountUnit.BYTE: MEBI, AmountUnit.WHOLE: 1, AmountUnit.MILLI: 1000}[unit_of(name)]
    return step if step < amount else max(1, amount // 100)


def largest(low: int, high: int, works: Callable[[int], bool]) -> int | None:
    """The largest number in low..high that works, if all below it do; None if not even `low` works."""
    if high < low or not works(low):
        return None
    while low < high:
        middle = (low + high + 1) // 2
        if works(middle):
            low = middle
        else:
            high = middle - 1
    return low


def smallest(low: int, high: int, works: Callable[[int], bool]) -> int | None:
    """The smallest number in low..high that works, if all above it do; None if not even `high` works."""
    return None if high < low or not works(high) else _least(low, high, works)


def _least(low: int, high: int, works: Callable[[int], bool]) -> int:
    """As `smallest`, if `high` is known to work."""
    while low < high:
        middle = (low + high) // 2
        if works(middle):
            high = middle
        else:
            low = middle + 1
    return high


def smallest_set(items: Sequence[T], works: Callable[[Sequence[T]], bool], rounds: int) -> list[T] | None:
    """A minimal set, preferring earlier items: no item in it can be removed. None if not even all items work.

    The shortest prefix that works ends with a needed item. That item is kept, and the items needed before it are found
    in the same way, until the kept ones are enough. Each round finds one item; after `rounds` of them the smallest set
    found so far is returned, although a smaller one may work.
    """
    kept: list[T] = []
    enough = _working_prefix(items, works)
    if enough is None:
        return None
    while len(kept) < rounds and not works(kept):
        rest = enough[len(kept) :]
        if not rest:
            return enough
        needed = _shortest_prefix(kept, rest, works)
        enough = [*kept, rest[needed - 1], *rest[: needed - 1]]
        kept.append(rest[needed - 1])
    return kept if len(kept) < rounds or works(kept) else enough


def _working_prefix(items: Sequence[T], works: Callable[[Sequence[T]], bool]) -> list[T] | None:
    """A prefix that works and is at most four times as long as needed: trials of long prefixes are slow."""
    size = 4
    while size < len(items):
        if works(items[:size]):
            return list(items[:size])
        size *= 4
    return list(items) if items and works(items) else None


def _shortest_prefix(kept: list[T], rest: list[T], works: Callable[[Sequence[T]], bool]) -> int:
    """The shortest prefix of `rest` that works together with the kept items; all of `rest` is known to."""
    return _least(1, len(rest), lambda count: works([*kept, *rest[:count]]))
