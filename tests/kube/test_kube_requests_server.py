"""Every write on a real server, as the user and with the access that `fairway install` gives: a 403 fails the test."""

from __future__ import annotations

import asyncio
import ssl
import urllib.error
import urllib.request
from collections.abc import Iterator
from typing import Any

import msgspec
import pytest

from fairway.api.devices import (
    AllocatedDevices,
    Allocation,
    ClaimConsumer,
    DeviceResult,
    ResourceClaim,
    ResourceClaimStatus,
)
from fairway.api.meta import Condition
from fairway.api.pods import Pod
from fairway.api.scheduling import JobReference, Reservation, ReservationSpec, ReservationStatus, ReservedPlace
from fairway.clock import SECOND, to_datetime, wall_clock
from fairway.drive.change import (
    AllocateClaim,
    Bind,
    Change,
    DeleteReservation,
    Evict,
    Nominate,
    ReleaseClaim,
    WriteReservation,
)
from fairway.kube.http.exchange import ApiAnswer, ApiRequest, Ending, Script, WriteResult
from fairway.kube.install.options import InstallOptions
from fairway.kube.install.output import objects
from fairway.kube.lease import Elector, LeaseKeeper, LeaseSettings, boot_clock
from fairway.kube.requests.changes import script_of
from fairway.kube.requests.claims import FINALIZER
from fairway.kube.requests.statuses import (
    EventMaker,
    EventNote,
    Regarding,
    class_status,
    kube_group,
    pod_waits,
    queue_status,
    volcano_group,
)
from fairway.scheduler.plan import Binding, Eviction
from fairway.state.annotations import NOMINATED_SINCE
from kube.controlplane.plane import ControlPlane
from kube.servers import apply, ask, create, eventually, namespace, pod, remove

SPACE = "writes"
NOW = wall_clock()


class Sent:
    """Sends as the scheduler, and keeps what was answered."""

    def __init__(self, plane: ControlPlane) -> None:
        self.plane = plane
        self.answers: list[tuple[ApiRequest, ApiAnswer]] = []
        context = ssl.create_default_context(cafile=str(plane.ca_file))
        handlers = urllib.request.ProxyHandler({}), urllib.request.HTTPSHandler(context=context)
        self._opener = urllib.request.build_opener(*handlers)

    def __call__(self, request: ApiRequest) -> ApiAnswer:
        headers = {
            "Authorization": f"Bearer {self.plane.tokens['scheduler']}",
            "Content-Type": request.content_type,
        }
        made = urllib.request.Request(self.plane.url + request.path, request.body, headers, method=request.method)
        try:
            with self._opener.open(made, timeout=60) as found:
                answer = ApiAnswer(found.status, found.read())
        except urllib.error.HTTPError as error:
            after = error.headers.get("Retry-After")
            answer = ApiAnswer(error.code, error.read(), None if after is None else float(after))
        self.answers.append((request, answer))
        assert answer.status != 403, answer.body.decode()
        return answer

    def run(self, script: Script) -> Ending:
        try:
            request = next(script)
            while True:
                request = script.send(self(request))
        except StopIteration as end:
            ending: Ending = end.value
            return ending

    def carry_out(self, change: Change, **more: Any) -> Ending:
        return self.run(script_of(change, **more))


@pytest.fixture(name="sent", scope="module")
def a_scheduler(plane: ControlPlane) -> Iterator[Sent]:
    apply(plane, objects(InstallOptions()))
    namespace(plane, SPACE)
    node = {"apiVersion": "v1", "kind": "Node", "metadata": {"name": "writes-n1"}}
    apply(plane, [node])
    sent = Sent(plane)
    path = "/apis/fairway.dev/v1alpha1/reservations"

    def known() -> bool:
        """Access is granted a moment after its roles are there."""
        request = urllib.request.Request(plane.url + path)
        request.add_header("Authorization", f"Bearer {plane.tokens['scheduler']}")
        with sent._opener.open(request, timeout=60) as found:
            return bool(found.status == 200)

    eventually(known)
    yield sent
    remove(plane, node)


def waiting(sent: Sent, name: str, **more: Any) -> Pod:
    return _read_pod(create(sent.plane, pod(name, SPACE, **more)))


def _read_pod(found: Any) -> Pod:
    return msgspec.convert(found, Pod, strict=False)


def stored(sent: Sent, kind: str, name: str) -> Any:
    return ask(sent.plane, "GET", f"/api/v1/namespaces/{SPACE}/{kind}/{name}")


