"""`check(state)`: everything that is kept must equal what a recomputation from the tasks and objects gives.

The state is never rebuilt, so a sum that is off by one stays off for ever. Each test ends with this check, and
`--paranoid` runs it live. It is slow and obvious on purpose: it uses none of the indexes that it checks.
"""

from __future__ import annotations

from collections import Counter
from collections.abc import Iterable
from itertools import pairwise
from typing import Any

import numpy as np

from fairway.errors import InvariantError
from fairway.state.cluster import ClusterState
from fairway.state.derived import same
from fairway.state.jobs import ACCOUNTED, FINISHED, NOWHERE, ON_NODE, READY, WAITING, Job, Task, TaskState, is_valid
from fairway.state.membership import rank_of
from fairway.state.queues import Amounts, QueueInfo
from fairway.state.shapes import Shape
from fairway.state.topology import strictest
from fairway.state.volumes import VolumeUse
from fairway.state.waiting import ADMITTED_PHASES, EquivalenceClass, GangTemplate, Run, WaitingIndex

_STARTED = ACCOUNTED | READY
_PLACED = ON_NODE | {TaskState.PIPELINED, TaskState.RESERVED}


def check(state: ClusterState) -> None:
    """Raise InvariantError at the first thing that contradicts the rest."""
    state.refresh()
    for part in (
        _check_tasks,
        _check_jobs,
        _check_rows,
        _check_amounts,
        _check_volumes,
        _check_ranks,
        _check_queues,
        _check_waiting,
    ):
        part(state)
    for part in (_check_shapes, _check_matches, _check_term_columns, _check_term_users, _check_derived):
        part(state)


def holds(what: str, condition: bool) -> None:
    if not condition:
        raise InvariantError(what)


def _every_task(state: ClusterState) -> list[Task]:
    return [*state.tasks.values(), *state.foreign.values()]


# -- tasks and jobs -----------------------------------------------------------------------------------------------


def _check_tasks(state: ClusterState) -> None:
    for key, task in [*state.tasks.items(), *state.foreign.items()]:
        same(f"key of task {key}", task.key, key)
        same(f"whether task {key} is on a node", task.node != NOWHERE, task.state in _PLACED)
    same("pods that are both scheduled by Fairway and foreign", state.tasks.keys() & state.foreign.keys(), set())
    for key, task in state.tasks.items():
        holds(f"job {task.job.key} does not know its task {key}", task.job.tasks.count(task) == 1)
        if task.job.alone:
            same(f"job of lone pod {key}", (task.job.key, len(task.job.tasks)), (key, 1))
        else:
            holds(f"group {task.job.key} of task {key} is not known", state.groups.get(task.job.key) is task.job)


def _check_jobs(state: ClusterState) -> None:
    for job in state.jobs():
        for task in job.tasks:
            holds(f"job {job.key} has the unknown task {task.key}", state.tasks.get(task.key) is task)
        same(f"ready tasks of job {job.key}", job.ready, sum(task.state in READY for task in job.tasks))
        same(f"pending tasks of job {job.key}", job.pending, sum(task.state in WAITING for task in job.tasks))
        same(f"gated tasks of job {job.key}", job.gated, sum(task.state is TaskState.GATED for task in job.tasks))
        same(f"priority of job {job.key}", job.priority, _priority(state, job))
        same(f"whether the gang of job {job.key} is broken", (job.broken, job in state.broken_gangs), _broken(job))
        _check_hints(state, job)
    same("pods with an index", state.indexed_pods, sum(task.hints.indexed for task in state.tasks.values()))
    for key, job in state.groups.items():
        same(f"key of group {key}", job.key, key)
        holds(f"group {key} has neither object nor pods", job.group or bool(job.tasks))
        holds(f"group {key} is marked as a lone pod", not job.alone)
    named = Counter(task.traits.priority_class for task in state.tasks.values())
    named.update(job.priority_class for job in state.groups.values())
    same(
        "priority classes that are named",
        state.priorities.named,
        {name: count for name, count in named.items() if name},
    )


def _check_hints(state: ClusterState, job: Job) -> None:
    counted = Counter(task.hints for task in job.tasks if not job.alone)
    same(f"what the pods of job {job.key} say", job.hints, dict(counted))
    for task in job.tasks if not job.alone else ():
        same(f"rank of task {task.key}", task.rank, rank_of(task.source, task.key))
    named = job.named_queue or min((hints.queue for hints in counted if hints.queue), default="")
    same(f"queue of job {job.key}", job.queue, named or state.namespaces.queue(job.namespace) or "default")
    requested = job.own_topology or strictest(hints.topology for hints in counted)
    same(f"topology of job {job.key}", job.topology, requested)
    if job.implicit:
        same(f"minimum of job {job.key}", job.minimum, max((hints.minimum for hints in counted), default=1))


