"""Everything kept between cycles, by one mechanism.

A cycle should cost what changed since the last one, not what the cluster holds. So values that follow from the state
(free capacity of each node, totals of queues, columns of scores, templates that fit nowhere) are kept from cycle to
cycle and updated from logs of changes. Each of them is a `DerivedValue`, declared where it is defined:

    class Overtakers(
        DerivedValue,
        name="overtakers",
        holds="jobs with pods on nodes, by priority",
        inputs=("jobs",),
        saves="a scan of all running jobs for each job that may starve",
    ): ...

and read through the state: `state.derived.get(Overtakers)`. Nothing else survives a cycle: a test compares the whole
state before and after one. `docs/architecture.md` has the table of all declarations, and a test compares it with them.

A value depends on *generations*, any change of which rebuilds it, and on *logs*, whose new entries update it:

    never built, or other generations, or a log that no longer reaches back  ->  rebuild()
    new entries in a log                                                     ->  update(entries of each log)
    otherwise                                                                ->  nothing

The bug to expect is a change that no log records: the value is then wrong and stays wrong. Three nets catch it. `check`
compares a value with one built from nothing; `scheduler.paranoid` decides each cycle a second time with nothing kept
and compares the plans; and properties do both on random clusters.

`FAIRWAY_DERIVED` switches values off. Each cycle then builds them from nothing, which is slow, yields the same plans,
and is their definition:

    FAIRWAY_DERIVED=off                    keep nothing
    FAIRWAY_DERIVED=-columns,-quiet-plan   keep all but these
    FAIRWAY_DERIVED=snapshot,columns       keep only these

There is one exception to "the same plans". Where namespaces have a scheduling budget, an expression that was evaluated
in an earlier cycle costs nothing in this one, so `selector-answers` and `reasons` decide how far a budget goes.

Logs only grow at the end, and each reader remembers how far it has read. So one log serves any number of values, and
writing to it costs the same however many there are.
"""

from __future__ import annotations

import os
from collections.abc import Collection, Iterator
from contextlib import contextmanager
from typing import Any, ClassVar, Generic, NamedTuple, Protocol, TypeVar

import numpy as np

from fairway.errors import InputError, InvariantError
from fairway.resources.columns import IntColumn

VARIABLE = "FAIRWAY_DERIVED"

Generations = tuple[object, ...]


class ChangeLog(Protocol):
    """A log that a value is updated from; `fairway.state.derived` has two of them."""

    @property
    def end(self) -> int: ...

    def since(self, position: int, /) -> Any: ...


def same(what: str, kept: Any, recomputed: Any) -> None:
    """Raise InvariantError, naming what differs, unless both are equal."""
    if kept != recomputed:
        raise InvariantError(f"{what}: kept {kept!r}, recomputed {recomputed!r}")


class Declaration(NamedTuple):
    """What a reader needs to know about a value; one row of the table in `docs/architecture.md`."""

    name: str
    holds: str
    inputs: tuple[str, ...]
    """What invalidates it: tables of the state, other values by name, arguments of a cycle."""
    saves: str
    """The work that a cycle does without it; `python -m benchmarks.derived` measures that."""


REGISTRY: dict[str, Declaration] = {}
"""All declarations, by name; complete once `fairway.scheduler.decide` is imported."""


def _declare(declaration: Declaration) -> Declaration:
    assert declaration.name not in REGISTRY, declaration.name
    REGISTRY[declaration.name] = declaration
    return declaration


def shortcut(name: str, *, holds: str, inputs: tuple[str, ...], saves: str) -> str:
    """Declare a fast path that keeps nothing itself. Its code skips it while `state.derived.off` contains its name."""
    return _declare(Declaration(name, holds, inputs, saves)).name


class DerivedValue:
    """A value built from the state. A subclass passes its logs to `__init__` and returns its other inputs from
    `generations`.
    """

    declared: ClassVar[Declaration]

    def __init_subclass__(cls, *, name: str, holds: str, inputs: tuple[str, ...], saves: str, **more: object) -> None:
        super().__init_subclass__(**more)
        cls.declared = _declare(Declaration(name, holds, inputs, saves))

    def __init__(self, *logs: ChangeLog) -> None:
        self._logs = logs
        self._read: list[int] | None = None
        """How far each log was read; None if it has to be rebuilt."""
        self._built_for: Generations = ()

    @classmethod
    def make(cls, state: Any) -> DerivedValue:
        """A new value for a state, not built yet."""
        return cls()

    def generations(self) -> Generations:
        """What it depends on as a whole: counters that rise when a table changes, a policy, a size."""
        return ()

    def sync(self) -> None:
        """Bring it up to date. Written out, without helpers: every cycle calls this several times, mostly with nothing
        to do.
        """
        generations, read, logs = self.generations(), self._read, self._logs
        if read is None or generations != self._built_for:
            ends = [log.end for log in logs]
            self.rebuild()
            self._built_for, self._read = generations, ends
            return
        for log, position in zip(logs, read):  # noqa: B905  (equal lengths by construction)
            if log.end != position:
                break
        else:
            return
        changes, ends = self.new_entries(), [log.end for log in logs]
        if changes is None:
            self.rebuild()
        else:
            self.update(*changes)
        self._read = ends

    def new_entries(self) -> list[Any] | None:
        """The entries of each log since it was read; None if a log no longer reaches back that far."""
        if self._read is None:
            return None
        changes = []
        for log, position in zip(self._logs, self._read, strict=True):
            entries = log.since(position)
            if entries is None:
                return None
            changes.append(entries)
        return changes

    def stale(self) -> None:
        """Have the next `sync` rebuild it."""
        self._read = None

    def rebuild(self) -> None:
        """Build it from nothing."""
        raise NotImplementedError

    def update(self, *changes: Any) -> None:
        """Apply the new entries of each log; by default it is rebuilt."""
        self.rebuild()

    def retire(self) -> None:
        """Undo what it wrote into tables of the state, before it is dropped."""

    def check(self) -> None:
        """Raise InvariantError where it differs from one built from nothing. A value that holds conclusions of a cycle
        rather than facts of the state can only be rebuilt by that cycle; `paranoid.check_plan` checks those.
        """


