"""What queues hold, deserve and may take, each sum made anew when it is needed (spec S4)."""

from __future__ import annotations

from fractions import Fraction
from typing import Any

from fairway.api.arguments import ProportionArguments
from fairway.api.policy import Policy
from oracles.cluster import Amounts, Cluster, Job, QueueRecord, Task, add_up
from oracles.shares import Share, divide


class Queues:
    """The tree of queues. `refused` are the groups that were not let in."""

    def __init__(self, cluster: Cluster, policy: Policy, total: Amounts) -> None:
        self._cluster = cluster
        self._policy = policy
        self._deserved: dict[str, Amounts] = {}
        self.total = total
        self.refused: set[Job] = set()

    def key(self, queue: QueueRecord) -> tuple[Any, ...]:
        held, shares = self.held(queue), [Fraction(0)]
        for name, deserved in self._deserved.get(queue.name, {}).items():
            if name == "pods" or not self.total.get(name):
                continue
            shares.append(Fraction(held.get(name, 0), deserved) if deserved else Fraction(held.get(name, 0) > 0))
        share = max(shares) if self.shares_out() else Fraction(0)
        priority = -queue.priority if self.shares_out() else 0
        return priority, share, queue.created, queue.name

    def allows(self, job: Job, task: Task, count: int, lending: bool) -> bool:
        """Whether the queue, and all above it, may hold `count` such tasks more."""
        if not self.shares_out():
            return True
        line = self.line(job.queue)
        for queue in line:
            held = self.held(queue)
            for name, amount in task.request.items():
                after = held.get(name, 0) + count * amount
                if amount and after > queue.capability.get(name, after):
                    return False
                if amount and name != "pods" and not lending and after > self._deserves(queue, name):
                    return False
        return not lending or all(
            self._leaves_guarantees(line, name, count * amount) for name, amount in task.request.items() if amount
        )

    def _leaves_guarantees(self, line: list[QueueRecord], name: str, more: int) -> bool:
        """Every other queue keeps what it holds or is guaranteed, whichever is more, at every level."""
        if name == "pods" or name not in self.total:
            return True
        if not any(queue.guarantee.get(name) for queue in self._cluster.queues.values()):
            return True
        limit = self.total[name]
        for queue in reversed(line):
            for other in self.children(queue.parent):
                if other is not queue:
                    limit -= max(self.held(other).get(name, 0), self.guaranteed(other, name))
            if self.held(queue).get(name, 0) + more > limit:
                return False
        return True

    def _deserves(self, queue: QueueRecord, name: str) -> int:
        return self._deserved[queue.name].get(name, 0)

    def deserved(self, queue: str) -> Amounts:
        return self._deserved.get(queue, {})

    def divide(self) -> None:
        if self._policy.plugin("capacity") is not None:
            for queue in self._cluster.queues.values():
                self._deserved[queue.name] = {
                    name: min(
                        queue.capability.get(name, 1 << 100),
                        max(queue.guarantee.get(name, 0), queue.deserved.get(name, 0)),
                    )
                    for name in self.total
                    if name != "pods"
                }
        elif self._policy.plugin("proportion") is not None and not self._deserved:
            self._deserved = {queue.name: {} for queue in self._cluster.queues.values()}
            for name, total in self.total.items():
                if name != "pods" and total > 0:
                    self._fill("", name, total)

    def forget(self) -> None:
        """What queues deserve is divided again: other jobs were refused than was assumed."""
        self._deserved = {}

    def _fill(self, parent: str, name: str, total: int) -> None:
        queues = [queue for queue in self.children(parent) if self._takes_part(queue)]
        shares = []
        for queue in queues:
            capability = queue.capability.get(name, total)
            low = min(queue.capability.get(name, 1 << 100), self.guaranteed(queue, name))
            wants = self._request(queue, name) if self.lends() else total
            shares.append(Share(queue.name, queue.weight, low, max(low, min(capability, total, wants))))
        for queue_name, amount in divide(total, shares).items():
            self._deserved[queue_name][name] = amount
            self._fill(queue_name, name, amount)

    def _takes_part(self, queue: QueueRecord) -> bool:
        if self.lends() or (queue.made and queue.open):
            return True
        return queue.exists and queue.open and any((*self.held(queue).values(), *self._pending(queue).values()))

    def _request(self, queue: QueueRecord, name: str) -> int:
        """What it holds and still wants; a parent wants what its children may."""
        children = self.children(queue.name)
        if not children:
            wanted = self._pending(queue).get(name, 0) if queue.open and queue.exists else 0
            return self.held(queue).get(name, 0) + wanted
        own = add_up(job.held() for job in self._cluster.jobs.values() if job.queue == queue.name).get(name, 0)
        for child in children:
            wants = max(self.guaranteed(child, name), self._request(child, name))
            own += min(child.capability.get(name, wants), wants)
        return own

    def _pending(self, queue: QueueRecord) -> Amounts:
        jobs = [job for job in self._cluster.jobs.values() if job.queue == queue.name and job not in self.refused]
        counted = [job for job in jobs if job.is_valid() and (job.group or job.alone or job.implicit)]
        return add_up(task.request for job in counted for task in job.waiting())

    def guaranteed(self, queue: QueueRecord, name: str) -> int:
        return max(queue.guarantee.get(name, 0), sum(self.guaranteed(c, name) for c in self.children(queue.name)))

    def held(self, queue: QueueRecord) -> Amounts:
        """What is held in it and below it."""
        below = [self.held(child) for child in self.children(queue.name)]
        return add_up([*below, *(job.held() for job in self._cluster.jobs.values() if job.queue == queue.name)])

    def children(self, parent: str) -> list[QueueRecord]:
        return [queue for _, queue in sorted(self._cluster.queues.items()) if queue.parent == parent]

    def line(self, name: str) -> list[QueueRecord]:
        """The queue and those above it, upwards."""
        queue = self._cluster.queues[name]
        return [queue, *(self.line(queue.parent) if queue.parent else [])]

    def shares_out(self) -> bool:
        return self._policy.plugin("proportion") is not None or self._policy.plugin("capacity") is not None

    def lends(self) -> bool:
        proportion = self._policy.plugin("proportion")
        if proportion is None:
            return self._policy.plugin("capacity") is not None
        assert isinstance(proportion.arguments, ProportionArguments)
        return proportion.arguments.lending == "default"
