"""The cost of idle tenants: the same cycles with many queues and namespaces, and with one."""

from __future__ import annotations

from collections.abc import Iterator
from itertools import count

from benchmarks.live.scene import NOW, Scene, bound, node, pod, queue, report
from benchmarks.policies import policy_for
from benchmarks.timing import clock, full_cycle, medians, quiet
from fairway.api.kinds import ApiObject
from fairway.scheduler.decide import decide
from fairway.state.cluster import ClusterState, Deleted, Upserted

NODES, RUNNING = 5_000, 20_000


def cluster(queues: int, namespaces: int) -> Iterator[ApiObject]:
    """5,000 nodes with 20,000 running pods, spread over the tenants."""
    yield from (node(index) for index in range(NODES))
    yield from (queue(f"queue-{index:04}") for index in range(queues))
    for index in range(RUNNING):
        yield pod(f"run-{index}", on=f"node-{index % NODES:05}", **tenant(index, queues, namespaces))


def tenant(index: int, queues: int, namespaces: int) -> dict[str, str]:
    """Every namespace uses one queue."""
    namespace = index % namespaces
    return {"queue": f"queue-{namespace % queues:04}", "namespace": f"team-{namespace:04}"}


def small_cycles(actions: str = "enqueue, allocate, backfill") -> None:
    """An empty cycle, and one with a new pod."""
    sizes, policy = [(1, 1), (100, 1_000), (1_000, 1_000)], policy_for("binpack", actions)
    scenes = [Scene(cluster(*size), event, policy) for event in (None, pod("new", **tenant(7, 1, 1))) for size in sizes]
    with quiet():
        times = medians([scene.cycle for scene in scenes], 25)
    for title, base in (("an empty cycle", 0), ("one new pod", 3)):
        one, *others = times[base : base + 3]
        for (queues, namespaces), took in zip(sizes[1:], others, strict=True):
            text = f"{title}, {queues:,} x {namespaces:,} ({took * 1e3:.2f} ms) against 1 x 1 ({one * 1e3:.2f} ms)"
            report(text, took / one, 1.5)


class Stream:
    """Pods arrive one by one; a cycle places each; for each that starts, an old one ends."""

    def __init__(self, queues: int, namespaces: int, *, reasons: bool) -> None:
        self._state, self._policy, self._reasons = ClusterState(), policy_for("binpack"), reasons
        objects = list(cluster(queues, namespaces))
        self._state.upsert(objects)
        self._running = objects[-RUNNING:]
        self._numbers = count()
        self._size = queues, namespaces
        self.seconds_a_pod(20)

    def seconds_a_pod(self, pods: int = 100) -> float:
        numbers = [next(self._numbers) for _ in range(pods)]
        arriving = [pod(f"new-{number}", **tenant(7 * number, *self._size)) for number in numbers]
        began = clock()
        for number, new in zip(numbers, arriving, strict=True):
            self._state.apply(Upserted(new))
            (binding,) = (full_cycle if self._reasons else decide)(self._state, self._policy, NOW).bindings
            running = bound(new, binding.node)
            self._state.apply(Upserted(running))
            old, self._running[number % RUNNING] = self._running[number % RUNNING], running
            self._state.apply(Deleted(old))
        return (clock() - began) / pods


def stream() -> None:
    """One pod per cycle, with and without reasons."""
    for reasons in (True, False):
        many, one = Stream(100, 1_000, reasons=reasons), Stream(1, 1, reasons=reasons)
        with quiet():
            ours, theirs = medians([many.seconds_a_pod, one.seconds_a_pod], 7)
        title = f"one pod per cycle, {'with' if reasons else 'without'} reasons, 100 x 1,000"
        report(f"{title}, pods per second", 1 / ours, 1_000, at_least=True)
        report(f"{title}, part of 1 x 1 ({1 / theirs:,.0f} a second)", theirs / ours, 0.5, at_least=True)
