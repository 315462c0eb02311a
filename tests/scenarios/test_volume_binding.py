"""Claims that wait for their first consumer: which volume they get, or for which node one is provisioned."""

from typing import Any

import pytest
from msgspec.structs import replace

from fairway.api.core import SELECTED_NODE, PersistentVolume
from fairway.api.kinds import ApiObject
from fairway.scheduler.plan import Plan
from support import engine
from support.engine import bound, plan, waiting
from support.objects import group, made, node, pod

HOST = "kubernetes.io/hostname"
NODES = [node(n, cpu=9, labels={HOST: n, "zone": z}) for n, z in (("n1", "a"), ("n2", "b"), ("n3", "b"))]
LOCAL = made(
    "StorageClass", "local", provisioner="kubernetes.io/no-provisioner", volumeBindingMode="WaitForFirstConsumer"
)
DRIVER = "disk.example.com"
PREEMPT = engine.policy(actions="allocate, preempt", plugins=engine.PLUGINS)

NOTHING = "node(s) didn't find available persistent volumes to bind"
NO_STORAGE = "node(s) did not have enough free storage"


def disk_class(*zones: str) -> ApiObject:
    topologies = [{"matchLabelExpressions": [{"key": "zone", "values": list(zones)}]}] if zones else []
    return made(
        "StorageClass",
        "disk",
        provisioner=DRIVER,
        volumeBindingMode="WaitForFirstConsumer",
        allowedTopologies=topologies,
    )


def claim(name: str, size: str = "1Gi", storage_class: str = "local", **spec: Any) -> ApiObject:
    return made(
        "PersistentVolumeClaim",
        name,
        "default",
        spec={
            "accessModes": ["ReadWriteOnce"],
            "storageClassName": storage_class,
            "resources": {"requests": {"storage": size}},
            **spec,
        },
    )


def volume(name: str, host: str = "", size: str = "1Gi", *, zone: str = "", **spec: Any) -> ApiObject:
    key, value = (HOST, host) if host else ("zone", zone)
    terms = [{"matchExpressions": [{"key": key, "operator": "In", "values": [value]}]}]
    affinity = {"nodeAffinity": {"required": {"nodeSelectorTerms": terms}}} if value else {}
    return made(
        "PersistentVolume",
        name,
        spec={
            "accessModes": ["ReadWriteOnce"],
            "storageClassName": "local",
            "capacity": {"storage": size},
            **affinity,
            **spec,
        },
    )


def user(name: str, *claims: str, **more: Any) -> ApiObject:
    volumes = [{"name": f"v{i}", "persistentVolumeClaim": {"claimName": c}} for i, c in enumerate(claims)]
    return pod(name, cpu=1, spec={"volumes": volumes, **more.pop("spec", {})}, **more)


def chosen(plan: Plan) -> dict[str, str]:
    """Volume, or `=node`, by claim."""
    return {
        choice.claim.removeprefix("default/"): choice.volume or f"={choice.selected_node}"
        for binding in plan.bindings
        for choice in binding.volumes
    }


