"""Changes that were accepted and are never seen: another changed or deleted the object between two lists."""

from __future__ import annotations

from hypothesis import strategies as st
from hypothesis.stateful import RuleBasedStateMachine, invariant, rule
from msgspec.structs import replace

from fairway.api import kinds
from fairway.api.kinds import ApiObject
from fairway.api.meta import ObjectMeta
from fairway.api.scheduling import JobReference, Reservation, ReservationSpec
from fairway.drive.change import DeleteReservation, WriteReservation
from fairway.drive.store import ObjectStore
from fairway.state.cluster import Upserted

NAMES = st.sampled_from(["a", "b"])


def reservation(name: str, job: str = "j") -> Reservation:
    spec = ReservationSpec(JobReference("Pod", job, job))
    return Reservation(spec, ObjectMeta(name=name, namespace="default"))


def versioned(thing: ApiObject, version: int, uid: str) -> ApiObject:
    return replace(thing, metadata=replace(thing.metadata, resource_version=str(version), uid=uid))


def write(name: str, job: str = "j", uid: str = "") -> WriteReservation:
    thing = reservation(name, job)
    return WriteReservation(kinds.key(thing), uid, replace(thing, metadata=replace(thing.metadata, uid=uid)))


def test_what_was_made_and_deleted_between_two_lists_is_gone() -> None:
    store = ObjectStore()
    store.listed("Reservation", [], "5")
    change = write("a")
    store.sent([change])
    store.settled(change, "7")
    store.listed("Reservation", [], "6")
    assert store.get(change.key) is not None, "that list is older"
    store.listed("Reservation", [], "8")
    assert store.get(change.key) is None
    assert list(store.in_flight()) == []


def test_an_answer_that_comes_after_such_a_list_ends_it_too() -> None:
    store = ObjectStore()
    change = write("a")
    store.sent([change])
    store.listed("Reservation", [], "8")
    assert store.get(change.key) is not None, "it may still be made"
    store.settled(change, "7")
    assert store.get(change.key) is None


def test_what_another_changed_again_between_two_lists_counts_as_it_is() -> None:
    store = ObjectStore()
    change = write("a", "ours")
    store.sent([change])
    store.settled(change, "7")
    theirs = versioned(reservation("a", "theirs"), 9, "u")
    store.listed("Reservation", [theirs], "9")
    assert store.get(change.key) is theirs
    assert list(store.in_flight()) == []


def test_what_is_deleted_before_it_was_seen_leaves_nothing() -> None:
    store = ObjectStore()
    made_, deleted = write("a"), DeleteReservation(write("a").key, "")
    store.sent([made_])
    store.sent([deleted])
    store.settled(made_, "7")
    store.settled(deleted, "")
    assert list(store.in_flight()) == []


class Answers(RuleBasedStateMachine):
    """A server that others write to as well; answers and reports come at any time, each in their order."""

    def __init__(self) -> None:
        super().__init__()
        self.store = ObjectStore()
        self.server: dict[str, ApiObject] = {}
        self.version = 0
        self.reports: list[tuple[str, ApiObject]] = []
        self.answers: list[tuple[WriteReservation | DeleteReservation, str | None]] = []
        """What became of our changes, and the version by it; None: refused."""
        self.known: dict[object, ApiObject] = {}

    def _write(self, thing: ApiObject) -> None:
        self.version += 1
        name = thing.metadata.name
        uid = self.server[name].metadata.uid if name in self.server else f"u{self.version}"
        self.server[name] = versioned(thing, self.version, uid)
        self.reports.append(("seen", self.server[name]))

    def _delete(self, name: str) -> None:
        self.version += 1
        thing = self.server.pop(name)
        self.reports.append(("gone", versioned(thing, self.version, thing.metadata.uid)))

    @rule(name=NAMES, job=st.sampled_from(["x", "y", "z"]))
    def theirs(self, name: str, job: str) -> None:
        self._write(reservation(name, job))

    @rule(name=NAMES)
    def they_delete(self, name: str) -> None:
        if name in self.server:
            self._delete(name)

    @rule(name=NAMES, job=st.sampled_from(["p", "q"]), is_refused=st.booleans())
    def ours(self, name: str, job: str, is_refused: bool) -> None:
        there = self.store.get(write(name).key)
        change = write(name, job, "" if there is None else there.metadata.uid)
        self.store.sent([change])
        found = self.server.get(name)
        if is_refused or (change.uid and (found is None or found.metadata.uid != change.uid)):
            self.answers.append((change, None))
            return
        self._write(change.reservation)
        self.answers.append((change, str(self.version)))

    @rule(name=NAMES)
    def we_delete(self, name: str) -> None:
        there = self.store.get(write(name).key)
        if there is None:
            return
        change = DeleteReservation(write(name).key, there.metadata.uid)
        self.store.sent([change])
        found = self.server.get(name)
        if found is not None and change.uid in ("", found.metadata.uid):
            self._delete(name)
        self.answers.append((change, ""))

    @rule()
    def answer(self) -> None:
        if self.answers:
            change, version = self.answers.pop(0)
            if version is None:
                self.store.refused(change)
            else:
                self.store.settled(change, version)

    @rule(count=st.integers(1, 4))
    def report(self, count: int) -> None:
        for _ in range(min(count, len(self.reports))):
            kind, thing = self.reports.pop(0)
            getattr(self.store, kind)(thing)

    @rule()
    def relist(self) -> None:
        self.reports.clear()
        self.store.listed("Reservation", list(self.server.values()), str(self.version))

    @invariant()
    def the_state_is_told_what_is_effective(self) -> None:
        for event in self.store.drain().events:
            key = kinds.key(event.object)
            if isinstance(event, Upserted):
                self.known[key] = event.object
            else:
                self.known.pop(key)
        assert set(self.known) == {kinds.key(thing) for thing in self.store.objects()}

    def teardown(self) -> None:
        """When all is answered and listed, what counts is what is there."""
        while self.answers:
            self.answer()
        self.relist()
        assert list(self.store.in_flight()) == []
        assert {thing.metadata.name: thing for thing in self.store.objects()} == self.server


TestAnswers = Answers.TestCase


def test_a_list_with_older_versions_is_of_a_restored_server_and_counts() -> None:
    store = ObjectStore()
    before, later = versioned(reservation("a", "x"), 5, "u"), versioned(reservation("a", "y"), 9, "u")
    store.listed("Reservation", [later], "9")
    change = write("a", "z", "u")
    store.sent([change])
    store.drain()
    store.seen(before)
    assert store.get(change.key) is not before, "a watch that says so repeats itself"
    store.listed("Reservation", [before], "6")
    assert store.get(change.key) is before
    assert list(store.in_flight()) == []
    assert [event.object for event in store.drain().events] == [before]
