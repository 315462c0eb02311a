"""A recording of what a scheduler was told and decided, so that any cycle can be decided again, bit for bit.

A recording is lines of JSON: everything that the state was told, in order, and for each cycle a line with its number,
its time and the digest of its plan. It is made by a listener, so any world can be recorded; where the lines go and
come from is the caller's business.

    {"schedulerNames": ["fairway"]}          at the beginning, where not every pod is scheduled
    {"upsert": "Pod", "object": {...}}       {"delete": "Pod", "object": {...}}
    {"cycle": 17, "now": "2026-01-01T00:00:05Z", "plan": "<sha256>"}      with "reasons": false where it had none
"""

from __future__ import annotations

import hashlib
from collections.abc import Callable, Iterable, Sequence
from typing import Any, NamedTuple, cast

import msgspec

from fairway.api.kinds import KINDS, ApiObject
from fairway.clock import Micros, format_rfc3339, parse_rfc3339
from fairway.drive.change import Change
from fairway.drive.loop import Cycle
from fairway.errors import InputError
from fairway.scheduler.plan import Plan
from fairway.state.cluster import ClusterState, Deleted, Event, Upserted

_NAMES = {kind.struct: kind.name for kind in KINDS}
_STRUCTS = {kind.name: kind.struct for kind in KINDS}


def plan_text(plan: Plan) -> bytes:
    """The plan as bytes: equal plans have equal bytes."""
    return msgspec.json.encode(plan.document())


def digest(plan: Plan, *, reasons: bool = True) -> str:
    """Of all that a plan says; without `reasons` of what it does, for one that was decided without them."""
    if reasons:
        return hashlib.sha256(plan_text(plan)).hexdigest()
    done = (plan.bindings, plan.evictions, plan.reservations, plan.nominations, plan.released, plan.overruns)
    return hashlib.sha256(msgspec.json.encode((*done, plan.recheck_at))).hexdigest()


class Recorder:
    """A listener that writes a recording. Reasons are part of a plan: a cycle without them says so."""

    def __init__(self, write: Callable[[bytes], object], scheduler_names: Iterable[str] | None = None) -> None:
        self._write = write
        if scheduler_names is not None:
            self._line({"schedulerNames": sorted(scheduler_names)})

    def applied(self, events: Sequence[Event]) -> None:
        for event in events:
            match event:
                case Upserted(thing):
                    self._line({"upsert": _NAMES[type(thing)], "object": thing})
                case Deleted(thing):
                    self._line({"delete": _NAMES[type(thing)], "object": thing})

    def decided(self, cycle: Cycle) -> None:
        found = digest(cycle.plan, reasons=cycle.has_reasons)
        line = {"cycle": cycle.number, "now": format_rfc3339(cycle.now), "plan": found}
        self._line(line if cycle.has_reasons else line | {"reasons": False})

    def refused(self, change: Change, why: str) -> None:
        """What became of a change shows in the objects."""

    def _line(self, line: dict[str, Any]) -> None:
        self._write(msgspec.json.encode(line) + b"\n")


class RecordedCycle(NamedTuple):
    """A cycle as it was recorded, with the state that it saw."""

    number: int
    now: Micros
    digest: str
    state: ClusterState
    has_reasons: bool = True


def read_cycle(lines: Iterable[str], number: int, source: str) -> RecordedCycle:
    """The inputs of one cycle of a recording; `source` names it in errors."""
    state, first, last = ClusterState(), -1, -1
    for count, text in enumerate(lines, 1):
        place = f"{source}:{count}"
        line = _decoded(place, text)
        if "schedulerNames" in line and count == 1:
            state = ClusterState(_names(place, line["schedulerNames"]))
            continue
        if "cycle" not in line:
            state.apply(_event(place, line))
            continue
        try:
            last, now, found = int(line["cycle"]), parse_rfc3339(line["now"]), str(line["plan"])
        except (KeyError, TypeError, ValueError, InputError) as error:
            raise InputError(f"{place}: not a cycle of a recording: {error}") from None
        if last == number:
            return RecordedCycle(last, now, found, state, line.get("reasons", True) is not False)
        first = last if first < 0 else first
    cycles = f"its cycles are {first} to {last}" if last >= 0 else "it has no cycle"
    raise InputError(f"{source}: there is no cycle {number}, {cycles}")


def _names(place: str, names: Any) -> list[str]:
    try:
        return msgspec.convert(names, list[str])
    except msgspec.ValidationError as error:
        raise InputError(f"{place}: not a line of a recording: {error}") from None


def _decoded(place: str, text: str) -> dict[str, Any]:
    try:
        return msgspec.json.decode(text, type=dict[str, Any])
    except (msgspec.DecodeError, RecursionError) as error:
        raise InputError(f"{place}: not a line of a recording: {error}") from None


def _event(place: str, line: dict[str, Any]) -> Event:
    try:
        if "upsert" in line:
            return Upserted(_object(line["upsert"], line["object"]))
        return Deleted(_object(line["delete"], line["object"]))
    except (KeyError, TypeError, msgspec.ValidationError) as error:
        raise InputError(f"{place}: not a line of a recording: {error}") from None


def _object(kind: str, data: Any) -> ApiObject:
    return cast(ApiObject, msgspec.convert(data, _STRUCTS[kind]))
