"""The store: what was seen, what was sent, and what the state is told of it."""

from __future__ import annotations

from typing import Any

from hypothesis import given
from hypothesis import strategies as st
from hypothesis.stateful import RuleBasedStateMachine, invariant, rule
from msgspec.structs import replace

from fairway.api import kinds
from fairway.api.kinds import ApiObject
from fairway.api.meta import Condition
from fairway.api.pods import Pod
from fairway.api.scheduling import PodGroup, PodGroupStatus
from fairway.clock import SECOND
from fairway.drive.change import Bind, Evict, Nominate
from fairway.drive.planned_changes import pod_key
from fairway.drive.store import ObjectStore
from fairway.scheduler.plan import Binding, Eviction
from fairway.state.cluster import Deleted, Event, Upserted
from support.objects import BEGIN, group, node, pod


def versioned(thing: ApiObject, version: int, uid: str = "u1", **status: Any) -> ApiObject:
    meta = replace(thing.metadata, resource_version=str(version), uid=uid)
    changed: ApiObject = replace(thing, metadata=meta)
    if status and isinstance(changed, Pod):
        changed = replace(changed, status=replace(changed.status, **status))
    return changed


def bind(name: str = "default/a", on: str = "n1", uid: str = "u1") -> Bind:
    return Bind(pod_key(name), uid, Binding(name, on), BEGIN)


def told(store: ObjectStore) -> list[Event]:
    return store.drain().events


def waiting(version: int = 1, uid: str = "u1") -> ApiObject:
    return versioned(pod("a"), version, uid)


def on_node(version: int, phase: str = "Pending") -> ApiObject:
    return versioned(pod("a", node="n1", phase=phase), version)


def test_an_unchanged_object_makes_no_event() -> None:
    store = ObjectStore()
    store.seen(versioned(node("n1", cpu=1), 1))
    assert len(told(store)) == 1
    store.seen(versioned(node("n1", cpu=1), 2))
    assert not store.is_dirty
    assert told(store) == []


def test_why_something_waits_starts_no_cycle() -> None:
    store = ObjectStore()
    why = Condition("PodScheduled", "False", "Unschedulable", "0/1 nodes fit")
    store.seen(waiting(1))
    store.seen(versioned(group("g"), 1))
    told(store)
    store.seen(versioned(pod("a"), 2, conditions=(why,)))
    explained = versioned(group("g"), 2)
    assert isinstance(explained, PodGroup)
    store.seen(replace(explained, status=replace(explained.status, conditions=(why,), running=3)))
    events, matters = store.drain()
    assert len(events) == 2
    assert not matters
    store.seen(versioned(pod("a", cpu=1), 3, conditions=(why,)))
    assert store.drain().matters
    store.seen(
        replace(explained, metadata=replace(explained.metadata, resource_version="3"), status=PodGroupStatus("Inqueue"))
    )
    assert store.drain().matters


def test_an_older_version_is_dropped() -> None:
    store = ObjectStore()
    store.seen(on_node(5))
    told(store)
    store.seen(waiting(3))
    assert told(store) == []
    store.gone(waiting(3))
    assert told(store) == []


def test_another_uid_is_a_deletion_and_an_addition() -> None:
    store = ObjectStore()
    store.seen(waiting(1))
    told(store)
    store.seen(waiting(2, uid="u2"))
    assert [type(event) for event in told(store)] == [Deleted, Upserted]


def test_created_again_in_one_batch_is_a_deletion_and_an_addition_without_any_uid() -> None:
    store = ObjectStore()
    store.seen(pod("a"))
    told(store)
    store.gone(pod("a"))
    store.seen(pod("a"))
    assert [type(event) for event in told(store)] == [Deleted, Upserted]


def test_a_relist_is_a_difference() -> None:
    store = ObjectStore()
    for name in ("a", "b"):
        store.seen(versioned(pod(name), 1, uid=name))
    told(store)
    store.listed("Pod", [versioned(pod("b"), 1, uid="b"), versioned(pod("c"), 2, uid="c")])
    assert [(type(event), event.object.metadata.name) for event in told(store)] == [(Upserted, "c"), (Deleted, "a")]


