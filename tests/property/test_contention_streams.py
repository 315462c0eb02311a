"""Cycle after cycle: demand that comes and goes makes no two jobs evict each other in turns, and no hold is leaked."""

from collections.abc import Iterator
from typing import Any

from hypothesis import HealthCheck, given, note, settings
from hypothesis import strategies as st

from fairway.api.pods import Pod
from fairway.state.cluster import ClusterState, Deleted, Upserted
from fairway.state.jobs import ON_NODE, RESERVATION_STATES
from support import objects as make
from support.contended import contended, evicting_policies
from support.contention import acting
from support.effort import examples
from support.world import World

some = settings(
    max_examples=examples(14),
    deadline=None,
    suppress_health_check=[HealthCheck.too_slow, HealthCheck.data_too_large, HealthCheck.filter_too_much],
)

CYCLES = 50
QUIET = 30
"""From this cycle on nothing arrives and nothing ends."""


class Stream(World):
    """A world in which some pods come late and some end, and of which circles are found."""

    reasons = False

    def __init__(self, objects: list[Any], policy: Any, late: dict[str, int], ends: dict[str, int]) -> None:
        now = [thing for thing in objects if not isinstance(thing, Pod) or key_of(thing) not in late]
        super().__init__(now, policy=policy)
        self._late = sorted((at, key_of(thing), thing) for thing, at in _coming(objects, late))
        self._quits = sorted((at, key) for key, at in ends.items())
        self.changed = 0
        """When something from outside happened last."""

    def moments(self) -> list[tuple[int, Any]]:
        return [*super().moments(), *((at, key) for at, key, _ in self._late), *self._quits]

    def pass_time(self) -> None:
        super().pass_time()
        while self._late and self._late[0][0] <= self.now:
            _, key, pod = self._late.pop(0)
            self.pods[key] = pod
            self.state.apply(Upserted(pod))
            self.changed = self.now
        while self._quits and self._quits[0][0] <= self.now:
            _, key = self._quits.pop(0)
            self._end(key)

    def _end(self, key: str) -> None:
        pod = self.pods.get(key)
        if pod is not None and pod.spec.node_name and pod.metadata.deletion_timestamp is None:
            self.state.apply(Deleted(self.pods.pop(key)))
            self.changed = self.now


def key_of(thing: Any) -> str:
    return f"{thing.metadata.namespace}/{thing.metadata.name}"


def _coming(objects: list[Any], late: dict[str, int]) -> Iterator[tuple[Any, int]]:
    return ((thing, late[key_of(thing)]) for thing in objects if isinstance(thing, Pod) and key_of(thing) in late)


@st.composite
def demand(draw: st.DrawFn, objects: list[Any]) -> tuple[dict[str, int], dict[str, int]]:
    """Which waiting pods come when, and which running ones end when."""
    moments = st.integers(1, QUIET - 1)
    pods = [thing for thing in objects if isinstance(thing, Pod)]
    late = {key_of(pod): draw(moments) for pod in pods if not pod.spec.node_name and draw(st.booleans())}
    ends = {key_of(pod): draw(moments) for pod in pods if pod.spec.node_name and draw(st.integers(0, 3)) == 0}
    return late, ends


def running(world: World) -> frozenset[str]:
    return frozenset(key for key, pod in world.pods.items() if pod.spec.node_name)


@some
@given(contended(plain=True), evicting_policies(), st.data())
def test_demand_replayed_for_50_cycles_evicts_in_no_circle(objects, policy, data):
    """While nothing happens from outside, evictions never lead back to pods that ran together before."""
    late, ends = data.draw(demand(objects))
    world = Stream(objects, policy, late, ends)
    seen: list[frozenset[str]] = []
    for second in world.seconds(CYCLES):
        before = len(world.evictions)
        world.step(second)
        if world.changed == second:
            seen = []
        for _, pod, claimant in world.evictions[before:]:
            note(f"{second}: {claimant} evicts {pod}")
        now = running(world)
        assert not seen or now == seen[-1] or now not in seen, f"{sorted(now)} at {second} and before"
        seen.append(now)
    last = max((at for at, _, _ in world.evictions), default=0)
    assert last < CYCLES - 10, "evictions do not come to an end"
    assert len(world.evictions) <= len(world.pods) * (1 + len(late) + len(ends)), "evictions are not bounded"


@some
@given(contended(), evicting_policies(), st.data())
def test_room_that_others_leave_is_the_claimants_until_it_is_bound(objects, policy, data):
    """However long the victims take to go, whoever comes meanwhile: a nominated pod is bound as soon as they are."""
    late, _ = data.draw(demand(objects))
    world = Stream(objects, policy, late, {})
    world.grace = data.draw(st.integers(0, 4))
    since: dict[str, int] = {}
    for second in world.seconds(QUIET):
        plan = world.step(second)
        for binding in plan.bindings:
            since.pop(binding.pod, None)
        nominees = {entry.pod for entry in plan.nominations}
        for pod in nominees:
            since.setdefault(pod, second)
        note(f"{second}: {since}")
        assert since.keys() == nominees, "a nominee lost the room that was made for it"
        assert all(second <= begun + world.grace + 1 for begun in since.values())