class TestAvailableVolumes:
    def test_the_node_that_has_the_volume(self) -> None:
        found = plan(NODES, LOCAL, volume("pv", "n2"), claim("c"), user("p", "c"))
        assert bound(found) == {"p": "n2"}
        assert chosen(found) == {"c": "pv"}

    def test_the_smallest_that_fits(self) -> None:
        volumes = [volume("large", "n1", "10Gi"), volume("right", "n1", "5Gi"), volume("small", "n1", "1Gi")]
        assert chosen(plan(NODES, LOCAL, volumes, claim("c", "4Gi"), user("p", "c"))) == {"c": "right"}

    def test_the_first_by_name_of_equal_ones(self) -> None:
        volumes = [volume("b", "n1"), volume("a", "n1")]
        assert chosen(plan(NODES, LOCAL, volumes, claim("c"), user("p", "c"))) == {"c": "a"}

    @pytest.mark.parametrize(
        "other",
        [
            {"size": "512Mi"},
            {"storageClassName": "other"},
            {"accessModes": ["ReadOnlyMany"]},
            {"volumeMode": "Block"},
            {"volumeAttributesClassName": "gold"},
            {"claimRef": {"namespace": "default", "name": "another"}},
        ],
        ids=lambda other: next(iter(other)),
    )
    def test_a_volume_that_does_not_match(self, other: dict[str, Any]) -> None:
        found = plan(NODES, LOCAL, volume("pv", "n1", **other), claim("c"), user("p", "c"))
        assert bound(found) == {}
        assert waiting(found)["p"].nodes == {NOTHING: 3}
        assert f"3 {NOTHING}" in waiting(found)["p"].message

    @pytest.mark.parametrize("phase", ["Pending", "Released", "Failed"])
    def test_a_volume_that_is_not_available(self, phase: str) -> None:
        pv = volume("pv", "n1")
        assert isinstance(pv, PersistentVolume)
        pv = replace(pv, status=replace(pv.status, phase=phase))
        assert bound(plan(NODES, LOCAL, pv, claim("c"), user("p", "c"))) == {}

    def test_labels_that_the_claim_selects(self) -> None:
        pv = volume("pv", "n1")
        selects = claim("c", selector={"matchLabels": {"tier": "fast"}})
        assert bound(plan(NODES, LOCAL, pv, selects, user("p", "c"))) == {}
        fast = replace(pv, metadata=replace(pv.metadata, labels={"tier": "fast"}))
        assert bound(plan(NODES, LOCAL, fast, selects, user("p", "c"))) == {"p": "n1"}

    def test_zone_labels_of_the_volume(self) -> None:
        zone = "topology.kubernetes.io/zone"
        pv = volume("pv")
        pv = replace(pv, metadata=replace(pv.metadata, labels={zone: "b"}))
        nodes = [node(n, cpu=9, labels={zone: z}) for n, z in (("n1", "a"), ("n2", "b"))]
        assert bound(plan(nodes, LOCAL, pv, claim("c"), user("p", "c"))) == {"p": "n2"}

    def test_two_pods_never_count_on_one_volume(self) -> None:
        found = plan(NODES, LOCAL, volume("pv"), claim("c1"), claim("c2"), user("a", "c1"), user("b", "c2"))
        assert bound(found) == {"a": "n1"}
        assert waiting(found)["b"].nodes == {NOTHING: 3}

    def test_as_many_pods_as_a_node_has_volumes(self) -> None:
        volumes = [volume("a", "n1"), volume("b", "n1"), volume("c", "n3")]
        claims = [claim(f"c{i}") for i in range(4)]
        found = plan(NODES, LOCAL, volumes, claims, [user(f"p{i}", f"c{i}") for i in range(4)])
        assert sorted(bound(found).values()) == ["n1", "n1", "n3"]
        assert sorted(chosen(found).values()) == ["a", "b", "c"]

    def test_claims_of_one_pod_by_size(self) -> None:
        """The small claim is served first, and does not take what only the large one could not do without."""
        volumes = [volume("large", "n1", "10Gi"), volume("small", "n1", "2Gi")]
        found = plan(NODES, LOCAL, volumes, claim("big", "5Gi"), claim("tiny", "1Gi"), user("p", "big", "tiny"))
        assert chosen(found) == {"big": "large", "tiny": "small"}

    def test_a_pre_bound_volume(self) -> None:
        reserved = volume("mine", "n3", "5Gi", claimRef={"namespace": "default", "name": "c"})
        found = plan(NODES, LOCAL, volume("free", "n1"), reserved, claim("c"), user("p", "c"))
        assert (bound(found), chosen(found)) == ({"p": "n3"}, {"c": "mine"})

    def test_volumes_that_come_and_go(self) -> None:
        state = engine.state_of(NODES, LOCAL, claim("c"), user("p", "c"))
        assert bound(engine.decided(state)) == {}
        state.upsert([volume("pv", "n2")])
        assert bound(engine.decided(state)) == {"p": "n2"}
        state.upsert([volume("pv", "n2", claimRef={"namespace": "default", "name": "other"})])
        assert bound(engine.decided(state)) == {}
        state.upsert([volume("wide", zone="b")])
        assert bound(engine.decided(state)) == {"p": "n2"}

    def test_a_node_that_comes_later(self) -> None:
        state = engine.state_of(NODES[0], LOCAL, claim("c"), volume("pv", "n2"), user("p", "c"))
        assert bound(engine.decided(state)) == {}
        state.upsert([NODES[1]])
        assert bound(engine.decided(state)) == {"p": "n2"}


