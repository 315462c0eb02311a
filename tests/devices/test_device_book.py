"""The ledger of devices: statuses of classes over the proposal's five events, and errors of the 2017 prototype."""

from __future__ import annotations

from typing import Any

import pytest
from hypothesis import settings
from hypothesis import strategies as st
from hypothesis.stateful import RuleBasedStateMachine, invariant, rule
from msgspec.structs import replace

from fairway.devices.track.ledger import check_ledger, device_ledger
from fairway.state import invariants
from fairway.state.cluster import ClusterState, Deleted, Upserted
from support.devices import (
    DRIVER,
    asking,
    book_of,
    device_node,
    gpu,
    held,
    kind_class,
    memory_class,
    published,
    resource_class,
    resource_slice,
    standings,
    term,
)
from support.effort import examples
from support.engine import state_of
from support.objects import HOST, made, pod

ANY = kind_class("any", "nvidia-gpu")
HIGH = memory_class("high", "30G")


def test_a_class_counts_all_devices_it_can_select_two_groups_on_a_node_are_their_sum() -> None:
    state = state_of(
        device_node("n1", gpu("a", 4, memory="32G"), gpu("b", 2, memory="40G"), gpu("c", memory="8G")), HIGH
    )
    assert standings(state) == {"high": (6, 0)}


def test_the_proposals_five_events() -> None:
    one, two = device_node("n1", gpu("a", 4, memory="32G")), device_node("n2", gpu("b", 2, memory="32G"))
    user = asking("p", node="n1", classes={"high": 3}, record={"high_a": 3})
    state = state_of(one)
    state.apply(Upserted(HIGH))
    assert standings(state) == {"high": (4, 0)}
    state.apply(Upserted(two))
    assert standings(state) == {"high": (6, 0)}
    state.apply(Upserted(user))
    assert standings(state) == {"high": (6, 3)}
    state.apply(Deleted(two))
    assert standings(state) == {"high": (4, 3)}
    state.apply(Deleted(user))
    assert standings(state) == {"high": (4, 0)}
    state.apply(Deleted(HIGH))
    assert standings(state) == {}


def test_a_pod_raises_requested_of_every_class_that_could_select_its_device() -> None:
    state = state_of(device_node("n1", gpu("a", 4, memory="32G"), gpu("b", 4, memory="8G")), HIGH, ANY)
    state.apply(Upserted(asking("p", node="n1", classes={"any": 2}, record={"any_a": 2})))
    assert standings(state) == {"any": (8, 2), "high": (4, 2)}
    state.apply(Deleted(asking("p", node="n1", classes={"any": 2})))
    assert standings(state) == {"any": (8, 0), "high": (4, 0)}, "both are released"


def test_a_class_that_goes_leaves_its_devices_with_their_holders() -> None:
    state = state_of(device_node("n1", gpu("a", 4, memory="32G")), HIGH, ANY)
    state.apply(Upserted(asking("p", node="n1", classes={"high": 2}, record={"high_a": 2})))
    standings(state)
    state.apply(Deleted(HIGH))
    assert standings(state) == {"any": (4, 2)}
    assert held(state) == {"n1/a": [("p", 2)]}


def test_a_node_without_devices_and_one_that_goes() -> None:
    state = state_of(ANY, device_node("bare"))
    assert standings(state) == {"any": (0, 0)}
    there = device_node("n1", gpu("a", 2))
    state.apply(Upserted(there))
    state.apply(Upserted(asking("p", node="n1", classes={"any": 1}, record={"any_a": 1})))
    assert standings(state) == {"any": (2, 1)}
    state.apply(Deleted(there))
    assert standings(state) == {"any": (0, 0)}, "allocatable and requested both fall"


