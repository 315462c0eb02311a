"""Recordings on disk, which `fairway replay` and `fairway web` read.

A recording is a folder with `policy.json` and `events.jsonl.gz` (the lines of `drive.recording`). The recording of a
live scheduler is a folder of such folders, its *parts*, each named after its first cycle. Their lines are not
compressed, so that they can be read while they are written, and after a crash.

`record_cluster` saves a cluster as it is now, in two forms:

    objects/pods.json ...   one list per kind, for `plan`, `explain`, `sandbox` and scenarios
    cycle/                  a recording of one cycle, for `replay`, with the same or another policy

Only the fields that scheduling reads are written. Annotations are free text that may contain anything, so only those of
known APIs are kept. Secrets, environment variables, commands and images are not even read.
"""

from __future__ import annotations

import gzip
from collections.abc import Iterable, Iterator, Sequence
from contextlib import contextmanager
from pathlib import Path

import msgspec

from fairway.api.arguments import Catalog
from fairway.api.kinds import ApiObject
from fairway.api.policy import Policy, parse_policy
from fairway.app.records import without_free_text, written
from fairway.clock import Micros
from fairway.drive import Cycle, RecordedCycle, Recorder
from fairway.drive import read_cycle as read_recorded_cycle
from fairway.errors import InputError
from fairway.scheduler.decide import OpenCycle
from fairway.sim.policies import policy_text
from fairway.sim.report import OutputFiles
from fairway.sim.traces.trace_file import read_lines
from fairway.state.cluster import ClusterState, Upserted
from fairway.state.reader import arrival_order

EVENTS = "events.jsonl.gz"
OPEN_EVENTS = "events.jsonl"
POLICY = "policy.json"
OBJECTS, CYCLE = "objects", "cycle"


@contextmanager
def recording_to(folder: Path, policy: Policy, scheduler_names: Iterable[str] | None = None) -> Iterator[Recorder]:
    """A listener that records into a folder; the files appear when the context ends."""
    folder.mkdir(parents=True, exist_ok=True)
    with OutputFiles(folder) as files:
        files.write(POLICY, policy_text(policy).encode())
        # No time in the gzip header: the same run gives the same bytes.
        with gzip.GzipFile("", "wb", fileobj=files.create(EVENTS), mtime=0) as file:
            yield Recorder(file.write, scheduler_names)


def is_part(folder: Path) -> bool:
    """Whether a folder is a part of a live recording, by its name."""
    return len(folder.name) == 8 and folder.name.isascii() and folder.name.isdecimal()


def part_of(folder: Path, number: int) -> Path:
    """The folder that contains a cycle: a part of a live recording, or else the recording itself."""
    try:
        parts = sorted(filter(is_part, folder.iterdir()))
    except OSError:
        return folder
    if not parts:
        return folder
    early = [part for part in parts if int(part.name) <= number]
    if not early:
        raise InputError(f"{folder}: no cycle {number}; the first one is {int(parts[0].name)}")
    return early[-1]


def read_cycle(folder: Path, number: int) -> RecordedCycle:
    """The inputs of one cycle of a recording."""
    path = folder / EVENTS
    if not path.exists() and (folder / OPEN_EVENTS).exists():
        path = folder / OPEN_EVENTS
    return read_recorded_cycle(read_lines(path), number, str(path))


def read_recorded_policy(folder: Path, catalog: Catalog) -> Policy:
    path = folder / POLICY
    try:
        return parse_policy(path.read_text(), str(path), catalog)
    except OSError as error:
        raise InputError(f"{path}: cannot be read: {error.strerror}") from None


def record_cluster(
    folder: Path, objects: Iterable[ApiObject], policy: Policy, now: Micros, scheduler_names: Sequence[str] | None
) -> dict[str, int]:
    """Write both folders; returns the number of objects of each kind."""
    recorded = [without_free_text(each) for each in arrival_order(list(objects))]
    by_kind: dict[str, list[msgspec.Raw]] = {}
    for each in recorded:
        by_kind.setdefault(type(each).__name__, []).append(written(each))
    (folder / OBJECTS).mkdir(parents=True, exist_ok=True)
    with OutputFiles(folder / OBJECTS) as files:
        for kind, raw in sorted(by_kind.items()):
            files.write(f"{kind.lower()}.json", _list_text(raw))
    _record_cycle(folder / CYCLE, recorded, policy, now, scheduler_names)
    return {kind: len(raw) for kind, raw in sorted(by_kind.items())}


def _list_text(items: list[msgspec.Raw]) -> bytes:
    """A line for each object, so that two recordings can be compared by any tool."""
    return b'{"apiVersion": "v1", "kind": "List", "items": [\n' + b",\n".join(map(bytes, items)) + b"\n]}\n"


def _record_cycle(
    folder: Path, objects: Sequence[ApiObject], policy: Policy, now: Micros, scheduler_names: Sequence[str] | None
) -> None:
    state = ClusterState(scheduler_names)
    events = [Upserted(each) for each in objects]
    for event in events:
        state.apply(event)
    with recording_to(folder, policy, scheduler_names) as recorder, OpenCycle(state, policy, now) as opened:
        recorder.applied(events)
        recorder.decided(Cycle(0, now, opened.plan, (), 0, opened))
