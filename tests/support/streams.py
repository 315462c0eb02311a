"""Streams of jobs driven through time: plans are carried out at once, runs end when they do, nothing else happens.

Times are whole seconds after `BEGIN`. At equal times ends and arrivals come before the pass.
"""

from collections.abc import Iterable, Mapping, Sequence
from dataclasses import dataclass, field
from typing import Any

from msgspec.structs import replace

from fairway.api.kinds import ApiObject
from fairway.api.pods import Pod
from fairway.api.policy import Policy
from fairway.clock import SECOND, parse_rfc3339, to_datetime
from fairway.scheduler.decide import decide, decide_and_explain
from fairway.scheduler.plan import ExplainedPlan, Plan, Reservation
from fairway.scheduler.reservations.objects import reservation_objects
from fairway.state import invariants
from fairway.state.cluster import ClusterState, Deleted, Upserted
from support import engine
from support import objects as make
from support.contention import DAY, Action, running
from support.objects import BEGIN

EXPECTED = "fairway.dev/expected-runtime"
MAX_PASSES = 500


def planning(mode: str, *before: Action, plugins: Sequence[str] = ("gang", "predicates"), **arguments: Any) -> Policy:
    """Actions `before`, then allocate and backfill in a mode. By these plugins only age and names decide."""
    listed = [*before, "allocate", ("backfill", {"mode": mode, **arguments})]
    actions = [{"name": a} if isinstance(a, str) else {"name": a[0], "arguments": dict(a[1])} for a in listed]
    return engine.policy(actions=actions, plugins=plugins)


def lasting(span: object) -> dict[str, Any]:
    """What a pod that states its expected run time says."""
    return {"annotations": {EXPECTED: str(span)}}


def limited(span: int) -> dict[str, Any]:
    """What a pod says that is ended after this time."""
    return {"spec": {"activeDeadlineSeconds": span}}


def busy(name: str, on: str, left: int, cpu: int = 2, **rest: Any) -> Pod:
    """A pod that has run for ten seconds at `NOW`, and ends for sure in so many seconds."""
    return running(name, on, started=DAY - 10, cpu=cpu, **limited(10 + left), **rest)


def promises(plan: Plan) -> dict[str, Reservation]:
    """Promised starts by pod."""
    return {held.pod.removeprefix("default/"): held for held in plan.reservations if held.planned_start is not None}


@dataclass(frozen=True)
class Work:
    """A gang of like pods. `stated` is the run time that it states, None if it states none; `run` how long it takes."""

    name: str
    submit: int
    run: int
    stated: int | None = None
    tasks: int = 1
    cpu: int = 1
    stating: str = "deadline"
    """How it states it: by `deadline`, by the annotation of the `pod` or of the `group`."""
    namespace: str = "default"
    priority: int = 0

    def objects(self) -> list[ApiObject]:
        note = {} if self.stated is None else {EXPECTED: str(self.stated)}
        spec: dict[str, Any] = {"priority": self.priority} if self.priority else {}
        if self.stated is not None and self.stating == "deadline":
            spec["activeDeadlineSeconds"] = self.stated
        group = make.group(self.name, self.namespace, minimum=self.tasks, created=self.submit)
        if self.stating == "group":
            group = replace(group, metadata=replace(group.metadata, annotations=note))
        pods = make.gang(
            self.name,
            self.namespace,
            members=self.tasks,
            created=self.submit,
            annotations=note if self.stating == "pod" else {},
            spec=spec,
            **({"cpu": self.cpu} if self.cpu else {}),
        )[1:]
        return [group, *pods]


@dataclass
class Pass:
    """One cycle and what it said."""

    now: int
    plan: ExplainedPlan

    @property
    def promised(self) -> dict[str, int]:
        """By job: its planned start."""
        return {_short(held.job): seconds(held.planned_start) for held in self._promises()}

    @property
    def hard(self) -> dict[str, int]:
        """By job: its planned start, if it is hard."""
        return {_short(held.job): seconds(held.planned_start) for held in self._promises() if held.hard}

    @property
    def soft(self) -> set[str]:
        return {_short(held.job) for held in self._promises() if held.soft}

    def _promises(self) -> list[Reservation]:
        return [held for held in self.plan.reservations if held.planned_start is not None]