def test_a_device_that_vanishes_under_its_holder_leaves_more_requested_than_there_is() -> None:
    state = state_of(ANY, device_node("n1", gpu("a"), gpu("b")))
    state.apply(Upserted(asking("p", node="n1", classes={"any": 1}, record={"any_b": 1})))
    assert standings(state) == {"any": (2, 1)}
    state.apply(Upserted(device_node("n1")))
    assert standings(state) == {"any": (0, 1)}
    state.apply(Upserted(device_node("n1", gpu("a", kind="other"))))
    assert standings(state) == {"any": (0, 1)}
    state.apply(Upserted(device_node("n1")))
    state.apply(Deleted(asking("p")))
    assert standings(state) == {"any": (0, 0)}
    check_ledger(state)


def test_a_group_that_is_taken_counts_with_its_members() -> None:
    pair = [gpu("g0"), gpu("g1"), gpu("pair", kind="nvlink-pair", members=["g0", "g1"])]
    state = state_of(ANY, kind_class("pairs", "nvlink-pair"), device_node("n1", *pair))
    assert standings(state) == {"any": (2, 0), "pairs": (1, 0)}
    state.apply(Upserted(asking("p", node="n1", classes={"pairs": 1}, record={"pairs_pair": 1})))
    assert standings(state) == {"any": (2, 2), "pairs": (1, 1)}
    state.apply(Upserted(asking("p", node="n1", classes={"any": 1}, record={"any_g0": 1})))
    assert standings(state) == {"any": (2, 1), "pairs": (1, 1)}, "the pair cannot be had, the other member can"


def test_a_plain_request_and_a_class_lower_each_other() -> None:
    state = state_of(kind_class("gpus", "nvidia.com/gpu"), device_node("n1", gpu=4))
    assert standings(state) == {"gpus": (4, 0)}
    state.apply(Upserted(pod("plain", node="n1", gpu=1)))
    assert standings(state) == {"gpus": (4, 1)}
    state.apply(Upserted(asking("p", node="n1", classes={"gpus": 2}, record={"gpus_nvidia.com_x2fgpu": 2})))
    assert standings(state) == {"gpus": (4, 3)}
    place = state.axis.find("nvidia.com/gpu")
    assert place is not None
    assert int(state.nodes.drawn.data[place, state.nodes.rows["n1"]]) == 2000


def test_described_devices_are_units_of_the_extended_resource_of_their_kind() -> None:
    described = [gpu(f"g{i}", kind="nvidia.com/gpu", memory="32G") for i in range(3)]
    high = resource_class("high", term(("memory", "GtEq", ["30G"])))
    state = state_of(kind_class("gpus", "nvidia.com/gpu"), high, device_node("n1", *described, gpu=4))
    assert standings(state) == {"gpus": (4, 0), "high": (3, 0)}
    state.upsert([pod(f"plain-{i}", node="n1", gpu=1) for i in range(2)])
    assert standings(state) == {"gpus": (4, 2), "high": (3, 1)}, "the device without attributes goes first"


@pytest.mark.parametrize("unusable", [{"healthy": False}, {"taints": [{"key": "x", "effect": "NoSchedule"}]}])
def test_devices_that_may_not_be_used_do_not_count(unusable: dict[str, Any]) -> None:
    state = state_of(ANY, device_node("n1", gpu("a"), gpu("b", **unusable)))
    assert standings(state) == {"any": (1, 0)}


def test_a_fraction_counts_as_such() -> None:
    state = state_of(ANY, device_node("n1", gpu("a", shareable=True), gpu("b", shareable=True)))
    state.upsert([asking(f"p{i}", node="n1", classes={"any": "500m"}, record={"any_a": "500m"}) for i in range(2)])
    assert standings(state) == {"any": (2, 1)}
    assert held(state) == {"n1/a": [("p0", 0.5), ("p1", 0.5)]}


def test_a_pod_without_a_record_is_taken_to_have_the_first_devices_that_serve_it() -> None:
    state = state_of(ANY, device_node("n1", gpu("a"), gpu("b"), gpu("c")))
    state.upsert(
        [asking("p", node="n1", classes={"any": 1}), asking("q", node="n1", classes={"any": 1}, record={"any_a": 1})]
    )
    assert held(state) == {"n1/a": [("q", 1)], "n1/b": [("p", 1)]}


