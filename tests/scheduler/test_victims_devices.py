"""Where devices are what is short: victims serve their claimant and none can be spared; the index follows devices."""

from collections import Counter
from itertools import permutations, product
from random import Random
from typing import Any

import pytest
from hypothesis import HealthCheck, assume, given, note, settings
from hypothesis import strategies as st
from msgspec.structs import replace

from fairway.api.kinds import ApiObject
from fairway.api.pods import Pod
from fairway.api.scheduling import PodGroup
from fairway.clock import SECOND
from fairway.devices.track.ledger import device_ledger
from fairway.scheduler.decide import decide
from fairway.scheduler.eviction.victims import VictimIndex, victim_index
from fairway.scheduler.paranoid import check
from support import objects as make
from support.contended import SEEDS, some_of
from support.contention import DAY, acting, cycle
from support.devices import asking, device_node, gpu, kind_class, memory_class, resource_class, term
from support.effort import LONG, examples
from support.engine import policy, state_of
from support.objects import BEGIN

CLASSES = [
    kind_class("any", "nvidia-gpu"),
    memory_class("high", "30G"),
    kind_class("pairs", "nvlink-pair"),
    resource_class("either", term(("Kind", "In", ["nvlink-pair"])), term(("memory", "Lt", ["16G"]))),
]
NAMES = ("any", "any", "high", "either", "pairs")
QUEUES = ("q0", "q1")

actions = st.sampled_from((("preempt",), ("preempt",), ("reclaim",), ("reclaim", "preempt")))
policies = st.builds(
    lambda evicting, first: acting("enqueue", "allocate", *evicting, drf={"priorityFirst": first}, devices={}),
    actions,
    st.sampled_from((True, True, True, False)),
)


def a_node(random: Random, name: str) -> ApiObject:
    plain = random.random() < 0.5
    devices = []
    for i in range(random.randint(1, 3)):
        more = {"shareable": True} if not plain and random.random() < 0.5 else {}
        devices.append(gpu(f"g{i}", memory=random.choice(("8G", "32G")), **more))
    if len(devices) > 1 and not plain and random.random() < 0.5:
        devices.append(gpu("pair", kind="nvlink-pair", members=["g0", "g1"]))
    return device_node(name, *devices, cpu=random.randint(3, 8))


def a_job(random: Random, name: str, created: int, *, above: int) -> list[ApiObject]:
    """A lone pod or a gang, its group first. Most request devices."""
    namespace, queue = random.choice("ab"), random.choice(QUEUES)
    classes = {random.choice(NAMES): random.choice(("1", "1", "2", "500m"))}
    each: dict[str, Any] = {
        "classes": classes if random.randint(0, 3) else {},
        "cpu": random.randint(1, 2),
        "created": created,
        "spec": {"priority": random.randint(0, 2) + above},
    }
    members = random.choice((1, 1, 2, 3))
    if members == 1:
        return [asking(name, namespace, queue=queue, **each)]
    group = make.group(name, namespace, minimum=random.randint(1, members), queue=queue, created=created)
    return [group, *(asking(f"{name}-{i}", namespace, group=name, **each) for i in range(members))]


@st.composite
def full(draw: st.DrawFn) -> list[ApiObject]:
    """What a first cycle has placed runs; then others come, most of them with a higher priority."""
    random = Random(draw(SEEDS))
    fixed = [*CLASSES, *(a_node(random, f"n{i}") for i in range(random.randint(1, 3)))]
    fixed += [make.queue(name, random.randint(1, 3)) for name in QUEUES]
    first = draw(some_of([a_job(random, f"r{i}", i, above=0) for i in range(random.randint(4, 12))]))
    coming = range(random.choice((1, 1, 2, 3)))
    then = draw(some_of([a_job(random, f"w{i}", 20 + i, above=random.choice((0, 1, 2, 2))) for i in coming]))
    begun = decide(state_of(fixed, first), policy(devices={}), BEGIN + DAY * SECOND)
    placed = {binding.pod: binding for binding in begun.bindings}
    there = [_running(thing, placed.get(key_of(thing))) if isinstance(thing, Pod) else thing for thing in first]
    if random.random() < 0.8:  # most of those that found no place are not in the way of the claimants
        there = [thing for thing in there if not isinstance(thing, Pod) or thing.spec.node_name]
    return [*fixed, *there, *then]


