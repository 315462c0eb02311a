"""What would change if: the same state decided, or simulated, with and without some changes. Changes nothing.

Objects are replaced by changed copies, never modified, so that the picture that others are reading stays valid. The
answer is the difference: to the next cycle, or to everything that is known to come.
"""

from __future__ import annotations

from collections.abc import Iterable, Iterator
from dataclasses import dataclass, field
from io import BytesIO
from typing import Literal

from msgspec.structs import replace

from fairway.api import kinds
from fairway.api.core import NAMESPACE_WEIGHT, Node, ResourceQuota, ResourceQuotaSpec
from fairway.api.kinds import ApiObject, ObjectKey
from fairway.api.manifests import load, parse_object
from fairway.api.meta import ObjectMeta
from fairway.api.pods import Pod, PodStatus
from fairway.api.policy import Policy, parse_policy
from fairway.api.scheduling import Queue
from fairway.app.explain.look_ahead import LookAhead
from fairway.app.explain.situation import Situation
from fairway.app.view.amounts import base_of_text
from fairway.app.view.models import what_if as asked
from fairway.app.view.models.what_if import SupposedJob, SupposedQueue, SupposedTotals, WhatIfAnswer, WhatIfRequest
from fairway.clock import SECOND, Micros, format_rfc3339, to_datetime
from fairway.errors import InputError
from fairway.resources.algebra import Resource
from fairway.scheduler.decide import decide_and_explain
from fairway.scheduler.plan import ExplainedPlan
from fairway.scheduler.plugins.installed import default_registry
from fairway.sim.spans import rounded_span
from fairway.sim.virtual_jobs import identified
from fairway.state.annotations import EXPECTED_RUNTIME, GROUP_NAME
from fairway.state.cluster import ClusterState
from fairway.state.jobs import ON_NODE
from fairway.state.queues import DEFAULT_QUEUE
from fairway.state.reader import job_of

MAX_NEW = 20_000
"""Maximum number of objects that a question may add."""


def supposed(situation: Situation, changes: Iterable[asked.SupposedChange]) -> Situation:
    """Raises InputError that names the impossible change and the reason."""
    made = _Supposing(situation)
    for number, change in enumerate(changes):
        try:
            made.make(change)
        except InputError as error:
            raise InputError(f"changes[{number}]: {error}") from None
    return Situation(made.objects.values(), made.policy, situation.now, situation.scheduler_names, situation.past)