def bind(made: Pod, node: str = "writes-n1", uid: str = "") -> Bind:
    name = made.metadata.name
    notes = {"scheduler.alpha.kubernetes.io/resClass_gpu_d0": "1"}
    binding = Binding(f"{SPACE}/{name}", node, annotations=notes)
    return Bind(("Pod", SPACE, name), uid or made.metadata.uid, binding, NOW)


# -- bindings ------------------------------------------------------------------------------------------------------


def test_a_binding_writes_node_and_annotations_in_one_step(sent: Sent) -> None:
    made = waiting(sent, "bound")
    assert sent.carry_out(bind(made)).result == WriteResult.DONE
    found = stored(sent, "pods", "bound")
    assert found["spec"]["nodeName"] == "writes-n1"
    assert found["metadata"]["annotations"] == {"scheduler.alpha.kubernetes.io/resClass_gpu_d0": "1"}
    conditions = {one["type"]: one["status"] for one in found["status"]["conditions"]}
    assert conditions["PodScheduled"] == "True"


def test_a_binding_that_was_made_already_is_done_and_another_is_refused(sent: Sent) -> None:
    made = waiting(sent, "twice")
    assert sent.carry_out(bind(made)).result == WriteResult.DONE
    assert sent.carry_out(bind(made)).result == WriteResult.DONE
    other = sent.carry_out(bind(made, "elsewhere"))
    assert (other.result, other.why) == (WriteResult.REFUSED, "the pod is on node writes-n1")


def test_bindings_of_pods_that_are_gone_others_gated_or_terminating_are_refused(sent: Sent) -> None:
    made = waiting(sent, "plain")
    for change, said in (
        (Bind(("Pod", SPACE, "nowhere"), "u", Binding("x", "n"), NOW), "gone"),
        (bind(made, uid="00000000-0000-0000-0000-000000000000"), "another one has its name"),
    ):
        ending = sent.carry_out(change)
        assert ending.result == WriteResult.REFUSED
        assert said in ending.why
    gated = waiting(sent, "gated", spec={"schedulingGates": [{"name": "example.com/wait"}]})
    ending = sent.carry_out(bind(gated))
    assert ending.result == WriteResult.REFUSED
    assert "schedulingGates" in ending.why
    held = waiting(sent, "held", finalizers=["example.com/hold"])
    ask(sent.plane, "DELETE", f"/api/v1/namespaces/{SPACE}/pods/held?gracePeriodSeconds=0")
    ending = sent.carry_out(bind(held))
    assert ending.result == WriteResult.REFUSED
    assert "being deleted" in ending.why
    patch = {"metadata": {"finalizers": None}}
    ask(sent.plane, "PATCH", f"/api/v1/namespaces/{SPACE}/pods/held", patch, kind="application/merge-patch+json")


# -- evictions and nominations -------------------------------------------------------------------------------------


def running(sent: Sent, name: str, **more: Any) -> Pod:
    made = waiting(sent, name, **more)
    assert sent.carry_out(bind(made)).result == WriteResult.DONE
    ready = [{"type": "Ready", "status": "True"}]
    status = {"status": {"phase": "Running", "conditions": ready}}
    path = f"/api/v1/namespaces/{SPACE}/pods/{name}/status"
    return _read_pod(ask(sent.plane, "PATCH", path, status, kind="application/strategic-merge-patch+json"))


def evict(made: Pod, uid: str = "") -> Evict:
    name = made.metadata.name
    eviction = Eviction(f"{SPACE}/{name}", "writes-n1", "team/big", "preempt", "it has a higher priority")
    return Evict(("Pod", SPACE, name), uid or made.metadata.uid, eviction, NOW)


def test_a_victim_says_for_which_job_and_by_which_rule(sent: Sent) -> None:
    made = running(sent, "victim")
    assert sent.carry_out(evict(made)).result == WriteResult.DONE
    found = stored(sent, "pods", "victim")
    assert found["metadata"]["deletionTimestamp"]
    (condition,) = [one for one in found["status"]["conditions"] if one["type"] == "DisruptionTarget"]
    assert condition["reason"] == "PreemptionByScheduler"
    assert condition["message"] == "preempt for team/big: it has a higher priority"
    assert sent.carry_out(evict(made)).result == WriteResult.DONE  # again: it is terminating