class TestProvisioners:
    def test_the_node_is_selected(self) -> None:
        found = plan(NODES, disk_class(), claim("c", storage_class="disk"), user("p", "c"))
        assert (bound(found), chosen(found)) == ({"p": "n1"}, {"c": "=n1"})

    def test_allowed_topologies(self) -> None:
        found = plan(NODES, disk_class("b"), claim("c", storage_class="disk"), user("p", "c"))
        assert chosen(found) == {"c": "=n2"}
        nowhere = plan(NODES, disk_class("z"), claim("c", storage_class="disk"), user("p", "c"))
        assert waiting(nowhere)["p"].nodes == {NOTHING: 3}

    def test_a_volume_that_is_there_comes_first(self) -> None:
        pv = volume("pv", "n1", storageClassName="disk")
        found = plan(NODES[0], disk_class("b"), pv, claim("c", storage_class="disk"), user("p", "c"))
        assert chosen(found) == {"c": "pv"}

    def test_the_selected_node_stays_selected(self) -> None:
        selected = claim("c", storage_class="disk")
        selected = replace(selected, metadata=replace(selected.metadata, annotations={SELECTED_NODE: "n3"}))
        found = plan(NODES, disk_class(), selected, user("p", "c"))
        assert (bound(found), chosen(found)) == ({"p": "n3"}, {"c": "=n3"})
        elsewhere = plan(NODES[:2], disk_class(), selected, user("p", "c"))
        assert waiting(elsewhere)["p"].nodes == {NOTHING: 2}


class TestStorageCapacity:
    CLAIM = claim("c", "10Gi", "disk")

    def capacity(self, name: str, host: str, amount: str, **more: Any) -> ApiObject:
        topology = {"nodeTopology": {"matchLabels": {HOST: host}}} if host else {}
        return made(
            "CSIStorageCapacity", name, "kube-system", storageClassName="disk", capacity=amount, **topology, **more
        )

    def driver(self, publishes: bool = True) -> ApiObject:
        return made("CSIDriver", DRIVER, spec={"storageCapacity": publishes})

    def test_where_there_is_enough(self) -> None:
        capacities = [self.capacity("a", "n1", "5Gi"), self.capacity("b", "n3", "50Gi")]
        found = plan(NODES, disk_class(), self.driver(), capacities, self.CLAIM, user("p", "c"))
        assert chosen(found) == {"c": "=n3"}

    def test_nowhere_enough(self) -> None:
        found = plan(NODES, disk_class(), self.driver(), self.capacity("a", "n1", "5Gi"), self.CLAIM, user("p", "c"))
        assert waiting(found)["p"].nodes == {NO_STORAGE: 3}

    def test_a_driver_that_does_not_publish(self) -> None:
        objects = [disk_class(), self.capacity("a", "n1", "5Gi"), self.CLAIM, user("p", "c")]
        assert len(bound(plan(NODES, self.driver(publishes=False), objects))) == 1
        assert len(bound(plan(NODES, objects))) == 1

    def test_the_largest_volume(self) -> None:
        small = self.capacity("a", "n1", "50Gi", maximumVolumeSize="5Gi")
        found = plan(NODES, disk_class(), self.driver(), small, self.CLAIM, user("p", "c"))
        assert waiting(found)["p"].nodes == {NO_STORAGE: 3}

    def test_pods_of_one_cycle_do_not_count_on_the_same_bytes(self) -> None:
        claims = [claim(f"c{i}", "10Gi", "disk") for i in range(4)]
        found = plan(
            NODES,
            disk_class(),
            self.driver(),
            self.capacity("a", "n1", "25Gi"),
            claims,
            [user(f"p{i}", f"c{i}") for i in range(4)],
        )
        assert len(bound(found)) == 2

    def test_storage_where_nothing_may_be_provisioned_does_not_count(self) -> None:
        """Two of a gang's pods would otherwise go to the node with one volume."""
        members = [user(f"g-{i}", f"c{i}", group="g") for i in range(2)]
        claims = [claim(f"c{i}", "1Gi", "disk") for i in range(2)]
        pv = volume("pv", "n1", storageClassName="disk")
        objects = [self.driver(), self.capacity("a", "n1", "50Gi"), pv, claims, group("g", minimum=2), members]
        assert bound(plan(NODES[0], disk_class("b"), objects)) == {}
        assert sorted(chosen(plan(NODES[0], disk_class("a"), objects)).values()) == ["=n1", "pv"]

    def test_what_is_being_provisioned_counts_too(self) -> None:
        under_way = claim("other", "10Gi", "disk")
        under_way = replace(under_way, metadata=replace(under_way.metadata, annotations={SELECTED_NODE: "n1"}))
        capacity = self.capacity("a", "n1", "15Gi")
        objects = [disk_class(), self.driver(), capacity, under_way, self.CLAIM, user("r", "other", node="n1")]
        assert bound(plan(NODES, objects, user("p", "c"))) == {}
        assert bound(plan(NODES, objects[:-1], user("q", "other"))) == {"q": "n1"}, "not against itself"