def _broken(job: Job) -> tuple[bool, bool]:
    ready = job.ready >= job.minimum and all(
        job.ready_by_role().get(role, 0) >= least for role, least in job.role_minimums
    )
    runs = any(task.state in (TaskState.BOUND, TaskState.RUNNING) for task in job.tasks)
    broken = runs and not ready and not job.alone
    return broken, broken


def _priority(state: ClusterState, job: Job) -> int:
    stated = job.own_priority
    if stated is None and job.priority_class and state.priorities.known(job.priority_class):
        stated = state.priorities.value(job.priority_class)
    limits = [] if stated is None else [stated]
    return min([*limits, max(task.priority for task in job.tasks)] if job.tasks else [*limits, 0][:1])


# -- nodes --------------------------------------------------------------------------------------------------------


def _check_rows(state: ClusterState) -> None:
    nodes = state.nodes
    same("rows by name", nodes.rows, {name: row for row, name in enumerate(nodes.names) if name})
    same("free rows", sorted(nodes._free), [row for row, name in enumerate(nodes.names) if not name])
    for row, name in enumerate(nodes.names):
        if name and not nodes.alive[row]:
            holds(f"the ghost of node {name} has no tasks", bool(nodes.tasks[row]))
        if not nodes.alive[row]:
            what = f"row {row} ({name or 'free'}), which offers nothing"
            same(f"{what}: allocatable", nodes.allocatable.at(row), ())
            same(f"{what}: ready, schedulable", (bool(nodes.ready[row]), bool(nodes.schedulable[row])), (False, False))
            same(f"{what}: labels", dict(nodes.labels.at(row)), {})
            same(f"{what}: taints", nodes.taints.sets[int(nodes.taints.codes(len(nodes))[row])], ())
        for key in nodes.labels._columns:
            code = int(nodes.labels.column(key, len(nodes))[row])
            kept = None if not code else nodes.labels.values(key)[code - 1]
            same(f"label {key} of row {row}", kept, nodes.labels.at(row).get(key))


def _check_amounts(state: ClusterState) -> None:
    nodes = state.nodes
    by_row: dict[int, list[Task]] = {}
    for task in _every_task(state):
        by_row.setdefault(task.node, []).append(task)
    for row, name in enumerate(nodes.names):
        here = by_row.get(row, [])
        what = f"node {name}" if name else f"free row {row}"
        same(f"tasks on {what}", sorted(task.key for task in nodes.tasks[row]), sorted(task.key for task in here))
        for kind, table, counted in (
            ("used", nodes.used, [task for task in here if task.state in ON_NODE]),
            ("releasing", nodes.releasing, _in(here, TaskState.RELEASING)),
            ("pipelined", nodes.pipelined, _in(here, TaskState.PIPELINED)),
            ("reserved", nodes.reserved, _in(here, TaskState.RESERVED)),
            ("foreign", nodes.foreign, [task for task in here if task.key in state.foreign]),
        ):
            same(f"{kind} on {what}", dict(table.at(row)), _sum(counted))
        ports = [port for task in here if task.state in ON_NODE for port in task.shape.ports]
        same(f"host ports of {what}", sorted(nodes.ports.get(row, [])), sorted(ports))
    same("rows with host ports", {row for row, taken in nodes.ports.items() if not taken}, set())


def _in(tasks: Iterable[Task], state: TaskState) -> list[Task]:
    return [task for task in tasks if task.state is state]


def _sum(tasks: Iterable[Task]) -> dict[int, int]:
    amounts: Counter[int] = Counter()
    for task in tasks:
        amounts.update(dict(task.shape.vector))
    return {row: amount for row, amount in sorted(amounts.items()) if amount}


def _check_volumes(state: ClusterState) -> None:
    again = VolumeUse()
    for task in _every_task(state):
        if task.state in ON_NODE:
            again.place(task.shape.volumes, task.node, 1)
    same("volumes attached", state.volume_use.attached, again.attached)
    same("shared volumes in use", state.volume_use.users, again.users)
    same("claims in use", state.volume_use.holders, again.holders)
    same("disks in use", state.volume_use.disks, again.disks)


def _check_ranks(state: ClusterState) -> None:
    ranks = state.nodes.ranks
    names = sorted(state.nodes.rows)
    same("ranked names", ranks._names, names)
    same("names with a rank", set(ranks._ranks), set(names))
    order = [ranks[name] for name in names]
    holds("ranks do not rise with the names", all(a < b for a, b in pairwise(order)))


