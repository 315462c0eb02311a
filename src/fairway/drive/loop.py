"""`DriverLoop`: what every driver's loop has in common: read events, decide, carry out, again.

A driver is the scheduler of one cluster (`scheduler_loop`) or the placer of a hub (`kube.hub`). Its loop is the sink
that a world reports to; reports go to the object store, and wake the loop if they change anything. A cycle takes the
changes into the state, decides if this replica leads, and plans the next cycle. The loop never reads a clock and never
waits: it runs when its `Timer` calls it, so that virtual time, the sandbox and an API server drive the same code.

Everything here is called on one thread, the loop's. A world that has threads of its own hands over what they saw by
`Timer.call_at`, or in batches between cycles.
"""

from __future__ import annotations

from abc import ABC, abstractmethod
from collections.abc import Callable, Iterable, Sequence
from typing import NamedTuple, Protocol

from fairway.api.kinds import ApiObject, ObjectKey
from fairway.clock import Micros
from fairway.drive.change import Change
from fairway.drive.store import ObjectStore
from fairway.state.events import Event


class EventSink(Protocol):
    """Where a world reports what happens in it. Reports about one object arrive in the order of events; a report that
    arrives twice, or late, does no harm.
    """

    def seen(self, thing: ApiObject) -> None:
        """An object was added or modified, or exists."""

    def gone(self, thing: ApiObject) -> None:
        """An object was deleted; `thing` is its last version."""

    def settled(self, change: Change, version: str = "") -> None:
        """A change was accepted. What it made of the object is reported by `seen` as well, now or later, unless another
        change came after it: `version` is the one that the object got, where that is known.
        """

    def refused(self, change: Change, why: str) -> None:
        """A change was not made and will not be: decide again without it."""


class Sink(EventSink, Protocol):
    """Where a world reports that may miss events, and then lists all objects."""

    def listed(self, kind: str, things: Iterable[ApiObject], version: str = "") -> None:
        """All objects of a kind: any other object of that kind is gone. `version` is the list's."""


class World(Protocol):
    """Where changes are carried out."""

    def carry_out(self, changes: Sequence[Change]) -> None:
        """Start to carry out changes, in this order. Returns without waiting for an answer; each change is later
        settled or refused, or its effect is seen, or its object is gone.
        """


class Handle(Protocol):
    """A planned call."""

    def cancel(self) -> None: ...


class Timer(Protocol):
    """Time as the loop sees it: virtual, scaled or real."""

    def now(self) -> Micros: ...

    def call_at(self, when: Micros, call: Callable[[], None]) -> Handle:
        """Have `call` run on the loop's thread at a time; a past time means as soon as possible, and never before
        `call_at` has returned.
        """


class _PlannedCycle(NamedTuple):
    at: Micros
    handle: Handle


class DriverLoop(ABC):
    """Reports go into `store`; cycles are planned with `timer`. A subclass applies events, decides, and says when."""

    def __init__(self, timer: Timer, *, leads: bool) -> None:
        self.store = ObjectStore()
        self._timer = timer
        self._leads = leads
        self._planned: _PlannedCycle | None = None
        self._is_woken = False
        """Whether an event has planned the next cycle: events after it would plan no earlier one."""

    # -- what a subclass does --------------------------------------------------------------------------------

    @abstractmethod
    def _earliest(self, now: Micros) -> Micros:
        """When a cycle may answer something that happens now."""

    @abstractmethod
    def _apply(self, events: Sequence[Event], matters: bool) -> None:
        """Take events into the state. `matters`: whether they can change a decision."""

    @abstractmethod
    def _decide(self, now: Micros) -> None:
        """Decide and carry out, if there is anything to decide. Called only while this replica leads."""

    @abstractmethod
    def _plan_next(self, now: Micros) -> None:
        """Plan what is known of the next cycle."""

    # -- the sink --------------------------------------------------------------------------------------------

    def seen(self, thing: ApiObject) -> None:
        self.store.seen(thing)
        self._wake_if_dirty()

    def gone(self, thing: ApiObject) -> None:
        self.store.gone(thing)
        self._wake_if_dirty()

    def listed(self, kind: str, things: Iterable[ApiObject], version: str = "") -> None:
        self.store.listed(kind, things, version)
        self._wake_if_dirty()

    # -- cycles ----------------------------------------------------------------------------------------------

    @property
    def next_cycle(self) -> Micros | None:
        """When the next cycle is planned; None if none is."""
        return None if self._planned is None else self._planned.at

    def cycle(self) -> None:
        """Catch up, decide if this replica leads, and plan the next cycle."""
        self._planned = None
        self._is_woken = False
        now = self._timer.now()
        self.catch_up()
        if self._leads:
            self._decide(now)
        self._plan_next(now)

    def catch_up(self) -> None:
        """Take everything that was reported into the state."""
        events, matters = self.store.drain()
        if events:
            self._apply(events, matters)

    def _wake_if_dirty(self) -> None:
        """A report that changes nothing (a heartbeat, a relist, the echo of our own write) wakes nothing."""
        if self.store.is_dirty and not self._is_woken:
            self._wake()

    def _wake(self) -> None:
        self._is_woken = True
        self._plan(self._earliest(self._timer.now()))

    def _plan(self, at: Micros) -> None:
        """Have a cycle at a time, or earlier if one is planned earlier."""
        if self._planned is not None:
            if self._planned.at <= at:
                return
            self._planned.handle.cancel()
        self._planned = _PlannedCycle(at, self._timer.call_at(at, self.cycle))

    def _plan_nothing(self) -> None:
        if self._planned is not None:
            self._planned.handle.cancel()
            self._planned = None
        self._is_woken = False


def title(key: ObjectKey) -> str:
    """An object as messages name it."""
    kind, namespace, name = key
    return f"{kind} {namespace}/{name}" if namespace else f"{kind} {name}"
