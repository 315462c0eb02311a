"""`ObjectStore`: every object as it was last seen, and an overlay of changes that were sent but not seen yet.

The scheduler works with the *effective* object: the newest version that was seen, with the changes in flight on top. So
a pod that was just bound counts as bound until its own object shows it, or the change is refused (spec K7); nothing
else has to deal with that.

The store turns reports into events for the state, at most one per object and batch: `drain` compares the version that
the state has with the effective one. Reports that change nothing (a heartbeat, a relist, the echo of our own write)
cost a comparison and yield no event.
"""

from __future__ import annotations

from collections.abc import Iterable, Iterator, Mapping, Sequence
from typing import NamedTuple

from msgspec.structs import replace

from fairway.api import kinds
from fairway.api.kinds import ApiObject, ObjectKey
from fairway.api.meta import is_older, version_number
from fairway.api.pods import Pod
from fairway.api.scheduling import PodGroup
from fairway.drive.change import Change
from fairway.state.events import Deleted, Event, Upserted

_NOTHING: Mapping[ObjectKey, ApiObject] = {}
_NONE: list[Change] = []


class Batch(NamedTuple):
    """Events for the state. `matters` is False if they only confirm what the last plan expected: that its writes were
    made, or that a pod started on its node. No decision can change because of them.
    """

    events: list[Event]
    matters: bool