def test_only_the_highest_generation_of_a_pool_counts_and_only_when_it_is_complete() -> None:
    state = state_of(kind_class("any", DRIVER), device_node("n1"))
    state.apply(Upserted(resource_slice("s1", "n1", published("a"), published("b"))))
    assert standings(state) == {"any": (2, 0)}
    state.apply(Upserted(resource_slice("s2", "n1", published("c"), generation=2, count=2)))
    assert standings(state) == {"any": (0, 0)}
    assert "1 slice(s) of generation 2 are missing" in device_ledger(state).warnings()[0]
    state.apply(Upserted(resource_slice("s3", "n1", published("d"), published("e"), generation=2, count=2)))
    assert standings(state) == {"any": (3, 0)}
    state.apply(Deleted(resource_slice("s3", "n1")))
    assert standings(state) == {"any": (0, 0)}


def test_nested_classes_select_groups_by_their_members() -> None:
    cores = [gpu(f"core{i}", kind="core") for i in range(4)]
    numa = [
        gpu("numa0", kind="numa", members=["core0", "core1", "core2"]),
        gpu("numa1", kind="numa", members=["core3"]),
    ]
    single = kind_class("single-core", "core")
    nested = resource_class("numa-node", includes=[{"class": "single-core", "count": 2}])
    state = state_of(nested, device_node("n1", *cores, *numa))
    assert standings(state) == {"numa-node": (0, 0)}, "what it includes is not there yet"
    state.apply(Upserted(single))
    assert standings(state) == {"numa-node": (1, 0), "single-core": (4, 0)}
    state.apply(Upserted(asking("p", node="n1", classes={"numa-node": 1}, record={"numa-node_numa0": 1})))
    assert standings(state) == {"numa-node": (1, 1), "single-core": (4, 3)}, "the members are charged with it"


def test_a_class_that_includes_one_that_goes_selects_nothing_any_more() -> None:
    inner = kind_class("gpus", "nvidia-gpu")
    outer = kind_class("pairs", "nvlink-pair", includes=[{"class": "gpus"}])
    members = [gpu("g0"), gpu("g1"), gpu("pair", kind="nvlink-pair", members=["g0", "g1"])]
    state = state_of(inner, outer, device_node("n1", *members))
    assert standings(state)["pairs"] == (1, 0)
    state.apply(Deleted(inner))
    state.apply(Upserted(device_node("n2", *members)))
    assert standings(state) == {"pairs": (0, 0)}


def test_classes_that_include_each_other_are_refused_whatever_came_first() -> None:
    a = resource_class("a", includes=[{"class": "b"}])
    b = resource_class("b", includes=[{"class": "c"}])
    c = resource_class("c", includes=[{"class": "a"}])
    state = state_of(device_node("n1", gpu("x"), gpu("y", members=["x"])), c, a, b)
    assert standings(state) == {"a": (0, 0), "b": (0, 0), "c": (0, 0)}
    faults = device_ledger(state).warnings()
    assert [fault.split(": ")[0] for fault in faults] == ["resourceclass a", "resourceclass b", "resourceclass c"]
    assert "a -> b -> c -> a goes in a circle" in faults[0]


def test_a_class_is_immutable() -> None:
    state = state_of(device_node("n1", gpu("a")), ANY)
    state.apply(Upserted(kind_class("any", "nic")))
    assert standings(state) == {"any": (1, 0)}
    assert any("its spec is immutable: the change is ignored" in warning for warning in state.warnings())


# -- anything at all, in any order ----------------------------------------------------------------------------------

