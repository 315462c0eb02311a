"""Writing PlacementDecisions: whatever the server answers, and wherever it stops, no cluster that stays is ever in no
slice, and the next try ends with what is wanted."""

from __future__ import annotations

import asyncio
from types import SimpleNamespace
from typing import cast

import msgspec
import pytest
from hypothesis import given
from hypothesis import strategies as st

from fairway.api.fleet import ClusterDecision, Placement, PlacementDecision, PlacementDecisionStatus
from fairway.api.meta import ObjectMeta, OwnerReference
from fairway.app.hub import FleetController, FleetSettings
from fairway.app.logs import RunLog
from fairway.fleet.names import GROUP_INDEX_LABEL, GROUP_NAME_LABEL, PLACEMENT_LABEL
from fairway.kube.http.exchange import NO_ANSWER, ApiAnswer, ApiRequest, WriteResult
from fairway.kube.hub.decisions import Publication, Slices, are_same, as_published, in_order, owner_of
from fairway.kube.hub.loop import FleetLoop
from fairway.kube.server.connection import Connection
from fairway.kube.writing.loop_thread import Courier
from fairway.kube.writing.write_queue import WriteQueue, WriteRank
from kube.hub_server import VERSION, FakeServer, run

PLACEMENT = Placement(ObjectMeta("p", "ns", "uid-p"))
CLUSTERS = st.sets(st.sampled_from("abcdef"), max_size=6)


def piece(
    number: int, clusters: str, group: int = 0, *, reason: str = "r", score: int | None = None
) -> PlacementDecision:
    meta = ObjectMeta(
        f"p-decision-{number}",
        "ns",
        labels={PLACEMENT_LABEL: "p", GROUP_NAME_LABEL: "", GROUP_INDEX_LABEL: str(group)},
        owner_references=(OwnerReference("Placement", "p", "uid-p", True),),
    )
    chosen = tuple(ClusterDecision(name, reason, score) for name in sorted(clusters))
    return PlacementDecision(meta, PlacementDecisionStatus(chosen))


def slices(*pieces: PlacementDecision) -> Slices:
    return {one.metadata.name: one for one in pieces}


def divided(clusters: set[str], cut: int) -> list[PlacementDecision]:
    names = "".join(sorted(clusters))
    parts = [names[i : i + cut] for i in range(0, len(names), cut)] or [""]
    return [piece(number, part) for number, part in enumerate(parts, 1)]


@given(CLUSTERS, CLUSTERS, st.integers(1, 4), st.integers(1, 4), st.integers(0, 12), st.sampled_from(["lost", "done"]))
def test_no_cluster_that_stays_is_ever_missing_and_a_lost_answer_is_made_good(
    before: set[str], after: set[str], old: int, new: int, fails: int, how: str
) -> None:
    staying = before & after

    def never_missing(chosen: set[str]) -> None:
        assert staying <= chosen

    server = FakeServer(*divided(before, old), chosen_now=never_missing)
    wanted = slices(*divided(after, new))
    publication = Publication(VERSION, PLACEMENT, server.slices, wanted)
    count = 0

    def flaky(request: ApiRequest) -> ApiAnswer:
        nonlocal count
        count += 1
        if count - 1 == fails:
            if how == "done":
                server(request)
            return NO_ANSWER
        return server(request)

    ending = run(publication, flaky)
    if ending.result is WriteResult.AGAIN:
        ending = run(publication, server)
    assert ending.result is WriteResult.DONE
    assert are_same(server.slices, wanted)
    known = {**server.slices, **dict.fromkeys(before)}
    assert all(one == known.get(name) for name, one in publication.results.items() if name in server.slices)


def test_what_another_program_wrote_meanwhile_is_read_and_overruled() -> None:
    server = FakeServer(piece(1, "ab"))
    publication = Publication(VERSION, PLACEMENT, server.slices, slices(piece(1, "abc")))
    server.objects["p-decision-1"]["metadata"]["resourceVersion"] = "99"
    ending = run(publication, server)
    assert (ending.result, ending.wait) == (WriteResult.AGAIN, 0.0)
    assert run(publication, server).result is WriteResult.DONE
    assert server.chosen == set("abc")


def test_a_slice_that_another_program_made_under_the_name_is_taken_over() -> None:
    server = FakeServer(piece(1, "z"))
    publication = Publication(VERSION, PLACEMENT, {}, slices(piece(1, "a")))
    assert run(publication, server).result is WriteResult.AGAIN
    assert run(publication, server).result is WriteResult.DONE
    assert server.chosen == {"a"}