class ObjectStore:
    """Objects are never changed in place."""

    def __init__(self) -> None:
        self._seen: dict[str, dict[ObjectKey, ApiObject]] = {}
        """By kind, as they were last seen."""
        self._told: dict[ObjectKey, ApiObject] = {}
        """The versions that the state has."""
        self._sent: dict[ObjectKey, list[Change]] = {}
        self._made: dict[ObjectKey, ApiObject | None] = {}
        """Cached effective objects of those with changes in flight; dropped whenever either changes."""
        self._settled: dict[ObjectKey, tuple[Change, int]] = {}
        """The last accepted change of each object with changes in flight, and the version that it gave the object."""
        self._listed: dict[str, int] = {}
        """The version of the last list, by kind."""
        self._dirty: dict[ObjectKey, ApiObject | None] = {}
        """Keys that may have changed since the last batch, in order. An object that was deleted in between has its last
        version here, so that one created again under its name is reported as a deletion and an addition.
        """
        self._ours: dict[ObjectKey, ApiObject | None] = {}
        """Effective objects of the changes that were sent since the last batch."""
        self.nominated: set[ObjectKey] = set()
        """Pods with a nomination and no node, in the versions that the state has."""

    # -- reading ---------------------------------------------------------------------------------------------

    def get(self, key: ObjectKey) -> ApiObject | None:
        """The effective object."""
        if key in self._made:
            return self._made[key]
        thing = self._seen.get(key[0], _NOTHING).get(key)
        changes = self._sent.get(key)
        if changes is None:
            return thing
        for change in changes:
            thing = change.onto(thing)
        self._made[key] = thing
        return thing

    def has_shown(self, key: ObjectKey, version: str) -> bool:
        """Whether this version of an object or a later one was seen, or that it is gone. Then everything of its kind
        that was written before was seen, too.
        """
        thing = self._seen.get(key[0], _NOTHING).get(key)
        if thing is None:
            return key not in self._sent
        seen, wanted = version_number(thing.metadata.resource_version), version_number(version)
        return seen is None or wanted is None or seen >= wanted

    def of_kind(self, kind: str) -> Iterator[tuple[ObjectKey, ApiObject]]:
        """All effective objects of a kind."""
        known = self._seen.get(kind, _NOTHING)
        sent = [key for key in self._sent if key[0] == kind] if self._sent else []
        for key in {**known, **dict.fromkeys(sent)} if sent else list(known):
            thing = self.get(key)
            if thing is not None:
                yield key, thing

    def has_kind(self, kind: str) -> bool:
        """Whether there may be an object of a kind; False is certain."""
        return bool(self._sent) or bool(self._seen.get(kind))

    def objects(self) -> Iterator[ApiObject]:
        """All effective objects."""
        for kind in sorted({*self._seen, *(key[0] for key in self._sent)}):
            for _, thing in self.of_kind(kind):
                yield thing

    def counts(self) -> dict[str, int]:
        """How many objects were seen, by kind."""
        return {kind: len(things) for kind, things in sorted(self._seen.items()) if things}

    def told(self) -> list[ApiObject]:
        """All objects in the versions that the state has."""
        return list(self._told.values())

    def sent_to(self, key: ObjectKey) -> Sequence[Change]:
        """Changes to one object that are in flight: sent, and neither seen nor refused yet."""
        return self._sent.get(key, ())

    def in_flight(self) -> Iterator[Change]:
        """All changes in flight."""
        for changes in self._sent.values():
            yield from changes

    @property
    def is_dirty(self) -> bool:
        return bool(self._dirty)

    def __len__(self) -> int:
        return sum(map(len, self._seen.values()))

    # -- what a world reports --------------------------------------------------------------------------------

    def seen(self, thing: ApiObject) -> None:
        self._see(kinds.key(thing), thing)

    def _see(self, key: ObjectKey, thing: ApiObject) -> None:
        of_kind = self._seen.setdefault(key[0], {})
        known = of_kind.get(key)
        if known is not None and (known is thing or _is_old_news(thing, known)):
            return
        of_kind[key] = thing
        self._made.pop(key, None)
        changes = self._sent.get(key, _NONE)
        left = _still_in_flight(changes, thing, self._settled.get(key)) if changes else changes
        if len(left) != len(changes):
            self._keep(key, left)
        elif known is not None and _same(thing, known):
            return
        self._dirty.setdefault(key, None)

    def gone(self, thing: ApiObject) -> None:
        """`thing` is the last version."""
        key = kinds.key(thing)
        of_kind = self._seen.get(key[0], {})
        known = of_kind.get(key)
        if known is not None and _is_older(thing, known):
            return  # it was created again, and the new one was reported first
        if known is None and key not in self._sent and key not in self._told:
            return
        of_kind.pop(key, None)
        self._keep(key, [])
        self._dirty[key] = thing

    def listed(self, kind: str, things: Iterable[ApiObject], version: str = "") -> None:
        """All objects of a kind, taken as a difference to those that were seen. `version` is that of the list: an
        object of an accepted change with an earlier version that is missing is gone, though it was never seen.

        A list with older versions than were seen is that of a server restored from a backup: it counts all the same,
        and no earlier write counts as made.
        """
        there = set()
        known = self._seen.setdefault(kind, {})
        for thing in things:
            key = kinds.key(thing)
            there.add(key)
            if key in known and _is_older(thing, known[key]):
                del known[key]
                self._keep(key, [])
                self._dirty.setdefault(key, None)
            self._see(key, thing)
        for key in [key for key in known if key not in there]:
            self.gone(known[key])
        at = version_number(version)
        if at is not None:
            self._listed[kind] = at
            lost = [key for key, (_, made) in self._settled.items() if key[0] == kind and made <= at]
            for key in lost:
                if key not in there:
                    self._lose(key)

    def sent(self, changes: Iterable[Change]) -> None:
        """Changes leave for the world: from now on they are part of the effective objects."""
        for change in changes:
            self._sent.setdefault(change.key, []).append(change)
            self._made.pop(change.key, None)
            self._dirty.setdefault(change.key, None)
            self._ours[change.key] = self.get(change.key)

    def settled(self, change: Change, version: str) -> None:
        """A change was accepted and gave its object this version. It stays in the overlay until that version or a later
        one is seen, whatever that shows: the object may have been changed again, or deleted, between two lists.
        """
        key, made = change.key, version_number(version)
        thing, changes = self._seen.get(key[0], _NOTHING).get(key), self._sent.get(key)
        if not changes or not any(one is change for one in changes):
            return
        if (thing is None or not change.uid) and change.onto(thing) is None:
            # Deleted before it was seen: whatever is seen from now on is another object, or about to go.
            self._keep(key, _behind(changes, change))
            self._dirty.setdefault(key, None)
            return
        if made is None:
            return
        self._settled[key] = change, made
        if thing is None:
            if made <= self._listed.get(key[0], -1):
                self._lose(key)
        elif (_version(thing) or -1) >= made:
            self._keep(key, _still_in_flight(changes, thing, self._settled[key]))
            self._dirty.setdefault(key, None)

    def refused(self, change: Change) -> None:
        """A change will not be made: it leaves the overlay."""
        changes = self._sent.get(change.key, [])
        found = next((one for one in changes if one is change), None) or next(
            (one for one in changes if one == change), None
        )
        if found is not None:
            self._keep(change.key, [other for other in changes if other is not found])
            self._dirty.setdefault(change.key, None)

    # -- events for the state -------------------------------------------------------------------------------

    def drain(self) -> Batch:
        """What changed since the last batch, as events for the state."""
        events: list[Event] = []
        matters = False
        for key, last in self._dirty.items():
            told, now = self._told.get(key), self.get(key)
            expected = self._ours.get(key, told)
            if now is None:
                if told is not None:
                    events.append(Deleted(told if last is None else last))
                    del self._told[key]
                    self.nominated.discard(key)
                    matters = matters or expected is not None
                continue
            if told is not None:
                if last is not None or _is_another(now, told):
                    events.append(Deleted(told if last is None else last))
                    matters = True
                elif told is now or _same(now, told):
                    continue
                elif _is_echo(now, told):
                    self._told[key] = now
                    continue
            events.append(Upserted(now))
            matters = matters or not (is_as_expected(now, expected) or _differs_for_people(now, told))
            self._told[key] = now
            if isinstance(now, Pod):
                self._index(key, now)
        self._dirty.clear()
        self._ours.clear()
        return Batch(events, matters)

    def _index(self, key: ObjectKey, pod: Pod) -> None:
        if pod.status.nominated_node_name and not pod.spec.node_name:
            self.nominated.add(key)
        else:
            self.nominated.discard(key)

    def _lose(self, key: ObjectKey) -> None:
        """The object of an accepted change is gone, and no version of it was seen."""
        changes = self._sent[key]
        self._keep(key, _behind(changes, self._settled[key][0]))
        self._dirty.setdefault(key, None)

    def _keep(self, key: ObjectKey, changes: list[Change]) -> None:
        self._made.pop(key, None)
        if changes:
            self._sent[key] = changes
        else:
            self._sent.pop(key, None)
        if key in self._settled and not any(one is self._settled[key][0] for one in changes):
            del self._settled[key]


