"""Whatever the cluster, the classes and the pods: nothing is given twice, no pod waits that could be served, and the
order in which objects come makes no difference."""

from __future__ import annotations

from itertools import product
from typing import Any

from hypothesis import HealthCheck, given, settings
from hypothesis import strategies as st

from fairway.api.kinds import ApiObject
from fairway.devices.model.device import WHOLE
from fairway.devices.track.ledger import device_ledger
from fairway.scheduler.plan import Plan
from fairway.state.cluster import ClusterState
from fairway.state.device_requests import device_requests_of
from support.devices import asking, device_node, gpu, kind_class, memory_class, resource_class, term
from support.effort import examples
from support.engine import decided, flat, state_of
from support.engine import policy as make_policy

CLASSES = [
    kind_class("any", "nvidia-gpu"),
    memory_class("high", "30G"),
    memory_class("mid", "16G"),
    kind_class("pairs", "nvlink-pair"),
    resource_class("either", term(("Kind", "In", ["nvlink-pair"])), term(("memory", "Lt", ["16G"]))),
    resource_class("nested", includes=[{"class": "mid", "count": 1}]),
]
NAMES = ["any", "high", "mid", "any", "high", "pairs", "either", "nested"]
STRATEGIES = [["first-fit"], ["first-fit"], ["first-fit"], ["pack"], ["spread"], ["least-loss"], ["numa", "pack"]]


@st.composite
def nodes(draw: st.DrawFn, name: str) -> ApiObject:
    """Half of the nodes have nothing but independent devices: those are handled by another, faster way."""
    devices: list[dict[str, Any]] = []
    plain = draw(st.booleans())
    for i in range(draw(st.integers(0, 3))):
        shareable = not plain and draw(st.booleans())
        quantity = 1 if shareable else draw(st.integers(1, 2))
        memory = draw(st.sampled_from(["8G", "16G", "32G"]))
        more = {"shareable": True} if shareable else {}
        devices.append(gpu(f"g{i}", quantity, memory=memory, numa=draw(st.integers(0, 1)), **more))
    if len(devices) > 1 and not plain and draw(st.booleans()):
        devices.append(gpu("pair", kind="nvlink-pair", members=["g0", "g1"]))
    return device_node(name, *devices)


@st.composite
def clusters(draw: st.DrawFn) -> list[ApiObject]:
    objects: list[ApiObject] = [*CLASSES, *(draw(nodes(f"n{i}")) for i in range(draw(st.integers(1, 2))))]
    for i in range(draw(st.integers(1, 6))):
        names = draw(st.lists(st.sampled_from(NAMES), min_size=1, max_size=draw(st.integers(1, 2)), unique=True))
        amounts = {name: draw(st.sampled_from(["1", "1", "1", "2", "500m"])) for name in names}
        objects.append(asking(f"p{i}", classes=amounts, cpu=1, created=i))
    return objects


def bound_state(objects: list[ApiObject], plan: Plan) -> ClusterState:
    """The cluster as it is once the plan was carried out."""
    pods = {f"{o.metadata.namespace}/{o.metadata.name}": o for o in objects if hasattr(o.spec, "containers")}
    others = [o for o in objects if not hasattr(o.spec, "containers")]
    for binding in plan.bindings:
        name = binding.pod.split("/")[1]
        asks = device_requests_of(pods[binding.pod], lambda claim, template: False)
        assert asks is not None
        amounts = {a.class_name: f"{a.units * WHOLE + sum(a.fractions)}m" for a in asks.classes}
        pods[binding.pod] = asking(name, node=binding.node, classes=amounts, annotations=binding.annotations)
    return state_of(others, list(pods.values()))


def assert_nothing_is_given_twice(state: ClusterState) -> None:
    for node in device_ledger(state).nodes.values():
        taken: dict[int, int] = {}
        for allocation in node.allocations:
            slots = node.inventory.slots
            amount = allocation.portion.units * WHOLE + allocation.portion.milli
            taken[allocation.slot] = taken.get(allocation.slot, 0) + amount
            if slots[allocation.slot].group:
                for leaf in slots[allocation.slot].leaves:
                    taken[leaf] = taken.get(leaf, 0) + slots[leaf].quantity * WHOLE
        for slot, amount in taken.items():
            assert amount <= node.inventory.slots[slot].quantity * WHOLE, node.inventory.slots[slot].device.name


def could_be_served(state: ClusterState, pod: ApiObject) -> bool:
    """Every way to give a pod's lines devices of one node, one by one."""
    asks = device_requests_of(pod, lambda claim, template: False)
    assert asks is not None
    for node in device_ledger(state).nodes.values():
        lines: list[tuple[str, int]] = []
        for ask in asks.classes:
            lines += [(ask.class_name, WHOLE)] * ask.units + [(ask.class_name, milli) for milli in ask.fractions]
        slots = range(len(node.inventory))
        for choice in product(slots, repeat=len(lines)):
            if all(name in node.selected[s] for (name, _), s in zip(lines, choice, strict=True)) and _fits(
                node, [(s, milli) for (_, milli), s in zip(lines, choice, strict=True)]
            ):
                return True
    return False


def _fits(node: Any, wanted: list[tuple[int, int]]) -> bool:
    """Counts leaf by leaf; a part and a whole do not go together, nor parts with what cannot be shared."""
    slots = node.inventory.slots
    used: dict[int, int] = {}
    wholes: set[int] = set()
    parts: set[int] = set()

    def take(slot: int, milli: int, whole: bool) -> None:
        used[slot] = used.get(slot, 0) + milli
        (wholes if whole else parts).add(slot)

    holdings = [(h.slot, h.portion.units * WHOLE + h.portion.milli) for h in node.allocations]
    for slot, milli in [*holdings, *wanted]:
        if milli % WHOLE and not slots[slot].shareable:
            return False
        for leaf in slots[slot].leaves:
            everything = slots[leaf].quantity * WHOLE
            take(leaf, everything if slots[slot].group else milli, slots[slot].group or milli % WHOLE == 0)
    return not (wholes & parts) and all(amount <= slots[leaf].quantity * WHOLE for leaf, amount in used.items())


@settings(max_examples=examples(80), deadline=None, suppress_health_check=[HealthCheck.too_slow])
@given(clusters(), st.sampled_from(STRATEGIES), st.randoms(use_true_random=False))
def test_promises(objects: list[ApiObject], strategy: list[str], random: Any) -> None:
    policy = make_policy(devices={"strategy": strategy})
    plan = decided(state_of(objects), policy)
    after = bound_state(flat(objects), plan)
    assert_nothing_is_given_twice(after)
    waiting = {pending.job for pending in plan.pending}
    for pod in flat(objects):
        if f"{pod.metadata.namespace}/{pod.metadata.name}" in waiting:
            assert not could_be_served(after, pod), pod.metadata.name
    ledger = device_ledger(after)
    for standing in plan.resource_classes:
        now = ledger.standing(standing.name)
        assert (now.allocatable, now.requested) == (standing.allocatable * WHOLE, standing.requested * WHOLE)
    shuffled = list(objects)
    random.shuffle(shuffled)
    assert decided(state_of(shuffled), policy).document() == plan.document()