def _running(pod: Any, binding: Any) -> Any:
    if binding is None:
        return pod
    annotations = {**pod.metadata.annotations, **binding.annotations}
    return replace(
        pod,
        metadata=replace(pod.metadata, annotations=annotations),
        spec=replace(pod.spec, node_name=binding.node),
        status=replace(pod.status, phase="Running", start_time=pod.metadata.creation_timestamp),
    )


some = settings(
    max_examples=examples(30), deadline=None, suppress_health_check=[HealthCheck.too_slow, HealthCheck.filter_too_much]
)


def placed_without(objects: list[Any], claimant: str, gone: set[str], count: int) -> bool:
    """Whether so many pods of the claimant can be placed with these pods gone and nothing else waiting, whatever its
    queue says.
    """
    left = [
        thing
        for thing in objects
        if not isinstance(thing, Pod)
        or (thing.spec.node_name and key_of(thing) not in gone)
        or (not thing.spec.node_name and job_of(thing) == claimant)
    ]
    plugins = ("priority", "gang", "predicates", "nodeorder", "devices")
    plan = decide(state_of(left), policy(actions="allocate", plugins=plugins), BEGIN + DAY * SECOND)
    return sum(binding.job == claimant for binding in plan.bindings) >= count


def key_of(pod: Any) -> str:
    return f"{pod.metadata.namespace}/{pod.metadata.name}"


def job_of(pod: Any) -> str:
    group = pod.metadata.annotations.get("scheduling.k8s.io/group-name", pod.metadata.name)
    return f"{pod.metadata.namespace}/{group}"


@some
@given(full(), policies)
def test_where_devices_are_short_the_claimant_is_served_and_no_victim_can_be_spared(objects, policy):
    """The fewest: with all victims gone all that is nominated is placed, and with any unit of them back it is not."""
    state, now = state_of(objects), BEGIN + DAY * SECOND
    plan = decide(state, policy, now)
    claimants = {eviction.for_ for eviction in plan.evictions}
    assume(len(claimants) == 1 and not plan.placed)
    check(state, policy, now)
    (claimant,) = claimants
    gone = {eviction.pod for eviction in plan.evictions}
    note(f"{claimant} evicts {sorted(gone)}")
    count = sum(_jobs(objects)[nomination.pod] == claimant for nomination in plan.nominations)
    assert placed_without(objects, claimant, gone, count)
    lost = Counter(job_of_key[pod] for job_of_key in [_jobs(objects)] for pod in gone)
    for job, count in lost.items():
        runs = [thing for thing in objects if isinstance(thing, Pod) and job_of(thing) == job and thing.spec.node_name]
        units = [{pod} for pod in gone if _jobs(objects)[pod] == job]
        if count == len(runs):  # the gang goes whole: so it comes back, or nothing of it does
            units = [{pod for pod in gone if _jobs(objects)[pod] == job}]
        for unit in units:
            assert not placed_without(objects, claimant, gone - unit, count), unit


def _jobs(objects: list[Any]) -> dict[str, str]:
    return {key_of(thing): job_of(thing) for thing in objects if isinstance(thing, Pod)}


def fit_there(objects: list[Any], places: dict[str, str], gone: set[str]) -> bool:
    """Whether these pods are placed on these nodes, one after the other, with those pods gone and no others waiting."""
    left: list[Any] = []
    for thing in objects:
        if isinstance(thing, PodGroup):
            left.append(replace(thing, spec=replace(thing.spec, min_member=1)))
        elif not isinstance(thing, Pod) or (thing.spec.node_name and key_of(thing) not in gone):
            left.append(thing)
        elif key_of(thing) in places:
            turn = list(places).index(key_of(thing))
            selector = {make.HOST: places[key_of(thing)]}
            left.append(replace(thing, spec=replace(thing.spec, node_selector=selector, priority=100 - turn)))
    placing = policy(actions="allocate", plugins=("priority", "predicates", "nodeorder", "devices"))
    return len(decide(state_of(left), placing, BEGIN + DAY * SECOND).bindings) == len(places)


