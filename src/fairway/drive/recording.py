"""Recordings of a scheduler's inputs and decisions, from which any cycle can be decided again, bit for bit.

A recording is lines of JSON: every event of the state, in order, and for each cycle a line with its number, its time
and the digest of its plan. A listener writes it, so any world can be recorded; where the lines go and come from is the
caller's business.

    {"schedulerNames": ["fairway"]}          first, unless every pod is scheduled
    {"upsert": "Pod", "object": {...}}       {"delete": "Pod", "object": {...}}
    {"cycle": 17, "now": "2026-01-01T00:00:05Z", "plan": "<sha256>"}      with "reasons": false if it had none
"""

from __future__ import annotations

import hashlib
from collections.abc import Callable, Iterable, Iterator, Sequence
from typing import Any, NamedTuple, cast

import msgspec

from fairway.api.kinds import KINDS, ApiObject
from fairway.clock import Micros, format_rfc3339, parse_rfc3339
from fairway.drive.change import Change
from fairway.drive.scheduler_loop import Cycle
from fairway.errors import InputError
from fairway.scheduler.plan import ExplainedPlan, Plan
from fairway.state.cluster import ClusterState, Deleted, Event, Upserted

_NAMES = {kind.struct: kind.name for kind in KINDS}
_STRUCTS = {kind.name: kind.struct for kind in KINDS}


def plan_text(plan: ExplainedPlan) -> bytes:
    """The plan as bytes; equal plans have equal bytes."""
    return msgspec.json.encode(plan.document())


def plan_digest(plan: Plan) -> str:
    """Digest of a whole plan: of what it does and, if it was explained, of its reasons."""
    if isinstance(plan, ExplainedPlan):
        return hashlib.sha256(plan_text(plan)).hexdigest()
    done = (plan.bindings, plan.evictions, plan.reservations, plan.nominations, plan.released, plan.overruns)
    return hashlib.sha256(msgspec.json.encode((*done, plan.recheck_at))).hexdigest()


class Recorder:
    """A listener that writes a recording. Reasons are part of a plan: a cycle without them is marked."""

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
        plan = cycle.explain() or cycle.plan
        line = {"cycle": cycle.number, "now": format_rfc3339(cycle.now), "plan": plan_digest(plan)}
        self._line(line if cycle.has_reasons else line | {"reasons": False})

    def refused(self, change: Change, why: str) -> None:
        """The outcome of a change shows in the objects."""

    def _line(self, line: dict[str, Any]) -> None:
        self._write(msgspec.json.encode(line) + b"\n")


class RecordedCycle(NamedTuple):
    """A recorded cycle with the state that it was decided on."""

    number: int
    now: Micros
    digest: str
    state: ClusterState
    has_reasons: bool = True


class RecordedStep(NamedTuple):
    """A recorded cycle with the events before it."""

    number: int
    now: Micros
    digest: str
    has_reasons: bool
    events: list[Event]


class RecordedLines:
    """The lines of a recording, read one by one; `source` names it in errors."""

    def __init__(self, lines: Iterable[str], source: str) -> None:
        self._source = source
        self._lines = enumerate(lines, 1)
        self._first: tuple[int, dict[str, Any]] | None = None
        self.scheduler_names: list[str] | None = None
        self.rest: list[Event] = []
        """The events after the last cycle, once all cycles are read."""
        for count, text in self._lines:
            line = _decoded(f"{source}:{count}", text)
            if "schedulerNames" in line:
                self.scheduler_names = _names(f"{source}:{count}", line["schedulerNames"])
            else:
                self._first = count, line
            break

    def cycles(self) -> Iterator[RecordedStep]:
        events: list[Event] = []
        for place, line in self._rest():
            if "cycle" not in line:
                events.append(_event(place, line))
                continue
            try:
                number, now, plan = int(line["cycle"]), parse_rfc3339(line["now"]), str(line["plan"])
            except (KeyError, TypeError, ValueError, InputError) as error:
                raise InputError(f"{place}: not a cycle of a recording: {error}") from None
            yield RecordedStep(number, now, plan, line.get("reasons", True) is not False, events)
            events = []
        self.rest = events

    def _rest(self) -> Iterator[tuple[str, dict[str, Any]]]:
        if self._first is not None:
            yield f"{self._source}:{self._first[0]}", self._first[1]
        for count, text in self._lines:
            place = f"{self._source}:{count}"
            yield place, _decoded(place, text)


def read_cycle(lines: Iterable[str], number: int, source: str) -> RecordedCycle:
    """The inputs of one cycle of a recording; `source` names it in errors."""
    recorded = RecordedLines(lines, source)
    state, first, last = ClusterState(recorded.scheduler_names), -1, -1
    for step in recorded.cycles():
        for event in step.events:
            state.apply(event)
        last = step.number
        if last == number:
            return RecordedCycle(last, step.now, step.digest, state, step.has_reasons)
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