class _Supposing:
    def __init__(self, situation: Situation) -> None:
        self._situation = situation
        self.objects: dict[ObjectKey, ApiObject] = dict(situation.objects)
        self.policy: Policy = situation.policy

    def make(self, change: asked.SupposedChange) -> None:
        match change:
            case asked.SetQueueWeight(queue, weight):
                found = self._queue(queue)
                self._put(replace(found, spec=replace(found.spec, weight=weight)))
            case asked.SetQueueCapability(queue, capability):
                found = self._queue(queue)
                Resource.parse(capability)
                self._put(replace(found, spec=replace(found.spec, capability=capability)))
            case asked.SetQueueDeserved(queue, deserved):
                found = self._queue(queue)
                Resource.parse(deserved)
                self._put(replace(found, spec=replace(found.spec, deserved=deserved)))
            case asked.SetNamespaceWeight(namespace, weight):
                self._weigh(namespace, weight)
            case asked.AddNodes():
                self._add(list(self._nodes(change)))
            case asked.RemoveNodes(nodes):
                self._remove(nodes)
            case asked.SubmitForm():
                self._add(list(_form(change)))
            case asked.SubmitManifest(yaml):
                self._add(load(["-"], stdin=BytesIO(yaml.encode())).objects)
            case asked.CancelJob(job):
                self._cancel(job)
            case asked.UsePolicy(text):
                self.policy = parse_policy(text, "the supposed policy", default_registry().catalog)

    def _put(self, thing: ApiObject) -> None:
        self.objects[kinds.key(thing)] = thing

    def _add(self, things: list[ApiObject]) -> None:
        if len(self.objects) + len(things) > len(self._situation.objects) + MAX_NEW:
            raise InputError(f"adds {len(things)} objects, expected at most {MAX_NEW} in all")
        now = to_datetime(self._situation.now)
        for thing in things:
            if thing.metadata.creation_timestamp is None:
                thing = replace(thing, metadata=replace(thing.metadata, creation_timestamp=now))
            self._put(thing)

    def _queue(self, name: str) -> Queue:
        found = self.objects.get(("Queue", "", name))
        if isinstance(found, Queue):
            return found
        if name == DEFAULT_QUEUE:
            return Queue(metadata=ObjectMeta(name=name))
        known = sorted(key[2] for key in self.objects if key[0] == "Queue")
        raise InputError(f"there is no queue {name!r}, expected one of {', '.join(known[:9]) or 'none'}")

    def _weigh(self, namespace: str, weight: int) -> None:
        quotas = [
            thing
            for thing in self.objects.values()
            if isinstance(thing, ResourceQuota) and thing.metadata.namespace == namespace
        ]
        bare = ResourceQuota(metadata=ObjectMeta(name="fairway", namespace=namespace), spec=ResourceQuotaSpec())
        quota = next((one for one in quotas if NAMESPACE_WEIGHT in one.spec.hard), quotas[0] if quotas else bare)
        self._put(replace(quota, spec=replace(quota.spec, hard={**quota.spec.hard, NAMESPACE_WEIGHT: str(weight)})))

    def _nodes(self, change: asked.AddNodes) -> Iterator[ApiObject]:
        like = self.objects.get(("Node", "", change.like)) if change.like else None
        if change.like and not isinstance(like, Node):
            raise InputError(f"there is no node {change.like!r}")
        if like is None and not change.allocatable:
            raise InputError("expected `like`, the name of a node, or `allocatable`")
        for number in range(change.count):
            name = f"supposed-{number}"
            while ("Node", "", name) in self.objects:
                name += "-more"
            if isinstance(like, Node):
                meta = replace(like.metadata, name=name, uid="", labels={**like.metadata.labels, HOST_LABEL: name})
                yield replace(like, metadata=meta)
            else:
                amounts = {"pods": "110", **change.allocatable}
                yield parse_object(
                    {
                        "apiVersion": "v1",
                        "kind": "Node",
                        "metadata": {"name": name, "labels": {HOST_LABEL: name}},
                        "status": {"allocatable": amounts, "capacity": amounts},
                    },
                    name,
                )

    def _remove(self, names: Iterable[str]) -> None:
        gone = set(names)
        for name in gone:
            if self.objects.pop(("Node", "", name), None) is None:
                raise InputError(f"there is no node {name!r}")
        for key, thing in list(self.objects.items()):
            if isinstance(thing, Pod) and thing.spec.node_name in gone:
                self.objects[key] = identified(
                    replace(thing, spec=replace(thing.spec, node_name=""), status=PodStatus()), self._situation.now
                )

    def _cancel(self, job: str) -> None:
        pods = [key for key, thing in self.objects.items() if isinstance(thing, Pod) and job_of(thing) == job]
        namespace, _, name = job.partition("/")
        group = self.objects.pop(("PodGroup", namespace, name), None)
        if not pods and group is None:
            raise InputError(f"there is no job {job!r}")
        for key in pods:
            del self.objects[key]


HOST_LABEL = "kubernetes.io/hostname"


def _form(change: asked.SubmitForm) -> Iterator[ApiObject]:
    """A PodGroup and its pods, as a user would write them."""
    where = f"{change.namespace}/{change.name}"
    meta = {"name": change.name, "namespace": change.namespace}
    notes = {} if change.runtime_seconds is None else {EXPECTED_RUNTIME: f"{change.runtime_seconds:g}s"}
    spec = {
        "minMember": change.minimum or change.pods,
        "queue": change.queue,
        "priorityClassName": change.priority_class,
    }
    yield parse_object(
        {"apiVersion": "scheduling.volcano.sh/v1beta1", "kind": "PodGroup", "metadata": meta, "spec": spec}, where
    )
    container = {"name": "main", "image": "supposed", "resources": {"requests": change.requests}}
    for number in range(change.pods):
        yield parse_object(
            {
                "apiVersion": "v1",
                "kind": "Pod",
                "metadata": {
                    "name": f"{change.name}-{number}",
                    "namespace": change.namespace,
                    "annotations": {GROUP_NAME: change.name, **notes},
                },
                "spec": {
                    "schedulerName": "fairway",
                    "priorityClassName": change.priority_class,
                    "containers": [container],
                },
            },
            f"{where}-{number}",
        )


