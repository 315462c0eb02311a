"""`Picture`: an immutable view of a mirror at one revision, shared by any number of readers.

Lists of jobs, queues and nodes are answered from here. What is asked for rarely (one job, one node) is worked out from
the mirror itself when it is asked for.
"""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass
from itertools import islice

from fairway.api.pods import Pod
from fairway.api.scheduling import PodGroup
from fairway.app.view.amounts import base, is_resource, rank, unit_name
from fairway.app.view.estimates import NO_ESTIMATES, EstimatedStarts
from fairway.app.view.job_journal import finished_row
from fairway.app.view.job_table import JobTable
from fairway.app.view.mirror import Mirror
from fairway.app.view.models.cluster import NodesMap, QueuesPage
from fairway.app.view.models.common import ResourceInfo
from fairway.app.view.models.history import FeedEntry, ReservationEntry, ReservationsPage
from fairway.app.view.models.jobs import JobState, JobSummary
from fairway.app.view.models.session import ClusterSummary, JobCounts
from fairway.app.view.node_map import node_map
from fairway.app.view.queue_tree import queues_page
from fairway.clock import format_rfc3339
from fairway.scheduler.plan import ClassStanding, ExplainedPlan, Pending
from fairway.state.jobs import FINISHED, ON_NODE, Job, TaskState

_NO_LABELS: Mapping[str, str] = {}
RECENT = 200
LAST_ENDED = 2_000
"""Maximum number of ended jobs in the table."""


@dataclass(frozen=True)
class Picture:
    """A mirror at one revision."""

    revision: int
    now: str
    summary: ClusterSummary
    jobs: JobTable
    queues: QueuesPage
    nodes: NodesMap
    reservations: ReservationsPage
    pending: dict[str, Pending]
    """Rows by job."""
    recent: tuple[FeedEntry, ...]
    """The latest events, oldest first."""
    devices: tuple[ClassStanding, ...]
    evicted: Mapping[str, int]
    """Evicted pods by namespace."""

    @property
    def last_entry(self) -> int:
        return self.recent[-1].id if self.recent else 0


def picture_of(mirror: Mirror, coming: int = 0, estimates: EstimatedStarts = NO_ESTIMATES) -> Picture:
    plan = mirror.decide()
    now = format_rfc3339(mirror.now)
    pending = {entry.job: entry for entry in plan.pending}
    reservations = reservation_entries(mirror, plan)
    rows, labels = _rows(mirror, plan, pending, estimates)
    nodes = node_map(mirror, reservations)
    counts = dict.fromkeys(("waiting", "starting", "running", "finished"), 0)
    for row in rows:
        counts[row.state] += 1
    summary = ClusterSummary(
        revision=mirror.revision,
        now=now,
        nodes=len(nodes.names),
        nodes_ready=sum(state == 0 for state in nodes.states),
        resources=_resources(mirror),
        jobs=JobCounts(**counts),
        waiting_pods=sum(entry.waiting for entry in plan.pending),
        running_pods=sum(row.placed for row in rows if row.state == "running"),
        reservations=len({entry.job for entry in reservations}),
        evictions=mirror.journal.evicted_pods,
        coming=coming,
        warnings=list(plan.warnings),
    )
    table = JobTable(mirror.revision, now, rows, labels)
    table.prepare()
    return Picture(
        revision=mirror.revision,
        now=now,
        summary=summary,
        jobs=table,
        queues=queues_page(mirror, plan, rows),
        nodes=nodes,
        reservations=ReservationsPage(mirror.revision, now, reservations),
        pending=pending,
        recent=tuple(islice(reversed(mirror.journal.feed), RECENT))[::-1],
        devices=tuple(plan.resource_classes),
        evicted=dict(mirror.journal.evicted_by_namespace),
    )


# -- jobs ------------------------------------------------------------------------------------------------------


def _rows(
    mirror: Mirror, plan: ExplainedPlan, pending: Mapping[str, Pending], estimates: EstimatedStarts
) -> tuple[list[JobSummary], list[Mapping[str, str]]]:
    """Pending jobs in queue order, then starting, running, and finished ones, the latest first."""
    starting = {binding.job for binding in plan.bindings}
    planned = {entry.job: entry.planned_start for entry in plan.reservations if entry.planned_start is not None}
    found: dict[str, list[tuple[JobSummary, Mapping[str, str]]]] = {
        "waiting": [], "starting": [], "running": [], "finished": []
    }  # fmt: skip
    kept = mirror.rows
    for key in mirror.journal.changed_jobs:
        kept.pop(key, None)
    mirror.journal.changed_jobs.clear()
    for job in mirror.state.jobs():
        key = job.key
        known = kept.get(key)
        if known is not None and key not in pending and key not in starting:
            found["running"].append(known)
            continue
        if not job.tasks and not job.is_made:
            continue
        row = _row(mirror, job, pending.get(key), key in starting, planned, estimates)
        pair = row, _labels(mirror, job)
        found[row.state].append(pair)
        if row.state == "running" and key not in pending and key not in starting:
            kept[key] = pair
    found["waiting"].sort(key=lambda pair: (pair[0].queue, pair[0].position or 1 << 40, pair[0].job))
    found["running"].sort(key=lambda pair: (pair[0].started or "", pair[0].job), reverse=True)
    ended = list(mirror.journal.ended.values())[-LAST_ENDED:]
    gone = [(row, _NO_LABELS) for row, _ in ended if row.job not in mirror.journal.records]
    finished = sorted(found["finished"] + gone, key=lambda pair: pair[0].ended or "", reverse=True)
    pairs = [*found["waiting"], *found["starting"], *found["running"], *finished]
    return [row for row, _ in pairs], [labels for _, labels in pairs]


