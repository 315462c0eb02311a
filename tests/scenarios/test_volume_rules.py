"""Volumes that only one pod may use, and nodes that can attach no more."""

from typing import Any

import pytest

from fairway.api.kinds import ApiObject
from fairway.state.cluster import Deleted
from support import engine
from support.engine import bound, plan, waiting
from support.objects import made, node, pod

NODES = [node("n1", cpu=9), node("n2", cpu=9)]
EBS = "ebs.csi.example.com"
IN_USE = (
    "node(s) unavailable due to PersistentVolumeClaim with ReadWriteOncePod access mode already in-use by another pod"
)
PREEMPT = engine.policy(actions="allocate, preempt", plugins=engine.PLUGINS)


def claim(name: str, *modes: str) -> list[ApiObject]:
    spec = {"accessModes": list(modes or ("ReadWriteOnce",)), "volumeName": f"pv-{name}"}
    volume = made("PersistentVolume", f"pv-{name}", spec={"csi": {"driver": EBS, "volumeHandle": name}})
    return [made("PersistentVolumeClaim", name, "default", spec=spec), volume]


def user(name: str, *claims: str, **more: Any) -> ApiObject:
    volumes = [{"name": f"v{i}", "persistentVolumeClaim": {"claimName": c}} for i, c in enumerate(claims)]
    return pod(name, cpu=1, spec={"volumes": volumes, **more.pop("spec", {})}, **more)


def limited(name: str, count: int | None) -> ApiObject:
    allocatable = {} if count is None else {"allocatable": {"count": count}}
    return made("CSINode", name, spec={"drivers": [{"name": EBS, "nodeID": name, **allocatable}]})


class TestOnePod:
    DATA = claim("data", "ReadWriteOncePod")

    def test_one_of_two_is_placed(self) -> None:
        found = plan(NODES, self.DATA, user("a", "data"), user("b", "data"))
        assert list(bound(found)) == ["a"]
        assert waiting(found)["b"].nodes == {IN_USE: 2}
        assert f"2 {IN_USE}" in waiting(found)["b"].message

    def test_a_running_pod_keeps_its_claim(self) -> None:
        assert bound(plan(NODES, self.DATA, user("r", "data", node="n1"), user("b", "data"))) == {}
        others = {"spec": {"schedulerName": "other"}}
        pods = [user("r", "data", node="n1", **others), user("b", "data")]
        state = engine.state_of(NODES, self.DATA, pods, scheduler_names=["fairway"])
        assert bound(engine.decided(state)) == {}, "a pod of another scheduler keeps it, too"
        state.apply(Deleted(pods[0]))
        assert len(bound(engine.decided(state))) == 1

    def test_other_access_modes_are_shared(self) -> None:
        assert len(bound(plan(NODES, claim("data", "ReadWriteMany"), user("a", "data"), user("b", "data")))) == 2

    def test_whatever_comes_first(self) -> None:
        objects = [*NODES, user("r", "data", node="n1"), user("b", "data"), *reversed(self.DATA)]
        assert bound(plan(objects)) == {}, "the claim is known after the pods"

    def test_a_gang_cannot_share_it(self) -> None:
        group = made("PodGroup", "g", "default", spec={"minMember": 2})
        assert bound(plan(NODES, self.DATA, group, [user(f"g-{i}", "data", group="g") for i in range(2)])) == {}

    def test_its_holder_is_the_victim(self) -> None:
        low = [user("holder", "data", node="n1"), pod("other", cpu=8, node="n1"), pod("third", cpu=9, node="n2")]
        found = plan(NODES, self.DATA, low, user("c", "data", spec={"priority": 9}), policy=PREEMPT)
        assert "default/holder" in [eviction.pod for eviction in found.evictions]
        [nomination] = found.nominations
        assert nomination.pod == "default/c"


