"""Between the allocation of a pod's claims and its binding: the devices are looked at once more."""

from __future__ import annotations

import asyncio
from collections.abc import Callable
from typing import Any

import pytest

from fairway.drive.change import AllocateClaim, Bind, Change
from fairway.kube import world
from fairway.kube.exchange import Ending, WriteResult
from fairway.kube.ready_writes import QueuedWrite
from fairway.kube.world import KubeWorld, Versions
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
        self.world = KubeWorld(loop, self, lambda call: call(), groups={}, most_unanswered=10)  # type: ignore[arg-type]
        self.world.reports = self
        made: Any = claim("c", exactly())
        bind = Bind(POD, "u", Binding("default/p", "n1"), 0)
        self.world.carry_out([AllocateClaim(CLAIM, "c1", made, "default/p"), bind])

    def add(self, write: QueuedWrite) -> None:
        self.writes.append(write)

    def ended(self, change: Change, ending: Ending) -> None:
        self.ended_.append((change, ending))

    def check_devices(self, bind: Bind, versions: Versions, answer: Callable[[str], None]) -> None:
        self.asked.append((dict(versions), answer))

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