def test_what_was_sent_counts_until_it_is_seen() -> None:
    store = ObjectStore()
    store.seen(waiting())
    told(store)
    store.sent([bind()])
    batch = store.drain()
    assert not batch.matters
    (event,) = batch.events
    assert isinstance(event.object, Pod)
    assert event.object.spec.node_name == "n1"
    assert list(store.in_flight()) == [bind()]
    store.seen(on_node(2))
    assert not list(store.in_flight())
    assert not store.drain().matters


def test_a_newer_version_that_does_not_show_the_change_keeps_it() -> None:
    store = ObjectStore()
    store.seen(waiting())
    store.sent([bind()])
    told(store)
    store.seen(versioned(pod("a", labels={"new": "label"}), 2))
    (event,) = told(store)
    assert isinstance(event.object, Pod)
    assert (event.object.spec.node_name, event.object.metadata.labels) == ("n1", {"new": "label"})


def test_a_refused_change_no_longer_counts() -> None:
    store = ObjectStore()
    store.seen(waiting())
    store.sent([bind()])
    told(store)
    store.refused(bind())
    batch = store.drain()
    assert batch.events == [Upserted(waiting())]
    assert batch.matters


def test_a_change_for_another_uid_does_not_outlive_its_object() -> None:
    store = ObjectStore()
    store.seen(waiting())
    store.sent([bind()])
    store.seen(waiting(2, uid="u2"))
    told(store)
    found = store.get(pod_key("default/a"))
    assert isinstance(found, Pod)
    assert not found.spec.node_name


def test_a_pod_that_starts_on_its_node_is_nothing_new() -> None:
    store = ObjectStore()
    store.seen(waiting())
    store.sent([bind()])
    told(store)
    store.seen(versioned(on_node(2), 2))
    told(store)
    store.seen(on_node(3, phase="Running"))
    batch = store.drain()
    assert len(batch.events) == 1
    assert not batch.matters


def test_a_pod_that_is_deleted_while_it_is_bound_is_news() -> None:
    store = ObjectStore()
    store.seen(waiting())
    store.sent([bind()])
    leaving = versioned(pod("a", leaving=True), 2)
    store.seen(leaving)
    assert store.drain().matters


def test_a_nomination_is_indexed_until_it_is_bound() -> None:
    store = ObjectStore()
    store.seen(waiting())
    store.sent([Nominate(pod_key("default/a"), "u1", "n1", BEGIN)])
    told(store)
    assert store.nominated == {pod_key("default/a")}
    store.sent([bind()])
    told(store)
    assert not store.nominated


NAMES = st.sampled_from(["a", "b", "c"])


