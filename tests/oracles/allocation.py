"""The slow, obvious twin of allocate: spec S3 to S5 read literally, to hold the engine to.

    plan_bindings(objects, policy) -> [(pod, node), ...] in the order decided

"Each step goes to the smallest (queue, namespace, job) key among those whose next step is allowed and fits." One task
at a time, plain loops over nodes and jobs, every sum made again when it is needed. No columns, no kept answers, no
heaps, and nothing of `state` or `scheduler`: it starts from the objects. It knows what a policy of enqueue, allocate
and backfill with the built-in plugins for order, sharing, predicates and scores does; not devices, volumes and
reservations.
"""

from __future__ import annotations

from collections.abc import Iterable
from fnmatch import fnmatchcase
from fractions import Fraction
from typing import Any

from fairway.api.arguments import DrfArguments, EnqueueArguments
from fairway.api.kinds import ApiObject
from fairway.api.policy import ActionConfig, Policy
from oracles.admission import Admission
from oracles.cluster import Amounts, Cluster, Job, Task, add_up
from oracles.lending import Borrowing
from oracles.places import Places
from oracles.queues import Queues

PLACED, NOT_ALLOWED, NO_ROOM = "placed", "not allowed", "no room"


def plan_bindings(objects: Iterable[ApiObject], policy: Policy) -> list[tuple[str, str]]:
    """Who would be bound where, in the order decided."""
    things = list(objects)
    return Allocation(Cluster(things), policy, things).run()


class Allocation:
    def __init__(self, cluster: Cluster, policy: Policy, objects: Iterable[ApiObject]) -> None:
        self._cluster = cluster
        self.borrowing = Borrowing(objects, cluster)
        self._policy = policy
        self._places = Places(cluster, policy)
        self.queues = Queues(cluster, policy, _total(cluster, self._places, policy))
        self.admission = Admission(cluster, policy, self.queues)
        self._bindings: list[tuple[str, str]] = []

    def run(self) -> list[tuple[str, str]]:
        for action in self._policy.actions:
            self.act(action)
        return self._bindings

    def act(self, action: ActionConfig) -> None:
        if action.name == "enqueue":
            assert isinstance(action.arguments, EnqueueArguments)
            self.queues.divide()
            self.queues.refused = self.admission.refuse(action.arguments, self.keys)
            self.queues.forget()
        elif action.name == "allocate":
            self.queues.divide()
            out = self._pass(self.admission.candidates(backfill=False), lending=False)
            if self.queues.lends():
                self._pass(out, lending=True)
        elif action.name == "backfill":
            self.queues.divide()
            self._pass(self.admission.candidates(backfill=True), lending=True)

    # -- the loop ---------------------------------------------------------------------------------------------

    def _pass(self, jobs: list[Job], *, lending: bool) -> list[Job]:
        """Steps until no job can take one; returns those that only were not allowed to."""
        next_in_class, deferred = list(jobs), []
        while next_in_class:
            job = min(next_in_class, key=self.keys(next_in_class).__getitem__)
            bound = len(self._bindings)
            was_new = not has_started(job)
            result = self._step(job, lending)
            gang = self.broken_before(job, next_in_class) if was_new and result is PLACED else None
            if gang is not None:
                self._take_back(job, bound)
                job, result = gang, self._step(gang, lending)
            if result is PLACED and job.waiting():
                continue
            next_in_class.remove(job)
            if result is NOT_ALLOWED:
                deferred.append(job)
        return deferred

    def broken_before(self, job: Job, next_in_class: list[Job]) -> Job | None:
        """5.5: of the gangs that lost pods, the one that goes before a job that has not started."""
        found = [
            gang
            for gang in next_in_class
            if gang.is_broken() and gang.queue == job.queue and gang.priority >= job.priority and _was_held(gang)
        ]
        keys = self.keys(next_in_class) if found else {}
        return min(found, key=lambda gang: (-gang.priority, keys[gang]), default=None)

    def _step(self, job: Job, lending: bool) -> str:
        if job.is_ready():
            return self._grow(job, lending)
        if lending and not self.may_borrow(job, _missing(job), together=True):
            return NOT_ALLOWED
        bound = len(self._bindings)
        allowed = True
        for role, least in sorted(job.roles.items()):
            allowed &= self._place(job, least - job.ready_tasks(role), role, lending)
        allowed &= self._place(job, job.minimum - job.ready_tasks(), None, lending)
        if job.is_ready() and len(self._bindings) > bound:
            return PLACED
        self._take_back(job, bound)
        return NO_ROOM if allowed else NOT_ALLOWED

    def _grow(self, job: Job, lending: bool) -> str:
        """One task: the first that is allowed and fits."""
        allowed = True
        for task in job.waiting():
            if not self.queues.allows(job, task, 1, lending) or (
                lending and not self.may_borrow(job, [task], together=False)
            ):
                allowed = False
            elif self._put(task):
                return PLACED
        return NO_ROOM if allowed else NOT_ALLOWED

    def may_borrow(self, job: Job, tasks: list[Task], *, together: bool) -> bool:
        line = [queue.name for queue in self.queues.line(job.queue)]
        return self.borrowing.allows(job, tasks, line, together=together)

    def _place(self, job: Job, missing: int, role: str | None, lending: bool) -> bool:
        """Place what is missing of a role, or at all; False if not all that was tried was allowed."""
        allowed = True
        for run in _runs(job.waiting()):
            if missing <= 0:
                break
            if role is not None and run[0].role != role:
                continue
            tried = run[:missing]
            may = max(k for k in range(len(tried) + 1) if not k or self.queues.allows(job, tried[0], k, lending))
            allowed = allowed and may == len(tried)
            missing -= sum(self._put(task) for task in tried[:may])
        return allowed

    def _put(self, task: Task) -> bool:
        node = self._places.best(task)
        if node is None:
            return False
        task.node = node
        self._bindings.append((task.key, node))
        return True

    def _take_back(self, job: Job, bound: int) -> None:
        undone = {key for key, _ in self._bindings[bound:]}
        for task in job.tasks:
            if task.key in undone:
                task.node = ""
        del self._bindings[bound:]

    # -- order ------------------------------------------------------------------------------------------------

    def keys(self, jobs: list[Job]) -> dict[Job, tuple[Any, ...]]:
        """The key of every job, as things stand. Jobs of one queue have its key in common, which is computed once."""
        queues = {
            name: tuple(self.queues.key(queue) for queue in reversed(self.queues.line(name)))
            for name in {job.queue for job in jobs}
        }
        own = {job: self._job_key(job) for job in jobs}
        return {job: (*queues[job.queue], self._namespace_key(job, own), own[job]) for job in jobs}

    def _namespace_key(self, job: Job, keys: dict[Job, tuple[Any, ...]]) -> tuple[Any, ...]:
        """Its weighted share; of equal ones the heavier, then the one whose next job is older, then by name."""
        weight = self._cluster.weights.get(job.namespace, 1)
        beside = [j for j in keys if (j.queue, j.namespace) == (job.queue, job.namespace)]
        oldest = min(beside, key=keys.__getitem__).created
        drf = self._policy.plugin("drf")
        if drf is None or not drf.enabled("namespace_key"):
            return (-weight, oldest, job.namespace)
        assert isinstance(drf.arguments, DrfArguments)
        here = [j for j in self._cluster.jobs.values() if (j.queue, j.namespace) == (job.queue, job.namespace)]
        share = self._share(add_up(j.held() for j in here)) / weight
        return (-job.priority if drf.arguments.priority_first else 0, share, -weight, oldest, job.namespace)

    def _job_key(self, job: Job) -> tuple[Any, ...]:
        parts: list[Any] = []
        for plugin in self._policy.plugins():
            if plugin.enabled("job_key") and plugin.name == "priority":
                parts.append(-job.priority)
            elif plugin.enabled("job_key") and plugin.name == "gang":
                parts.append(job.is_ready())
            elif plugin.enabled("job_key") and plugin.name == "drf":
                parts.append(self._share(job.held()))
        return (*parts, job.created, job.key, job.alone)

    def _share(self, held: Amounts) -> Fraction:
        parts = [
            Fraction(held.get(name, 0), total) for name, total in self.queues.total.items() if total and name != "pods"
        ]
        return max(parts, default=Fraction(0))