def test_an_eviction_overwrites_a_reason_that_was_written_before_it(sent: Sent) -> None:
    """Why the reason is written after the eviction, and not before it (spec K18): the server's own words
    would be the last.
    """
    running(sent, "overwritten")
    before = {"type": "DisruptionTarget", "status": "True", "reason": "PreemptionByScheduler", "message": "for a job"}
    path = f"/api/v1/namespaces/{SPACE}/pods/overwritten"
    patch = "application/strategic-merge-patch+json"
    ask(sent.plane, "PATCH", f"{path}/status", {"status": {"conditions": [before]}}, kind=patch)
    eviction = {"apiVersion": "policy/v1", "kind": "Eviction", "metadata": {"name": "overwritten", "namespace": SPACE}}
    ask(sent.plane, "POST", f"{path}/eviction", eviction)
    found = stored(sent, "pods", "overwritten")["status"]["conditions"]
    (condition,) = [one for one in found if one["type"] == "DisruptionTarget"]
    assert (condition["reason"], condition["message"]) == ("EvictionByEvictionAPI", "Eviction API: evicting")


def test_a_budget_and_another_pod_of_the_name_refuse_an_eviction(sent: Sent) -> None:
    made = running(sent, "guarded", labels={"guarded": "yes"})
    budget = {
        "apiVersion": "policy/v1",
        "kind": "PodDisruptionBudget",
        "metadata": {"name": "guard", "namespace": SPACE},
        "spec": {"minAvailable": 1, "selector": {"matchLabels": {"guarded": "yes"}}},
    }
    create(sent.plane, budget)
    ending = sent.carry_out(evict(made))
    assert ending.result == WriteResult.REFUSED
    assert "PodDisruptionBudget" in ending.why
    found = stored(sent, "pods", "guarded")
    assert not [one for one in found["status"]["conditions"] if one["type"] == "DisruptionTarget"]
    remove(sent.plane, budget)
    ending = sent.carry_out(evict(made, uid="00000000-0000-0000-0000-000000000000"))
    assert ending.result == WriteResult.REFUSED


def test_a_nomination_and_its_time_are_written_and_taken_back(sent: Sent) -> None:
    made = waiting(sent, "nominee")
    key = ("Pod", SPACE, "nominee")
    assert sent.carry_out(Nominate(key, made.metadata.uid, "writes-n1", NOW)).result == WriteResult.DONE
    found = stored(sent, "pods", "nominee")
    assert found["status"]["nominatedNodeName"] == "writes-n1"
    assert NOMINATED_SINCE in found["metadata"]["annotations"]
    assert sent.carry_out(Nominate(key, made.metadata.uid, "", NOW)).result == WriteResult.DONE
    found = stored(sent, "pods", "nominee")
    assert "nominatedNodeName" not in found["status"]
    assert NOMINATED_SINCE not in found["metadata"].get("annotations", {})
    other = Nominate(key, "00000000-0000-0000-0000-000000000000", "writes-n1", NOW)
    assert sent.carry_out(other).result == WriteResult.REFUSED
    gone = Nominate(("Pod", SPACE, "nowhere"), made.metadata.uid, "writes-n1", NOW)
    assert sent.carry_out(gone).result == WriteResult.REFUSED


# -- reservations --------------------------------------------------------------------------------------------------


def reservation(sent: Sent, name: str) -> Reservation:
    path = f"/apis/fairway.dev/v1alpha1/namespaces/{SPACE}/reservations/{name}"
    return msgspec.convert(ask(sent.plane, "GET", path), Reservation, strict=False)


def test_a_reservation_is_read_back_as_it_was_written(sent: Sent) -> None:
    key = ("Reservation", SPACE, "train")
    place = ReservedPlace("train-0", "writes-n1", "reserved", to_datetime(NOW))
    spec = ReservationSpec(JobReference("PodGroup", "train", "u1"), (place,), to_datetime(NOW + SECOND), True)
    change = WriteReservation(key, "", Reservation(spec, status=ReservationStatus(runs=3)))
    assert sent.carry_out(change).result == WriteResult.DONE
    found = reservation(sent, "train")
    assert change.shown_by(found)
    assert sent.carry_out(change).result == WriteResult.DONE  # its answer may have been lost
    less = ReservationSpec(JobReference("PodGroup", "train", "u1"))
    change = WriteReservation(key, found.metadata.uid, Reservation(less))
    assert sent.carry_out(change).result == WriteResult.DONE
    assert change.shown_by(reservation(sent, "train"))
    other = WriteReservation(key, "00000000-0000-0000-0000-000000000000", Reservation(less))
    assert sent.carry_out(other).result == WriteResult.REFUSED
    assert sent.carry_out(DeleteReservation(key, found.metadata.uid)).result == WriteResult.DONE
    assert sent.carry_out(DeleteReservation(key, found.metadata.uid)).result == WriteResult.DONE
    assert sent.carry_out(change).result == WriteResult.REFUSED


# -- claims --------------------------------------------------------------------------------------------------------