class Histories(RuleBasedStateMachine):
    """Reports in any order, each at any time late or twice: the state ends with what the store says, event by event."""

    def __init__(self) -> None:
        super().__init__()
        self.store = ObjectStore()
        self.version = 0
        self.server: dict[str, ApiObject] = {}
        self.reports: list[tuple[str, ApiObject]] = []
        self.known: dict[Any, ApiObject] = {}

    def _write(self, thing: ApiObject) -> None:
        self.version += 1
        thing = replace(thing, metadata=replace(thing.metadata, resource_version=str(self.version)))
        self.server[thing.metadata.name] = thing
        self.reports.append(("seen", thing))

    @rule(name=NAMES)
    def create(self, name: str) -> None:
        if name not in self.server:
            self._write(versioned(pod(name), 0, uid=f"{name}{self.version}"))

    @rule(name=NAMES)
    def delete(self, name: str) -> None:
        thing = self.server.pop(name, None)
        if thing is not None:
            self.version += 1
            last = replace(thing, metadata=replace(thing.metadata, resource_version=str(self.version)))
            self.reports.append(("gone", last))

    @rule(name=NAMES, label=st.sampled_from(["x", "y"]))
    def label(self, name: str, label: str) -> None:
        thing = self.server.get(name)
        if thing is not None:
            self._write(replace(thing, metadata=replace(thing.metadata, labels={"l": label})))

    @rule(name=NAMES, answer=st.sampled_from(["made", "refused", "lost"]))
    def bind(self, name: str, answer: str) -> None:
        """The scheduler binds what it believes to wait; the server makes it, refuses it, or the answer is lost."""
        found = self.store.get(pod_key(f"default/{name}"))
        if not isinstance(found, Pod) or found.spec.node_name:
            return
        change = bind(f"default/{name}", uid=found.metadata.uid)
        self.store.sent([change])
        there = self.server.get(name)
        can = there is not None and there.metadata.uid == change.uid and not there.spec.node_name
        if can and answer != "refused":
            made = change.onto(there)
            assert made is not None
            self._write(made)
        else:
            self.store.refused(change)

    @rule(name=NAMES)
    def evict(self, name: str) -> None:
        found = self.store.get(pod_key(f"default/{name}"))
        if isinstance(found, Pod) and found.metadata.deletion_timestamp is None:
            eviction = Eviction(f"default/{name}", "n1", "j", "preempt", "r")
            change = Evict(pod_key(f"default/{name}"), found.metadata.uid, eviction, BEGIN + 30 * SECOND)
            self.store.sent([change])
            there = self.server.get(name)
            if there is not None and there.metadata.uid == change.uid:
                made = change.onto(there)
                assert made is not None
                self._write(made)
            else:
                self.store.refused(change)

    @rule(count=st.integers(1, 4), twice=st.booleans())
    def report(self, count: int, twice: bool) -> None:
        for _ in range(min(count, len(self.reports))):
            kind, thing = self.reports.pop(0)
            for _ in range(2 if twice else 1):
                getattr(self.store, kind)(thing)

    @rule()
    def relist(self) -> None:
        """The watch broke: everything that was not reported is lost, and the list says how things stand."""
        self.reports.clear()
        self.store.listed("Pod", list(self.server.values()))

    @invariant()
    def the_state_is_told_what_is_effective(self) -> None:
        for event in self.store.drain().events:
            key = kinds.key(event.object)
            if isinstance(event, Upserted):
                self.known[key] = event.object
            else:
                assert key in self.known
                del self.known[key]
        effective = {kinds.key(thing): thing for thing in self.store.objects()}
        assert {key: _plain(thing) for key, thing in self.known.items()} == {
            key: _plain(thing) for key, thing in effective.items()
        }

    def teardown(self) -> None:
        """When everything was reported, nothing is left of what was sent."""
        self.store.listed("Pod", list(self.server.values()))
        assert not list(self.store.in_flight())
        assert {thing.metadata.name: _plain(thing) for thing in self.store.objects()} == {
            name: _plain(thing) for name, thing in self.server.items()
        }


def _plain(thing: ApiObject) -> ApiObject:
    return replace(thing, metadata=replace(thing.metadata, resource_version=""))


TestHistories = Histories.TestCase


@given(st.permutations(["a", "b", "c", "d"]))
def test_the_order_of_a_relist_does_not_matter(order: list[str]) -> None:
    store = ObjectStore()
    store.listed("Pod", [versioned(pod(name), 1, uid=name) for name in order])
    assert {event.object.metadata.name for event in told(store)} == {"a", "b", "c", "d"}


def test_a_version_that_shows_a_later_change_shows_those_before_it() -> None:
    """Between two lists several changes of one object may be made: only the last is ever seen."""
    store = ObjectStore()
    store.seen(waiting())
    first, second = (Nominate(pod_key("default/a"), "u1", name, BEGIN) for name in ("n1", "n2"))
    store.sent([first])
    store.sent([second])
    told(store)
    store.seen(versioned(pod("a", nominated="n2"), 2))
    assert list(store.in_flight()) == []
    assert store.get(pod_key("default/a")).status.nominated_node_name == "n2"


def test_a_version_that_shows_an_earlier_change_leaves_the_later_ones_under_way() -> None:
    store = ObjectStore()
    store.seen(waiting())
    nominate = Nominate(pod_key("default/a"), "u1", "n1", BEGIN)
    store.sent([nominate, bind()])
    store.seen(versioned(pod("a", nominated="n1"), 2))
    assert list(store.in_flight()) == [bind()]


def test_a_pod_that_is_bound_as_was_assumed_makes_no_second_event() -> None:
    """The server words the condition in its own way."""
    store = ObjectStore()
    store.seen(waiting())
    store.sent([bind()])
    assert len(told(store)) == 1
    scheduled = Condition("PodScheduled", "True", "Other")
    store.seen(versioned(pod("a", node="n1", phase="Pending"), 2, conditions=(scheduled,)))
    assert list(store.in_flight()) == []
    assert told(store) == []
    found = store.get(pod_key("default/a"))
    assert isinstance(found, Pod)
    assert found.status.conditions == (scheduled,)
    store.seen(versioned(pod("a", node="n1", phase="Running"), 3))
    assert len(told(store)) == 1