# -- queues and the waiting index ---------------------------------------------------------------------------------


def _check_queues(state: ClusterState) -> None:
    by_queue: dict[str, list[Task]] = {}
    for task in state.tasks.values():
        by_queue.setdefault(task.job.queue, []).append(task)
    for queue in state.queues:
        accounted = [task for task in by_queue.get(queue.name, ()) if task.state in ACCOUNTED]
        same(f"allocated to queue {queue.name}", _amounts(queue.allocated), _sum(accounted))
        by_namespace: dict[str, list[Task]] = {}
        for task in accounted:
            by_namespace.setdefault(task.job.namespace, []).append(task)
        same(f"namespaces with allocations in queue {queue.name}", set(queue.accounts), set(by_namespace))
        for namespace, tasks in by_namespace.items():
            account, what = queue.accounts[namespace], f"namespace {namespace} in queue {queue.name}"
            same(f"allocated to {what}", _amounts(account.allocated), _sum(tasks))
            same(f"tasks of {what}", account.tasks, len(tasks))
        same(f"requested by queue {queue.name}", _amounts(queue.requested), _requested(state, queue))
        children = {child.name for child in state.queues if child.parent == queue.name}
        same(f"children of queue {queue.name}", queue.children, children)
    same("queues at the top", state.queues.top, {queue.name for queue in state.queues if not queue.parent})
    for job in state.jobs():
        holds(f"queue {job.queue} of job {job.key} is not known", job.queue in state.queues or not job.pending)


def _requested(state: ClusterState, queue: QueueInfo) -> dict[int, int]:
    jobs = [job for job in state.jobs() if job.queue == queue.name and is_valid(job)]
    return _sum(task for job in jobs for task in job.waiting())


def _amounts(amounts: Amounts) -> dict[int, int]:
    return {row: amount for row, amount in enumerate(amounts) if amount}


def _check_waiting(state: ClusterState) -> None:
    waiting = state.waiting
    expected = {job for job in state.jobs() if job.pending}
    same("jobs that wait", {job.key for job in waiting.jobs()}, {job.key for job in expected})
    holds("a job waits that is no longer there", set(waiting.jobs()) == expected)
    fresh = {job for job in expected if not any(task.state in _STARTED for task in job.tasks)}
    same("jobs that have started", {job.key for job in waiting.started}, {job.key for job in expected - fresh})
    users: Counter[GangTemplate] = Counter()
    for job in expected:
        template, job_class, _ = waiting.position_of(job)
        users[template] += 1
        same(f"signature of job {job.key}", template.key, _template_key(job))
        expected_class = (job.queue, job.namespace, job.priority, not job.alone, job.phase, is_valid(job))
        same(f"line of job {job.key}", tuple(job_class)[: len(expected_class)], expected_class)
        if job not in fresh:
            same(f"waiting tasks of job {job.key}", waiting.started[job][1].tasks, job.waiting())
    same("templates in use", set(waiting._templates.values()), set(users))
    same(
        "jobs that only gates delay", set(waiting.gated), {job for job in state.jobs() if job.gated and not job.pending}
    )
    same("gated pods", set(state.gates), {key for key, task in state.tasks.items() if task.state is TaskState.GATED})
    same("groups without pods", set(waiting.empty), {job for job in state.groups.values() if not job.tasks})
    short = {job for job in state.groups.values() if job.group and job.tasks and not job.pending and not is_valid(job)}
    same("groups with too few pods, none pending", set(waiting.short), short)
    _check_claims(state)
    in_classes = []
    for key, template in waiting._templates.items():
        holds("a signature is filed under another's key", template.key == key)
        same(f"jobs of signature {key}", template.users, users[template])
        for class_key, ranked in template.classes.items():
            holds(f"line {class_key} is filed under another's key", ranked.key == class_key)
            _check_class(waiting, ranked)
            in_classes += [pending_job.job for pending_job in ranked.jobs]
    same("jobs in lines", sorted(job.key for job in in_classes), sorted(job.key for job in fresh))


def _check_claims(state: ClusterState) -> None:
    """What admitted groups have not been allocated of their `minResources`, from scratch."""
    expected: dict[Job, dict[int, int]] = {}
    for job in state.groups.values():
        live = any(task.state not in FINISHED for task in job.tasks)
        waits = not job.tasks and job.phase == "Inqueue"
        if not job.group or not job.minimum_resources or job.phase == "Completed" or not (live or waits):
            continue
        if job.phase not in ADMITTED_PHASES and not job.has_started():
            continue
        counted = ACCOUNTED | {TaskState.SUCCEEDED, TaskState.GATED}
        used = [dict(task.shape.vector) for task in job.tasks if task.state in counted]
        left = {row: amount - sum(one.get(row, 0) for one in used) for row, amount in job.minimum_resources}
        if any(amount > 0 for amount in left.values()):
            expected[job] = {row: amount for row, amount in left.items() if amount > 0}
    same("unallocated minResources", {job: dict(left) for job, left in state.waiting.unallocated.items()}, expected)