CLASSES = [
    ANY,
    HIGH,
    memory_class("low", "4G"),
    kind_class("pairs", "nvlink-pair"),
    kind_class("plain", "nvidia.com/gpu"),
    kind_class("driver", DRIVER),
    resource_class("nested", includes=[{"class": "low", "count": 1}, {"class": "any", "count": 1}]),
    resource_class("of-nested", includes=[{"class": "any", "count": 2}], strategy=["pack"]),
]
LEAVES = [gpu(f"g{i}", 1 + i % 2, memory=memory) for i, memory in enumerate(["4G", "32G", "40G"])]
DEVICES = [*LEAVES, gpu("s", shareable=True, memory="8G"), gpu("pair", kind="nvlink-pair", members=["g0", "g1"])]
SLICES = [
    resource_slice("s0", "n0", published("d0"), published("d1"), pool="p"),
    resource_slice("s1", "n0", published("d2"), pool="p", generation=2, count=2),
    resource_slice("s2", "n0", published("d3"), pool="p", generation=2, count=2),
    resource_slice("s3", "n1", published("d0"), pool="q"),
]
FAR = [
    made(
        "ResourceSlice",
        "far",
        spec={
            "driver": DRIVER,
            "pool": {"name": "far", "generation": 1, "resourceSliceCount": 1},
            "devices": [published("f0"), published("f1", allowMultipleAllocations=True)],
            **where,
        },
    )
    for where in (
        {"allNodes": True},
        {"nodeName": "n1"},
        {
            "nodeSelector": {
                "nodeSelectorTerms": [{"matchExpressions": [{"key": HOST, "operator": "In", "values": ["n0"]}]}]
            }
        },
    )
]


def claim_spec(count: int) -> dict[str, Any]:
    return {"devices": {"requests": [{"name": "r", "exactly": {"deviceClassName": "driver", "count": count}}]}}


def allocation(*devices: tuple[str, str]) -> dict[str, Any]:
    results = [{"request": "r", "driver": DRIVER, "pool": pool, "device": device} for pool, device in devices]
    return {"status": {"allocation": {"devices": {"results": results}}}}


CLAIMS = [
    made("ResourceClaim", "c", "default", spec=claim_spec(1)),
    made("ResourceClaim", "c", "default", spec=claim_spec(1), **allocation(("far", "f0"))),
    made("ResourceClaim", "c", "default", spec=claim_spec(2), **allocation(("p", "d0"), ("far", "f1"))),
    made(
        "ResourceClaim",
        "special",
        "default",
        metadata={"ownerReferences": [{"kind": "Pod", "name": "a", "uid": "u", "controller": True}]},
        spec=claim_spec(1),
        **allocation(("p", "d0")),
    ),
    made("ResourceClaimTemplate", "t", "default", spec={"spec": claim_spec(1)}),
    made("DeviceClass", "driver", spec={}),
]
RECORDS = [
    ("any", "any_g0", "1"),
    ("any", "any_g1", "2"),
    ("high", "high_g1", "1"),
    ("low", "low_s", "500m"),
    ("low", "low_gone", "1"),
    ("pairs", "pairs_pair", "1"),
    ("plain", "plain_nvidia.com_x2fgpu", "1"),
    ("driver", "driver_d0", "1"),
    ("driver", "driver_f0", "1"),
    ("driver", "driver_f1", "500m"),
]


