"""Which of the affected placements are decided now, so that no namespace waits long for the placements of another.

All placements of a hub are decided on one thread and written over a few connections. As long as no namespace has more
than a turn's placements, all that are affected are decided at once, in their order. Beyond that the rest of such a
namespace waits until some of its decisions are written. Expressions (CEL) are evaluated for a number of steps in each
run, shared by the namespaces that wait for them: a placement is decided when all of its own are.
"""

from __future__ import annotations

from collections import Counter
from collections.abc import Iterable, Iterator
from typing import Protocol

from fairway.clock import Micros
from fairway.fleet.rules import Key

TURN = 256
"""Placements of one namespace that are decided and not written yet, at most."""
STEPS = 100_000
"""Steps of expressions in one run: some tenths of a second on a slow machine, before others are looked at."""
MOST_WAITING = 16
"""Placements of one namespace that are looked at in one run and find that expressions are left to evaluate."""


class AffectedPlacements(Protocol):
    """What a fleet's state says of them."""

    def is_active(self, key: Key) -> bool: ...

    def is_overtaken(self, key: Key) -> bool: ...

    def is_answered(self, key: Key) -> bool: ...

    def answer(self, key: Key, most: int) -> int: ...

    def stands(self, key: Key, now: Micros) -> bool: ...


class FairTurns:
    """See the module."""

    def __init__(self, turn: int = TURN, steps: int = STEPS) -> None:
        self._turn = turn
        self._steps = steps
        self._under_way: Counter[str] = Counter()
        self._last_namespace = ""
        """The last one whose expressions were evaluated, and the last placement of each that still waits."""
        self._last: dict[str, Key] = {}
        self.waiting = 0
        """Placements that were found to wait for expressions in the last run; there may be more."""
        self._cut: Key | None = None
        """The first that the last run did not come to."""

    @property
    def is_halfway(self) -> bool:
        """Whether there is more to do now."""
        return self.waiting > 0 or self._cut is not None

    def cut(self, key: Key) -> None:
        """The run took too long, and this one was not decided any more: the next run begins with its namespace."""
        self._cut = key

    def leaves(self, key: Key) -> None:
        """A decision is on its way to be written."""
        self._under_way[key[0]] += 1

    def ended(self, key: Key) -> None:
        self._under_way[key[0]] -= 1
        if self._under_way[key[0]] <= 0:
            del self._under_way[key[0]]

    def pick(self, state: AffectedPlacements, affected: Iterable[Key], now: Micros) -> list[Key]:
        """In the order of deciding; after a run that was cut it begins where that ended."""
        by_namespace: dict[str, list[Key]] = {}
        for key in affected:
            by_namespace.setdefault(key[0], []).append(key)
        picked: list[Key] = []
        waiting: dict[str, list[Key]] = {}
        for namespace, keys in by_namespace.items():
            room = self._turn - self._under_way[namespace]
            if room < min(len(keys), self._turn // 2):
                continue
            keys = sorted(filter(state.is_active, keys))
            if not keys:
                continue
            if len(keys) > room:  # what others' decisions affect would be decided once for each turn of them
                keys = [key for key in keys if not state.is_overtaken(key)] or keys
            ready, waits = self._split(state, keys, now, room)
            picked += ready
            if waits:
                waiting[namespace] = waits
        picked = sorted([*picked, *self._evaluate(state, waiting, now)])
        cut, self._cut = self._cut, None
        if cut is None:
            return picked
        return [key for key in picked if key >= cut] + [key for key in picked if key < cut]

    def _split(self, state: AffectedPlacements, keys: list[Key], now: Micros, room: int) -> tuple[list[Key], list[Key]]:
        """Those that can be decided, and those with expressions that are left to evaluate."""
        ready: list[Key] = []
        waits: list[Key] = []
        for key in self._in_turn(keys):
            if len(ready) >= room:
                break
            if state.is_answered(key):
                ready += [] if state.stands(key, now) else [key]
            elif len(waits) < MOST_WAITING:
                waits.append(key)
        return ready, waits

    def _in_turn(self, keys: list[Key]) -> Iterator[Key]:
        """From the one on after which the last run stopped."""
        last = self._last.get(keys[0][0])
        if last is None:
            return iter(keys)
        return iter([key for key in keys if key > last] + [key for key in keys if key <= last])

    def _evaluate(self, state: AffectedPlacements, waiting: dict[str, list[Key]], now: Micros) -> Iterator[Key]:
        """Each namespace has its share of the steps; what one leaves is for the next ones. Yields what is ready."""
        self.waiting = sum(len(keys) for keys in waiting.values())
        self._last = {namespace: key for namespace, key in self._last.items() if namespace in waiting}
        left = self._steps
        order = sorted(waiting)
        order = [name for name in order if name > self._last_namespace] + [
            name for name in order if name <= self._last_namespace
        ]
        for number, namespace in enumerate(order):
            if left <= 0:
                return
            share = max(left // (len(order) - number), 1)
            self._last_namespace = namespace
            for key in waiting[namespace]:
                spent = state.answer(key, share)
                share -= spent
                left -= spent
                if share <= 0:
                    self._last[namespace] = key
                    break
                self.waiting -= 1
                if not state.stands(key, now):
                    yield key
