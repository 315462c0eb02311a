"""`FleetLoop`: the placer of a hub. It decides the placements that a change can affect, and has them written.

The leader trusts its own decisions: PlacementDecisions that differ are written again. A standby takes over what it
reads, so that it can continue from there. A leader that loses the lease becomes a standby: its state is rebuilt from
what was read.

The decisions of a placement are written first, then its status; an event says which clusters joined and left.
"""

from __future__ import annotations

import time
from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field
from typing import Protocol

from fairway.api.fleet import ManagedCluster, Placement, PlacementDecision
from fairway.api.kinds import ApiObject, ObjectKey
from fairway.api.meta import Condition
from fairway.clock import SECOND, Micros
from fairway.drive import DriverLoop, Timer
from fairway.fleet import FleetPlan, FleetState, place, reports
from fairway.fleet.plan import Outcome
from fairway.fleet.rules import Key, Rules
from fairway.kube.http.exchange import Ending, WriteResult
from fairway.kube.hub.clusters import ClusterReports
from fairway.kube.hub.decisions import Publication, Slices, are_same, as_published, in_order, owner_of
from fairway.kube.hub.placements import (
    Points,
    facts_of,
    notes_of,
    placement_status,
    placement_write,
    points_of,
    stands,
)
from fairway.kube.hub.turns import FairTurns
from fairway.kube.requests.statuses import MAX_NOTE, EventNote, Regarding, StatusWrite
from fairway.kube.throttle import INTERVAL, StatusThrottle
from fairway.state.events import Deleted, Event

PLACEMENTS = "cluster.open-cluster-management.io/v1beta1"
CLUSTERS = "cluster.open-cluster-management.io/v1"
TOGETHER = 64
"""Maximum number of placements that are decided before their decisions are sent."""
RETRY: Micros = 60 * SECOND
"""Time until a placement whose decision ended in an error is decided again."""
MAX_RUN = 1.0
"""Seconds of deciding, after which new events are taken in and other namespaces have their turn."""
_NO_SLICES: Slices = {}


class HubWorld(Protocol):
    """Where decisions go. The outcome of a publication is reported to `FleetLoop.ended`."""

    def publish(self, publications: Sequence[Publication]) -> None: ...

    def statuses(self, writes: Sequence[StatusWrite]) -> None: ...

    def events(self, notes: Sequence[EventNote]) -> None: ...


class FleetObserver(Protocol):
    """Is called for what the loop does, for logs and metrics."""

    def decided(self, plan: FleetPlan, seconds: float) -> None: ...

    def published(self, key: Key, ending: Ending) -> None: ...

    def repairs(self, key: Key) -> None: ...

    def failed(self, key: Key, error: Exception) -> None: ...

    def set_aside(self, clusters: int) -> None: ...


@dataclass(slots=True)
class PlacementDesk:
    """The leader's record of one placement: its decision, and how far that is written."""

    key: Key
    wanted: Slices = field(default_factory=dict)
    conditions: tuple[Condition, ...] = ()
    points: Points = field(default_factory=dict)
    decided_by: Rules | None = None
    """The rules by which `wanted` was decided."""
    under_way: Publication | None = None
    refusal: str = ""
    """Why the server did not take the last publication."""


