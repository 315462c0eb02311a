"""No volume is given twice, each choice is the one that the slow twin makes, and each refusal is true."""

from dataclasses import dataclass, replace
from typing import Any

from hypothesis import given, settings
from hypothesis import strategies as st

from fairway.api.kinds import ApiObject
from fairway.scheduler.plan import Plan
from fairway.state.events import Deleted
from oracles.volumes import Disk, Storage, Wish
from support import engine
from support import objects as make
from support.effort import examples

NODES = ("n0", "n1", "n2")
CLASSES = ("local", "disk", "pool")
MODES = ("ReadWriteOnce", "ReadOnlyMany")
CPU = 3
ACTIONS = ("allocate", "allocate, preempt", "enqueue, reserve, allocate, reclaim, backfill")
many = settings(max_examples=examples(150, 3000), deadline=None)


@dataclass(frozen=True)
class World:
    disks: tuple[Disk, ...]
    wishes: tuple[Wish, ...]
    pods: tuple[tuple[str, tuple[str, ...], str], ...]
    """Name, claims, gang."""
    allowed: frozenset[str]
    """Nodes for which class `disk` may provision."""
    pool: tuple[int, ...]
    """By node, what class `pool` can provision."""


def disks(names: st.SearchStrategy[str]) -> st.SearchStrategy[Disk]:
    return st.builds(
        Disk,
        names,
        st.integers(1, 4),
        st.sampled_from(CLASSES),
        st.frozensets(st.sampled_from(NODES), min_size=1),
        st.frozensets(st.sampled_from(MODES), min_size=1),
        st.sampled_from(("", "", "", "c0", "c1")),
    )


@st.composite
def worlds(draw: st.DrawFn) -> World:
    count = draw(st.integers(1, 6))
    wishes = tuple(
        Wish(
            f"c{i}",
            draw(st.integers(1, 4)),
            draw(st.sampled_from(CLASSES)),
            draw(st.frozensets(st.sampled_from(MODES), min_size=1, max_size=1)),
            draw(st.sampled_from(("", "", "", "n1"))),
        )
        for i in range(count)
    )
    number = draw(st.integers(0, 6))
    made = tuple(replace(draw(disks(st.just("x"))), name=f"d{i}") for i in range(number))
    names = st.sampled_from([wish.name for wish in wishes])
    pods = tuple(
        (
            f"p{i}",
            tuple(draw(st.lists(names, min_size=1, max_size=3, unique=True))),
            draw(st.sampled_from(("", "", "g"))),
        )
        for i in range(draw(st.integers(1, 6)))
    )
    allowed = draw(st.frozensets(st.sampled_from(NODES)))
    pool = tuple(draw(st.integers(0, 6)) for _ in NODES)
    return World(made, wishes, pods, allowed, pool)


def selector(nodes: frozenset[str]) -> dict[str, Any]:
    values = sorted(nodes)
    if len(values) == 1:
        expressions = [{"key": make.HOST, "operator": "In", "values": values}]
    else:
        expressions = (
            [{"key": make.HOST, "operator": "NotIn", "values": sorted(set(NODES) - nodes)}] if len(values) < 3 else []
        )
    if not expressions:
        return {}
    return {"nodeAffinity": {"required": {"nodeSelectorTerms": [{"matchExpressions": expressions}]}}}


def disk_object(disk: Disk) -> ApiObject:
    spec: dict[str, Any] = {
        "capacity": {"storage": str(disk.size)},
        "storageClassName": disk.storage_class,
        "accessModes": sorted(disk.modes),
        **selector(disk.nodes),
    }
    if disk.claim:
        spec["claimRef"] = {"namespace": "default", "name": disk.claim}
    return make.made("PersistentVolume", disk.name, spec=spec)