def test_a_claim_is_allocated_shared_and_released(sent: Sent) -> None:
    device_class = {"apiVersion": "resource.k8s.io/v1", "kind": "DeviceClass", "metadata": {"name": "writes.example"}}
    create(sent.plane, {**device_class, "spec": {}})
    requests = [{"name": "gpu", "exactly": {"deviceClassName": "writes.example"}}]
    thing = {
        "apiVersion": "resource.k8s.io/v1",
        "kind": "ResourceClaim",
        "metadata": {"name": "c", "namespace": SPACE},
        "spec": {"devices": {"requests": requests}},
    }
    create(sent.plane, thing)
    key = ("ResourceClaim", SPACE, "c")

    def now() -> ResourceClaim:
        path = f"/apis/resource.k8s.io/v1/namespaces/{SPACE}/resourceclaims/c"
        return msgspec.convert(ask(sent.plane, "GET", path), ResourceClaim, strict=False)

    def allocated(version: str, *users: str) -> AllocateClaim:
        """Decided on the version that was known then."""
        seen = now()
        meta = msgspec.structs.replace(seen.metadata, resource_version=version or seen.metadata.resource_version)
        results = (DeviceResult("gpu", "driver.example", "pool", "d0"),)
        consumers = tuple(ClaimConsumer("pods", name, f"uid-{name}") for name in users)
        status = ResourceClaimStatus(Allocation(AllocatedDevices(results)), consumers)
        return AllocateClaim(key, meta.uid, ResourceClaim(meta, seen.spec, status), f"{SPACE}/{users[-1]}")

    old = now().metadata.resource_version
    assert sent.carry_out(allocated("", "p")).result == WriteResult.DONE
    found = now()
    assert FINALIZER in found.metadata.finalizers
    assert [user.name for user in found.status.reserved_for] == ["p"]
    assert found.status.allocation is not None
    assert sent.carry_out(allocated(old, "q")).result == WriteResult.DONE  # read again: the first user stays
    assert [user.name for user in now().status.reserved_for] == ["p", "q"]
    stale = ReleaseClaim(key, found.metadata.uid, found)
    assert sent.carry_out(stale).result == WriteResult.REFUSED
    assert sent.carry_out(ReleaseClaim(key, found.metadata.uid, now())).result == WriteResult.DONE
    assert now().status == ResourceClaimStatus()
    patch = {"metadata": {"finalizers": None}}
    path = f"/apis/resource.k8s.io/v1/namespaces/{SPACE}/resourceclaims/c"
    ask(sent.plane, "PATCH", path, patch, kind="application/merge-patch+json")
    remove(sent.plane, thing)
    remove(sent.plane, device_class)


# -- statuses and events -------------------------------------------------------------------------------------------


def test_a_pod_says_why_it_waits(sent: Sent) -> None:
    made = waiting(sent, "waits")
    key = ("Pod", SPACE, "waits")
    for message in ("0/1 nodes fit", "0/2 nodes fit"):
        write = pod_waits(key, made.metadata.uid, message, "2026-01-01T00:00:00Z")
        assert sent.run(write.script()).result == WriteResult.DONE
        (condition,) = stored(sent, "pods", "waits")["status"]["conditions"]
        assert (condition["reason"], condition["message"]) == ("Unschedulable", message)
    other = pod_waits(key, "00000000-0000-0000-0000-000000000000", "x", "2026-01-01T00:00:00Z")
    assert sent.run(other.script()).result == WriteResult.REFUSED


def test_statuses_of_groups_queues_and_classes(sent: Sent) -> None:
    volcano = "scheduling.volcano.sh/v1beta1"
    meta = {"name": "g", "namespace": SPACE}
    group = create(sent.plane, {"apiVersion": volcano, "kind": "PodGroup", "metadata": meta, "spec": {"minMember": 2}})
    waits = Condition("Unschedulable", "True", "InsufficientResources", "0/1 nodes fit", to_datetime(NOW))
    write = volcano_group(
        ("PodGroup", SPACE, "g"),
        group["metadata"]["uid"],
        "Inqueue",
        {"running": 0, "succeeded": 0, "failed": 1},
        [waits],
    )
    assert sent.run(write.script()).result == WriteResult.DONE
    status = ask(sent.plane, "GET", f"/apis/{volcano}/namespaces/{SPACE}/podgroups/g")["status"]
    assert (status["phase"], status["failed"]) == ("Inqueue", 1)
    assert status["conditions"][0]["transitionID"] == "fairway"
    queue = ask(sent.plane, "GET", f"/apis/{volcano}/queues/default")
    write = queue_status(
        ("Queue", "", "default"), queue["metadata"]["uid"], {"state": "Open", "allocated": {"cpu": "2"}}
    )
    assert sent.run(write.script()).result == WriteResult.DONE
    assert ask(sent.plane, "GET", f"/apis/{volcano}/queues/default")["status"]["state"] == "Open"
    named = {"apiVersion": "fairway.dev/v1alpha1", "kind": "ResourceClass", "metadata": {"name": "writes"}, "spec": {}}
    made = create(sent.plane, named)
    write = class_status(("ResourceClass", "", "writes"), made["metadata"]["uid"], 2.5, 1, "Kind=gpu")
    assert sent.run(write.script()).result == WriteResult.DONE
    remove(sent.plane, named)


