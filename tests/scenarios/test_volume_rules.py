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
        assert waiting(found)["b"].nodes == {"a volume claim that another pod uses (ReadWriteOncePod)": 2}
        assert "2 nodes cannot be used: another pod uses the pod's volume claim" in waiting(found)["b"].message

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
        assert waiting(found)["p4"].nodes == {f"no more volumes of {EBS} can be attached": 2}

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