def _total(cluster: Cluster, places: Places, policy: Policy) -> Amounts:
    """Of the nodes that ordinary pods can use (spec S2.4)."""
    usable = [
        dict(places.allocatable(node))
        for node in cluster.nodes.values()
        if not node.spec.unschedulable
        and places.is_ready(node)
        and not any(
            taint.effect != "PreferNoSchedule" and fnmatchcase(taint.key, key)
            for taint in node.spec.taints
            for key in policy.excluded_taints
        )
    ]
    return add_up(usable)


def _runs(tasks: list[Task]) -> list[list[Task]]:
    """Like tasks that follow each other."""
    runs: list[list[Task]] = []
    for task in tasks:
        if runs and runs[-1][-1].alike(task):
            runs[-1].append(task)
        else:
            runs.append([task])
    return runs


def _missing(job: Job) -> list[Task]:
    """What makes up the minimum; where roles have minimums, all that wait."""
    return job.waiting() if job.roles else job.waiting()[: max(0, job.minimum - job.ready_tasks())]


def has_started(job: Job) -> bool:
    return any(task.holds or task.ready for task in job.tasks)


def _was_held(gang: Job) -> bool:
    """Whether pods of the gang that were placed had what each of its missing pods requests."""
    before = [task for task in gang.tasks if task.node or task.finished]
    for task in _missing(gang):
        like = [other for other in before if other.role == task.role] or before
        if not any(_is_within(task.request, other.request) for other in like):
            return False
    return True


def _is_within(request: Amounts, other: Amounts) -> bool:
    return all(amount <= other.get(name, 0) for name, amount in request.items())
