"""A claim is served exactly when trying everything finds a way, and what it is given is one of those ways."""

from __future__ import annotations

from typing import Any

from hypothesis import given, settings
from hypothesis import strategies as st

from fairway.api.kinds import ApiObject
from fairway.devices.track.ledger import check_ledger
from oracles.claims import OracleClaim, OracleCluster, OracleDevice, OracleRequest
from support.claims import claim, claiming
from support.devices import DRIVER, device_node, kind_class, published
from support.effort import examples
from support.engine import decided, state_of
from support.engine import policy as make_policy
from support.objects import made

POLICY = make_policy(devices={})
NODES = ("n1", "n2")
MANY = examples(120, 3000)
GROUPS = [frozenset[str](), frozenset({"g"}), frozenset({"h"}), frozenset({"g", "h"})]


@st.composite
def clusters(draw: st.DrawFn) -> OracleCluster:
    devices = []
    for i in range(draw(st.integers(1, 6))):
        uses = ()
        if draw(st.booleans()):
            on, amount = draw(st.sampled_from("xy")), draw(st.integers(0, 2))
            uses = ((on, amount, draw(st.sampled_from(GROUPS))),)  # type: ignore[assignment]
        devices.append(
            OracleDevice(
                f"d{i}",
                draw(st.sampled_from(NODES)),
                draw(st.sampled_from(["gpu", "nic"])),
                draw(st.frozensets(st.sampled_from("pqr"), max_size=2)),
                uses,
                shared=draw(st.integers(0, 3)) == 0,
                memory=draw(st.integers(1, 4)),
            )
        )
    return OracleCluster(devices, {"x": draw(st.integers(0, 4)), "y": 2})


@st.composite
def claims(draw: st.DrawFn) -> OracleClaim:
    requests = draw(st.integers(1, 2))
    made_of = []
    for _ in range(requests):
        count = draw(st.sampled_from([1, 1, 2, 3, None]))
        made_of.append(OracleRequest(draw(st.sampled_from(["gpu", "nic", "any"])), count, draw(st.integers(0, 3))))
    rules = [
        (
            draw(st.sampled_from(["match", "distinct"])),
            frozenset(draw(st.sets(st.integers(0, requests - 1), min_size=1))),
        )
        for _ in range(draw(st.integers(0, 2)))
    ]
    return OracleClaim(tuple(made_of), tuple(rules))


def slices(cluster: OracleCluster) -> list[ApiObject]:
    devices = []
    for device in cluster.devices:
        attributes: dict[str, Any] = {"kind": {"string": device.kind}}
        if device.values:
            values = sorted(device.values)
            attributes["roots"] = {"strings": values} if len(values) > 1 else {"string": values[0]}
        entry = published(device.name, attributes=attributes, capacity={"memory": {"value": f"{device.memory}Gi"}})
        entry |= {"nodeName": device.node, "allowMultipleAllocations": device.shared}
        entry["consumesCounters"] = [
            {"counterSet": on, "counters": {"n": {"value": str(amount)}}, "compatibilityGroups": sorted(groups)}
            for on, amount, groups in device.uses
        ]
        devices.append(entry)
    pool = {"name": "pool", "generation": 1, "resourceSliceCount": 2}
    sets = [{"name": name, "counters": {"n": {"value": str(n)}}} for name, n in cluster.counters.items()]
    spec = {"driver": DRIVER, "pool": pool}
    return [
        made("ResourceSlice", "counters", spec={**spec, "allNodes": True, "sharedCounters": sets}),
        made("ResourceSlice", "devices", spec={**spec, "perDeviceNodeSelection": True, "devices": devices}),
    ]


def claim_object(name: str, asked: OracleClaim) -> ApiObject:
    requests = []
    for i, request in enumerate(asked.requests):
        wish: dict[str, Any] = {"deviceClassName": request.kind}
        wish |= {"allocationMode": "All"} if request.count is None else {"count": request.count}
        if request.memory:
            wish["capacity"] = {"requests": {"memory": f"{request.memory}Gi"}}
        requests.append({"name": f"r{i}", "exactly": wish})
    rules = [
        {f"{rule}Attribute": f"{DRIVER}/roots", "requests": [f"r{i}" for i in sorted(over)]}
        for rule, over in asked.rules
    ]
    return claim(name, *requests, constraints=rules)


@settings(max_examples=MANY)
@given(clusters(), st.lists(claims(), min_size=1, max_size=3))
def test_claims_are_served_exactly_when_some_way_is_allowed(cluster: OracleCluster, asked: list[OracleClaim]) -> None:
    """One pod after the other, each with a claim of its own; what one is given the next cannot have."""
    classes = [kind_class("gpu", "gpu"), kind_class("nic", "nic"), kind_class("any", "gpu", "nic")]
    objects = [*classes, *map(device_node, NODES), *slices(cluster)]
    for i, one in enumerate(asked):
        objects += [claim_object(f"c{i}", one), claiming(f"p{i}", f"c{i}", created=i)]
    state = state_of(objects)
    plan = decided(state, POLICY)
    check_ledger(state)
    known = {device.name: device for device in cluster.devices}
    found = {binding.pod.split("/")[1]: binding for binding in plan.bindings}
    for i, one in enumerate(asked):
        binding = found.get(f"p{i}")
        if binding is None:
            assert not [way for node in NODES for way in cluster.choices(one, node)], f"p{i} could be served"
            continue
        chosen = tuple(
            tuple(known[d.device] for d in binding.devices if d.request == f"r{place}")
            for place in range(len(one.requests))
        )
        assert chosen in list(cluster.choices(one, binding.node))
        for request, devices in zip(one.requests, chosen, strict=True):
            cluster.held += [(device, request.memory or device.memory) for device in devices]