class TestAttachLimits:
    CLAIMS = tuple(claim(f"c{i}") for i in range(5))

    def test_a_node_takes_as_many_volumes_as_it_can_attach(self) -> None:
        limits = [limited("n1", 1), limited("n2", 2)]
        found = plan(NODES, self.CLAIMS, limits, [user(f"p{i}", f"c{i}") for i in range(5)])
        assert sorted(bound(found).values()) == ["n1", "n2", "n2"]
        assert waiting(found)["p4"].nodes == {"node(s) exceed max volume count": 2}

    def test_what_runs_counts_and_a_pod_may_need_several(self) -> None:
        limits = [limited("n1", 2), limited("n2", 1)]
        runs = user("r", "c0", node="n1")
        assert bound(plan(NODES, self.CLAIMS, limits, runs, user("p", "c1", "c2"))) == {}
        limits[0] = limited("n1", 1)
        assert bound(plan(NODES, self.CLAIMS, limits, runs, user("p", "c1"))) == {"p": "n2"}

    @pytest.mark.parametrize("limits", [[], [limited("n1", None)]], ids=["no CSINode", "no count"])
    def test_without_a_limit_there_is_none(self, limits: list[ApiObject]) -> None:
        assert len(bound(plan(NODES, self.CLAIMS, limits, [user(f"p{i}", f"c{i}") for i in range(5)]))) == 5

    def test_a_limit_that_changes_is_seen(self) -> None:
        state = engine.state_of(NODES, self.CLAIMS, limited("n1", 0), limited("n2", 0), user("p", "c0"))
        assert bound(engine.decided(state)) == {}
        state.upsert([limited("n2", 1)])
        assert bound(engine.decided(state)) == {"p": "n2"}

    def test_who_has_the_slot_is_the_victim(self) -> None:
        limits = [limited("n1", 1), limited("n2", 0)]
        low = [user("slot", "c0", node="n1"), pod("idle", cpu=1, node="n1")]
        found = plan(NODES, self.CLAIMS, limits, low, user("c", "c1", spec={"priority": 9}), policy=PREEMPT)
        assert [eviction.pod for eviction in found.evictions] == ["default/slot"]

    def test_a_volume_that_pods_share_is_attached_once(self) -> None:
        shared = claim("shared", "ReadWriteMany")
        limits = [limited("n1", 1), limited("n2", 0)]
        pods = [user(f"p{i}", "shared") for i in range(3)]
        assert set(bound(plan(NODES, shared, limits, pods)).values()) == {"n1"}
        found = plan(NODES, shared, self.CLAIMS, limits, user("r", "c0", node="n1"), pods)
        assert waiting(found)["p0"].nodes == {"node(s) exceed max volume count": 2}
        running = user("r", "shared", node="n1")
        assert len(bound(plan(NODES, shared, limits, running, pods))) == 3

    def test_the_last_user_frees_the_slot(self) -> None:
        shared = claim("shared", "ReadWriteMany")
        users = [user(f"r{i}", "shared", node="n1") for i in range(2)]
        state = engine.state_of(NODES, shared, self.CLAIMS, limited("n1", 1), limited("n2", 0), users, user("p", "c0"))
        assert bound(engine.decided(state)) == {}
        state.apply(Deleted(users[0]))
        assert bound(engine.decided(state)) == {}
        state.apply(Deleted(users[1]))
        assert bound(engine.decided(state)) == {"p": "n1"}

    def test_the_class_names_the_driver_of_a_volume_that_is_not_made_yet(self) -> None:
        late = made("StorageClass", "late", provisioner=EBS, volumeBindingMode="WaitForFirstConsumer")
        new = made(
            "PersistentVolumeClaim",
            "new",
            "default",
            spec={"accessModes": ["ReadWriteOnce"], "storageClassName": "late"},
        )
        limits = [limited("n1", 0), limited("n2", 1)]
        assert bound(plan(NODES, late, new, limits, user("p", "new"))) == {"p": "n2"}


