"""What a driver offers the loop (`World`, `Timer`), and what it reports to (`Sink`).

Everything here is called on one thread, the loop's. A world that has threads of its own hands over what they saw by
`Timer.call_at`, or in batches between cycles.
"""

from __future__ import annotations

from collections.abc import Callable, Iterable, Sequence
from typing import Protocol

from fairway.api.kinds import ApiObject, ObjectKey
from fairway.clock import Micros
from fairway.drive.change import Change


class EventSink(Protocol):
    """Where a world reports what happens in it. Reports about one object come in the order in which things happened;
    a report that comes twice, or late, does no harm.
    """

    def seen(self, thing: ApiObject) -> None:
        """An object was added or modified, or is simply there."""

    def gone(self, thing: ApiObject) -> None:
        """An object was deleted; `thing` is its last version."""

    def settled(self, change: Change, version: str = "") -> None:
        """A change was accepted. What it made of the object is reported by `seen` as well, now or later, unless another
        change came after it: `version` is the one that the object got, where that is known.
        """

    def refused(self, change: Change, why: str) -> None:
        """A change was not made and will not be: decide again without it."""


class Sink(EventSink, Protocol):
    """Where a world reports that may miss what happens, and then lists all there is."""

    def listed(self, kind: str, things: Iterable[ApiObject], version: str = "") -> None:
        """All objects of a kind: what is known of that kind and not among them is gone. `version` is the list's."""


class World(Protocol):
    """Where changes are carried out."""

    def carry_out(self, changes: Sequence[Change]) -> None:
        """Begin to carry out changes, in this order. Returns without waiting for an answer; each change is later
        settled or refused, or its effect is seen, or its object is gone.
        """


class Handle(Protocol):
    """A call that was planned."""

    def cancel(self) -> None: ...


class Timer(Protocol):
    """Time as the loop sees it: virtual, scaled or real."""

    def now(self) -> Micros: ...

    def call_at(self, when: Micros, call: Callable[[], None]) -> Handle:
        """Have `call` happen on the loop's thread at a time; one that has passed means as soon as possible, and
        never before `call_at` has returned.
        """


def title(key: ObjectKey) -> str:
    """An object as messages name it."""
    kind, namespace, name = key
    return f"{kind} {namespace}/{name}" if namespace else f"{kind} {name}"