MAX_JOBS = 500
MAX_EVICTIONS = 1_000


@dataclass
class _Outcome:
    """The outcome of all jobs in one of the two situations."""

    states: dict[str, str]
    queues: dict[str, str]
    messages: dict[str, str]
    plan: ExplainedPlan
    evictions: list[str]
    starts: dict[str, Micros] = field(default_factory=dict)
    complete: bool = True


def answer(situation: Situation, request: WhatIfRequest) -> WhatIfAnswer:
    """Raises InputError for an impossible change. The caller fills in `seconds`."""
    changed = supposed(situation, request.changes)
    horizon = situation.now + int(request.horizon_seconds * SECOND)
    look = _decided if request.mode == "decide" else lambda one: _simulated(one, horizon)
    before, after = look(situation), look(changed)
    jobs = _jobs(before, after, request.mode)
    evictions = sorted(set(after.evictions) - set(before.evictions))
    return WhatIfAnswer(
        mode=request.mode,
        sentence=_sentence(before, after, jobs, evictions),
        before=_totals(situation, before),
        after=_totals(changed, after),
        jobs=jobs[:MAX_JOBS],
        jobs_total=len(jobs),
        queues=_queues(before.plan, after.plan),
        evictions=evictions[:MAX_EVICTIONS],
        warnings=[text for text in after.plan.warnings if text not in before.plan.warnings],
        seconds=0.0,
        complete=before.complete and after.complete,
    )


def _decided(situation: Situation) -> _Outcome:
    plan = situation.decide()
    return _outcome(situation.state, plan)


def _outcome(state: ClusterState, plan: ExplainedPlan) -> _Outcome:
    starting = {binding.job for binding in plan.bindings}
    waiting = {entry.job: entry.message for entry in plan.pending}
    evicted = {eviction.pod for eviction in plan.evictions}
    states: dict[str, str] = {}
    queues: dict[str, str] = {}
    for job in state.jobs():
        queues[job.key] = job.queue
        placed = [task for task in job.tasks if task.state in ON_NODE]
        if placed and any(task.key in evicted for task in placed):
            states[job.key] = "evicted"
        elif job.key in starting:
            states[job.key] = "starting"
        else:
            states[job.key] = "waiting" if job.key in waiting and not placed else "running"
    return _Outcome(states, queues, waiting, plan, [eviction.pod for eviction in plan.evictions])


def _simulated(situation: Situation, horizon: Micros) -> _Outcome:
    """Simulates all known events until the horizon: starts of jobs, and allocations at the end."""
    found = _decided(situation)
    waiting = {job for job, state in found.states.items() if state in ("waiting", "starting")}
    ahead = LookAhead(situation)
    ahead.run(waiting, until=horizon)
    found.starts = {job: at for job, at in ahead.started.items() if job in waiting and at <= horizon}
    found.complete = ahead.now >= horizon or not ahead.goes_on or waiting <= ahead.started.keys()
    found.plan = decide_and_explain(ahead.state, situation.policy, ahead.now)
    found.messages = {entry.job: entry.message for entry in found.plan.pending}
    for job in waiting:
        found.states[job] = "starting" if job in found.starts else "waiting"
    return found