@dataclass
class Stream:
    """What became of the works: when each started and where."""

    state: ClusterState
    policy: Policy
    passes: list[Pass] = field(default_factory=list)
    started: dict[str, int] = field(default_factory=dict)
    places: dict[str, list[str]] = field(default_factory=dict)
    evicted: list[str] = field(default_factory=list)
    reasons: bool = False
    _ends: dict[str, int] = field(default_factory=dict)
    _pods: dict[str, list[Pod]] = field(default_factory=dict)

    def run(self, works: Iterable[Work]) -> "Stream":
        coming = sorted(works, key=lambda work: (work.submit, work.name))
        runs = {work.name: work for work in coming}
        moments = {work.submit for work in coming}
        while moments:
            now = min(moments)
            moments.discard(now)
            for name in sorted(name for name, end in self._ends.items() if end == now):
                self._end(name)
            while coming and coming[0].submit == now:
                self._arrive(coming.pop(0))
            again = self._decide(now, runs)
            moments |= {end for end in self._ends.values() if end > now}
            if again is not None and (coming or self._ends or again == now):
                moments.add(again)
            assert len(self.passes) < MAX_PASSES
        invariants.check(self.state)
        return self

    def _arrive(self, work: Work) -> None:
        things = work.objects()
        self._pods[work.name] = [thing for thing in things if isinstance(thing, Pod)]
        self.state.upsert(things)

    def _end(self, name: str) -> None:
        del self._ends[name]
        for pod in self._pods[name]:
            self.state.apply(Deleted(pod))
        self.state.apply(Deleted(make.group(name, self._pods[name][0].metadata.namespace)))

    def _decide(self, now: int, runs: Mapping[str, Work]) -> int | None:
        at = BEGIN + now * SECOND
        plan: Plan = (decide_and_explain if self.reasons else decide)(self.state, self.policy, at)
        self.passes.append(Pass(now, plan))
        self.evicted += [eviction.pod for eviction in plan.evictions]
        self._write_reservations(plan)
        for eviction in plan.evictions:
            self._evict(eviction.pod)
        for binding in plan.bindings:
            name = _short(binding.job)
            pod = next(pod for pod in self._pods[name] if _short(binding.pod) == pod.metadata.name)
            spec = replace(pod.spec, node_name=binding.node)
            status = replace(pod.status, phase="Running", start_time=to_datetime(at))
            self.state.apply(Upserted(replace(pod, spec=spec, status=status)))
            self.started[name] = now
            self.places.setdefault(name, []).append(binding.node)
            self._ends[name] = now + runs[name].run
        if plan.evictions:
            return now  # what was evicted is gone: there is more to decide
        if plan.recheck_at is None:
            return None
        return -(-(plan.recheck_at - BEGIN) // SECOND)

    def _write_reservations(self, plan: Plan) -> None:
        wanted = reservation_objects(plan.reservations, plan.overruns)
        for key, thing in dict(self.state.reservations.objects()).items():
            if key not in wanted:
                self.state.apply(Deleted(thing))
        for thing in wanted.values():
            self.state.apply(Upserted(thing))

    def _evict(self, key: str) -> None:
        """The pod is gone, and created again at once; its run begins from the beginning."""
        name, pod = next((n, p) for n, pods in self._pods.items() for p in pods if _short(key) == p.metadata.name)
        self._ends.pop(name, None)
        self.started.pop(name, None)
        self.places.pop(name, None)
        self.state.apply(Deleted(pod))
        self.state.apply(Upserted(pod))


def _short(key: str) -> str:
    """The names of works and of their pods are unique."""
    return key.partition("/")[2]


def stream(nodes: Sequence[int], policy: Policy, works: Iterable[Work]) -> Stream:
    """On nodes n00, n01... with so many cpus."""
    state = engine.state_of([make.node(f"n{i:02d}", cpu=cpu, pods=20) for i, cpu in enumerate(nodes)])
    return Stream(state, policy).run(works)


def seconds(text: str | None) -> int:
    assert text is not None
    span = parse_rfc3339(text) - BEGIN
    assert span % SECOND == 0, text
    return span // SECOND
