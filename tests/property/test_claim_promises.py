"""Whatever is claimed: no device, counter or capacity is given out twice, and every claim gets what it asks for."""

from __future__ import annotations

from collections import Counter
from typing import Any

from hypothesis import given, settings
from hypothesis import strategies as st

from fairway.api.kinds import ApiObject
from fairway.devices.track.ledger import check_ledger
from fairway.scheduler.plan import DeviceChoice, Plan
from support.devices import DRIVER, asking, device_node, kind_class, published, resource_slice
from support.effort import examples
from support.engine import decided, state_of
from support.engine import policy as make_policy
from support.objects import made, pod

POLICY = make_policy(devices={})
SHARED = {"set": {"slices": 2}}
GIB = 2**30


@st.composite
def devices(draw: st.DrawFn) -> dict[str, Any]:
    """By name: plain ones, parts of one chip (they share a counter), and one that is given out in parts."""
    found = {}
    for i in range(draw(st.integers(1, 4))):
        kind = draw(st.sampled_from(["gpu", "nic"]))
        root = draw(st.sampled_from(["1", "2"]))
        device = published(f"d{i}", attributes={"kind": {"string": kind}, "root": {"string": root}})
        match draw(st.sampled_from(["plain", "part", "shared"])):
            case "part":
                uses = {"slices": {"value": str(draw(st.integers(1, 2)))}}
                device["consumesCounters"] = [{"counterSet": "set", "counters": uses}]
            case "shared":
                device |= {"allowMultipleAllocations": True, "capacity": {"memory": {"value": "4Gi"}}}
        found[f"d{i}"] = device
    return found


@st.composite
def requests(draw: st.DrawFn, name: str) -> dict[str, Any]:
    def wish() -> dict[str, Any]:
        asked: dict[str, Any] = {"deviceClassName": draw(st.sampled_from(["gpu", "nic", "any"]))}
        if draw(st.integers(0, 5)) == 0:
            return asked | {"allocationMode": "All"}
        if draw(st.booleans()):
            asked["capacity"] = {"requests": {"memory": f"{draw(st.integers(1, 3))}Gi"}}
        return asked | {"count": draw(st.integers(1, 2))}

    if draw(st.booleans()):
        return {"name": name, "exactly": wish()}
    return {"name": name, "firstAvailable": [{"name": f"o{i}", **wish()} for i in range(2)]}


@st.composite
def templates(draw: st.DrawFn, name: str) -> ApiObject:
    asked = [draw(requests(f"r{i}")) for i in range(draw(st.integers(1, 2)))]
    rule = draw(st.sampled_from(["matchAttribute", "distinctAttribute", None]))
    rules = [{rule: f"{DRIVER}/root"}] if rule else []
    spec = {"spec": {"devices": {"requests": asked, "constraints": rules}}}
    return made("ResourceClaimTemplate", name, "default", spec=spec)


@st.composite
def clusters(draw: st.DrawFn) -> tuple[list[ApiObject], dict[str, dict[str, Any]], dict[str, ApiObject]]:
    nodes = {f"n{i}": draw(devices()) for i in range(draw(st.integers(1, 2)))}
    objects: list[ApiObject] = [kind_class("gpu", "gpu"), kind_class("nic", "nic"), kind_class("any", "gpu", "nic")]
    for name, found in nodes.items():
        objects += [device_node(name), resource_slice(f"s-{name}", name, *found.values(), counters=SHARED)]
    asked = {f"p{i}": draw(templates(f"t{i}")) for i in range(draw(st.integers(1, 4)))}
    for i, (name, template) in enumerate(asked.items()):
        entry = {"name": "c", "resourceClaimTemplateName": template.metadata.name}
        objects += [template, pod(name, cpu=1, created=i, spec={"resourceClaims": [entry]})]
    if draw(st.booleans()):
        objects.append(asking("by-class", classes={"any": 1}, created=draw(st.integers(0, 4))))
    return objects, nodes, asked


def assert_nothing_is_given_twice(plan: Plan, nodes: dict[str, dict[str, Any]]) -> None:
    wholes: Counter[tuple[str, str]] = Counter()
    memory: Counter[tuple[str, str]] = Counter()
    slices: Counter[str] = Counter()
    for binding in plan.bindings:
        for choice in binding.devices:
            place = (binding.node, choice.device)
            device = nodes[binding.node][choice.device]
            if "allowMultipleAllocations" in device and choice.claim:
                memory[place] += _bytes(choice)
                continue
            wholes[place] += 1
            for use in device.get("consumesCounters", ()):
                slices[binding.node] += int(use["counters"]["slices"]["value"])
    assert all(times == 1 for times in wholes.values())
    assert all(amount <= 4 * GIB for amount in memory.values())
    assert not wholes.keys() & memory.keys()
    assert all(used <= SHARED["set"]["slices"] for used in slices.values())


def _bytes(choice: DeviceChoice) -> int:
    (text,) = choice.consumed.values()
    return int(text.removesuffix("Gi")) * GIB


def assert_claims_have_what_they_ask(plan: Plan, nodes: dict[str, dict[str, Any]], asked: dict[str, Any]) -> None:
    for binding in plan.bindings:
        name = binding.pod.split("/")[1]
        if name not in asked:
            continue
        spec = asked[name].spec.spec.devices
        chosen = {
            request.name: [d for d in binding.devices if d.request.split("/")[0] == request.name]
            for request in spec.requests
        }
        for request in spec.requests:
            found = chosen[request.name]
            options = {f"{request.name}/{sub.name}": sub for sub in request.first_available}
            wish = request.exactly or options[found[0].request]
            assert {choice.class_ for choice in found} == {wish.device_class_name}
            assert len({choice.request for choice in found}) == 1
            kinds = {"any": {"gpu", "nic"}}.get(wish.device_class_name, {wish.device_class_name})
            here = nodes[binding.node]
            meant = [d for d, device in here.items() if device["attributes"]["kind"]["string"] in kinds]
            assert {choice.device for choice in found} <= set(meant)
            if wish.allocation_mode == "All":
                shared = {d for d in meant if here[d].get("allowMultipleAllocations")}
                assert set(meant) - shared <= {choice.device for choice in found}, (
                    "shared ones may have too little left"
                )
            else:
                assert len(found) == (wish.count or 1)
        roots = [nodes[binding.node][d.device]["attributes"]["root"]["string"] for d in binding.devices]
        for rule in spec.constraints:
            if rule.match_attribute:
                assert len(set(roots)) <= 1
            else:
                assert len(set(roots)) == len(roots)


@settings(max_examples=examples(60))
@given(clusters(), st.randoms(use_true_random=False))
def test_claims(cluster: tuple[list[ApiObject], dict[str, dict[str, Any]], dict[str, ApiObject]], random: Any) -> None:
    objects, nodes, asked = cluster
    state = state_of(objects)
    plan = decided(state, POLICY)
    assert_nothing_is_given_twice(plan, nodes)
    assert_claims_have_what_they_ask(plan, nodes, asked)
    check_ledger(state)
    shuffled = list(objects)
    random.shuffle(shuffled)
    assert decided(state_of(shuffled), POLICY).document() == plan.document()
