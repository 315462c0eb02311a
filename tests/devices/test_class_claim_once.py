"""A device that a pod has by its record, and that the claim made for this pod names too, is in use once."""

from __future__ import annotations

from typing import Any

import pytest

from fairway.state.cluster import ClusterState, Deleted, Upserted
from support.devices import DRIVER, asking, device_node, held, kind_class, published, resource_slice, standings
from support.objects import made

GPU = {"attributes": {"kind": {"string": "gpu"}}}


def claim(owner: str, *devices: str, controller: bool = True) -> Any:
    results = [{"request": "r", "driver": DRIVER, "pool": "n1", "device": device} for device in devices]
    request = {"name": "r", "exactly": {"deviceClassName": "gpu", "count": len(devices)}}
    return made(
        "ResourceClaim",
        "special",
        "default",
        metadata={"ownerReferences": [{"kind": "Pod", "name": owner, "uid": "u", "controller": controller}]},
        spec={"devices": {"requests": [request]}},
        status={"allocation": {"devices": {"results": results}}},
    )


@pytest.fixture(name="state")
def a_node_with_three_gpus() -> ClusterState:
    state = ClusterState()
    for thing in (
        device_node("n1"),
        resource_slice("s", "n1", *(published(f"g{number}", **GPU) for number in range(3))),
        kind_class("gpu", "gpu"),
        asking("a", classes={"gpu": 1}, record={"gpu_g0": 1}, node="n1"),
    ):
        state.apply(Upserted(thing))
    return state


@pytest.mark.parametrize("claim_first", [False, True])
def test_the_record_and_the_claim_are_one_use(state, claim_first):
    pod = asking("b", classes={"gpu": 1}, record={"gpu_g1": 1}, node="n1")
    special = claim("b", "g1")
    for thing in (special, pod) if claim_first else (pod, special):
        state.apply(Upserted(thing))
        standings(state)
    assert standings(state) == {"gpu": (3, 2)}
    assert held(state) == {"n1/g0": [("a", 1)], "n1/g1": [("b", 1)]}
    state.apply(Deleted(pod))
    assert standings(state) == {"gpu": (3, 2)}, "the claim keeps it until it goes"
    state.apply(Deleted(special))
    assert standings(state) == {"gpu": (3, 1)}


def test_a_claim_of_another_pod_or_of_another_device_counts_for_itself(state):
    state.apply(Upserted(claim("b", "g0")))
    assert held(state)["n1/g0"] == [("a", 1), ("claim default/special", 1)]
    state.apply(Upserted(claim("a", "g1")))
    assert standings(state) == {"gpu": (3, 2)}
    state.apply(Upserted(claim("a", "g0", controller=False)))
    assert len(held(state)["n1/g0"]) == 2, "only what was made for the pod tells of its record"
