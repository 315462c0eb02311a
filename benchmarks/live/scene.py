"""Clusters for benchmarks of live cycles: nodes, queues, tenants, and running, pending or arriving pods."""

from __future__ import annotations

from collections.abc import Callable, Iterable
from dataclasses import dataclass, field
from datetime import UTC, datetime, timedelta
from typing import Any

from msgspec.structs import replace

from benchmarks.policies import policy_for
from benchmarks.timing import full_cycle, seconds
from fairway.api.core import Node, NodeStatus
from fairway.api.kinds import ApiObject
from fairway.api.meta import ObjectMeta
from fairway.api.pods import Container, Pod, PodSpec, PodStatus, ResourceRequirements
from fairway.api.policy import Policy
from fairway.api.scheduling import PodGroup, PodGroupSpec, PodGroupStatus, Queue, QueueSpec
from fairway.clock import from_datetime
from fairway.scheduler.decide import decide
from fairway.state.cluster import ClusterState, Deleted, Upserted

START = datetime(2026, 1, 1, tzinfo=UTC)
NOW = from_datetime(START + timedelta(days=1))
GROUP = "scheduling.k8s.io/group-name"
QUEUE = "scheduling.volcano.sh/queue-name"


def node(index: int, cpu: int = 64, **labels: str) -> Node:
    status = NodeStatus(capacity={"cpu": str(cpu), "memory": f"{4 * cpu}Gi", "pods": "250"})
    name = f"node-{index:05}"
    return Node(metadata=ObjectMeta(name=name, labels={"kubernetes.io/hostname": name, **labels}), status=status)


def queue(name: str, parent: str = "") -> Queue:
    return Queue(metadata=ObjectMeta(name=name), spec=QueueSpec(weight=1, parent=parent))


def pod(name: str, cpu: str = "1", *, queue: str = "", group: str = "", on: str = "", **more: Any) -> Pod:
    """A pending pod, or one running `on` a node; `more` are fields of its metadata, spec or container."""
    meta = {key: more.pop(key) for key in ("labels", "namespace", "creation_timestamp", "uid") if key in more}
    annotations = {**({QUEUE: queue} if queue else {}), **({GROUP: group} if group else {}), **more.pop("notes", {})}
    ports, memory = more.pop("ports", ()), more.pop("memory", "1Gi")
    requests = ResourceRequirements(requests={"cpu": cpu, "memory": memory})
    return Pod(
        metadata=ObjectMeta(
            **{"namespace": "team", "creation_timestamp": START, **meta}, name=name, annotations=annotations
        ),
        spec=PodSpec(containers=(Container(name="main", resources=requests, ports=ports),), node_name=on, **more),
        status=PodStatus(phase="Running", start_time=START) if on else PodStatus(phase="Pending"),
    )


def group(name: str, minimum: int) -> PodGroup:
    """A group with the status Running."""
    meta = ObjectMeta(name=name, namespace="team", creation_timestamp=START)
    return PodGroup(metadata=meta, spec=PodGroupSpec(min_member=minimum), status=PodGroupStatus(phase="Running"))


def bound(pod: Pod, name: str) -> Pod:
    """The pod as the API server shows it once it runs."""
    return replace(pod, spec=replace(pod.spec, node_name=name), status=PodStatus(phase="Running", start_time=START))


@dataclass
class Scene:
    """A state, its policy, and an event that is applied and reverted."""

    objects: Iterable[ApiObject]
    event: ApiObject | None = None
    policy: Policy = field(default_factory=lambda: policy_for("binpack"))
    reasons: bool = True

    def __post_init__(self) -> None:
        self.state = ClusterState()
        self.state.upsert(self.objects)
        self.objects = ()
        for _ in range(3):
            self.cycle()

    def cycle(self) -> float:
        """CPU seconds of the event and its cycle; then, unmeasured, the event is reverted."""
        took = seconds(self._run)
        if self.event is not None:
            self.state.apply(Deleted(self.event))
            self.decide()
        return took

    def decide(self) -> object:
        return (full_cycle if self.reasons else decide)(self.state, self.policy, NOW)

    def _run(self) -> object:
        if self.event is not None:
            self.state.apply(Upserted(self.event))
        return self.decide()


def report(text: str, figure: float, wanted: float, *, at_least: bool = False) -> None:
    """One line: the measurement, its value, the target, and whether it was missed."""
    missed = figure < wanted if at_least else figure > wanted
    bound = "at least" if at_least else "at most"
    print(f"  {text}: {figure:,.4g} ({bound} {wanted:,g}){'  MISSED' if missed else ''}", flush=True)


def growth(
    title: str, make: Callable[[int], Scene], sizes: list[int], *, step: float, over_none: float | None = None
) -> None:
    """Cycles of scenes that grow, taken in turns: milliseconds for each, the largest ratio of neighbours per doubling,
    and that of the largest to a scene with none.
    """
    from benchmarks.timing import medians, quiet

    counts = ([0] if over_none is not None else []) + sizes
    scenes = [make(count) for count in counts]
    with quiet():
        found = dict(zip(counts, medians([scene.cycle for scene in scenes], 9), strict=True))
    print(f"  {title}: " + ", ".join(f"{count:,} {took * 1e3:.2f} ms" for count, took in found.items()), flush=True)
    doublings = len(sizes) - 1
    per_doubling = (found[sizes[-1]] / found[sizes[0]]) ** (1 / doublings)
    report(f"{title}, times per doubling", per_doubling, step)
    if over_none is not None:
        report(f"{title}, {sizes[-1]:,} against none", found[sizes[-1]] / found[0], over_none)
