"""A small world that does what plans say, in whole seconds, and is looked at by tests.

It carries holds on the objects that own them, as a driver does, and nothing else from cycle to cycle: whatever a cycle
needs to know of the one before it must be read back from there. An evicted pod leaves after `grace` seconds and is made
anew as a waiting one.
"""

from collections.abc import Iterator
from typing import Any

from msgspec.structs import replace

from fairway.api.pods import Pod, PodStatus
from fairway.api.policy import Policy
from fairway.api.scheduling import PodGroup
from fairway.clock import SECOND, to_datetime
from fairway.scheduler.decide import decide, decide_and_explain
from fairway.scheduler.paranoid import check, check_plan
from fairway.scheduler.plan import Plan
from fairway.scheduler.reservations.objects import reservation_objects
from fairway.state.cluster import Deleted, Upserted
from support.contention import NOMINATED_SINCE
from support.engine import flat, state_of
from support.objects import BEGIN

CHECK_EVERY = 3
NEVER = 1 << 60


class World:
    """`runs` are run times in seconds by pod name; a pod without one runs for ever.

    The state is checked in full after the first cycle that does something, and then after every third of them. The
    check costs as much as a cycle, and what it looks for waits for it: a sum that is wrong once stays wrong.
    """

    reasons = True
    """Whether plans explain why jobs wait. Most properties do not read the reasons."""

    def __init__(self, *objects: Any, policy: Policy, runs: dict[str, int] | None = None) -> None:
        things = flat(objects)
        self.policy = policy
        self.runs = runs or {}
        self.state = state_of(things)
        self.pods = {_key(thing): thing for thing in things if isinstance(thing, Pod)}
        self.groups = {_key(thing): thing for thing in things if isinstance(thing, PodGroup)}
        self.started: dict[str, int] = {}
        self.now = 0
        self.grace = 0
        self.evictions: list[tuple[int, str, str]] = []
        self._ends: list[tuple[int, str]] = []
        self._goes: list[tuple[int, str]] = []
        self._unchecked = CHECK_EVERY - 1
        self._standing: tuple[Any, Any] = ((), ())
        self._recheck_at: int | None = None
        self._quiet = 0
        """Cycles in a row that did nothing."""

    def play(self, until: int) -> None:
        """Every second: those whose time is up leave, then the scheduler decides."""
        for second in range(self.now, until + 1):
            self.step(second)

    def step(self, second: int) -> Plan:
        self.now = second
        self.pass_time()
        now = BEGIN + second * SECOND
        plan: Plan = (decide_and_explain if self.reasons else decide)(self.state, self.policy, now)
        standing = (plan.nominations, plan.reservations)
        acts = bool(plan.bindings or plan.evictions or plan.released or standing != self._standing)
        self._quiet = 0 if acts else self._quiet + 1
        self._unchecked += acts
        if acts and self._unchecked >= CHECK_EVERY:
            self._unchecked = 0
            check_plan(plan, self.state, self.policy, now)
            check(self.state, self.policy, now)
        self._standing, self._recheck_at = standing, plan.recheck_at
        self.carry_out(plan)
        return plan

    def seconds(self, until: int) -> Iterator[int]:
        """The seconds to step through, without those in which nothing can happen: after two cycles that did nothing the
        next one is when a pod ends or is gone, or when the plan says that its answer may change (9.1).
        """
        second = 0
        while second < until:
            yield second
            second = self._next_event(second) if self._quiet >= 2 else second + 1

    def _next_event(self, second: int) -> int:
        moments = [at for at, *_ in self.moments() if at > second]
        if self._recheck_at is not None:
            moments.append(-((BEGIN - self._recheck_at) // SECOND))
        return max(second + 1, min(moments, default=NEVER))

    def moments(self) -> list[tuple[int, Any]]:
        """What is going to happen, by second."""
        return [*self._ends, *self._goes]

    def pass_time(self) -> None:
        for key in self._due(self._ends):
            if key in self.pods:
                self.state.apply(Deleted(self.pods.pop(key)))
        for key in self._due(self._goes):
            if key in self.pods:
                self.recreate(key)

    def recreate(self, key: str) -> None:
        """The pod is gone, and its controller makes another."""
        old = self.pods[key]
        self.state.apply(Deleted(old))
        notes = {name: text for name, text in old.metadata.annotations.items() if name != NOMINATED_SINCE}
        meta = replace(old.metadata, creation_timestamp=self._time(), deletion_timestamp=None, annotations=notes)
        self._put(replace(old, metadata=meta, spec=replace(old.spec, node_name=""), status=PodStatus()))

    def carry_out(self, plan: Plan) -> None:
        self._write_reservations(plan)
        self._write_nominations({entry.pod: entry for entry in plan.nominations})
        for eviction in plan.evictions:
            self._evict(eviction.pod, eviction.for_)
        for binding in plan.bindings:
            self._bind(binding.pod, binding.node)

    def _bind(self, key: str, node: str) -> None:
        pod = self.pods[key]
        status = PodStatus(phase="Running", start_time=self._time())
        self._put(replace(pod, spec=replace(pod.spec, node_name=node), status=status))
        self.started[pod.metadata.name] = self.now
        if pod.metadata.name in self.runs:
            self._ends.append((self.now + self.runs[pod.metadata.name], key))

    def _evict(self, key: str, claimant: str) -> None:
        self.evictions.append((self.now, key, claimant))
        self._ends = [(at, other) for at, other in self._ends if other != key]
        self._goes.append((self.now + self.grace, key))
        pod = self.pods[key]
        self._put(replace(pod, metadata=replace(pod.metadata, deletion_timestamp=self._time())))

    def _write_reservations(self, plan: Plan) -> None:
        wanted = reservation_objects(plan.reservations, plan.overruns)
        standing = dict(self.state.reservations.objects())
        for key, thing in standing.items():
            if key not in wanted:
                self.state.apply(Deleted(thing))
        for key, thing in wanted.items():
            if standing.get(key) != thing:
                self.state.apply(Upserted(thing))

    def _write_nominations(self, nominations: dict[str, Any]) -> None:
        for key, pod in list(self.pods.items()):
            entry = nominations.get(key)
            node = "" if entry is None else entry.node
            if pod.status.nominated_node_name == node:
                continue
            notes = {name: text for name, text in pod.metadata.annotations.items() if name != NOMINATED_SINCE}
            if entry is not None:
                notes[NOMINATED_SINCE] = entry.since
            meta = replace(pod.metadata, annotations=notes)
            self._put(replace(pod, metadata=meta, status=replace(pod.status, nominated_node_name=node)))

    def _due(self, moments: list[tuple[int, str]]) -> list[str]:
        due = sorted(entry for entry in moments if entry[0] <= self.now)
        moments[:] = [entry for entry in moments if entry[0] > self.now]
        return [key for _, key in due]

    def _put(self, pod: Pod) -> None:
        self.pods[_key(pod)] = pod
        self.state.apply(Upserted(pod))

    def _time(self) -> Any:
        return to_datetime(BEGIN + self.now * SECOND)


def _key(thing: Any) -> str:
    return f"{thing.metadata.namespace}/{thing.metadata.name}"