class TestSharedClaims:
    def test_the_first_placement_decides_for_all(self) -> None:
        nodes = [node(n, cpu=2, labels={HOST: n}) for n in ("n1", "n2")]
        pods = [user(f"p{i}", "c") for i in range(3)]
        found = plan(nodes, disk_class(), claim("c", storage_class="disk"), pods)
        assert set(bound(found).values()) == {"n1"}
        assert len(bound(found)) == 2, "the third would need the same node"
        assert waiting(found)["p2"].nodes.keys() == {NOTHING, "insufficient cpu"}

    def test_others_follow_where_the_volume_is_reached(self) -> None:
        nodes = [node(n, cpu=1, labels={"zone": z}) for n, z in (("n1", "a"), ("n2", "b"), ("n3", "b"))]
        pods = [user(f"p{i}", "c") for i in range(3)]
        found = plan(nodes, LOCAL, volume("pv", zone="b"), claim("c"), pods)
        assert bound(found) == {"p0": "n2", "p1": "n3"}
        assert {choice.volume for binding in found.bindings for choice in binding.volumes} == {"pv"}


class TestGangs:
    def test_all_or_nothing(self) -> None:
        members = [user(f"g-{i}", f"c{i}", group="g") for i in range(3)]
        claims = [claim(f"c{i}") for i in range(3)]
        some = [volume("a", "n1"), volume("b", "n2")]
        gang = group("g", minimum=3)
        found = plan(NODES, LOCAL, claims, some, gang, members)
        assert bound(found) == {}
        assert "2 of the 3 pods it needs at once could be placed" in waiting(found)["g"].message
        found = plan(NODES, LOCAL, claims, some, volume("c", zone="b"), gang, members)
        assert sorted(chosen(found).values()) == ["a", "b", "c"]

    def test_what_a_gang_gives_back_is_there_for_others(self) -> None:
        members = [user(f"g-{i}", f"c{i}", group="g", created=0) for i in range(2)]
        objects = [LOCAL, volume("pv"), [claim(f"c{i}") for i in range(3)], group("g", minimum=2, created=0), members]
        found = plan(NODES, objects, user("late", "c2", created=9))
        assert bound(found).keys() == {"late"}
        assert chosen(found) == {"c2": "pv"}


