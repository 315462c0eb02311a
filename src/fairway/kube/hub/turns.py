"""`FairTurns`: which affected placements are decided now, so that no namespace waits long for those of another.

All placements of a hub are decided on one thread and written over a few connections. As long as no namespace has more
than a turn of affected placements, all are decided at once, in their order. Beyond that, the rest of such a namespace
waits until some of its decisions are written. Expressions (CEL) are evaluated for a number of steps in each cycle,
shared by the namespaces that wait for them: a placement is decided once all of its own are evaluated.
"""

from __future__ import annotations

from collections import Counter
from collections.abc import Iterable, Iterator
from typing import Protocol

from fairway.clock import Micros
from fairway.fleet.rules import Key

TURN = 256
"""Maximum number of placements of one namespace that are decided and not written yet."""
STEPS = 100_000
"""Steps of expressions in one cycle: some tenths of a second on a slow machine."""
MAX_WAITING = 16
"""Maximum number of placements of one namespace whose expressions are evaluated in one cycle."""


class AffectedPlacements(Protocol):
    """The part of a fleet's state that is read here."""

    def is_active(self, key: Key) -> bool: ...

    def is_overtaken(self, key: Key) -> bool: ...

    def is_answered(self, key: Key) -> bool: ...

    def answer(self, key: Key, most: int) -> int: ...

    def stands(self, key: Key, now: Micros) -> bool: ...


class FairTurns:
    """Picks placements in turn, by namespace."""

    def __init__(self, turn: int = TURN, steps: int = STEPS) -> None:
        self._turn = turn
        self._steps = steps
        self._under_way: Counter[str] = Counter()
        self._last_namespace = ""
        """The namespace whose expressions were evaluated last, and in each that still waits, the last placement."""
        self._last: dict[str, Key] = {}
        self.waiting = 0
        """Placements that waited for expressions in the last cycle; there may be more."""
        self._cut: Key | None = None
        """The first placement that the last cycle did not reach."""

    @property
    def is_halfway(self) -> bool:
        """Whether the next cycle should follow at once."""
        return self.waiting > 0 or self._cut is not None

    def cut(self, key: Key) -> None:
        """The cycle took too long and did not reach this placement: the next one begins with its namespace."""
        self._cut = key

    def leaves(self, key: Key) -> None:
        """A decision is being written."""
        self._under_way[key[0]] += 1

    def ended(self, key: Key) -> None:
        self._under_way[key[0]] -= 1
        if self._under_way[key[0]] <= 0:
            del self._under_way[key[0]]

    def pick(self, state: AffectedPlacements, affected: Iterable[Key], now: Micros) -> list[Key]:
        """The placements in the order of deciding. After a cycle that was cut short it begins where that one ended."""
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
            if len(keys) > room:  # those that others' decisions affect would be decided again after each turn
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
        """Placements that can be decided, and those with expressions left to evaluate."""
        ready: list[Key] = []
        waits: list[Key] = []
        for key in self._in_turn(keys):
            if len(ready) >= room:
                break
            if state.is_answered(key):
                ready += [] if state.stands(key, now) else [key]
            elif len(waits) < MAX_WAITING:
                waits.append(key)
        return ready, waits

    def _in_turn(self, keys: list[Key]) -> Iterator[Key]:
        """Starting behind the placement at which the last cycle stopped."""
        last = self._last.get(keys[0][0])
        if last is None:
            return iter(keys)
        return iter([key for key in keys if key > last] + [key for key in keys if key <= last])

    def _evaluate(self, state: AffectedPlacements, waiting: dict[str, list[Key]], now: Micros) -> Iterator[Key]:
        """Each namespace has an equal share of the steps, and leaves what it does not use to the next. Yields
        placements that can be decided.
        """
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
