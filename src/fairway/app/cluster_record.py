"""A cluster as files: what decisions are made from, and nothing else.

    objects/pods.json ...   one list for each kind: `plan`, `explain`, `sandbox` and scenarios take the folder
    cycle/                  one decided cycle: `replay` decides it again, as it was or under another policy

Only the fields that rules read are written. Annotations are free text that may hold anything, so only those of APIs
that scheduling knows are kept. Secrets, environment variables, commands and images are not even read.
"""

from __future__ import annotations

from collections.abc import Iterable, Sequence
from pathlib import Path

import msgspec

from fairway.api.kinds import ApiObject
from fairway.api.policy import Policy
from fairway.app.recordings import recording_to
from fairway.app.records import without_free_text, written
from fairway.clock import Micros
from fairway.drive import Cycle
from fairway.scheduler.decide import OpenCycle
from fairway.sim.report import OutputFiles
from fairway.state.cluster import ClusterState, Upserted
from fairway.state.reader import arrival_order

OBJECTS, CYCLE = "objects", "cycle"


def record_cluster(
    folder: Path, objects: Iterable[ApiObject], policy: Policy, now: Micros, scheduler_names: Sequence[str] | None
) -> dict[str, int]:
    """Write both folders; how many objects there are of each kind."""
    things = [without_free_text(thing) for thing in arrival_order(list(objects))]
    by_kind: dict[str, list[msgspec.Raw]] = {}
    for thing in things:
        by_kind.setdefault(type(thing).__name__, []).append(written(thing))
    (folder / OBJECTS).mkdir(parents=True, exist_ok=True)
    with OutputFiles(folder / OBJECTS) as files:
        for kind, raw in sorted(by_kind.items()):
            files.write(f"{kind.lower()}.json", _list_text(raw))
    _record_cycle(folder / CYCLE, things, policy, now, scheduler_names)
    return {kind: len(raw) for kind, raw in sorted(by_kind.items())}


def _list_text(items: list[msgspec.Raw]) -> bytes:
    """A line for each object, so that two recordings can be compared by any tool."""
    return b'{"apiVersion": "v1", "kind": "List", "items": [\n' + b",\n".join(map(bytes, items)) + b"\n]}\n"


def _record_cycle(
    folder: Path, things: Sequence[ApiObject], policy: Policy, now: Micros, scheduler_names: Sequence[str] | None
) -> None:
    state = ClusterState(scheduler_names)
    events = [Upserted(thing) for thing in things]
    for event in events:
        state.apply(event)
    with recording_to(folder, policy, scheduler_names) as recorder, OpenCycle(state, policy, now) as opened:
        recorder.applied(events)
        recorder.decided(Cycle(0, now, opened.plan, (), 0, opened))