RESERVE = ("reserve", {"starvingJobTimeThreshold": 2, "reservedNodePercent": 70, "reservationTimeout": 7})


@st.composite
def upsets(draw: st.DrawFn, objects: list[Any]) -> dict[int, tuple[str, str]]:
    """What happens when: a node goes or is cordoned or comes back, a pod is deleted, a queue closes."""
    nodes = [thing.metadata.name for thing in objects if type(thing).__name__ == "Node"]
    pods = [key_of(thing) for thing in objects if isinstance(thing, Pod)]
    queues = [thing.metadata.name for thing in objects if type(thing).__name__ == "Queue"]
    kinds = st.one_of(
        st.tuples(st.sampled_from(("gone", "cordoned", "back")), st.sampled_from(nodes)),
        st.tuples(st.just("deleted"), st.sampled_from(pods)),
        st.tuples(st.sampled_from(("closed", "open")), st.sampled_from(queues)),
    )
    return draw(st.dictionaries(st.integers(0, 20), kinds, max_size=8))


class Upset(World):
    """A world to which these things are going to happen."""

    def __init__(self, objects: list[Any], policy: Any, happenings: dict[int, tuple[str, str]]) -> None:
        super().__init__(objects, policy=policy)
        self._happenings = happenings

    def moments(self) -> list[tuple[int, Any]]:
        return [*super().moments(), *self._happenings.items()]


def upset(world: World, objects: list[Any], kind: str, name: str) -> None:
    things = {(type(thing).__name__, thing.metadata.name): thing for thing in objects}
    if kind == "deleted":
        pod = world.pods.pop(name, None)
        if pod is not None:
            world.state.apply(Deleted(pod))
    elif kind in ("closed", "open"):
        world.state.apply(Upserted(make.queue(name, state="Closed" if kind == "closed" else "")))
    elif kind == "gone":
        world.state.apply(Deleted(things["Node", name]))
        for key in [key for key, pod in world.pods.items() if pod.spec.node_name == name]:
            world.state.apply(Deleted(world.pods.pop(key)))
    else:
        node = things["Node", name]
        cordoned = make.node(name, labels=node.metadata.labels, unschedulable=kind == "cordoned", **_amounts(node))
        world.state.apply(Upserted(cordoned))


def _amounts(node: Any) -> dict[str, str]:
    return {name.replace("nvidia.com/", ""): amount for name, amount in node.status.allocatable.items()}


@some
@given(contended(), st.sampled_from((("preempt",), ("reclaim",), ("preempt", "reclaim"), ())), st.data())
def test_no_hold_is_leaked_whatever_happens(objects, evicting, data):
    """Every hold belongs to a waiting pod and a living node, and fits; and nothing is over-committed on the way."""
    happenings = data.draw(upsets(objects))
    listed = [(action, {"nominationTimeout": 5}) for action in evicting]
    world = Upset(objects, acting("enqueue", RESERVE, "allocate", *listed, "backfill"), happenings)
    world.grace = data.draw(st.integers(0, 3))
    world.reasons = data.draw(st.booleans())
    for second in world.seconds(24):
        if second in happenings:
            upset(world, objects, *happenings.pop(second))
        plan = world.step(second)
        state = world.state
        state.refresh()
        held = {task.key for task in state.tasks.values() if task.state in RESERVATION_STATES}
        assert held == {entry.pod for entry in (*plan.reservations, *plan.nominations)} & state.tasks.keys()  # type: ignore[attr-defined]
        for entry in (*plan.reservations, *plan.nominations):
            row = state.nodes.rows[entry.node]  # type: ignore[attr-defined]
            assert state.nodes.ready[row]
            assert state.nodes.schedulable[row]
        reserved = {entry.node for entry in plan.reservations}
        counted = int((state.nodes.ready & state.nodes.schedulable & state.nodes.alive).sum())
        assert len(reserved) <= -(-counted * 70 // 100)
        _fits(state)
    for key in [key for key, pod in world.pods.items() if not pod.spec.node_name]:
        world.state.apply(Deleted(world.pods.pop(key)))
    plan = world.step(24)
    assert (plan.reservations, plan.nominations) == ((), ())


def _fits(state: ClusterState) -> None:
    for row, name in enumerate(state.nodes.names):
        if not name or not state.nodes.alive[row]:
            continue
        used: dict[int, int] = {}
        for task in state.nodes.tasks[row]:
            for dimension, amount in task.shape.vector if task.state in ON_NODE else ():
                used[dimension] = used.get(dimension, 0) + amount
        whole = dict(state.nodes.allocatable.at(row))
        assert all(amount <= whole.get(dimension, 0) for dimension, amount in used.items()), name
