"""Nodes over time: past and running pods, reservations and planned starts."""

from __future__ import annotations

from typing import NamedTuple

from fairway.api.arguments import BackfillArguments
from fairway.app.view.job_journal import PodRun
from fairway.app.view.mirror import Mirror
from fairway.app.view.models.history import NodesTimeline, ReservationEntry, TimelineNode, TimelineSpan
from fairway.app.view.picture import Picture
from fairway.clock import SECOND, Micros, parse_rfc3339
from fairway.scheduler.backfill.runtimes import Runtimes
from fairway.state.jobs import Task
from fairway.state.tables import PODS

BEFORE = 3_600 * SECOND
AFTER = 3_600 * SECOND
"""The default range; extended to include later planned starts."""


class TimeWindow(NamedTuple):
    start: Micros
    end: Micros

    def touches(self, start: Micros, end: Micros | None) -> bool:
        return start <= self.end and (end is None or end >= self.start)


def timeline(
    mirror: Mirror,
    picture: Picture,
    start: Micros | None,
    end: Micros | None,
    *,
    search: str,
    pool: str | None,
    offset: int,
    limit: int,
) -> NodesTimeline:
    nodes = picture.nodes
    chosen = [
        place
        for place, name in enumerate(nodes.names)
        if search in name and (pool is None or nodes.pool_names[nodes.pools[place]] == pool)
    ]
    planned = [parse_rfc3339(entry.planned_start) for entry in picture.reservations.rows if entry.planned_start]
    window = TimeWindow(
        mirror.now - BEFORE if start is None else start,
        max([mirror.now + AFTER, *(when + AFTER // 2 for when in planned)]) if end is None else end,
    )
    page = chosen[offset : offset + limit]
    wanted = {nodes.names[place] for place in page}
    spans = _Spans(mirror, window, wanted)
    for run in mirror.journal.runs:
        spans.past(run)
    for name in wanted:
        row = mirror.state.nodes.find(name)
        for task in mirror.state.nodes.tasks[row] if row is not None else ():
            spans.running(task, name)
    for entry in picture.reservations.rows:
        spans.reserved(entry)
    return NodesTimeline(
        revision=picture.revision,
        now=picture.now,
        start=window.start / SECOND,
        end=window.end / SECOND,
        total=len(chosen),
        nodes=[
            TimelineNode(nodes.names[place], nodes.state_names[nodes.states[place]], spans.of(nodes.names[place]))
            for place in page
        ],
    )


class _Spans:
    """Spans of pods; pods of a job that start and end together on a node share one."""

    def __init__(self, mirror: Mirror, window: TimeWindow, nodes: set[str]) -> None:
        self._mirror = mirror
        self._window = window
        self._nodes = nodes
        given = (action.arguments for action in mirror.policy.actions)
        own = next((one for one in given if isinstance(one, BackfillArguments)), BackfillArguments())
        self._runtimes = Runtimes(mirror.state, own)
        self._found: dict[str, dict[tuple[str, str, Micros, Micros | None], TimelineSpan]] = {}

    def of(self, node: str) -> list[TimelineSpan]:
        return sorted(self._found.get(node, {}).values(), key=lambda span: (span.start, span.job))

    def past(self, run: PodRun) -> None:
        self._add(run.node, "running", run.job, run.queue, run.start, run.end, False, run.fill)

    def running(self, task: Task, node: str) -> None:
        record = self._mirror.journal.records.get(task.job.key)
        since = None if record is None else record.placed.get(task.key)
        if since is None:
            return
        runtime = self._runtimes.of(task)
        end = None if runtime is None else runtime.end(since, self._mirror.now)
        sure = runtime is not None and runtime.certain
        self._add(node, "running", task.job.key, task.job.queue, since, end, not sure, self._fill(task, node))

    def reserved(self, entry: ReservationEntry) -> None:
        task = self._mirror.state.tasks.get(entry.pod)
        start = None if entry.planned_start is None else parse_rfc3339(entry.planned_start)
        fill = 0.0 if task is None else self._fill(task, entry.node)
        if entry.state != "planned":
            since = self._mirror.now if not entry.since else parse_rfc3339(entry.since)
            self._add(entry.node, "reserved", entry.job, entry.queue, since, start, True, fill)
        if start is not None:
            runtime = None if task is None else self._runtimes.of(task)
            end = None if runtime is None else start + runtime.span
            self._add(entry.node, "planned", entry.job, entry.queue, start, end, not entry.hard, fill)

    def _fill(self, task: Task, node: str) -> float:
        row = self._mirror.state.nodes.find(node)
        if row is None:
            return 0.0
        whole = self._mirror.state.nodes.allocatable.data[:, row].tolist()
        parts = [amount / whole[place] for place, amount in task.shape.vector if place != PODS and whole[place]]
        return round(min(1.0, max(parts, default=0.0)), 4)

    def _add(
        self,
        node: str,
        kind: str,
        job: str,
        queue: str,
        start: Micros,
        end: Micros | None,
        estimate: bool,
        fill: float,
    ) -> None:
        if node not in self._nodes or not self._window.touches(start, end):
            return
        spans = self._found.setdefault(node, {})
        key = kind, job, start, end
        known = spans.get(key)
        pods = 1 if known is None else known.pods + 1
        whole = round(min(1.0, fill + (0.0 if known is None else known.fill)), 4)
        until = None if end is None else end / SECOND
        spans[key] = TimelineSpan(kind, job, queue, pods, start / SECOND, until, estimate, whole)  # type: ignore[arg-type]