class TestWaiting:
    """Claims that no node can help, in the words of kube-scheduler."""

    def why(self, *objects: Any) -> str:
        return waiting(plan(NODES, LOCAL, *objects))["p"].message

    def test_immediate(self) -> None:
        now = made("StorageClass", "now", provisioner=DRIVER)
        text = "pod has unbound immediate PersistentVolumeClaims"
        assert text in self.why(now, claim("c", storage_class="now"), user("p", "c"))
        assert text in self.why(claim("c", storage_class="no-such-class"), user("p", "c"))
        pre_bound = made(
            "PersistentVolumeClaim",
            "c",
            "default",
            spec={"volumeName": "pv", "storageClassName": "local"},
            status={"phase": "Pending"},
        )
        assert text in self.why(pre_bound, volume("pv", "n1"), user("p", "c"))

    def test_missing_lost_and_being_deleted(self) -> None:
        assert 'persistentvolumeclaim "c" not found' in self.why(user("p", "c"))
        lost = made("PersistentVolumeClaim", "c", "default", spec={"volumeName": "pv"}, status={"phase": "Lost"})
        assert 'persistentvolumeclaim "c" bound to non-existent persistentvolume "pv"' in self.why(lost, user("p", "c"))
        leaving = claim("c")
        stamp = user("x", "c", created=1).metadata.creation_timestamp
        leaving = replace(leaving, metadata=replace(leaving.metadata, deletion_timestamp=stamp))
        assert 'persistentvolumeclaim "c" is being deleted' in self.why(leaving, volume("pv", "n1"), user("p", "c"))

    def test_ephemeral_volumes(self) -> None:
        inline = pod("p", cpu=1, spec={"volumes": [{"name": "scratch", "ephemeral": {}}]})
        pv = volume("pv", "n2")
        text = 'waiting for ephemeral volume controller to create the persistentvolumeclaim "p-scratch"'
        assert text in self.why(pv, inline)
        assert "was not created for pod default/p (pod is not owner)" in self.why(pv, claim("p-scratch"), inline)
        own = claim("p-scratch")
        owner = {"apiVersion": "v1", "kind": "Pod", "name": "p", "uid": "uid-of-Pod-default-p", "controller": True}
        own = made(
            "PersistentVolumeClaim",
            "p-scratch",
            "default",
            metadata={"ownerReferences": [owner]},
            spec={"storageClassName": "local", "accessModes": ["ReadWriteOnce"]},
        )
        assert bound(plan(NODES, LOCAL, pv, own, inline)) == {"p": "n2"}


def test_a_nomination_keeps_its_volume() -> None:
    """The pod of low priority that comes while the victim leaves does not get the preemptor's volume."""
    nodes = [node("n1", cpu=1, labels={HOST: "n1"}), node("n2", cpu=1, labels={HOST: "n2"})]
    objects = [
        LOCAL,
        volume("pv"),
        claim("high"),
        claim("low"),
        pod("victim", cpu=1, node="n1"),
        pod("v2", cpu=1, node="n2"),
    ]
    found = plan(nodes, objects, user("high", "high", spec={"priority": 9}), policy=PREEMPT)
    [nomination] = found.nominations
    nominated = user("high", "high", spec={"priority": 9}, nominated=nomination.node)
    later = plan(
        [*nodes, node("n3", cpu=1, labels={HOST: "n3"})], objects, nominated, user("late", "low"), policy=PREEMPT
    )
    assert bound(later).get("late") is None


def test_reserved_pods_keep_theirs() -> None:
    reserving = engine.policy(
        actions=[
            {"name": "reserve", "arguments": {"starvingJobTimeThreshold": 1, "reservedNodePercent": 100}},
            {"name": "allocate"},
        ],
        plugins=engine.PLUGINS,
    )
    nodes = [node("n1", cpu=2, labels={HOST: "n1"}), node("n2", cpu=2, labels={HOST: "n2"})]
    running = pod("r", cpu=2, node="n1")
    volumes = [{"name": "v", "persistentVolumeClaim": {"claimName": "c"}}]
    big = pod("big", cpu=2, created=0, spec={"volumes": volumes})
    found = plan(
        nodes, LOCAL, volume("pv", "n1"), claim("c"), claim("d"), running, big, user("late", "d"), policy=reserving
    )
    assert bound(found) == {}