def objects_of(world: World) -> list[ApiObject]:
    objects = [make.node(name, cpu=CPU) for name in NODES]
    late = "WaitForFirstConsumer"
    allowed = [{"matchLabelExpressions": [{"key": make.HOST, "values": sorted(world.allowed) or ["nowhere"]}]}]
    objects += [
        make.made("StorageClass", "local", provisioner="kubernetes.io/no-provisioner", volumeBindingMode=late),
        make.made("StorageClass", "disk", provisioner="d", volumeBindingMode=late, allowedTopologies=allowed),
        make.made("StorageClass", "pool", provisioner="p", volumeBindingMode=late),
        make.made("CSIDriver", "p", spec={"storageCapacity": True}),
    ]
    for name, left in zip(NODES, world.pool, strict=True):
        topology = {"matchLabels": {make.HOST: name}}
        more = {"storageClassName": "pool", "nodeTopology": topology, "capacity": str(left)}
        objects.append(make.made("CSIStorageCapacity", name, "default", **more))
    objects += [disk_object(disk) for disk in world.disks]
    for wish in world.wishes:
        spec = {
            "storageClassName": wish.storage_class,
            "resources": {"requests": {"storage": str(wish.size)}},
            "accessModes": sorted(wish.modes),
        }
        notes = {"annotations": {"volume.kubernetes.io/selected-node": wish.selected}} if wish.selected else {}
        objects.append(make.made("PersistentVolumeClaim", wish.name, "default", metadata=notes, spec=spec))
    members = sum(gang == "g" for _, _, gang in world.pods)
    if members:
        objects.append(make.group("g", minimum=members, created=0))
    for order, (name, claims, gang) in enumerate(world.pods):
        volumes = [{"name": c, "persistentVolumeClaim": {"claimName": c}} for c in claims]
        objects.append(make.pod(name, cpu=1, group=gang, created=order, spec={"volumes": volumes}))
    return objects


def storage_of(world: World) -> Storage:
    pools = dict(zip(NODES, world.pool, strict=True))
    for wish in world.wishes:
        if wish.selected and wish.storage_class == "pool" and pools[wish.selected] >= wish.size:
            pools[wish.selected] -= wish.size  # it is being provisioned
    return Storage(
        list(world.disks),
        {wish.name: wish for wish in world.wishes},
        {"disk": world.allowed, "pool": frozenset(NODES)},
        {"pool": pools},
    )


def serve(storage: Storage, world: World, claims: tuple[str, ...], node: str) -> dict[str, tuple[str, str]] | None:
    """What the twin gives. What is being provisioned already is counted already."""
    selected = [
        storage.wishes[c]
        for c in claims
        if storage.wishes[c].selected == node and storage.wishes[c].storage_class == "pool" and c not in storage.given
    ]
    before = dict(storage.pools["pool"])
    for wish in selected:
        if world.pool[NODES.index(node)] < wish.size:
            return None
        storage.pools["pool"][node] += wish.size
    found = storage.serve(list(claims), node)
    storage.pools["pool"] = before
    return found


@many
@given(worlds(), st.sampled_from(ACTIONS), st.lists(st.integers(0, 5), max_size=3))
def test_each_claim_gets_what_the_twin_gives_it(world, actions, gone):
    policy = engine.policy(actions=actions, plugins=engine.PLUGINS)
    state = engine.state_of(objects_of(world))
    holds(world, engine.decided(state, policy), actions)
    left = [disk for i, disk in enumerate(world.disks) if i not in gone]
    for disk in set(world.disks) - set(left):
        state.apply(Deleted(disk_object(disk)))
    after = replace(world, disks=tuple(left))
    holds(after, engine.decided(state, policy), actions)
    state.upsert([disk_object(disk) for disk in world.disks])
    holds(world, engine.decided(state, policy), actions)


def holds(world: World, plan: Plan, actions: str) -> None:
    storage, claims_of = storage_of(world), {name: claims for name, claims, _ in world.pods}
    disks: dict[str, str] = {}
    for binding in plan.bindings:
        name = binding.pod.removeprefix("default/")
        expected = serve(storage, world, claims_of[name], binding.node)
        got = {
            choice.claim.removeprefix("default/"): (choice.volume, choice.selected_node or binding.node)
            for choice in binding.volumes
        }
        assert expected is not None, (name, binding.node)
        assert {c: disk for c, (disk, _) in got.items()} == {c: disk for c, (disk, _) in expected.items()}
        for claim, (disk, _) in got.items():
            assert not disk or disks.setdefault(disk, claim) == claim, "a volume was given twice"
        for claim in got:
            wish = storage.wishes[claim]
            if wish.selected and wish.storage_class == "pool" and claim not in storage.given:
                storage.pools["pool"][binding.node] += wish.size
        storage.give(expected)
    if actions != "allocate":
        return
    used = {node: sum(binding.node == node for binding in plan.bindings) for node in NODES}
    placed = {binding.pod.removeprefix("default/") for binding in plan.bindings}
    for name, claims, gang in world.pods:
        if name not in placed and not gang:
            fits = [node for node in NODES if used[node] < CPU and serve(storage, world, claims, node) is not None]
            assert not fits, (name, fits)