@pytest.mark.skipif(not LONG, reason="takes minutes; FAIRWAY_LONG=1 runs it")
@settings(some, max_examples=examples(200))
@given(full())
def test_over_a_whole_plan_all_that_are_nominated_fit_and_no_victim_can_be_spared(objects):
    """Every way to place the pods of all claimants is tried, with each victim back."""
    by_priority = acting("enqueue", "allocate", "preempt", drf={"priorityFirst": True}, devices={})
    plan = cycle(state_of(objects), by_priority)
    claimants = list(dict.fromkeys(eviction.for_ for eviction in plan.evictions))
    assume(len(claimants) > 1 and not plan.placed)
    gone = {eviction.pod for eviction in plan.evictions}
    jobs = _jobs(objects)
    nominated = {e.pod: e.node for e in sorted(plan.nominations, key=lambda e: (claimants.index(jobs[e.pod]), e.pod))}
    names = [thing.metadata.name for thing in objects if type(thing).__name__ == "Node"]
    assume(len(names) ** len(nominated) <= 27)
    note(f"{nominated} after {sorted(gone)}")
    orders = (dict(order) for order in permutations(nominated.items()))
    assert any(fit_there(objects, places, gone) for places in orders)
    namespaces = {claimant.partition("/")[0] for claimant in claimants}
    for job in {jobs[pod] for pod in gone}:
        lost = {pod for pod in gone if jobs[pod] == job}
        runs = [thing for thing in objects if isinstance(thing, Pod) and job_of(thing) == job and thing.spec.node_name]
        if job.partition("/")[0] in namespaces:
            continue  # a claim may rest on the share of that namespace
        for unit in [lost] if len(lost) == len(runs) else [{pod} for pod in lost]:
            for nodes in product(names, repeat=len(nominated)):
                places = dict(zip(nominated, nodes, strict=True))
                assert not fit_there(objects, places, gone - unit), (unit, places)


# -- the index, as devices change -----------------------------------------------------------------------------------


def columns_of(index: VictimIndex) -> dict[str, Any]:
    """What the index says of each unit, however it is numbered."""
    found = {}
    for number, unit in enumerate(index.units):
        if unit is not None:
            entries = [e for e in range(len(index.entry_row)) if index.entry_alive[e] and index.entry_unit[e] == number]
            held = sorted((int(index.entry_row[e]), tuple(index.entry_amounts[:, e].tolist())) for e in entries)
            found[unit.key] = (int(index.priority[number]), int(index.pods[number]), bool(index.usable[number]), held)
    return found


@some
@given(full(), st.data())
def test_the_index_follows_when_devices_change(objects, data):
    """A node gets other devices, or a class another selector: what units hold of them is counted again."""
    state = state_of(objects)
    victim_index(state)
    nodes = [thing for thing in objects if type(thing).__name__ == "Node"]
    for _ in range(data.draw(st.integers(1, 3))):
        old = data.draw(st.sampled_from(nodes))
        state.upsert([a_node(Random(data.draw(SEEDS)), old.metadata.name) if data.draw(st.booleans()) else old])
        classes = [kind_class("any", data.draw(st.sampled_from(("nvidia-gpu", "nvlink-pair"))))]
        if data.draw(st.booleans()):
            state.upsert(classes)
        device_ledger(state)  # as a session does when it begins
        assert columns_of(victim_index(state)) == columns_of(fresh_index(state))


def fresh_index(state: Any) -> VictimIndex:
    index = VictimIndex(state)
    index.sync()
    return index