V = TypeVar("V", bound=DerivedValue)


class Derived:
    """The derived values of one state."""

    def __init__(self, state: Any) -> None:
        self._state = state
        self._setting = os.environ.get(VARIABLE, "")
        self.off: frozenset[str] = frozenset()
        """Names of values that are not kept, and of shortcuts that are not taken."""
        self._kept: dict[type[DerivedValue], DerivedValue] = {}
        self._forgotten = 0

    def get(self, kind: type[V]) -> V:
        """The value of a class, created if there is none; `sync` brings it up to date."""
        value = self._kept.get(kind)
        if value is None:
            value = self._kept[kind] = kind.make(self._state)
        return value  # type: ignore[return-value]  # values are filed under their own class

    def kept(self, kind: type[V]) -> V | None:
        """The value of a class, if there is one."""
        value = self._kept.get(kind)
        return value if isinstance(value, kind) else None

    def values(self) -> list[DerivedValue]:
        return list(self._kept.values())

    def begin(self) -> None:
        """Begin a cycle: drop the values that are switched off, so that this cycle builds them again."""
        if self._setting:
            # Read here rather than at creation: only now are all declarations imported that a name may refer to.
            self.off, self._setting = switched_off(self._setting), ""
        if self.off:
            for kind in [kind for kind in self._kept if kind.declared.name in self.off]:
                self._kept.pop(kind).retire()

    def forget(self) -> None:
        """Drop everything: rows or names of the state's tables were assigned anew."""
        self._kept.clear()
        self._forgotten += 1

    def switch(self, setting: str) -> None:
        """Apply a setting as if `FAIRWAY_DERIVED` had had it from the beginning."""
        self.off = switched_off(setting)

    @contextmanager
    def aside(self, *, but: Collection[str] = ()) -> Iterator[None]:
        """Inside, nothing is kept and no shortcut taken, except those named in `but`. Afterwards all is as before."""
        everything, off, forgotten = self._kept, self.off, self._forgotten
        self._kept = {kind: value for kind, value in everything.items() if kind.declared.name in but}
        self.off = frozenset(REGISTRY.keys() - {*but})
        try:
            yield
        finally:
            self._kept, self.off = everything if self._forgotten == forgotten else {}, off


def switched_off(setting: str) -> frozenset[str]:
    """The names that a setting switches off, and those of all values that depend on them."""
    words = [word.strip() for word in setting.split(",") if word.strip()]
    off: set[str] = set()
    only = {word for word in words if not word.startswith("-") and word != "off"}
    if only or "off" in words:
        off = set(REGISTRY) - only
    off |= {word[1:] for word in words if word.startswith("-")}
    unknown = sorted((only | off) - REGISTRY.keys())
    if unknown:
        raise InputError(f"{VARIABLE}: {unknown[0]!r} is none of off, {', '.join(sorted(REGISTRY))}")
    # A value that reads another one's log cannot outlive it: the log begins again with each new value.
    while dependent := {
        name for name, value in REGISTRY.items() if name not in off and not off.isdisjoint(value.inputs)
    }:
        off |= dependent
    return frozenset(off)


T = TypeVar("T")

_KEPT = 1 << 16


class Log(Generic[T]):
    """Entries at positions that never go back. Very old entries are dropped."""

    __slots__ = ("_entries", "_start", "end")

    def __init__(self) -> None:
        self.end = 0
        self._start = 0
        self._entries: list[T] = []

    def add(self, entry: T) -> None:
        self._entries.append(entry)
        self.end += 1
        if self.end - self._start > 2 * _KEPT:
            del self._entries[:_KEPT]
            self._start += _KEPT

    def keep_last(self, count: int) -> None:
        """Drop older entries once there are twice as many, so that dropping costs little per entry."""
        length = self.end - self._start
        if length > 2 * count:
            del self._entries[: length - count]
            self._start = self.end - count

    def since(self, position: int) -> list[T] | None:
        """The entries since a position; None if the log no longer reaches back that far."""
        if position < self._start:
            return None
        return self._entries[position - self._start :]


class RowLog:
    """A log of node rows in an array: the entries since a position are a slice of it, ready to index with."""

    __slots__ = ("_rows", "_start", "end")

    def __init__(self) -> None:
        self.end = 0
        self._start = 0
        self._rows = np.zeros(2 * _KEPT, dtype=np.int64)

    def add(self, row: int) -> None:
        at = self.end - self._start
        if at == len(self._rows):
            at = self._forget()
        self._rows[at] = row
        self.end += 1

    def add_everything(self) -> None:
        """Log all rows: no reader finds the position up to which it has read, so each reads everything again."""
        self.end += 1
        self._start = self.end

    def since(self, position: int) -> IntColumn | None:
        """As in `Log`. The slice does not change, whatever is logged later."""
        if position < self._start:
            return None
        return self._rows[position - self._start : self.end - self._start]

    def _forget(self) -> int:
        """Keep the younger half, in a new array: slices of the old one may still be in use."""
        rows = np.zeros(2 * _KEPT, dtype=np.int64)
        rows[:_KEPT] = self._rows[_KEPT:]
        self._rows = rows
        self._start += _KEPT
        return _KEPT
