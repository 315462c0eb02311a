"""Recordings on disk: a folder with `policy.json` and `events.jsonl.gz` (the lines of `drive.recording`).

A recording of a live scheduler is a folder of such folders, its *parts*, each named after its first cycle; their lines
are not compressed, so that they can be read while they are written, and after a crash.
"""

from __future__ import annotations

import gzip
from collections.abc import Iterable, Iterator
from contextlib import contextmanager
from pathlib import Path

from fairway.api.arguments import Catalog
from fairway.api.policy import Policy, parse_policy
from fairway.drive import RecordedCycle, Recorder
from fairway.drive import read_cycle as read_recorded_cycle
from fairway.errors import InputError
from fairway.sim.policies import policy_text
from fairway.sim.report import OutputFiles
from fairway.sim.traces.trace_file import read_lines

EVENTS = "events.jsonl.gz"
OPEN_EVENTS = "events.jsonl"
POLICY = "policy.json"


@contextmanager
def recording_to(folder: Path, policy: Policy, scheduler_names: Iterable[str] | None = None) -> Iterator[Recorder]:
    """A listener that records into a folder for as long as it is open; the files appear when it is closed."""
    folder.mkdir(parents=True, exist_ok=True)
    with OutputFiles(folder) as files:
        files.write(POLICY, policy_text(policy).encode())
        # Without a time in the header the same run gives the same bytes.
        with gzip.GzipFile("", "wb", fileobj=files.create(EVENTS), mtime=0) as file:
            yield Recorder(file.write, scheduler_names)


def is_part(folder: Path) -> bool:
    """Whether a folder is a part of a live recording, by its name."""
    return len(folder.name) == 8 and folder.name.isascii() and folder.name.isdecimal()


def part_of(folder: Path, number: int) -> Path:
    """The folder that has a cycle: a part of a live recording, else the recording itself."""
    try:
        parts = sorted(one for one in folder.iterdir() if is_part(one))
    except OSError:
        return folder
    if not parts:
        return folder
    early = [part for part in parts if int(part.name) <= number]
    if not early:
        raise InputError(f"{folder}: there is no cycle {number}, its first is {int(parts[0].name)}")
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
