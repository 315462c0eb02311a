"""Who takes part: what keeps a job out that has nothing to do with nodes (semantics 4.2 and 5.4)."""

from __future__ import annotations

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

    def is_refused(self, job: Job) -> bool:
        """Whether enqueue keeps a group out: its minimum does not fit under a limit."""
        if (
            not (job.group and job.waiting() and job.is_valid())
            or job.phase in ADMITTED
            or not self._queues.shares_out()
        ):
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
