"""Who waits for which volumes, and what ends the wait; and each write about volumes, request by request."""

from __future__ import annotations

from functools import partial
from typing import Any

import msgspec
import pytest
from msgspec.structs import replace

from fairway.api.core import ClaimReference, PersistentVolume, PersistentVolumeClaim
from fairway.drive import Bind, ObjectStore, PreBindVolume, SelectNode, changes_of
from fairway.kube.guards.volume_waits import VolumeWaits
from fairway.kube.http.exchange import ApiAnswer, Ending, WriteResult
from fairway.kube.requests.changes import script_of
from fairway.state.cluster import ClusterState
from support.engine import decided
from support.objects import HOST, group, made, node, pod

CLASSES = [
    made("StorageClass", "local", provisioner="kubernetes.io/no-provisioner", volumeBindingMode="WaitForFirstConsumer"),
    made("StorageClass", "disk", provisioner="d", volumeBindingMode="WaitForFirstConsumer"),
]


def volume(name: str, host: str, **more: Any) -> PersistentVolume:
    terms = [{"matchExpressions": [{"key": HOST, "operator": "In", "values": [host]}]}]
    spec = {
        "accessModes": ["ReadWriteOnce"],
        "storageClassName": "local",
        "capacity": {"storage": "1Gi"},
        "nodeAffinity": {"required": {"nodeSelectorTerms": terms}},
        **more,
    }
    found = made("PersistentVolume", name, metadata={"uid": f"uid-{name}"}, spec=spec, status={"phase": "Available"})
    assert isinstance(found, PersistentVolume)
    return found


def claim(name: str, storage_class: str, **more: Any) -> PersistentVolumeClaim:
    found = made(
        "PersistentVolumeClaim",
        name,
        "default",
        metadata={"uid": f"uid-{name}", **more.pop("metadata", {})},
        spec={"accessModes": ["ReadWriteOnce"], "storageClassName": storage_class, **more},
        status={"phase": "Pending"},
    )
    assert isinstance(found, PersistentVolumeClaim)
    return found


class Waits:
    """A plan whose volumes were all written, and those that wait for them to be bound."""

    def __init__(self, *objects: Any) -> None:
        self.state, self.store = ClusterState(), ObjectStore()
        for thing in (node("n1", cpu=9), node("n2", cpu=9), *CLASSES, *objects):
            self.store.seen(thing)
        self._tell()
        self.changes = changes_of(decided(self.state), self.store, 0)
        self.store.sent(self.changes)
        self._tell()
        self.waits = VolumeWaits(self.state, self.store)
        self.answers: dict[str, str] = {}
        for change in self.changes:
            if isinstance(change, Bind):
                assert change.awaits_volumes
                self.waits.ask(change, {}, partial(self._answer, change.key[2]))

    def _answer(self, name: str, why: str) -> None:
        self.answers[name] = why

    def see(self, *objects: Any) -> dict[str, str]:
        for thing in objects:
            self.store.seen(thing)
        self._tell()
        self.waits.look_at_all()
        return self.answers

    def _tell(self) -> None:
        for event in self.store.drain().events:
            self.state.apply(event)


def user(name: str, *claims: str, **more: Any) -> Any:
    volumes = [{"name": f"v{i}", "persistentVolumeClaim": {"claimName": c}} for i, c in enumerate(claims)]
    return pod(name, cpu=1, spec={"volumes": volumes}, **more)


def bound(one: PersistentVolumeClaim, name: str) -> PersistentVolumeClaim:
    notes = {"pv.kubernetes.io/bind-completed": "yes", **one.metadata.annotations}
    spec = replace(one.spec, volume_name=name)
    return replace(one, metadata=replace(one.metadata, annotations=notes), spec=spec, status=type(one.status)("Bound"))


def selected(one: PersistentVolumeClaim, name: str) -> PersistentVolumeClaim:
    notes = {"volume.kubernetes.io/selected-node": name}
    return replace(one, metadata=replace(one.metadata, annotations=notes))


def kept(one: PersistentVolume, claim: PersistentVolumeClaim) -> PersistentVolume:
    reference = ClaimReference("default", claim.metadata.name, claim.metadata.uid)
    return replace(one, spec=replace(one.spec, claim_ref=reference), status=type(one.status)("Bound"))


PV, LOCAL, DISK = volume("pv", "n2"), claim("c", "local"), claim("d", "disk")


def test_a_volume_that_is_there() -> None:
    waits = Waits(PV, LOCAL, user("p", "c"))
    pre_bind, bind = waits.changes
    assert isinstance(pre_bind, PreBindVolume)
    assert isinstance(bind, Bind)
    assert waits.see(kept(PV, LOCAL)) == {}, "the claim is not bound yet"
    assert waits.see(bound(LOCAL, "pv")) == {"p": ""}


def test_a_volume_that_another_took_off() -> None:
    waits = Waits(PV, LOCAL, user("p", "c"))
    waits.store.refused(waits.changes[0])
    assert waits.see(PV) == {"p": 'persistentvolume "pv" is no longer kept for claim "c"'}


def test_a_provisioned_volume() -> None:
    waits = Waits(DISK, user("p", "d"))
    select, _ = waits.changes
    assert isinstance(select, SelectNode)
    assert waits.see(selected(DISK, "n1")) == {}
    made_for = volume("new", "n1", claimRef={"namespace": "default", "name": "d", "uid": "uid-d"})
    assert waits.see(bound(selected(DISK, "n1"), "new")) == {}, "the volume is not shown yet"
    assert waits.see(made_for) == {"p": ""}