def _check_class(waiting: WaitingIndex, job_class: EquivalenceClass) -> None:
    holds(f"line {job_class.key} is empty", bool(job_class.jobs))
    orders = [pending_job.job.order for pending_job in job_class.jobs]
    same(f"order of line {job_class.key}", orders, sorted(orders))
    same(f"keys of line {job_class.key}", job_class._orders, orders)
    for job, tasks in job_class.jobs:
        position = waiting.position_of(job)
        same(f"line of job {job.key}", position.class_key, job_class.key)
        holds(f"job {job.key} stands in a line of another signature", position.template is job_class.template)
        same(f"waiting tasks of job {job.key} in its line", tasks, job.waiting())


def _template_key(job: Job) -> tuple[Any, ...]:
    runs: list[Run] = []
    for task in job.waiting():
        run = Run(task.shape, task.traits.role, 1)
        if runs and runs[-1][:2] == run[:2]:
            run = Run(run.shape, run.role, runs.pop().size + 1)
        runs.append(run)
    return tuple(runs), job.minimum, job.role_minimums, job.minimum_resources, job.topology


# -- shapes and terms ---------------------------------------------------------------------------------------------


def _check_shapes(state: ClusterState) -> None:
    counts = Counter(task.shape for task in _every_task(state))
    shapes = state._shaper._shapes
    same("shapes in use", set(shapes.values()), set(counts))
    for key, shape in shapes.items():
        holds(f"shape {shape!r} is filed under another's key", shape.key == key)
        same(f"tasks of shape {shape!r}", shape.tasks, counts[shape])


def _check_matches(state: ClusterState) -> None:
    terms = state.terms
    for task in _every_task(state):
        namespace, labels = task.job.namespace, task.labels
        matching = [
            id for id, term in sorted(terms._terms.items()) if term.matches(namespace, labels, state.namespaces.labels)
        ]
        same(f"terms that match {task.key}", sorted(task.matched), matching)
        if task.state in WAITING:
            alive = [id for id in task.shape.matched if id in terms._terms]
            same(f"terms that match the shape of {task.key}", alive, matching)
    for key, values in terms._postings.items():
        kept = {(value, task.key) for value, tasks in values.items() for task in tasks}
        same(f"pods by label {key}", kept, {(t.labels[key], t.key) for t in _every_task(state) if key in t.labels})


def _check_term_columns(state: ClusterState) -> None:
    present: Counter[tuple[int, int]] = Counter()
    owners: Counter[tuple[tuple[int, str], int]] = Counter()
    for task in _every_task(state):
        if task.state in ON_NODE:
            present.update((term, task.node) for term in task.matched)
            owners.update((owned, task.node) for owned in task.shape.anti_affinity)
    same("pods that terms match", _nonzero(state.terms.present), dict(present))
    same("pods that own anti-affinities", _nonzero(state.terms.owners), dict(owners))
    same("terms with a column", set(state.terms.present), set(state.terms._terms))
    repelled = {(term, key) for term, keys in state.terms.repelling.items() for key in keys}
    same("owners of anti-affinities that no pod has", set(state.terms.owners) - repelled, set())


def _nonzero(columns: dict[Any, Any]) -> dict[tuple[Any, int], int]:
    return {(key, int(row)): int(column[row]) for key, column in columns.items() for row in np.flatnonzero(column)}


def _check_term_users(state: ClusterState) -> None:
    shapes: list[Shape] = list(state._shaper._shapes.values())
    users = Counter(term for shape in shapes for term in shape.rules.terms())
    terms = state.terms
    same("users of terms", {id: term.users for id, term in terms._terms.items()}, dict(users))
    same("terms by key", {term.id for term in terms._by_key.values()}, set(terms._terms))
    repelling: dict[int, Counter[str]] = {}
    for shape in shapes:
        for term, key in shape.anti_affinity:
            repelling.setdefault(term, Counter())[key] += 1
    same("shapes that repel terms", terms.repelling, {term: dict(keys) for term, keys in repelling.items()})


# -- what is kept between cycles -----------------------------------------------------------------------------------


def _check_derived(state: ClusterState) -> None:
    for value in state.derived.values():
        value.check()