class Books(RuleBasedStateMachine):
    """Whatever happens, what the book keeps is what a new book makes of the same state."""

    def __init__(self) -> None:
        super().__init__()
        self.state = ClusterState()

    @rule(which=st.sampled_from(CLASSES), there=st.booleans())
    def change_class(self, which: Any, there: bool) -> None:
        self.state.apply(Upserted(which) if there else Deleted(which))

    @rule(name=st.sampled_from(["n0", "n1"]), present=st.sets(st.integers(0, 4)), plain=st.integers(0, 2))
    def change_node(self, name: str, present: set[int], plain: int) -> None:
        devices = [DEVICES[i] for i in sorted(present | ({0, 1} if 4 in present else set()))]
        self.state.apply(Upserted(device_node(name, *devices, gpu=plain)))

    @rule(name=st.sampled_from(["n0", "n1"]))
    def remove_node(self, name: str) -> None:
        self.state.apply(Deleted(device_node(name)))

    @rule(which=st.sampled_from(SLICES), there=st.booleans())
    def change_slice(self, which: Any, there: bool) -> None:
        self.state.apply(Upserted(which) if there else Deleted(which))

    @rule(which=st.sampled_from(FAR), there=st.booleans())
    def change_far_slice(self, which: Any, there: bool) -> None:
        self.state.apply(Upserted(which) if there else Deleted(which))

    @rule(which=st.sampled_from(CLAIMS), there=st.booleans())
    def change_claim(self, which: Any, there: bool) -> None:
        self.state.apply(Upserted(which) if there else Deleted(which))

    @rule(name=st.sampled_from("abcd"), node=st.sampled_from(["n0", "n1"]), template=st.booleans())
    def change_claiming_pod(self, name: str, node: str, template: bool) -> None:
        entry = {"resourceClaimTemplateName": "t"} if template else {"resourceClaimName": "c"}
        spec = {"resourceClaims": [{"name": "e", **entry}]}
        self.state.apply(Upserted(pod(name, node=node, cpu=1, spec=spec)))

    @rule(
        name=st.sampled_from("abcd"),
        node=st.sampled_from(["n0", "n1"]),
        record=st.sampled_from(RECORDS),
        recorded=st.booleans(),
        phase=st.sampled_from(["Running", "Succeeded"]),
    )
    def change_pod(self, name: str, node: str, record: tuple[str, str, str], recorded: bool, phase: str) -> None:
        asked, key, amount = record
        notes = {key: amount} if recorded else {}
        self.state.apply(Upserted(asking(name, node=node, classes={asked: amount}, record=notes, phase=phase)))

    @rule(name=st.sampled_from("abcd"), node=st.sampled_from(["n0", "n1", ""]), units=st.integers(1, 2))
    def change_plain_pod(self, name: str, node: str, units: int) -> None:
        self.state.apply(Upserted(pod(name, node=node, gpu=units)))

    @rule(name=st.sampled_from("abcd"))
    def remove_pod(self, name: str) -> None:
        self.state.apply(Deleted(pod(name)))

    @invariant()
    def the_book_is_what_a_new_one_would_be(self) -> None:
        kept_standings, kept_holders = standings(self.state), held(self.state)
        kept = {
            row: (self.state.nodes.allocatable.at(row), self.state.nodes.drawn.at(row))
            for row in range(len(self.state.nodes))
        }
        self.state.derived.forget()
        assert kept_standings == standings(self.state)
        assert kept_holders == held(self.state)
        for row, amounts in kept.items():
            assert amounts == (self.state.nodes.allocatable.at(row), self.state.nodes.drawn.at(row))
        check_ledger(self.state)
        for allocatable, requested in kept_standings.values():
            assert allocatable >= 0 <= requested

    @invariant()
    def the_state_is_sound(self) -> None:
        invariants.check(self.state)


Books.TestCase.settings = settings(max_examples=examples(30), stateful_step_count=25, deadline=None)
test_books = Books.TestCase


def test_a_slice_that_cannot_be_read_is_named_until_it_is_gone_or_can_be_read() -> None:
    good: Any = resource_slice("s", "n1", published("x"), counters={"board": {"memory": "1"}})
    board = good.spec.shared_counters[0]
    unreadable = replace(board, counters={"memory": replace(board.counters["memory"], value="many")})
    bad = replace(good, spec=replace(good.spec, shared_counters=(unreadable,)))
    state = state_of(kind_class("any", "g"), device_node("n1"), bad)
    named = ["resourceslice s is set aside: invalid quantity 'many': expected a number before the suffix"]
    assert book_of(state).warnings() == named
    state.apply(Deleted(bad))
    assert book_of(state).warnings() == []
    state.upsert([bad])
    assert book_of(state).warnings() == named
    state.upsert([good])
    assert book_of(state).warnings() == []
