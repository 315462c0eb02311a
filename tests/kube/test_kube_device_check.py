"""Between the allocation of a pod's claims and its binding: the devices are looked at once more."""

from __future__ import annotations

import asyncio
from collections.abc import Callable
from typing import Any

import msgspec
import pytest
from msgspec.structs import replace

from fairway.api.devices import ClaimConsumer, ResourceClaim
from fairway.drive.change import AllocateClaim, Bind, Change
from fairway.kube.http.exchange import ApiAnswer, Ending, WriteResult
from fairway.kube.writing import world
from fairway.kube.writing.world import KubeWorld, Versions
from fairway.kube.writing.write_queue import QueuedWrite
from fairway.scheduler.plan import Binding
from support.claims import claim, exactly

CLAIM, POD = ("ResourceClaim", "default", "c"), ("Pod", "default", "p")


class Desk:
    """Plays the write queue and the loop's thread, and remembers what each was told."""

    def __init__(self) -> None:
        self.writes: list[QueuedWrite] = []
        self.ended_: list[tuple[Change, Ending]] = []
        self.asked: list[tuple[Versions, Callable[[str], None]]] = []
        loop = asyncio.get_running_loop()
        self.world = KubeWorld(loop, self, lambda call: call(), groups={}, max_unanswered=10)  # type: ignore[arg-type]
        self.world.reports = self
        made: Any = claim("c", exactly())
        self.made: ResourceClaim = made
        bind = Bind(POD, "u", Binding("default/p", "n1"), 0)
        self.world.carry_out([AllocateClaim(CLAIM, "c1", self.made, "default/p"), bind])

    def add(self, write: QueuedWrite) -> None:
        self.writes.append(write)

    def ended(self, change: Change, ending: Ending) -> None:
        self.ended_.append((change, ending))

    def check_devices(self, bind: Bind, versions: Versions, answer: Callable[[str], None]) -> None:
        self.asked.append((dict(versions), answer))

    def await_volumes(self, bind: Bind, versions: Versions, answer: Callable[[str], None]) -> None:
        raise AssertionError("no pod here has volumes")

    def volumes_refused(self, bind: Bind, why: str) -> None: ...

    async def allocated(self) -> Callable[[str], None]:
        await asyncio.sleep(0)
        self.writes.pop().ended(Ending(WriteResult.DONE, version="7"))
        await asyncio.sleep(0)
        assert self.writes == [], "the pod is not bound yet"
        ((versions, answer),) = self.asked
        assert versions == {CLAIM: "7"}
        return answer

    def refusals(self) -> list[str]:
        return [ending.why for change, ending in self.ended_ if isinstance(change, Bind)]


def test_the_pod_is_bound_after_the_answer() -> None:
    async def story() -> None:
        desk = Desk()
        answer = await desk.allocated()
        answer("")
        await asyncio.sleep(0)
        assert [write.lane for write in desk.writes] == [POD]
        answer("too late")
        await asyncio.sleep(0)
        assert desk.refusals() == []

    asyncio.run(story())


def test_the_pod_is_not_bound_where_another_claim_was_first() -> None:
    async def story() -> None:
        desk = Desk()
        answer = await desk.allocated()
        answer("another claim was first")
        answer("")
        await asyncio.sleep(0)
        await asyncio.sleep(0)
        assert desk.refusals() == ["another claim was first"]
        assert desk.writes == []
        assert desk.world.unanswered == 0

    asyncio.run(story())


def test_a_watch_that_shows_nothing_holds_no_place_for_ever(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(world, "SHOWN_TIMEOUT", 0.01)

    async def story() -> None:
        desk = Desk()
        answer = await desk.allocated()
        while not desk.refusals():
            await asyncio.sleep(0)
        answer("")
        await asyncio.sleep(0)
        assert [why.partition(" within")[0] for why in desk.refusals()] == [
            "the API server did not show the allocation"
        ]
        assert desk.writes == []

    asyncio.run(story())


@pytest.mark.parametrize("result", [WriteResult.DONE, WriteResult.REFUSED])
def test_a_claim_that_several_pods_of_a_plan_use_is_allocated_once_for_all(result: WriteResult) -> None:
    async def story() -> None:
        desk = Desk()
        await desk.allocated()
        desk.asked.clear()
        desk.ended_.clear()
        pods = [("Pod", "default", f"p{number}") for number in range(3)]
        plan: list[Change] = []
        for number, key in enumerate(pods):
            users = tuple(ClaimConsumer("pods", name=one[2], uid=one[2]) for one in pods[: number + 1])
            status = replace(desk.made.status, reserved_for=users)
            plan.append(AllocateClaim(CLAIM, "c1", replace(desk.made, status=status), f"default/{key[2]}"))
            plan.append(Bind(key, "u", Binding(f"default/{key[2]}", "n1"), 0))
        desk.world.carry_out(plan)
        await asyncio.sleep(0)
        (write,) = desk.writes
        script = write.script()
        assert b"delete-protection" in (next(script).body or b"")
        meta = {"uid": "c1", "resourceVersion": "5", "finalizers": ["resource.kubernetes.io/delete-protection"]}
        allocation = script.send(ApiAnswer(200, msgspec.json.encode({"metadata": meta})))
        assert [b'"%s"' % name in (allocation.body or b"") for name in (b"p0", b"p1", b"p2")] == [True] * 3
        desk.writes.clear()
        write.ended(Ending(result, "why", version="7"))
        await asyncio.sleep(0)
        await asyncio.sleep(0)
        told = [change.pod for change, _ in desk.ended_ if isinstance(change, AllocateClaim)]
        assert told == ["default/p0", "default/p1", "default/p2"]
        if result is WriteResult.REFUSED:
            assert len(desk.refusals()) == 3
        else:
            assert [versions for versions, _ in desk.asked] == [{CLAIM: "7"}] * 3

    asyncio.run(story())
