"""Claims that hold devices for pods which were never bound are released, across a crash too (spec K14)."""

from __future__ import annotations

from typing import Any

from msgspec.structs import replace

from fairway.api.devices import ClaimConsumer, ResourceClaim
from fairway.api.pods import PodClaimStatus
from fairway.drive.change import AllocateClaim, Bind
from fairway.kube.guards.devices import ClaimGuard
from kube.stage import LoopStage
from support.claims import allocated, claim, claiming, device_class, exactly, gpu, template
from support.devices import resource_slice
from support.objects import group, node, pod


class GuardedStage(LoopStage):
    def __init__(self) -> None:
        super().__init__(makes_claims=False)
        self.loop.listeners.append(ClaimGuard(self.loop.state, self.loop.store, self.world.carry_out))

    def kinds(self) -> list[str]:
        return [f"{type(change).__name__} {change.key[2]}" for change in self.world.taken()]


DEVICES = [device_class(), resource_slice("s1", "n1", gpu("g0")), resource_slice("s2", "n2", gpu("g0"))]


def held(pod_uid: str = "uid-of-Pod-default-p", version: str = "1") -> Any:
    """Allocated on n1 for the pod p, before a crash."""
    found: Any = claim("c", exactly(), status=allocated("c", "n1", "g0"))
    user = ClaimConsumer("pods", "p", pod_uid)
    meta = replace(found.metadata, uid="c1", resource_version=version)
    return replace(found, metadata=meta, status=replace(found.status, reserved_for=(user,)))


def test_a_pod_that_still_fits_where_its_devices_are_is_bound() -> None:
    stage = GuardedStage()
    stage.see(node("n1", cpu=4), node("n2", cpu=4), DEVICES, held(), claiming("p", claim="c"))
    assert stage.kinds() == ["Bind p"]


def test_devices_of_a_pod_that_does_not_fit_there_any_more_are_released_and_it_goes_elsewhere() -> None:
    stage = GuardedStage()
    full = pod("other", cpu=4, node="n1")
    stage.see(node("n1", cpu=4), full, node("n2", cpu=4), DEVICES, held(), claiming("p", claim="c"))
    assert stage.kinds() == ["ReleaseClaim c"]
    free: Any = claim("c", exactly())
    stage.see(replace(free, metadata=replace(free.metadata, uid="c1", resource_version="2")))
    (allocate, bind) = stage.world.taken()
    assert isinstance(allocate, AllocateClaim)
    assert isinstance(bind, Bind)
    assert bind.binding.node == "n2"


def test_a_release_that_is_refused_is_looked_at_again() -> None:
    stage = GuardedStage()
    full = pod("other", cpu=4, node="n1")
    stage.see(node("n1", cpu=4), full, DEVICES, held(), claiming("p", claim="c"))
    (release,) = stage.world.taken()
    stage.loop.refused(release, "the claim was changed")
    stage.clock.move(1)
    assert stage.kinds() == ["ReleaseClaim c"]


def test_claims_of_others_are_left_alone() -> None:
    stage = GuardedStage()
    theirs = claiming("p", claim="c")
    theirs = replace(theirs, spec=replace(theirs.spec, scheduler_name="default-scheduler"))
    stage.loop.state.scheduler_names = frozenset({"fairway"})
    stage.see(node("n1", cpu=4), DEVICES, held(), theirs)
    stage.see(held("uid-of-a-pod-that-is-not-known", "2"))
    unallocated: Any = claim("free", exactly())
    stage.see(unallocated)
    assert stage.kinds() == []


def test_a_claim_that_one_pod_uses_on_its_node_is_kept_for_another() -> None:
    stage = GuardedStage()
    shared = held()
    user = ClaimConsumer("pods", "q", "uid-of-Pod-default-q")
    shared = replace(shared, status=replace(shared.status, reserved_for=(*shared.status.reserved_for, user)))
    running = claiming("q", claim="c", node="n1")
    stage.see(node("n1", cpu=1), DEVICES, shared, running, claiming("p", claim="c"))
    assert stage.kinds() == []
    stage.loop.gone(running)
    stage.clock.move(1)
    assert stage.kinds() == ["Bind p"]  # there is room now, and the devices are there


def test_a_claim_of_a_refused_binding_is_released_unless_the_pod_is_bound_again() -> None:
    stage = GuardedStage()
    free: Any = claim("c", exactly())
    free = replace(free, metadata=replace(free.metadata, uid="c1", resource_version="1"))
    stage.see(node("n1", cpu=4), DEVICES, free, claiming("p", claim="c"))
    allocate, bind = stage.world.taken()
    assert isinstance(allocate, AllocateClaim)
    assert isinstance(allocate.claim, ResourceClaim)
    meta = replace(allocate.claim.metadata, resource_version="2")
    stage.see(replace(allocate.claim, metadata=meta), pod("other", cpu=4, node="n1"))
    stage.loop.refused(bind, "the node is full")
    stage.clock.move(1)
    assert stage.kinds() == ["ReleaseClaim c"]


# -- claims from templates -----------------------------------------------------------------------------------------


def test_a_job_waits_whole_until_the_claim_controller_has_made_its_claims() -> None:
    stage = GuardedStage()
    two: list[Any] = [claiming(f"t-{i}", template="tpl", group="g") for i in range(2)]
    stage.see(node("n1", cpu=4), node("n2", cpu=4), DEVICES, template("tpl", exactly()), group("g", minimum=2), two)
    assert stage.kinds() == []
    for number, waiting in enumerate(two):
        made: Any = claim(f"t-{number}-c-x7", exactly())
        stage.see(replace(made, metadata=replace(made.metadata, uid=f"c{number}")))
        assert stage.kinds() == []
        entry = PodClaimStatus("c", f"t-{number}-c-x7")
        stage.see(replace(waiting, status=replace(waiting.status, resource_claim_statuses=(entry,))))
    assert sorted(stage.kinds()) == ["AllocateClaim t-0-c-x7", "AllocateClaim t-1-c-x7", "Bind t-0", "Bind t-1"]