def test_a_provisioner_that_gives_up_or_misses_the_node() -> None:
    waits = Waits(DISK, user("p", "d"))
    waits.see(selected(DISK, "n1"))
    assert waits.see(DISK) == {"p": 'provisioning failed for PVC "d"'}
    waits = Waits(DISK, user("p", "d"))
    elsewhere = volume("new", "n2", claimRef={"namespace": "default", "name": "d", "uid": "uid-d"})
    found = waits.see(elsewhere, bound(selected(DISK, "n1"), "new"))
    assert found == {"p": 'node affinity of persistentvolume "new" does not match node n1'}


def test_a_gang_waits_for_the_volumes_of_all() -> None:
    members = [user("g-0", "c", group="g"), user("g-1", "d", group="g"), pod("g-2", cpu=1, group="g")]
    objects = [PV, LOCAL, DISK, group("g", minimum=3), *members]
    waits = Waits(*objects)
    assert waits.see(kept(PV, LOCAL), bound(LOCAL, "pv"), selected(DISK, "n1")) == {}
    new = volume("new", "n1", claimRef={"namespace": "default", "name": "d", "uid": "uid-d"})
    assert waits.see(new, bound(selected(DISK, "n1"), "new")) == {"g-0": "", "g-1": "", "g-2": ""}
    waits = Waits(*objects)
    waits.see(selected(DISK, "n1"))
    assert set(waits.see(DISK).values()) == {'provisioning failed for PVC "d"'}
    waits = Waits(*objects)
    [bind] = [change for change in waits.changes if change.key[2] == "g-0" and isinstance(change, Bind)]
    waits.waits.refused(bind, "too late")
    assert waits.answers == dict.fromkeys(("g-1", "g-2"), "pod default/g-0 of its gang was not bound: too late")


def test_a_pod_that_is_gone() -> None:
    one = user("p", "d")
    waits = Waits(DISK, one)
    waits.store.gone(one)
    assert waits.see() == {"p": "the pod is gone"}


def test_a_claim_that_pods_share_is_written_once() -> None:
    waits = Waits(DISK, user("a", "d"), user("b", "d"))
    assert [type(change).__name__ for change in waits.changes] == ["SelectNode", "Bind", "Bind"]


# -- requests ---------------------------------------------------------------------------------------------------------


def played(change: Any, *answers: tuple[str, int, Any]) -> Ending:
    """Each answer to the request of a method that is expected."""
    script = script_of(change)
    request = next(script)
    for place, (method, status, body) in enumerate(answers):
        assert request.method == method
        try:
            request = script.send(ApiAnswer(status, msgspec.json.encode(body)))
        except StopIteration as end:
            assert place == len(answers) - 1
            ending: Ending = end.value
            return ending
    raise AssertionError(f"it goes on with {request.method} {request.path}")


def stored(one: Any, version: str = "5") -> Any:
    return replace(one, metadata=replace(one.metadata, resource_version=version))


SELECT = SelectNode(("PersistentVolumeClaim", "default", "d"), "uid-d", "n1", "default/p")
KEEP = PreBindVolume(("PersistentVolume", "", "pv"), "uid-pv", ClaimReference("default", "c", "uid-c"), "default/p")


@pytest.mark.parametrize(
    ("change", "before", "after"), [(SELECT, DISK, selected(DISK, "n1")), (KEEP, PV, kept(PV, LOCAL))]
)
class TestRequests:
    def test_read_and_written(self, change: Any, before: Any, after: Any) -> None:
        ending = played(change, ("GET", 200, stored(before)), ("PATCH", 200, stored(after, "6")))
        assert (ending.result, ending.version) == (WriteResult.DONE, "6")

    def test_a_conflict_is_read_again(self, change: Any, before: Any, after: Any) -> None:
        ending = played(
            change,
            ("GET", 200, stored(before)),
            ("PATCH", 409, {}),
            ("GET", 200, stored(before, "6")),
            ("PATCH", 200, stored(after, "7")),
        )
        assert ending.result is WriteResult.DONE

    @pytest.mark.parametrize("status", [0, 500, 504])
    def test_no_answer_but_it_was_done(self, change: Any, before: Any, after: Any, status: int) -> None:
        ending = played(change, ("GET", 200, stored(before)), ("PATCH", status, {}), ("GET", 200, stored(after, "6")))
        assert (ending.result, ending.version) == (WriteResult.DONE, "6")

    def test_it_is_gone(self, change: Any, before: Any, after: Any) -> None:
        assert played(change, ("GET", 404, {})).result is WriteResult.REFUSED
        other = replace(before, metadata=replace(before.metadata, uid="another"))
        assert "another has its name" in played(change, ("GET", 200, other)).why

    def test_a_server_in_trouble(self, change: Any, before: Any, after: Any) -> None:
        assert played(change, ("GET", 503, {})).result is WriteResult.AGAIN


@pytest.mark.parametrize(
    ("change", "found", "why"),
    [
        (SELECT, selected(DISK, "n2"), "node n2 was selected for claim d meanwhile"),
        (SELECT, bound(DISK, "x"), "claim d got volume x meanwhile"),
        (KEEP, kept(PV, claim("other", "local")), "volume pv is kept for claim default/other"),
    ],
)
def test_what_another_decided_stays(change: Any, found: Any, why: str) -> None:
    ending = played(change, ("GET", 200, stored(found)))
    assert (ending.result, ending.why) == (WriteResult.REFUSED, why)
