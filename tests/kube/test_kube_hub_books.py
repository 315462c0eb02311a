"""The books of a hub balance after any history: clusters report, placements come and go, others edit decisions, answers
are lost, the placer crashes or is cut off. Each story is played against a small server of PlacementDecisions."""

from __future__ import annotations

import json
from collections.abc import Sequence
from typing import Any

import msgspec
from hypothesis import given, settings
from hypothesis import strategies as st

from fairway.api.fleet import Placement
from fairway.fleet import FleetPlan, FleetState
from fairway.fleet.names import LEDGER, OVERDRAWN
from fairway.fleet.rules import Key
from fairway.kube.http.exchange import NO_ANSWER, ApiAnswer, ApiRequest, Ending, WriteResult
from fairway.kube.hub.decisions import Publication, are_same
from fairway.kube.hub.loop import FleetLoop
from fairway.kube.requests.statuses import EventNote, StatusWrite
from fleet.fleet_objects import cluster, everywhere, placement
from kube.hub_server import FakeServer, run
from kube.stage import HandClock
from support.effort import examples

CLUSTERS, PLACEMENTS = ("c0", "c1", "c2"), ("p0", "p1", "p2")
STORIES = examples(60, 1000)


class HubStage:
    """A hub, and a placer that may be killed. It is the placer's world and observer."""

    def __init__(self) -> None:
        self.server = FakeServer()
        self.objects: dict[tuple[str, str], Any] = {}
        self.version = 0
        self.clock = HandClock()
        self.fails_at: int | None = None
        self.cut = False
        self.refuses: ApiAnswer | None = None
        self.said: list[EventNote] = []
        for one in everywhere():
            self.put(one)
        self.start()

    def start(self) -> None:
        """As after kill -9: nothing is known but what the server has."""
        self.clock.planned.clear()
        self.waiting: list[Publication] = []
        self.loop = FleetLoop(self.clock, self, self, versions={}, min_interval=0)
        for one in [*self.objects.values(), *self.server.slices.values()]:
            self.loop.seen(one)
        self.loop.lead(True)

    # -- the server's other objects --------------------------------------------------------------------------

    def put(self, one: Any) -> None:
        self.version += 1
        key = (type(one).__name__, one.metadata.name)
        known = self.objects.get(key)
        uid = known.metadata.uid if known is not None else f"uid-{self.version}"
        meta = msgspec.structs.replace(one.metadata, uid=uid, resource_version=str(10_000 + self.version))
        self.objects[key] = msgspec.structs.replace(one, metadata=meta)
        if hasattr(self, "loop") and not self.cut:
            self.loop.seen(self.objects[key])

    def drop(self, kind: str, name: str) -> None:
        one = self.objects.pop((kind, name), None)
        if one is None:
            return
        if not self.cut:
            self.loop.gone(one)
        if kind == "Placement":  # the garbage collector's part
            for slice_name in [n for n in self.server.objects if n.startswith(f"{name}-decision-")]:
                last = self.server.slices[slice_name]
                del self.server.objects[slice_name]
                if not self.cut:
                    self.loop.gone(last)

    def edit(self, name: str, clusters: Sequence[str]) -> None:
        """By a foreign hand."""
        thing = self.server.objects.get(f"{name}-decision-1")
        if thing is None:
            return
        status = {"decisions": [{"clusterName": one, "reason": "mine"} for one in clusters]}
        self.server._keep(f"{name}-decision-1", {**thing, "status": status}, thing["metadata"]["uid"])
        if not self.cut:
            self.loop.seen(self.server.slices[f"{name}-decision-1"])

    def heal(self) -> None:
        """A placer that was cut off lists all again."""
        self.cut = False
        by_kind: dict[str, list[Any]] = {"PlacementDecision": list(self.server.slices.values())}
        for kind in ("ManagedCluster", "Placement"):
            by_kind[kind] = [one for (own, _), one in self.objects.items() if own == kind]
        for kind, things in by_kind.items():
            self.loop.listed(kind, things)

    # -- the placer's world ----------------------------------------------------------------------------------

    def publish(self, publications: Sequence[Publication]) -> None:
        self.waiting += publications

    def statuses(self, writes: Sequence[StatusWrite]) -> None: ...

    def events(self, notes: Sequence[EventNote]) -> None:
        self.said += notes

    def decided(self, plan: FleetPlan, seconds: float) -> None: ...

    def published(self, key: Key, ending: Ending) -> None: ...

    def repairs(self, key: Key) -> None: ...

    def failed(self, key: Key, error: Exception) -> None:
        raise error

    def set_aside(self, clusters: int) -> None: ...

    # -- time ------------------------------------------------------------------------------------------------

    def answer(self, request: ApiRequest) -> ApiAnswer:
        if self.fails_at is not None:
            self.fails_at -= 1
            if self.fails_at < 0:
                done = self.fails_at % 2
                self.fails_at = None
                if done:
                    self.server(request)
                return NO_ANSWER
        return NO_ANSWER if self.cut else self.refuses or self.server(request)

    def work(self) -> None:
        """Carry out what waits, once; what got no answer waits on."""
        self.clock.move(0.1)
        waiting, self.waiting = self.waiting, []
        for publication in waiting:
            ending = run(publication, self.answer)
            if ending.result is WriteResult.AGAIN:
                self.waiting.append(publication)
            else:
                self.loop.ended(publication, ending)
        self.clock.move(0.1)

    def settle(self) -> None:
        for _ in range(60):
            self.work()
            quiet = not self.waiting and not self.loop.state.affected(self.clock.now())
            if quiet and not self.loop.store.is_dirty and not self.loop._unwritten and not self.loop._foreign:
                return
        raise AssertionError("the placer does not come to rest")


