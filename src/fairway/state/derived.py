"""What is kept between cycles: one mechanism for all of it.

A cycle must cost what has changed, not what there is. So values that follow from the state (what is free on each node,
sums of queues, columns of scores, what fits nowhere) are kept from cycle to cycle and brought up to date by what was
logged since. Each of them is a `DerivedValue`, declared where it is defined:

    class Overtakers(
        DerivedValue,
        name="overtakers",
        holds="jobs with pods on nodes, by priority",
        inputs=("jobs",),
        saves="a look at all running jobs for each job that may starve",
    ): ...

and the state hands it out: `state.derived.get(Overtakers)`. Nothing else is kept: a test compares the whole state
before and after a cycle. `docs/architecture.md` has the table of all declarations, and a test holds it to them.

A value rests on *generations*, which it is rebuilt for when they differ, and on *logs*, whose new entries it takes in:

    never built, or another basis, or a log that no longer reaches back  ->  rebuild()
    new entries in a log                                                 ->  update(entries of each log)
    otherwise                                                            ->  nothing

`check` holds a value against one that is made from nothing. `FAIRWAY_DERIVED` leaves values out: each cycle then makes
them anew, which is slow, gives the same plans, and is what they are defined by.

    FAIRWAY_DERIVED=off                    keep nothing
    FAIRWAY_DERIVED=-columns,-quiet-plan   keep all but these
    FAIRWAY_DERIVED=snapshot,columns       keep only these
"""

from __future__ import annotations

import os
from collections.abc import Iterator
from contextlib import contextmanager
from typing import Any, ClassVar, NamedTuple, Protocol, TypeVar

from fairway.errors import InputError, InvariantError

VARIABLE = "FAIRWAY_DERIVED"

Generations = tuple[object, ...]


class ChangeLog(Protocol):
    """What a value reads on in: see `fairway.state.log`."""

    @property
    def end(self) -> int: ...

    def since(self, position: int, /) -> Any: ...


def same(what: str, kept: Any, recomputed: Any) -> None:
    """The one comparison: what fails it is named."""
    if kept != recomputed:
        raise InvariantError(f"{what}: kept {kept!r}, recomputed {recomputed!r}")


class Declaration(NamedTuple):
    """What a reader has to know of a value."""

    name: str
    holds: str
    inputs: tuple[str, ...]
    """What makes it stale: tables of the state, other values by name, arguments of a cycle."""
    saves: str
    """What a cycle would have to do without it; how long that takes is measured by `python -m benchmarks.derived`."""


REGISTRY: dict[str, Declaration] = {}
"""All that may be kept, by name; complete once `fairway.scheduler.decide` is imported."""


def _declare(declaration: Declaration) -> Declaration:
    assert declaration.name not in REGISTRY, declaration.name
    REGISTRY[declaration.name] = declaration
    return declaration


def shortcut(name: str, *, holds: str, inputs: tuple[str, ...], saves: str) -> str:
    """Declare a way around work that keeps nothing itself; it is not taken if `state.derived.off` has its name."""
    return _declare(Declaration(name, holds, inputs, saves)).name