def _jobs(before: _Outcome, after: _Outcome, mode: Literal["decide", "simulate"]) -> list[SupposedJob]:
    found = []
    for job in before.states.keys() | after.states.keys():
        one, two = before.states.get(job, "absent"), after.states.get(job, "absent")
        start, other = before.starts.get(job), after.starts.get(job)
        if (one, start) == (two, other):
            continue
        found.append(
            SupposedJob(
                job=job,
                queue=after.queues.get(job) or before.queues.get(job, ""),
                before=one,
                after=two,
                message=after.messages.get(job, "") if two == "waiting" else "",
                start_before=None if start is None else format_rfc3339(start),
                start_after=None if other is None else format_rfc3339(other),
                earlier_seconds=None if start is None or other is None else (start - other) / SECOND,
            )
        )
    return sorted(found, key=lambda row: (-abs(row.earlier_seconds or 0.0), row.after, row.job))


def _queues(before: ExplainedPlan, after: ExplainedPlan) -> list[SupposedQueue]:
    old, new = ({queue.name: queue for queue in plan.queues} for plan in (before, after))
    found = []
    for name in sorted(old.keys() | new.keys()):
        amounts = [
            base_of_text(getattr(queues[name], part)) if name in queues else {}
            for queues in (old, new)
            for part in ("deserved", "allocated")
        ]
        deserved, allocated, later_deserved, later_allocated = amounts
        for resource in sorted({name for one in amounts for name in one}):
            row = SupposedQueue(
                name,
                resource,
                deserved.get(resource, 0),
                later_deserved.get(resource, 0),
                allocated.get(resource, 0),
                later_allocated.get(resource, 0),
            )
            if (row.deserved_before, row.allocated_before) != (row.deserved_after, row.allocated_after):
                found.append(row)
    return found


def _totals(situation: Situation, found: _Outcome) -> SupposedTotals:
    states = list(found.states.values())
    created = {job.key: job.created for job in situation.state.jobs()}
    waits = [(at - born) / SECOND for job, at in found.starts.items() if (born := created.get(job)) is not None]
    return SupposedTotals(
        waiting=states.count("waiting"),
        started=states.count("starting"),
        evicted=len(found.evictions),
        mean_wait_seconds=round(sum(waits) / len(waits), 3) if waits else None,
        utilisation=_utilisation(situation, found.plan),
    )


def _utilisation(situation: Situation, plan: ExplainedPlan) -> dict[str, float]:
    whole: dict[str, float] = {}
    for node in situation.nodes():
        for name, amount in base_of_text(dict(node.allocatable)).items():
            whole[name] = whole.get(name, 0.0) + amount
    used: dict[str, float] = {}
    tops = {queue.name for queue in plan.queues}
    for queue in plan.queues:
        if queue.parent not in tops:
            for name, amount in base_of_text(queue.allocated).items():
                used[name] = used.get(name, 0.0) + amount
    return {name: round(amount / whole[name], 4) for name, amount in sorted(used.items()) if whole.get(name)}


def _sentence(before: _Outcome, after: _Outcome, jobs: list[SupposedJob], evictions: list[str]) -> str:
    if not jobs and not evictions:
        return "Nothing changes for any job."
    parts = []
    starts = sum(row.after == "starting" and row.before in ("waiting", "absent") for row in jobs)
    waits = sum(row.after == "waiting" and row.before in ("starting", "absent") for row in jobs)
    sooner = [row.earlier_seconds for row in jobs if row.earlier_seconds]
    if starts:
        parts.append(f"{_count(starts)} more would start")
    if waits:
        parts.append(f"{_count(waits)} more would wait")
    if evictions:
        parts.append(f"{len(evictions)} more {'pod' if len(evictions) == 1 else 'pods'} would be evicted")
    for word, chosen in (
        ("earlier", [one for one in sooner if one > 0]),
        ("later", [-one for one in sooner if one < 0]),
    ):
        if chosen:
            most = rounded_span(int(max(chosen) * SECOND))
            parts.append(f"{_count(len(chosen))} would start {word} (at most by {most})")
    return (", ".join(parts) or f"{_count(len(jobs))} would fare otherwise").capitalize() + "."


def _count(number: int) -> str:
    return "1 job" if number == 1 else f"{number} jobs"
