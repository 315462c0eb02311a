"""What a pod waits for that is bound while one namespace does its worst, against a cluster without that namespace.

Pods of other namespaces arrive at a steady rate. Cycles start as in a live scheduler: at most every 50 ms, with reasons
at most every second and for at most a quarter of the time (`drive.loop`). How long a cycle takes is measured, when it
starts is computed from that; so a quiet machine and a busy one give the same ratios.
"""

from __future__ import annotations

from collections.abc import Callable, Iterator
from itertools import count

from benchmarks.hostile_shapes import DEVICE_CLASS, KINDS, objects, read
from benchmarks.live.scene import NOW, bound, node, pod, report
from benchmarks.policies import policy_for
from benchmarks.timing import quiet, seconds
from fairway.api.kinds import ApiObject
from fairway.api.pods import Pod
from fairway.devices.select.cel_selectors import ENVIRONMENT
from fairway.scheduler.decide import decide, decide_and_explain
from fairway.scheduler.plan import Plan
from fairway.state.cluster import ClusterState, Deleted, Upserted
from fairway.state.namespaces import SCHEDULING_BUDGET

NODES, WITH_DEVICES, RUNNING = 400, 40, 2_000
ACTIONS = "enqueue, reserve, allocate, reclaim, backfill"
"""Those of the built-in policy."""
PODS = 400
INTERVAL, BETWEEN_PODS = 0.05, 0.02
REASONS, REST = 1.0, 4
CHURN = 10
"""Objects of the hostile namespace that are replaced in each cycle of the restless variant."""
MOST = 2.0


def cluster() -> Iterator[ApiObject]:
    """Nodes, some of them with devices that all differ in an attribute, and running pods of twenty teams."""
    yield from (node(index, zone=f"zone-{index % 5}") for index in range(NODES))
    slices = []
    for index in range(WITH_DEVICES):
        name = f"node-{index:05}"
        devices = [
            {
                "name": f"gpu-{number}",
                "attributes": {"uuid": {"string": f"{index}-{number}"}, "model": {"string": "A"}},
                "capacity": {"memory": {"value": "40Gi"}},
            }
            for number in range(4)
        ]
        pool = {"name": name, "generation": 1, "resourceSliceCount": 1}
        spec = {"driver": DEVICE_CLASS, "nodeName": name, "pool": pool, "devices": devices}
        head = {"apiVersion": "resource.k8s.io/v1", "kind": "ResourceSlice", "metadata": {"name": name}}
        slices.append({**head, "spec": spec})
    yield from read(slices)
    head = {"apiVersion": "resource.k8s.io/v1", "kind": "DeviceClass", "metadata": {"name": DEVICE_CLASS}}
    yield from read([{**head, "spec": {}}])
    yield from (running(index) for index in range(RUNNING))


def running(index: int) -> Pod:
    labels = {"app": f"app-{index % 20}"}
    return pod(f"run-{index}", on=f"node-{index % NODES:05}", namespace=f"team-{index % 20}", labels=labels)


class Stream:
    """Innocent pods that arrive, are bound and run, with an old pod that ends for each."""

    def __init__(self, hostile: list[ApiObject], spare: list[ApiObject] | None = None) -> None:
        """With `spare` objects, some of the hostile ones are replaced in each cycle."""
        self._state, self._policy = ClusterState(budget=SCHEDULING_BUDGET), policy_for("binpack", ACTIONS)
        self._state.upsert(cluster())
        for warm in range(2):
            decide(self._state, self._policy, NOW + warm)
        self._state.upsert(hostile)
        self._hostile, self._spare = hostile, spare or []
        self._old = [running(index) for index in range(RUNNING)]
        self._numbers = count()

    def latencies(self, pods: int = PODS) -> list[float]:
        """Seconds from the arrival of each pod to the end of the cycle that bound it."""
        arrivals = [number * BETWEEN_PODS for number in range(pods)]
        waiting: dict[str, float] = {}
        found: list[float] = []
        at, began, explained, took = 0.0, -INTERVAL, 0.0, 0.0
        while arrivals or waiting:
            at = max(at, began + INTERVAL, arrivals[0] if arrivals and not waiting else 0.0)
            new = [arrived for arrived in arrivals if arrived <= at]
            arrivals = arrivals[len(new) :]
            reasons = at >= explained + max(REASONS, REST * took)
            began = at
            arriving = [self._arriving() for _ in new]
            waiting |= {
                f"{each.metadata.namespace}/{each.metadata.name}": when
                for each, when in zip(arriving, new, strict=True)
            }
            made: list[Plan] = []
            spent = seconds(lambda: made.append(self._cycle(arriving, at, reasons=reasons)))  # noqa: B023
            at += spent
            if reasons:
                explained, took = at, spent
            for binding in made[0].bindings:
                arrived = waiting.pop(binding.pod, None)
                if arrived is not None:
                    found.append(at - arrived)
                    self._start(binding.pod, binding.node)
        return found

    def _arriving(self) -> Pod:
        number = next(self._numbers)
        return pod(f"new-{number}", namespace=f"team-{number % 20}", labels={"app": f"app-{number % 20}"})

    def _cycle(self, arriving: list[Pod], at: float, *, reasons: bool) -> Plan:
        for each in arriving:
            self._state.apply(Upserted(each))
        self._churn()
        now = NOW + int(at * 1e6) + 10
        return (decide_and_explain if reasons else decide)(self._state, self._policy, now)

    def _churn(self) -> None:
        for _ in range(min(CHURN, len(self._spare))):
            gone, come = self._hostile.pop(0), self._spare.pop(0)
            self._hostile.append(come)
            self._spare.append(gone)
            self._state.apply(Deleted(gone))
            self._state.apply(Upserted(come))

    def _start(self, key: str, where: str) -> None:
        namespace, _, name = key.partition("/")
        number = int(name.removeprefix("new-"))
        started = bound(pod(name, namespace=namespace, labels={"app": f"app-{number % 20}"}), where)
        self._state.apply(Upserted(started))
        self._state.apply(Deleted(self._old.pop(0)))
        self._old.append(started)


def p99(times: list[float]) -> float:
    return sorted(times)[len(times) * 99 // 100 - 1]


def hostile() -> None:
    """Every kind of hostile shape, and all of them replaced all the time."""
    ENVIRONMENT.program("true")  # loading the library takes some tenths of a second, once in a process
    with quiet():
        alone = p99(Stream([]).latencies())
        print(f"  p99 of a bind without the hostile namespace: {alone * 1e3:.1f} ms", flush=True)
        for kind in KINDS:
            _report(kind, lambda kind=kind: Stream(objects(kind)), alone)  # type: ignore[misc]
        _report("churn", _churning, alone)


def _churning() -> Stream:
    some = [thing for kind in ("nested loops", "pod affinity", "spread", "requests") for thing in objects(kind, 150)]
    return Stream(some[::2], some[1::2])


def _report(kind: str, make: Callable[[], Stream], alone: float) -> None:
    theirs = p99(make().latencies())
    report(f"{kind}, p99 of an innocent bind ({theirs * 1e3:.1f} ms) against undisturbed", theirs / alone, MOST)
