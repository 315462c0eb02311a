"""The page of a recording: its events update a mirror, and each cycle is decided again to learn its result."""

from __future__ import annotations

from collections.abc import Iterable
from pathlib import Path

from fairway.api.policy import Policy
from fairway.app.recordings import EVENTS, OPEN_EVENTS, is_part, read_recorded_policy
from fairway.app.view.history_ring import INTERVAL, HistoryRing
from fairway.app.view.mirror import CycleReport, Mirror, reserved_jobs
from fairway.app.view.picture import picture_of
from fairway.app.view.watch import ClusterWatch
from fairway.clock import Micros
from fairway.drive import RecordedLines
from fairway.errors import InputError
from fairway.scheduler.decide import decide
from fairway.scheduler.plugins.installed import default_registry
from fairway.sim.traces.trace_file import read_lines
from fairway.web.shown import ShownCluster
from fairway.web.worker import WhatIfWorker

MANY = 100
"""Number of history samples after which their interval doubles."""


def recorded(folder: Path, until: int | None = None) -> ShownCluster:
    """The page of a recording up to a cycle, or to its end. Raises InputError if there is none."""
    parts = _parts(folder)
    reader = _Reader(until)
    for part in parts:
        reader.read(part)
        if reader.ended:
            break
    if reader.mirror is None or reader.last is None:
        raise InputError(f"{folder}: has no cycle" + ("" if until is None else f" {until}"))
    if until is not None and reader.last != until:
        raise InputError(f"{folder}: there is no cycle {until}, its cycles are {reader.first} to {reader.last}")
    mirror = reader.mirror
    watch = ClusterWatch(mirror, lambda: mirror.now)
    return ShownCluster(
        "recording",
        folder.name or str(folder),
        watch,
        history=reader.history,
        what_if=WhatIfWorker(),
        cycle=reader.last,
        cycles=(reader.first or 0, reader.last),
    )


def _parts(folder: Path) -> list[Path]:
    """The directories with events: parts of a live recording, or else the directory itself or a known subdirectory."""
    try:
        inside = sorted(folder.iterdir())
    except OSError as error:
        raise InputError(f"{folder}: cannot be read: {error.strerror}") from None
    parts = [one for one in inside if is_part(one)]
    for found in (parts, [folder], [folder / "cycle"], [folder / "recording"]):
        if found and all(_lines(one) is not None for one in found):
            return found
    raise InputError(
        f"{folder}: is not a recording, expected a folder with {EVENTS} "
        "(fairway simulate --record, fairway record), one that fairway run --record wrote, or a report"
    )


def _lines(folder: Path) -> Path | None:
    return next((folder / name for name in (EVENTS, OPEN_EVENTS) if (folder / name).is_file()), None)


class _Reader:
    """Reads the parts in order."""

    def __init__(self, until: int | None) -> None:
        self._until = until
        self.mirror: Mirror | None = None
        self.history = HistoryRing()
        self.first: int | None = None
        self.last: int | None = None
        self.ended = False
        self._sampled: Micros = 0
        self._samples = 0
        self._step: Micros = INTERVAL

    def read(self, part: Path) -> None:
        path = _lines(part)
        assert path is not None
        policy = read_recorded_policy(part, default_registry().catalog)
        lines = RecordedLines(read_lines(path), str(path))
        mirror = self._begin(policy, lines.scheduler_names)
        for cycle in lines.cycles():
            mirror.apply(cycle.events, cycle.now)
            plan = decide(mirror.state, policy, cycle.now)
            report = CycleReport(
                cycle.number,
                cycle.now,
                0,
                plan.placed,
                plan.evictions,
                reserved_jobs(plan.reservations),
                plan.released,
            )
            mirror.take(report)
            self.first = cycle.number if self.first is None else self.first
            self.last = cycle.number
            self._sample(mirror)
            if cycle.number == self._until:
                self.ended = True
                return
        mirror.apply(lines.rest, mirror.now)

    def _sample(self, mirror: Mirror) -> None:
        """Samples a long recording less often: a picture costs more than a cycle."""
        if self._samples and mirror.now < self._sampled + self._step:
            return
        self._sampled = mirror.now
        self._samples += 1
        self._step = INTERVAL << (self._samples // MANY)
        self.history.take(mirror, picture_of(mirror))

    def _begin(self, policy: Policy, names: Iterable[str] | None) -> Mirror:
        """Each part begins with all objects, so it gets a new mirror; the journal carries over."""
        made = Mirror(policy, 0, names)
        if self.mirror is not None:
            journal = self.mirror.journal
            made.journal.feed, made.journal.evictions, made.journal.runs = journal.feed, journal.evictions, journal.runs
            made.cycles, made.cycle_count = self.mirror.cycles, self.mirror.cycle_count
        self.mirror = made
        return made