def is_as_expected(thing: ApiObject, expected: ApiObject | None) -> bool:
    """Whether an object is as the last plan left it; a pod on its node may have started there meanwhile."""
    if expected is None or thing is expected or thing == expected:
        return expected is not None
    return (
        isinstance(thing, Pod)
        and isinstance(expected, Pod)
        and bool(thing.spec.node_name)
        and thing.spec == expected.spec
        and _same_metadata(thing, expected)
        and {thing.status.phase, expected.status.phase} <= {"Pending", "Running"}
    )


def _is_echo(thing: ApiObject, told: ApiObject) -> bool:
    """Whether a pod is on its node as assumed, and only its conditions are worded differently. No rule reads the
    conditions of a pod on a node, and an event for the state costs more than all else about a binding.
    """
    return (
        isinstance(thing, Pod)
        and isinstance(told, Pod)
        and bool(thing.spec.node_name)
        and thing.spec == told.spec
        and replace(thing.status, conditions=told.status.conditions) == told.status
        and _same_metadata(thing, told)
    )


def _differs_for_people(thing: ApiObject, known: ApiObject | None) -> bool:
    """Whether an object differs only in what people read on it: why it is pending, how many of its pods run."""
    if isinstance(thing, Pod) and isinstance(known, Pod):
        same = replace(thing.status, conditions=known.status.conditions) == known.status
        return same and not thing.spec.node_name and thing.spec == known.spec and _same_metadata(thing, known)
    if isinstance(thing, PodGroup) and isinstance(known, PodGroup):
        return thing.status.phase == known.status.phase and thing.spec == known.spec and _same_metadata(thing, known)
    return False


def _behind(changes: list[Change], last: Change) -> list[Change]:
    """The changes after one of them, found by identity: two may be equal."""
    place = next(place for place, change in enumerate(changes) if change is last)
    return changes[place + 1 :]


def _still_in_flight(changes: list[Change], thing: ApiObject, settled: tuple[Change, int] | None) -> list[Change]:
    """The changes that a version does not show yet. Changes to one object are made in order: if one is shown, those
    before it were made, too, though no version in between was seen.
    """
    own = [change for change in changes if _concerns(change, thing)]
    for place in range(len(own), 0, -1):
        if own[place - 1].shown_by(thing) or _is_past(thing, own[place - 1], settled):
            return own[place:]
    return own


def _is_past(thing: ApiObject, change: Change, settled: tuple[Change, int] | None) -> bool:
    """Whether a version is the one that a change led to, or a later one."""
    return settled is not None and settled[0] is change and (_version(thing) or -1) >= settled[1]


def _concerns(change: Change, thing: ApiObject) -> bool:
    return not change.uid or change.uid == thing.metadata.uid


def _is_another(thing: ApiObject, known: ApiObject) -> bool:
    """Whether two objects of one name are different ones: deleted and created again."""
    return thing.metadata.uid != known.metadata.uid


def _version(thing: ApiObject) -> int | None:
    return version_number(thing.metadata.resource_version)


def _is_older(thing: ApiObject, known: ApiObject) -> bool:
    return is_older(thing.metadata.resource_version, known.metadata.resource_version)


def _is_old_news(thing: ApiObject, known: ApiObject) -> bool:
    if thing.metadata.resource_version == known.metadata.resource_version:
        return _version(thing) is not None
    mine, theirs = _version(thing), _version(known)
    return mine is not None and theirs is not None and mine <= theirs


def _same(thing: ApiObject, known: ApiObject) -> bool:
    """Whether two versions of an object differ at most in their resource version."""
    if thing.metadata.resource_version == known.metadata.resource_version:
        return thing == known
    return _same_metadata(thing, known) and replace(thing, metadata=known.metadata) == known


def _same_metadata(thing: ApiObject, known: ApiObject) -> bool:
    return replace(thing.metadata, resource_version=known.metadata.resource_version) == known.metadata