def _row(
    mirror: Mirror,
    job: Job,
    pending: Pending | None,
    starting: bool,
    planned: Mapping[str, str],
    estimates: EstimatedStarts,
) -> JobSummary:
    record = mirror.journal.records.get(job.key)
    if record is not None and record.ended is not None and all(task.state in FINISHED for task in job.tasks):
        return finished_row(record)
    placed = 0 if record is None else len(record.placed)
    bound = placed and all(task.state is TaskState.BOUND for task in job.tasks if task.state in ON_NODE)
    state: JobState = "starting" if bound or (starting and not placed) else "running" if placed else "waiting"
    created = job.created if record is None else record.created
    started = None if record is None or not placed else record.started
    estimate = None if pending is None else estimates.starts.get(job.key)
    is_later = state == "waiting" and estimate is None and job.key in estimates.jobs
    return JobSummary(
        job=job.key,
        namespace=job.namespace,
        queue=job.queue,
        state=state,
        kind=job.kind,
        pods=len(job.tasks),
        created=None if created is None else format_rfc3339(created),
        placed=placed,
        minimum=job.minimum,
        priority=job.priority,
        position=0 if pending is None or placed else pending.position,
        reason="" if pending is None or starting else pending.reason,
        message="" if pending is None or starting else pending.message,
        starving=pending is not None and pending.starving,
        held=bool(job.gated) and job.gated == len(job.tasks),
        started=None if started is None else format_rfc3339(started),
        planned_start=planned.get(job.key) if pending is not None else None,
        estimated_start=estimate,
        starts_after=estimates.until if is_later else None,
        no_start=is_later and estimates.until is None,
    )


def _labels(mirror: Mirror, job: Job) -> Mapping[str, str]:
    """Labels of the PodGroup, or of the first pod of a job without one."""
    if job.group:
        namespace, _, name = job.key.partition("/")
        group = mirror.objects.get(("PodGroup", namespace, name))
        if isinstance(group, PodGroup) and group.metadata.labels:
            return group.metadata.labels
    return job.tasks[0].labels if job.tasks else _NO_LABELS


# -- reservations ----------------------------------------------------------------------------------------------


def reservation_entries(mirror: Mirror, plan: ExplainedPlan) -> list[ReservationEntry]:
    state = mirror.state
    queues = {job.key: job.queue for job in state.jobs()} if plan.reservations or plan.nominations else {}
    found = [
        ReservationEntry(
            job=entry.job,
            queue=queues.get(entry.job, ""),
            pod=entry.pod,
            node=entry.node,
            state="planned" if entry.anew else "allocated" if entry.state == "allocated" else "reserved",
            since=entry.since or None,
            planned_start=entry.planned_start,
            hard=entry.hard,
        )
        for entry in plan.reservations
    ]
    for nomination in plan.nominations:
        task = state.tasks.get(nomination.pod)
        job = "" if task is None else task.job.key
        found.append(
            ReservationEntry(job, queues.get(job, ""), nomination.pod, nomination.node, "nominated", nomination.since)
        )
    return found


# -- amounts ---------------------------------------------------------------------------------------------------


def _resources(mirror: Mirror) -> list[ResourceInfo]:
    nodes = mirror.state.nodes
    size = len(nodes)
    usable = nodes.alive[:size] & nodes.ready[:size] & nodes.schedulable[:size]
    sums = [
        table.data[:, :size][:, usable].sum(axis=1).tolist()
        for table in (nodes.allocatable, nodes.used, nodes.reserved)
    ]
    found = [
        ResourceInfo(name, unit_name(name), base(name, whole), base(name, used), base(name, reserved))
        for name, whole, used, reserved in zip(mirror.state.axis.names, *sums, strict=False)
        if whole and is_resource(name)
    ]
    return sorted(found, key=lambda one: rank(one.name))


# -- pods ------------------------------------------------------------------------------------------------------

POD_STATES = {
    TaskState.PENDING: "waiting",
    TaskState.GATED: "gated",
    TaskState.RESERVED: "reserved",
    TaskState.PIPELINED: "reserved",
    TaskState.ALLOCATED: "reserved",
    TaskState.BOUND: "starting",
    TaskState.RUNNING: "running",
    TaskState.UNKNOWN: "running",
    TaskState.RELEASING: "terminating",
    TaskState.SUCCEEDED: "succeeded",
    TaskState.FAILED: "failed",
}


def pod_of(mirror: Mirror, key: str) -> Pod | None:
    namespace, _, name = key.partition("/")
    found = mirror.objects.get(("Pod", namespace, name))
    return found if isinstance(found, Pod) else None