class DerivedValue:
    """See the module. A subclass gives its logs to `__init__`, and says in `generations` what else it rests on."""

    declared: ClassVar[Declaration]

    def __init_subclass__(cls, *, name: str, holds: str, inputs: tuple[str, ...], saves: str, **more: object) -> None:
        super().__init_subclass__(**more)
        cls.declared = _declare(Declaration(name, holds, inputs, saves))

    def __init__(self, *logs: ChangeLog) -> None:
        self._logs = logs
        self._read: list[int] | None = None
        """How far each log was read; None before the first time."""
        self._built_for: Generations = ()

    @classmethod
    def make(cls, state: Any) -> DerivedValue:
        """A new one for a state, not up to date yet."""
        return cls()

    def generations(self) -> Generations:
        """What it rests on as a whole: numbers that rise when a table changes, a policy, a size."""
        return ()

    def sync(self) -> None:
        """Bring it up to date. Written out: every cycle comes by here several times, mostly for nothing."""
        generations, read, logs = self.generations(), self._read, self._logs
        if read is None or generations != self._built_for:
            ends = [log.end for log in logs]
            self.rebuild()
            self._built_for, self._read = generations, ends
            return
        for log, position in zip(logs, read):  # noqa: B905  (they are of one length)
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
        """What each log has got since it was read; None if that cannot be said any more."""
        if self._read is None:
            return None
        found = []
        for log, position in zip(self._logs, self._read, strict=True):
            entries = log.since(position)
            if entries is None:
                return None
            found.append(entries)
        return found

    def stale(self) -> None:
        """Whatever it holds is not to be used: the next `sync` rebuilds it."""
        self._read = None

    def rebuild(self) -> None:
        """Make it from nothing."""
        raise NotImplementedError

    def update(self, *changes: Any) -> None:
        """Take in the new entries of each log; by default all is made again."""
        self.rebuild()

    def retire(self) -> None:
        """It is not kept: take back what it has written elsewhere."""

    def check(self) -> None:
        """Raise InvariantError where it differs from one that is made from nothing. A value that only the cycle which
        made it can make again is checked by that: see `paranoid.check_plan`.
        """


V = TypeVar("V", bound=DerivedValue)


class Derived:
    """The values of one state."""

    def __init__(self, state: Any) -> None:
        self._state = state
        self._setting = os.environ.get(VARIABLE, "")
        self.off: frozenset[str] = frozenset()
        """Names of what is not kept or taken, as of the beginning of the cycle."""
        self._kept: dict[type[DerivedValue], DerivedValue] = {}

    def get(self, kind: type[V]) -> V:
        """The value of a class, made now if there is none. It is not brought up to date by that."""
        found = self._kept.get(kind)
        if found is None:
            found = self._kept[kind] = kind.make(self._state)
        return found  # type: ignore[return-value]  # by the class that it is kept under

    def kept(self, kind: type[V]) -> V | None:
        """The value of a class, if there is one."""
        found = self._kept.get(kind)
        return found if isinstance(found, kind) else None

    def values(self) -> list[DerivedValue]:
        return list(self._kept.values())

    def begin(self) -> None:
        """A cycle begins: what is not to be kept is made again in it."""
        if self._setting:
            self.off, self._setting = switched_off(self._setting), ""
        if self.off:
            for kind in [kind for kind in self._kept if kind.declared.name in self.off]:
                self._kept.pop(kind).retire()

    def forget(self) -> None:
        """What is asked for from now on is made again."""
        self._kept.clear()

    def switch(self, setting: str) -> None:
        """From now on as `FAIRWAY_DERIVED` would from the beginning."""
        self.off = switched_off(setting)

    @contextmanager
    def aside(self) -> Iterator[None]:
        """Inside, nothing is kept and no shortcut taken; afterwards all is as before."""
        kept, off, self._kept, self.off = self._kept, self.off, {}, frozenset(REGISTRY)
        try:
            yield
        finally:
            self._kept, self.off = kept, off


def switched_off(setting: str) -> frozenset[str]:
    """The names that a setting leaves out, and all that rests on them."""
    words = [word.strip() for word in setting.split(",") if word.strip()]
    off: set[str] = set()
    only = {word for word in words if not word.startswith("-") and word != "off"}
    if only or "off" in words:
        off = set(REGISTRY) - only
    off |= {word[1:] for word in words if word.startswith("-")}
    unknown = sorted((only | off) - REGISTRY.keys())
    if unknown:
        raise InputError(f"{VARIABLE}: {unknown[0]!r} is none of off, {', '.join(sorted(REGISTRY))}")
    while more := {name for name, one in REGISTRY.items() if name not in off and not off.isdisjoint(one.inputs)}:
        off |= more  # its logs are read from a value that begins again
    return frozenset(off)
