"""No claim of one pod is given to two, no node attaches more volumes than it can, and no pod waits for no reason.

A volume that several pods of a node use is attached once.
"""

from typing import Any

from hypothesis import given, settings
from hypothesis import strategies as st

from fairway.api.kinds import ApiObject
from fairway.scheduler.plan import Plan
from support import engine
from support import objects as make
from support.effort import examples

DRIVER = "disk.example.com"
ACTIONS = ("allocate", "allocate, preempt", "enqueue, reserve, allocate, reclaim, backfill")
many = settings(max_examples=examples(60, 1500), deadline=None)

Pods = list[tuple[str, str, str]]
"""Name, claim, node."""


@st.composite
def pods(draw: st.DrawFn) -> Pods:
    claims = st.sampled_from(("one-0", "one-1", "disk-0", "disk-1", "disk-2", "disk-3", "many-0"))
    return [
        (f"p{i}", draw(claims), draw(st.sampled_from(("", "", "n0", "n1")))) for i in range(draw(st.integers(1, 7)))
    ]


def objects_of(pods: Pods, limits: list[int]) -> list[ApiObject]:
    objects = [make.node(f"n{i}", cpu=4) for i in range(len(limits))]
    for i, limit in enumerate(limits):
        drivers = [{"name": DRIVER, "allocatable": {"count": limit}}]
        objects.append(make.made("CSINode", f"n{i}", spec={"drivers": drivers}))
    modes = {"one": "ReadWriteOncePod", "disk": "ReadWriteOnce", "many": "ReadWriteMany"}
    for claim in {claim for _, claim, _ in pods}:
        spec: dict[str, Any] = {"accessModes": [modes[claim.split("-")[0]]], "volumeName": claim}
        objects.append(make.made("PersistentVolumeClaim", claim, "default", spec=spec))
        objects.append(make.made("PersistentVolume", claim, spec={"csi": {"driver": DRIVER, "volumeHandle": claim}}))
    for order, (name, claim, node) in enumerate(pods):
        volumes = [{"name": "v", "persistentVolumeClaim": {"claimName": claim}}]
        spec = {"volumes": volumes, "priority": order}
        objects.append(make.pod(name, cpu=1, node=node, created=order, spec=spec))
    return objects


def after(pods: Pods, plan: Plan) -> dict[str, str]:
    """Where pods are when the plan is carried out."""
    gone = {eviction.pod for eviction in plan.evictions}
    there = {name: node for name, _, node in pods if node and f"default/{name}" not in gone}
    return there | engine.bound(plan)


@many
@given(pods(), st.lists(st.integers(0, 3), min_size=2, max_size=2), st.sampled_from(ACTIONS))
def test_what_is_placed_can_be_attached(pods, limits, actions):
    policy = engine.policy(actions=actions, plugins=engine.PLUGINS)
    plan = engine.plan(objects_of(pods, limits), policy=policy)
    claim_of = {name: claim for name, claim, _ in pods}
    running = {name for name, _, node in pods if node}
    places = after(pods, plan)
    for name, node in engine.bound(plan).items():
        claim = claim_of[name]
        users = [other for other in places if claim_of[other] == claim]
        assert not claim.startswith("one") or users == [name], (claim, users)
        before = {claim_of[other] for other, place in places.items() if place == node and other in running}
        if claim not in before:
            attached = {claim_of[other] for other, place in places.items() if place == node}
            assert len(attached) <= limits[int(node[1])], (node, places)
    for name in claim_of.keys() - places.keys() - running if actions == "allocate" else ():
        assert not could_be_placed(name, claim_of, places, limits), (name, places)


def could_be_placed(name: str, claim_of: dict[str, str], places: dict[str, str], limits: list[int]) -> bool:
    claim = claim_of[name]
    if claim.startswith("one") and claim in [claim_of[other] for other in places]:
        return False
    attached = {n: {claim_of[o] for o, place in places.items() if place == n} for n in ("n0", "n1")}
    return any(
        sum(node == f"n{i}" for node in places.values()) < 4
        and (claim in attached[f"n{i}"] or len(attached[f"n{i}"]) < limit)
        for i, limit in enumerate(limits)
    )