def test_the_condition_of_kubernetes_own_groups(sent: Sent) -> None:
    version = "scheduling.k8s.io/v1alpha2"
    meta = {"name": "k", "namespace": SPACE}
    spec = {"schedulingPolicy": {"gang": {"minCount": 2}}}
    group = create(sent.plane, {"apiVersion": version, "kind": "PodGroup", "metadata": meta, "spec": spec})
    condition = Condition("Scheduled", "False", "Unschedulable", "0/1 nodes fit", to_datetime(NOW // SECOND * SECOND))
    write = kube_group(("PodGroup", SPACE, "k"), group["metadata"]["uid"], version, condition)
    assert sent.run(write.script()).result == WriteResult.DONE
    status = ask(sent.plane, "GET", f"/apis/{version}/namespaces/{SPACE}/podgroups/k")["status"]
    (found,) = [one for one in status["conditions"] if one["type"] == "PodGroupScheduled"]
    assert (found["status"], found["reason"]) == ("False", "Unschedulable")


def test_an_event_and_its_series(sent: Sent) -> None:
    made = waiting(sent, "told")
    maker = EventMaker("test-1", lambda: "17")
    about = Regarding("v1", "Pod", SPACE, "told", made.metadata.uid)
    for count in (1, 2, 3):
        note = EventNote(about, "FailedScheduling", "Scheduling", f"0/{count} nodes fit", NOW + count * SECOND, True)
        assert sent.run(maker.write(note).script()).result == WriteResult.DONE
    found = ask(sent.plane, "GET", f"/apis/events.k8s.io/v1/namespaces/{SPACE}/events/told.17")
    assert (found["reason"], found["note"], found["type"]) == ("FailedScheduling", "0/3 nodes fit", "Warning")
    assert found["series"]["count"] == found["deprecatedCount"] == 3
    first, last = found["deprecatedFirstTimestamp"], found["deprecatedLastTimestamp"]
    assert (first, last) == (_seconds(NOW + SECOND), _seconds(NOW + 3 * SECOND))
    core = ask(sent.plane, "GET", f"/api/v1/namespaces/{SPACE}/events/told.17")
    assert (core["firstTimestamp"], core["lastTimestamp"], core["count"]) == (first, last, 3)


def _seconds(at: int) -> str:
    return to_datetime(at).strftime("%Y-%m-%dT%H:%M:%SZ")


# -- the lease -----------------------------------------------------------------------------------------------------


def test_one_of_two_replicas_holds_the_lease_and_hands_it_over(sent: Sent) -> None:
    said: list[tuple[str, bool]] = []
    meta = {"name": "fairway", "namespace": "fairway-system"}
    remove(sent.plane, {"apiVersion": "coordination.k8s.io/v1", "kind": "Lease", "metadata": meta})  # of another test

    async def story() -> None:
        async def send(request: ApiRequest) -> ApiAnswer:
            return await asyncio.to_thread(sent, request)

        def keeper(name: str) -> LeaseKeeper:
            settings = LeaseSettings(name, look_again=0.1)
            return LeaseKeeper(
                Elector(settings, boot_clock, wall_clock), send, lambda leads: said.append((name, leads))
            )

        first, second = keeper("first"), keeper("second")
        one = asyncio.create_task(first.keep())
        while not said:
            await asyncio.sleep(0.01)
        other = asyncio.create_task(second.keep())
        while not second.elector.is_known:
            await asyncio.sleep(0.01)
        assert second.elector.holder == "first"
        assert not second.elector.may_write()
        one.cancel()
        await first.release()
        while len(said) < 3:
            await asyncio.sleep(0.01)
        other.cancel()
        await second.release()

    asyncio.run(asyncio.wait_for(story(), 60))
    assert said == [("first", True), ("first", False), ("second", True), ("second", False)]
    lease = ask(sent.plane, "GET", "/apis/coordination.k8s.io/v1/namespaces/fairway-system/leases/fairway")
    assert not lease["spec"].get("holderIdentity")
    assert lease["spec"]["leaseTransitions"] == 1