names = st.sampled_from(CLUSTERS)
owners = st.sampled_from(PLACEMENTS)
amounts = st.integers(0, 12)
steps = st.one_of(
    st.tuples(st.just("report"), names, amounts, st.dictionaries(owners, amounts, max_size=2)),
    st.tuples(st.just("silent"), names),
    st.tuples(st.just("gone"), names),
    st.tuples(st.just("place"), owners, st.integers(0, 6), st.integers(1, 2)),
    st.tuples(st.just("end"), owners),
    st.tuples(st.just("edit"), owners, st.lists(names, max_size=2, unique=True)),
    st.tuples(st.just("lose"), st.integers(0, 6)),
    st.tuples(st.just("crash")),
    st.tuples(st.just("depose")),
    st.tuples(st.just("elect")),
    st.tuples(st.just("cut")),
    st.tuples(st.just("heal")),
    st.tuples(st.just("work")),
)


def play(hub: HubStage, step: tuple[Any, ...]) -> None:
    match step:
        case ("report", name, free, usage):
            used = {f"ns/{owner}": {"cpu": str(amount)} for owner, amount in usage.items()}
            hub.put(cluster(name, {"cpu": "20"}, free={"cpu": str(free)}, usage=used))
        case ("silent", name):
            hub.put(cluster(name, {"cpu": "20"}))
        case ("gone", name):
            hub.drop("ManagedCluster", name)
        case ("place", name, need, count):
            more: dict[str, Any] = {"requirements": {"cpu": str(need)}} if need else {}
            hub.put(placement(name, numberOfClusters=count, **more))
        case ("end", name):
            hub.drop("Placement", name)
        case ("edit", name, clusters):
            hub.edit(name, clusters)
        case ("lose", number):
            hub.fails_at = number
        case ("crash",):
            if not hub.cut:
                hub.start()
        case ("depose",):
            hub.loop.lead(False)
        case ("elect",):
            hub.loop.lead(True)
        case ("cut",):
            hub.cut = True
        case ("heal",):
            hub.heal()
        case _:
            hub.work()


