"""Logs the inputs of every cycle, so that any of them can be decided again, bit for bit.

A folder with `policy.json` and `events.jsonl.gz`: everything that was fed to the state, in order, and for each cycle
a line with its number, its time and the digest of its plan:

    {"upsert": "Pod", "object": {...}}       {"delete": "Pod", "object": {...}}
    {"assumed": "ns/p", "node": "n1"}        {"confirmed": "ns/p"}        {"forgotten": "ns/p"}
    {"cycle": 17, "now": "2026-01-01T00:00:05Z", "plan": "<sha256>"}
"""

from __future__ import annotations

import gzip
import hashlib
from collections.abc import Iterator
from pathlib import Path
from types import TracebackType
from typing import Any, cast

import msgspec

from fairway.api.catalog import Catalog
from fairway.api.kinds import KINDS, ApiObject
from fairway.api.policy import Policy, parse_policy
from fairway.clock import Micros, format_rfc3339, parse_rfc3339
from fairway.errors import InputError
from fairway.scheduler.plan import Plan
from fairway.sim.policies import policy_text
from fairway.sim.traces.text import read_lines
from fairway.state.cluster import ClusterState
from fairway.state.events import Assumed, Confirmed, Deleted, Event, Forgotten, Upserted

EVENTS = "events.jsonl.gz"
POLICY = "policy.json"
_NAMES = {kind.struct: kind.name for kind in KINDS}
_STRUCTS = {kind.name: kind.struct for kind in KINDS}


def plan_text(plan: Plan) -> bytes:
    """The plan as bytes: equal plans have equal bytes."""
    return msgspec.json.encode(plan.document())


class CycleLog:
    """The log of a run, written as it goes."""

    def __init__(self, folder: Path, policy: Policy) -> None:
        folder.mkdir(parents=True, exist_ok=True)
        (folder / POLICY).write_text(policy_text(policy))
        # Without a time in the header the same run gives the same bytes.
        self._file = gzip.GzipFile(folder / EVENTS, "wb", mtime=0)

    def event(self, event: Event) -> None:
        match event:
            case Upserted(thing):
                self._write({"upsert": _NAMES[type(thing)], "object": thing})
            case Deleted(thing):
                self._write({"delete": _NAMES[type(thing)], "object": thing})
            case Assumed(pod, node, record):
                self._write({"assumed": pod, "node": node, **({"record": dict(record)} if record else {})})
            case Confirmed(pod):
                self._write({"confirmed": pod})
            case Forgotten(pod):
                self._write({"forgotten": pod})

    def cycle(self, number: int, now: Micros, plan: Plan) -> None:
        digest = hashlib.sha256(plan_text(plan)).hexdigest()
        self._write({"cycle": number, "now": format_rfc3339(now), "plan": digest})

    def _write(self, line: dict[str, Any]) -> None:
        self._file.write(msgspec.json.encode(line) + b"\n")

    def __enter__(self) -> CycleLog:
        return self

    def __exit__(
        self, kind: type[BaseException] | None, error: BaseException | None, trace: TracebackType | None
    ) -> None:
        self._file.close()


class LoggedState(ClusterState):
    """A state that tells a log of everything it is fed."""

    def __init__(self, log: CycleLog) -> None:
        super().__init__()
        self._log = log

    def apply(self, event: Event) -> None:
        self._log.event(event)
        super().apply(event)


class Logged(msgspec.Struct, frozen=True):
    """A cycle as it was logged, with the state that it saw."""

    number: int
    now: Micros
    digest: str
    state: ClusterState


def read_cycle(folder: Path, number: int) -> Logged:
    """The inputs of one cycle of a log."""
    state, last = ClusterState(), -1
    for place, line in _lines(folder / EVENTS):
        if "cycle" in line:
            last = int(line["cycle"])
            if last == number:
                return Logged(last, parse_rfc3339(line["now"]), line["plan"], state)
        else:
            state.apply(_event(place, line))
    cycles = f"its cycles are 0 to {last}" if last >= 0 else "it has no cycle"
    raise InputError(f"{folder}: there is no cycle {number}, {cycles}")


def read_logged_policy(folder: Path, catalog: Catalog) -> Policy:
    path = folder / POLICY
    try:
        return parse_policy(path.read_text(), str(path), catalog)
    except OSError as error:
        raise InputError(f"{path}: cannot be read: {error.strerror}") from None


def _lines(path: Path) -> Iterator[tuple[str, dict[str, Any]]]:
    for number, text in enumerate(read_lines(path), 1):
        place = f"{path}:{number}"
        try:
            yield place, msgspec.json.decode(text, type=dict[str, Any])
        except msgspec.DecodeError as error:
            raise InputError(f"{place}: not a line of a log: {error}") from None


def _event(place: str, line: dict[str, Any]) -> Event:
    try:
        if "upsert" in line:
            return Upserted(_object(line["upsert"], line["object"]))
        if "delete" in line:
            return Deleted(_object(line["delete"], line["object"]))
        if "assumed" in line:
            return Assumed(line["assumed"], line["node"], tuple(line.get("record", {}).items()))
        if "confirmed" in line:
            return Confirmed(line["confirmed"])
        return Forgotten(line["forgotten"])
    except (KeyError, msgspec.ValidationError) as error:
        raise InputError(f"{place}: not a line of a log: {error}") from None


def _object(kind: str, data: Any) -> ApiObject:
    return cast(ApiObject, msgspec.convert(data, _STRUCTS[kind]))