def test_decisions_of_other_placements_are_left_alone() -> None:
    other = msgspec.structs.replace(
        piece(1, "z"), metadata=ObjectMeta("q-decision-1", "ns", labels={PLACEMENT_LABEL: "q"})
    )
    server = FakeServer(piece(1, "a"), other)
    publication = Publication(VERSION, PLACEMENT, {}, slices(piece(1, "b")))
    run(publication, server)
    run(publication, server)
    assert server.chosen == {"b", "z"}


def test_a_namespace_that_is_gone_is_not_asked_at_once_again() -> None:
    ending = run(Publication(VERSION, PLACEMENT, {}, slices(piece(1, "a"))), lambda request: ApiAnswer(404))
    assert ending.result is WriteResult.REFUSED
    assert ending.wait > 0


@pytest.mark.parametrize("status", [429, 500, 503])
def test_a_server_in_trouble_is_asked_again(status: int) -> None:
    publication = Publication(VERSION, PLACEMENT, {}, slices(piece(1, "a")))
    assert run(publication, lambda request: ApiAnswer(status)).result is WriteResult.AGAIN


def test_a_cluster_that_stays_keeps_its_reason_and_points_are_not_written() -> None:
    found = as_published([piece(1, "ab", reason="new", score=7)], [piece(1, "a", reason="old")])
    assert found["p-decision-1"].status.decisions == (ClusterDecision("a", "old"), ClusterDecision("b", "new"))


def test_a_slice_belongs_to_the_placement_in_its_name_whatever_its_label_says() -> None:
    moved = msgspec.structs.replace(
        piece(1, "a"), metadata=ObjectMeta("p-decision-1", "ns", labels={PLACEMENT_LABEL: "q"})
    )
    assert owner_of(moved) == ("ns", "p")
    named = msgspec.structs.replace(piece(1, "a"), metadata=ObjectMeta("other", "ns", labels={PLACEMENT_LABEL: "q"}))
    assert owner_of(named) == ("ns", "q")


def test_slices_are_in_the_order_of_their_numbers() -> None:
    found = in_order(slices(*[piece(number, "a") for number in (10, 9, 2)]))
    assert [one.metadata.name for one in found] == ["p-decision-2", "p-decision-9", "p-decision-10"]


def test_a_publication_that_was_withdrawn_writes_nothing_more() -> None:
    server = FakeServer(piece(1, "a"))
    publication = Publication(VERSION, PLACEMENT, server.slices, slices(piece(1, "b"), piece(2, "c")))
    asked = []

    def losing_the_lease(request: ApiRequest) -> ApiAnswer:
        asked.append(request.method)
        publication.withdraw()
        return server(request)

    assert run(publication, losing_the_lease).result is WriteResult.REFUSED
    count = len(asked)
    assert run(publication, losing_the_lease).result is WriteResult.REFUSED
    assert len(asked) == count
    assert "b" not in server.chosen  # its write came after the lease was lost


def test_a_decision_leaves_only_in_the_term_of_the_leader_that_made_it() -> None:
    """The lease may be lost and held again before the deciding thread has taken note of either."""
    sent, term = [], 1

    server = FakeServer()

    async def send(request: ApiRequest, may_leave: object = None) -> ApiAnswer:
        sent.append(request)
        return server(request)

    async def story() -> None:
        nonlocal term
        controller = FleetController(
            FleetSettings(), Connection("http://127.0.0.1:1"), RunLog("text", "error", write=print)
        )
        controller._queue = WriteQueue(send, term=lambda: term)
        controller._courier = cast(Courier, SimpleNamespace(send=lambda call: None))
        controller.loop = cast(FleetLoop, SimpleNamespace(ended=print))
        publications = [Publication(VERSION, PLACEMENT, {}, slices(piece(1, "ab")))]
        controller._queue_all(publications, term)
        term = 2
        controller._queue.start()
        assert await controller._queue.settle(WriteRank.EVENT, 5)
        assert sent == []
        controller._queue_all(publications, term)
        assert await controller._queue.settle(WriteRank.EVENT, 5)
        assert [request.method for request in sent] == ["POST", "PUT"]
        await controller._queue.stop()

    asyncio.run(story())