class TestDisks:
    """Disks that pods name directly: one pod of a node uses one, unless all only read it."""

    @pytest.mark.parametrize(
        ("source", "together"),
        [
            ({"gcePersistentDisk": {"pdName": "d"}}, False),
            ({"gcePersistentDisk": {"pdName": "d", "readOnly": True}}, True),
            ({"awsElasticBlockStore": {"volumeID": "d"}}, False),
            ({"iscsi": {"iqn": "d"}}, False),
            ({"iscsi": {"iqn": "d", "readOnly": True}}, True),
            ({"rbd": {"monitors": ["m1", "m2"], "image": "d"}}, False),
            ({"rbd": {"monitors": ["m1"], "image": "d", "readOnly": True}}, True),
        ],
    )
    def test_two_pods_on_one_node(self, source: dict[str, Any], together: bool) -> None:
        pods = [pod(name, cpu=1, spec={"volumes": [{"name": "v", **source}]}) for name in ("a", "b")]
        found = plan(NODES[0], pods)
        assert len(bound(found)) == (2 if together else 1)
        if not together:
            assert waiting(found)["b"].nodes == {"node(s) had no available disk": 1}
        assert len(bound(plan(NODES, pods))) == 2

    def test_monitors_that_overlap_mean_the_same_image(self) -> None:
        def reads(name: str, *monitors: str, node: str = "") -> ApiObject:
            image = {"monitors": list(monitors), "image": "d"}
            return pod(name, cpu=1, node=node, spec={"volumes": [{"name": "v", "rbd": image}]})

        assert bound(plan(NODES[0], reads("r", "m1", "m2", node="n1"), reads("p", "m2"))) == {}
        assert bound(plan(NODES[0], reads("r", "m1", "m2", node="n1"), reads("p", "m3"))) == {"p": "n1"}


class TestZones:
    """A bound volume says by labels where it is."""

    def bound_to(self, **labels: str) -> list[ApiObject]:
        return [
            made("PersistentVolumeClaim", "data", "default", spec={"volumeName": "pv"}),
            made("PersistentVolume", "pv", metadata={"labels": labels}),
        ]

    ZONE = "topology.kubernetes.io/zone"
    OLD = "failure-domain.beta.kubernetes.io/zone"

    @pytest.mark.parametrize(
        ("label", "value", "nodes", "expected"),
        [
            (ZONE, "b", {"n1": {ZONE: "a"}, "n2": {ZONE: "b"}}, {"p": "n2"}),
            (ZONE, "b__c", {"n1": {ZONE: "a"}, "n2": {ZONE: "c"}}, {"p": "n2"}),
            (OLD, "b", {"n1": {ZONE: "a"}, "n2": {ZONE: "b"}}, {"p": "n2"}),
            (ZONE, "b", {"n1": {}, "n2": {ZONE: "a"}}, {"p": "n1"}),
            (ZONE, "b", {"n1": {OLD: "b"}, "n2": {OLD: "a"}}, {}),
            (ZONE, "b____c", {"n1": {ZONE: "a"}}, {"p": "n1"}),
        ],
        ids=["equal", "one of several", "old label", "a node that says nothing", "an old node", "unreadable"],
    )
    def test_where_a_volume_may_be_used(self, label: str, value: str, nodes: Any, expected: Any) -> None:
        found = plan(
            [node(n, cpu=9, labels=ls) for n, ls in nodes.items()], self.bound_to(**{label: value}), user("p", "data")
        )
        assert bound(found) == expected
        if not expected:
            assert waiting(found)["p"].nodes == {"node(s) had no available volume zone": 2}

    def test_a_victim_in_the_zone_of_the_volume(self) -> None:
        nodes = [node(n, cpu=1, labels={self.ZONE: z}) for n, z in (("n1", "a"), ("n2", "b"))]
        low = [pod("one", cpu=1, node="n1"), pod("two", cpu=1, node="n2")]
        found = plan(
            nodes, self.bound_to(**{self.ZONE: "b"}), low, user("c", "data", spec={"priority": 9}), policy=PREEMPT
        )
        assert [eviction.pod for eviction in found.evictions] == ["default/two"]