class FleetLoop(DriverLoop):
    """The loop of one hub's placer. It is the sink of a feed."""

    def __init__(
        self,
        timer: Timer,
        world: HubWorld,
        observer: FleetObserver,
        *,
        versions: Mapping[str, str],
        min_interval: Micros = 50_000,
        turns: FairTurns | None = None,
    ) -> None:
        """`versions` are the API versions that the server has, by kind."""
        super().__init__(timer, leads=False)
        self.state = FleetState()
        self._world = world
        self._observer = observer
        self._versions = versions
        self._min_interval = min_interval
        self._last = 0
        """When the last cycle was; 0 if another one may follow at once."""
        self._seen: dict[Key, dict[str, PlacementDecision]] = {}
        self._desks: dict[Key, PlacementDesk] = {}
        self._foreign: set[Key] = set()
        """Placements whose decisions were seen to change, by us or by others."""
        self._unwritten: set[Key] = set()
        """Placements to check again: a write has ended, or a status is due later."""
        self._overwritten: set[Key] = set()
        """Placements whose status was seen to differ from what was written."""
        self._notes: list[EventNote] = []
        """Events that leave with the next writes."""
        self._throttle: StatusThrottle[ObjectKey] = StatusThrottle()
        self._reports = ClusterReports(self._throttle)
        self._turns = turns or FairTurns()
        self._failed: dict[Key, tuple[Rules, Micros]] = {}
        """Placements that could not be decided: by which rules, and until when they are left alone."""

    # -- who leads -------------------------------------------------------------------------------------------

    def lead(self, leads: bool) -> None:
        if leads == self._leads:
            return
        self._leads = leads
        if leads:
            self._reports.look_at_all(self.state)
            self._wake()
            return
        for desk in self._desks.values():
            _withdraw(desk)
        self._desks.clear()
        self._foreign.clear()
        self._unwritten.clear()
        self._overwritten.clear()
        self._throttle = StatusThrottle()
        self._reports = ClusterReports(self._throttle)
        self.store.drain()
        self._seen.clear()
        self.state = FleetState()
        now = self._timer.now()
        for thing in self.store.objects():
            self._put(thing, now)

    # -- cycles ------------------------------------------------------------------------------------------------

    def cycle(self) -> None:
        self._last = self._timer.now()
        super().cycle()

    def catch_up(self) -> None:
        super().catch_up()
        for cluster in self._reports.ended(self._timer.now()):
            self.state.upsert(reports.untrusted(cluster))

    def _earliest(self, now: Micros) -> Micros:
        return max(now, self._last + self._min_interval)

    def _plan_next(self, now: Micros) -> None:
        if self._leads and self._turns.is_halfway:
            self._last = 0
        if self._leads and any(map(self.state.is_active, self._affected(now))):
            self._wake()
            return
        times = [instant for _, instant in self.state.rechecks()] if self._leads else []
        times += [end for _, end in self._failed.values()]
        times += [instant for instant in (self._reports.next_end, self._next_status()) if instant is not None]
        if times:
            self._plan(self._earliest(min(times)))

    def _next_status(self) -> Micros | None:
        looks = [self._throttle.next_look(("Placement", *key)) for key in self._unwritten]
        looks += [self._throttle.next_look(key) for key in self._reports.waiting()]
        looks += [self._repair_at(key) for key in self._overwritten]
        return min((look for look in looks if look is not None), default=None)

    # -- events ------------------------------------------------------------------------------------------------

    def _apply(self, events: Sequence[Event], matters: bool) -> None:
        now = self._timer.now()
        for event in events:
            if isinstance(event, Deleted):
                self._drop(event.object)
            else:
                self._put(event.object, now)

    def _put(self, thing: ApiObject, now: Micros) -> None:
        if isinstance(thing, PlacementDecision):
            key = owner_of(thing)
            self._seen.setdefault(key, {})[thing.metadata.name] = thing
            if key in self._desks:
                self._foreign.add(key)
                return
        if isinstance(thing, ManagedCluster):
            self.state.upsert(self._reports.trusted(thing, now))
            self._reports.seen(thing, self.state, now)
        else:
            if isinstance(thing, Placement):
                self._check_status(thing)
            self.state.upsert(thing)

    def _check_status(self, placement: Placement) -> None:
        key = (placement.metadata.namespace, placement.metadata.name)
        last = self._throttle.last(("Placement", *key)) if key in self._desks else None
        if last is not None and facts_of(placement.status) != last[0]:
            self._overwritten.add(key)
        else:
            self._overwritten.discard(key)

    def _repair_at(self, key: Key) -> Micros | None:
        """When a status that differs is written again. Right after a write the object may not show it yet, and with
        another program that writes the same status there must be no endless exchange at full speed.
        """
        last = self._throttle.last(("Placement", *key))
        return None if last is None else last[1] + INTERVAL

    def _repair_statuses(self, now: Micros) -> None:
        for key in [key for key in self._overwritten if (self._repair_at(key) or 0) <= now]:
            self._overwritten.discard(key)
            self._throttle.forget(("Placement", *key))
            self._unwritten.add(key)

    def _drop(self, thing: ApiObject) -> None:
        if isinstance(thing, PlacementDecision):
            key = owner_of(thing)
            slices = self._seen.get(key, {})
            slices.pop(thing.metadata.name, None)
            if not slices:
                self._seen.pop(key, None)
            if key in self._desks:
                self._foreign.add(key)
                return
        if isinstance(thing, Placement):
            key = (thing.metadata.namespace, thing.metadata.name)
            _withdraw(self._desks.pop(key, None))
            self._throttle.forget(("Placement", *key))
            self._overwritten.discard(key)
        if isinstance(thing, ManagedCluster):
            self._reports.gone(thing)
        self.state.delete(thing)

    # -- decisions ---------------------------------------------------------------------------------------------

    def _decide(self, now: Micros) -> None:
        self._decide_in_turn(now)
        self._write(now)

    def _decide_in_turn(self, now: Micros) -> None:
        """Decides in parts, so that the first decisions are being written while others are made."""
        keys = self._turns.pick(self.state, self._affected(now), now)
        first, together = time.perf_counter(), TOGETHER
        while keys:
            begin = time.perf_counter()
            if begin - first > MAX_RUN:
                self._turns.cut(keys[0])
                return
            part, keys = keys[:together], keys[together:]
            try:
                plan = self._decide_part(part, now)
            except Exception as error:  # a bug must cost one placement, and not the whole hub
                if len(part) > 1:
                    keys, together = part + keys, 1
                else:
                    self._fail(part[0], error, now)
                continue
            seconds = time.perf_counter() - begin
            if seconds > MAX_RUN / 4:
                together = max(1, together // 8)
            self._observer.decided(plan, seconds)
            self._write(now)

    def _decide_part(self, keys: Sequence[Key], now: Micros) -> FleetPlan:
        plan = place(self.state, now, keys)
        self.state.apply(plan)
        for outcome in plan.outcomes:
            self._decided(outcome, now)
        return plan

    def _fail(self, key: Key, error: Exception, now: Micros) -> None:
        """Its last good decisions stay; it is decided again when it changes, and after `RETRY`."""
        rules = self.state.records[key].rules
        assert rules is not None
        self._failed[key] = rules, now + RETRY
        self._observer.failed(key, error)
        why = f"this is an error in Fairway, please report it: {type(error).__name__}: {error}"
        self._warn(rules.placement, "DecisionFailed", why[:MAX_NOTE], now)

    def _affected(self, now: Micros) -> set[Key]:
        """Placements to decide, without those that could not be decided."""
        affected = self.state.affected_keys(now)
        if not self._failed:
            return affected
        records = self.state.records
        self._failed = {
            key: (rules, end)
            for key, (rules, end) in self._failed.items()
            if now < end and key in records and records[key].rules is rules
        }
        return affected - self._failed.keys()

    def _decided(self, outcome: Outcome, now: Micros) -> None:
        placement = outcome.rules.placement
        desk = self._desks.get(outcome.key)
        if desk is None:
            seen = self._seen.get(outcome.key, _NO_SLICES)
            desk = self._desks[outcome.key] = PlacementDesk(outcome.key, dict(seen))
        if desk.decided_by is not outcome.rules or not stands(outcome):
            self._notes += notes_of(self._version(placement), placement, outcome, desk.points, now)
            desk.wanted = as_published(outcome.slices, desk.wanted.values())
            desk.decided_by = outcome.rules
        desk.conditions = outcome.conditions
        if not outcome.stands or not desk.points:  # computing points is deferred until here: most decisions stand
            desk.points = points_of(outcome)
        self._unwritten.add(outcome.key)

    # -- writes ------------------------------------------------------------------------------------------------

    def _write(self, now: Micros) -> None:
        self._repair_statuses(now)
        changed = self._foreign - self._unwritten
        looked_at = self._unwritten | self._foreign
        self._foreign, self._unwritten = set(), set()
        statuses: list[StatusWrite] = []
        publications: list[Publication] = []
        for key in sorted(looked_at):
            desk, placement = self._desks.get(key), self.store.get(("Placement", *key))
            if desk is None or desk.under_way is not None or not isinstance(placement, Placement):
                continue
            if placement.metadata.deletion_timestamp is not None:
                continue  # its decisions are deleted with it
            seen = self._seen.get(key, _NO_SLICES)
            if are_same(seen, desk.wanted):
                statuses += self._status(desk, placement, now)
                continue
            if key in changed:
                self._repairs(placement, now)
            desk.under_way = Publication(self._version_of("PlacementDecision"), placement, dict(seen), desk.wanted)
            publications.append(desk.under_way)
            self._turns.leaves(key)
        if publications:
            self._world.publish(publications)
        version = self._versions.get("ManagedCluster", CLUSTERS)
        statuses += self._reports.due(version, self.store, self.state, now)
        self._observer.set_aside(self._reports.refused)
        if statuses:
            self._world.statuses(statuses)
        notes, self._notes = self._notes, []
        if notes:
            self._world.events(notes)

    def _status(self, desk: PlacementDesk, placement: Placement, now: Micros) -> list[StatusWrite]:
        """The write that is due now; otherwise the placement is checked again later."""
        status = placement_status(self._version(placement), desk.conditions, in_order(desk.wanted))
        facts, key = facts_of(status), ("Placement", *desk.key)
        if self._throttle.is_due(key, facts, now, facts_of(placement.status)):
            self._throttle.wrote(key, facts, now)
            return [placement_write(self._version(placement), placement, status, now)]
        if self._throttle.next_look(key) is not None:
            self._unwritten.add(desk.key)
        return []

    def _repairs(self, placement: Placement, now: Micros) -> None:
        self._observer.repairs((placement.metadata.namespace, placement.metadata.name))
        note = "its PlacementDecisions were changed by another program; the decision is written again"
        self._warn(placement, "DecisionRepaired", note, now)

    def _warn(self, placement: Placement, reason: str, note: str, now: Micros) -> None:
        """A warning event, sent with the next writes."""
        meta = placement.metadata
        about = Regarding(self._version(placement), "Placement", meta.namespace, meta.name, meta.uid)
        self._notes.append(EventNote(about, reason, "Deciding", note, now, warning=True))

    def ended(self, publication: Publication, ending: Ending) -> None:
        """The outcome of a publication. The server's answers are newer than what was read."""
        key = publication.key
        self._turns.ended(key)
        for name, thing in publication.results.items():
            last = self.store.get(("PlacementDecision", key[0], name))
            if thing is not None:
                self.store.seen(thing)
            elif last is not None:
                self.store.gone(last)
        if not publication.is_withdrawn:
            self._observer.published(key, ending)
        desk = self._desks.get(key)
        if desk is not None and desk.under_way is publication:
            desk.under_way = None
            self._unwritten.add(key)
            self._report_refusal(desk, ending)
        self._wake()

    def _report_refusal(self, desk: PlacementDesk, ending: Ending) -> None:
        """One event for each new reason, for the users of the placement; the write is retried meanwhile."""
        why = ending.why if ending.result is WriteResult.REFUSED else ""
        placement = self.store.get(("Placement", *desk.key))
        if why and why != desk.refusal and isinstance(placement, Placement):
            note = f"the API server does not take the PlacementDecisions: {why}"
            self._warn(placement, "DecisionRefused", note, self._timer.now())
        desk.refusal = why

    def status_failed(self, key: ObjectKey) -> None:
        self._throttle.forget(key)
        if key[0] == "Placement" and key[1:] in self._desks:
            self._unwritten.add(key[1:])
        elif key[0] == "ManagedCluster":
            self._reports.look_at(key[2])
        self._wake()

    def _version(self, placement: Placement) -> str:
        return placement.api_version or self._version_of("Placement")

    def _version_of(self, kind: str) -> str:
        return self._versions.get(kind) or PLACEMENTS


def _withdraw(desk: PlacementDesk | None) -> None:
    """The decision is obsolete: a retry must not write it over the decisions of another leader."""
    if desk is not None and desk.under_way is not None:
        desk.under_way.withdraw()