@settings(max_examples=STORIES)
@given(st.lists(steps, max_size=30))
def test_the_books_balance_after_any_history(story: list[tuple[Any, ...]]) -> None:
    hub = HubStage()
    for step in story:
        play(hub, step)
        hub.loop.state.check()
    hub.fails_at = None
    hub.loop.lead(True)
    hub.heal()
    hub.settle()
    state = hub.loop.state
    state.check()
    placements = [one for one in hub.objects.values() if isinstance(one, Placement)]
    for one in placements:
        key = (one.metadata.namespace, one.metadata.name)
        seen = {name: made for name, made in hub.server.slices.items() if name.startswith(f"{key[1]}-decision-")}
        assert are_same(seen, hub.loop._desks[key].wanted)
    assert (
        books(state) == recorded(hub.server) == books(FleetState([*hub.objects.values(), *hub.server.slices.values()]))
    )
    for slot in state.ledger.slots():
        entries = list(state.ledger.entries(slot))
        for entry in entries:
            assert entry.reserved == entry.consumed + entry.remaining
            assert all(amount >= 0 for amount in entry.remaining.amounts.values())
        facts = state.table.facts[slot]
        free = 0 if facts is None or facts.free is None else facts.free.get("cpu", 0)
        if sum(entry.remaining.get("cpu") for entry in entries) > free:
            for entry in entries:
                if entry.remaining.get("cpu"):
                    desk = hub.loop._desks[("ns", entry.placement.split("/")[1])]
                    assert next(one.status for one in desk.conditions if one.type == OVERDRAWN) == "True"


def books(state: FleetState) -> dict[tuple[str, str], str]:
    """What is reserved, by cluster and placement."""
    return {
        (state.table.names[slot], entry.placement): entry.reserved.format()["cpu"]
        for slot in state.ledger.slots()
        for entry in state.ledger.entries(slot)
    }


def recorded(server: FakeServer) -> dict[tuple[str, str], str]:
    """What is reserved, as the PlacementDecisions have it."""
    found = {}
    for name, one in server.slices.items():
        owner = "ns/" + name.partition("-decision-")[0]
        for chosen, entry in json.loads(one.metadata.annotations.get(LEDGER, "{}")).items():
            found[chosen, owner] = entry["cpu"]
    return found


def test_what_was_decided_before_the_lease_was_lost_is_not_written_after_it() -> None:
    hub = HubStage()
    hub.put(cluster("c0", {"cpu": "20"}))
    hub.put(placement("p0", numberOfClusters=1))
    hub.cut = True
    hub.work()  # decided, and no answer came
    assert hub.waiting
    hub.loop.lead(False)
    hub.cut = False
    hub.work()
    assert hub.server.objects == {}
    hub.loop.lead(True)
    hub.settle()
    assert hub.server.chosen == {"c0"}


def test_why_a_server_takes_no_decision_is_an_event_once() -> None:
    hub = HubStage()
    hub.refuses = ApiAnswer(422, b'{"kind": "Status", "message": "no more objects here"}')
    hub.put(cluster("c0", {"cpu": "20"}))
    hub.put(placement("p0", numberOfClusters=1))
    for _ in range(3):
        hub.work()
    refused = [note for note in hub.said if note.reason == "DecisionRefused"]
    assert [note.note for note in refused] == [
        "the API server does not take the PlacementDecisions: 422: no more objects here"
    ]
    hub.refuses = None
    hub.settle()
    assert hub.server.chosen == {"c0"}


def test_a_hub_that_has_the_older_version_is_written_in_it() -> None:
    hub = HubStage()
    old = "cluster.open-cluster-management.io/v1alpha1"
    hub.loop._versions = {"Placement": old, "PlacementDecision": old}
    hub.put(cluster("c0", {"cpu": "20"}))
    hub.put(placement("p0", version=old, numberOfClusters=1))
    hub.clock.move(0.1)
    publication, *_ = hub.waiting
    request = next(publication.script())
    assert request.path.partition("?")[0] == f"/apis/{old}/namespaces/ns/placementdecisions"
    body = json.loads(request.body or b"")
    assert body["apiVersion"] == body["metadata"]["ownerReferences"][0]["apiVersion"] == old
    assert hub.said[0].about.version == old
