"""Who takes part: what keeps a job out that has nothing to do with nodes (spec S4.2 and S5.4)."""

from __future__ import annotations

from collections.abc import Callable
from fractions import Fraction
from typing import Any

from fairway.api.arguments import EnqueueArguments
from fairway.api.policy import Policy
from oracles.cluster import Amounts, Cluster, Job
from oracles.queues import Queues

ADMITTED = ("Inqueue", "Running", "Completed", "Unknown")


class Admission:
    def __init__(self, cluster: Cluster, policy: Policy, queues: Queues) -> None:
        self._cluster = cluster
        self._policy = policy
        self._queues = queues

    def candidates(self, *, backfill: bool) -> list[Job]:
        return [
            job
            for job in self._cluster.jobs.values()
            if job.waiting() and self._may_start(job) and (job.alone and job.tasks[0].best_effort) == backfill
        ]

    def _may_start(self, job: Job) -> bool:
        if (
            job in self._queues.refused
            or not (job.group or job.alone or job.implicit)
            or (self._gangs() and not job.is_valid())
        ):
            return False
        line = self._queues.line(job.queue)
        return all(queue.exists and queue.open for queue in line) and not self._queues.children(job.queue)

    def _gangs(self) -> bool:
        return self._policy.plugin("gang") is not None

    def refuse(self, arguments: EnqueueArguments, keys: Callable[[list[Job]], dict[Job, tuple[Any, ...]]]) -> set[Job]:
        """Groups that enqueue keeps out: by the limits of their queues and, in order, by the size of the cluster. No
        time passes here, so none of them has waited too long.
        """
        refused = {job for job in self._cluster.jobs.values() if self._is_refused(job)}
        judged = [job for job in self._cluster.jobs.values() if job not in refused and self._is_judged_by_size(job)]
        while judged:
            job = min(judged, key=keys(judged).__getitem__)
            judged.remove(job)
            lacking = self._lacking(job)
            admitted = [
                other
                for other in self._cluster.jobs.values()
                if other is not job and other.minimum_resources and self._was_admitted(other)
            ]
            for name, amount in lacking.items():
                if not amount or name == "pods":
                    continue
                taken = sum(self._queues.held(queue).get(name, 0) for queue in self._queues.children(""))
                promised = sum(self._lacking(other).get(name, 0) for other in admitted)
                factor = Fraction(str(arguments.overcommit_factor))
                if taken + promised + amount > factor * self._queues.total.get(name, 0):
                    refused.add(job)
            if job not in refused:
                job.phase = "Inqueue"
        return refused

    def _is_judged_by_size(self, job: Job) -> bool:
        exists = all(queue.exists and queue.open for queue in self._queues.line(job.queue))
        leaf = not self._queues.children(job.queue)
        lets_in = (exists and leaf) or bool(job.waiting())
        return bool(job.group and job.minimum_resources and not self._was_admitted(job) and lets_in)

    def _was_admitted(self, job: Job) -> bool:
        if not job.group or job.phase == "Completed":
            return False
        if not job.tasks:
            return job.phase == "Inqueue"
        started = any(task.holds or task.ready for task in job.tasks)
        return any(not task.finished for task in job.tasks) and (job.phase in ADMITTED or started)

    def _lacking(self, job: Job) -> Amounts:
        """What of its `minResources` its pods do not hold, and did not hold until they succeeded; gated pods claim
        nothing.
        """
        counted = [task for task in job.tasks if task.holds or task.finished == "Succeeded" or task.gated]
        return {
            name: max(0, amount - sum(task.request.get(name, 0) for task in counted))
            for name, amount in (job.minimum_resources or {}).items()
        }

    def _is_refused(self, job: Job) -> bool:
        """Whether enqueue keeps a group out: its minimum does not fit under a limit of its queue."""
        if not (job.group and job.waiting()) or job.phase in ADMITTED or not self._queues.shares_out():
            return False
        need = self._minimum(job)
        line = self._queues.line(job.queue)
        others = [other for queue in line for other in self._queues.children(queue.parent) if other is not queue]
        for name, amount in need.items():
            if not amount:
                continue
            if any(self._queues.held(q).get(name, 0) + amount > q.capability.get(name, 1 << 100) for q in line):
                return True
            promised = sum(self._queues.guaranteed(queue, name) for queue in others)
            if (
                promised
                and name != "pods"
                and name in self._queues.total
                and amount > self._queues.total[name] - promised
            ):
                return True
        return False

    def _minimum(self, job: Job) -> Amounts:
        if job.minimum_resources is not None:
            held = job.held()
            return {name: max(0, amount - held.get(name, 0)) for name, amount in job.minimum_resources.items()}
        missing = max(0, job.minimum - job.ready_tasks())
        waiting = job.waiting()
        names = {name for task in waiting for name in task.request}
        return {name: sum(sorted(task.request.get(name, 0) for task in waiting)[:missing]) for name in names}
