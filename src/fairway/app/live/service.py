"""`LiveScheduler`: connects the scheduler's loop to an API server, and runs until it is stopped."""

from __future__ import annotations

import asyncio
import contextlib
import socket
from collections.abc import Callable, Coroutine, Sequence
from dataclasses import replace
from functools import partial
from pathlib import Path
from random import Random
from typing import Any
from uuid import uuid4

from fairway.api import kinds
from fairway.api.kinds import ApiObject, ObjectKey
from fairway.api.policy import Policy, load_policy
from fairway.app.live.debugging import DebugPages, refusal
from fairway.app.live.observing import LoopObserver, PendingPods, RunMetrics
from fairway.app.live.policies import ConfigMapText, FileText, PolicySource, PolicyText
from fairway.app.live.program import KubeProgram
from fairway.app.live.recorder import LiveRecorder
from fairway.app.live.reporting import INTERVAL, HubReporter
from fairway.app.live.settings import RunSettings
from fairway.app.live.shadow import DryWorld, ShadowPolicy
from fairway.app.live.status_timer import StatusTimer
from fairway.app.live.viewer_feed import FeedHead, ViewerFeed, program_facts
from fairway.app.logs import RunLog
from fairway.app.view.scheduler_page import ProgramFacts
from fairway.clock import SECOND, wall_clock
from fairway.drive import (
    Bind,
    Change,
    Evict,
    PlacementPods,
    Rhythm,
    SchedulerLoop,
    WriteReservation,
    WriteStops,
    member_report,
    member_scores,
)
from fairway.errors import NoAnswerError
from fairway.kube.guards import (
    ClaimGuard,
    DeviceCheck,
    DeviceConflictWriter,
    GangGuard,
    VolumeWaits,
    hold_budgets,
    reservation_problem,
    withdrawals,
)
from fairway.kube.http import LEASES, LONG_PAUSE, ApiClient, Ending, WriteResult
from fairway.kube.kinds import SCHEDULER_KINDS
from fairway.kube.reading import Delivery, Feed, Gone, serves_class_claims
from fairway.kube.requests import EventMaker, Regarding
from fairway.kube.server import Connection, find_connection
from fairway.kube.status import EventWriter, StatusWriter
from fairway.kube.writing import KubeWorld, Outbox, Versions
from fairway.scheduler.plugins.installed import default_registry
from fairway.state.cluster import ClusterState
from fairway.state.jobs import Job

CHECK_AGAIN = 60.0
"""Seconds between two checks whether rejected Reservations can be written by now."""
REASONS_REST = 4
"""At most one part in this many of the time is spent on reasons, which only people read."""


class LiveScheduler(KubeProgram):
    """The scheduler of one cluster."""

    kinds = SCHEDULER_KINDS

    def __init__(
        self,
        settings: RunSettings,
        connection: Connection,
        log: RunLog,
        *,
        random: Random | None = None,
    ) -> None:
        self._settings = settings
        self._viewer: ViewerFeed | None = None
        self._knows_version = False
        self.metrics = RunMetrics()
        self._recorder: LiveRecorder | None = None
        self._no_reservations = ""
        """Why Reservations cannot be written; "" if they can."""
        self._reservations_refused = asyncio.Event()
        self._late: StatusTimer | None = None
        """None in a dry run."""
        super().__init__(settings, connection, log, self.metrics, random)
        self._reporter: HubReporter | None = None
        self._placement_pods = PlacementPods()

    async def run(self) -> int:
        try:
            return await super().run()
        finally:
            if self._recorder is not None:
                self._recorder.close()
            if self._viewer is not None:
                self._viewer.stop()

    # -- parts -----------------------------------------------------------------------------------------------

    async def _prepare(self) -> None:
        self._source = PolicySource(self._policy_text(), self)
        self._build(await self._source.first())
        if self._settings.report_to and not self._settings.dry_run:
            await self._report_to(find_connection(self._settings.report_to))

    def _tasks(self) -> Sequence[Coroutine[Any, Any, None]]:
        tasks = [self._source.watch(self._use, self._settings.policy_interval), self._learn_version()]
        return tasks if self._reporter is None else [*tasks, self._reporter.run()]

    async def _learn_version(self) -> None:
        """Find out before the first cycle whether kubelets honour claims for devices by class, and whether Reservations
        can be written.
        """
        class_claims = await serves_class_claims(self._client, self._random)
        if not self._settings.dry_run:
            await self._check_reservations()

        def learnt() -> None:
            self._scheduler.class_claims = class_claims
            self._scheduler.state.devices.serve_extended(class_claims)
            self._knows_version = True
            self._lead_if_complete()

        self._thread.hand_over(learnt)
        while True:  # permissions may change in either direction
            with contextlib.suppress(TimeoutError):
                await asyncio.wait_for(
                    self._reservations_refused.wait(), CHECK_AGAIN if self._no_reservations else None
                )
            self._reservations_refused.clear()
            await self._check_reservations()
            await asyncio.sleep(1)

    async def _check_reservations(self) -> None:
        """If they cannot be written, no node is reserved, and the reasons of starving jobs say why."""
        why = await reservation_problem(self._client, self._client.connection.namespace)
        if why == self._no_reservations:
            return
        self._no_reservations = why
        self.metrics.reservations_refused.set(int(bool(why)))
        if why:
            self._log.warning("not reserving nodes for starving jobs, because Reservations cannot be written", why=why)
        else:
            self._log.info("Reservations can be written")
        self._use(self._given_policy)

    def _scheduler_names(self) -> frozenset[str]:
        return frozenset(self._settings.scheduler_names)

    def _policy_text(self) -> PolicyText | None:
        if self._settings.policy_config_map:
            return ConfigMapText(self._client, self._settings.policy_config_map)
        return FileText(self._settings.policy) if self._settings.policy else None

    def _build(self, policy: Policy) -> None:
        settings = self._settings
        self._given_policy = policy
        state = ClusterState(
            settings.scheduler_names,
            column_bytes=settings.column_memory << 20,
            budget=settings.scheduling_budget or None,
        )
        self._observer = LoopObserver(self._log, self.metrics, dry_run=settings.dry_run)
        groups: dict[ObjectKey, str] = {}
        kube = KubeWorld(
            self._sockets,
            self._queue,
            self._courier.send,
            groups=groups,
            max_unanswered=settings.max_in_flight_binds,
            bind_volumes_timeout=settings.bind_volumes_timeout,
            term=lambda: self._deciding_term,
        )
        self._world: KubeWorld | DryWorld = DryWorld() if settings.dry_run else kube
        self._thread.may_decide = lambda: self._world.has_capacity
        self._scheduler = SchedulerLoop(
            self._world,
            self._thread,
            policy,
            state=state,
            rhythm=Rhythm(min_interval=int(settings.min_interval * SECOND), reasons_rest=REASONS_REST),
            listeners=[self._observer],
            makes_claims=False,
            writes_first=True,
        )
        self._scheduler.lead(False)
        self._gangs = GangGuard(
            state,
            self._scheduler.store,
            self._thread,
            int(settings.gang_bind_timeout * SECOND),
            self._carry_out,
            self._gang_timed_out,
            catch_up=self._scheduler.catch_up,
            dry_run=settings.dry_run,
        )
        claims = ClaimGuard(state, self._scheduler.store, self._carry_out)
        self._device_check = DeviceCheck(state, self._scheduler.store, claims, self._scheduler.catch_up)
        self._volume_waits = VolumeWaits(state, self._scheduler.store)
        self._scheduler.listeners += [self._gangs, claims]
        if not settings.dry_run:
            self._add_writers(state, groups)
        kube.reports = self
        self._feed = Feed(SCHEDULER_KINDS, self._scheduler, self._scheduler.store, self._listed, groups)
        self._pending = PendingPods(settings.scheduler_names)
        debug = DebugPages(self._thread, self._scheduler, self._facts)
        self._scheduler.listeners += [self._pending, debug]
        self.health.add("/debug/state", debug.state, refusal)
        self.health.add("/debug/plan", debug.plan, refusal)
        if settings.shadow_policy:
            shadow = load_policy(settings.shadow_policy, default_registry().catalog)
            debug.shadow = ShadowPolicy(shadow, state, settings.shadow_every, self._log, self.metrics)
        self._shadow = debug.shadow
        if settings.feed_socket:
            self._viewer = ViewerFeed(
                settings.feed_socket,
                FeedHead(self._client.connection.server, tuple(settings.scheduler_names)),
                self._scheduler.store.told,
                self._viewer_facts,
                self._thread.hand_over,
                lost=self._page_lost,
            )
            self._viewer.start(policy)
            self._scheduler.listeners.append(self._viewer)
        if settings.record:
            folder = Path(settings.record)
            names = settings.scheduler_names
            self._recorder = LiveRecorder(
                folder, settings.record_megabytes, self._scheduler, names, self._recording_failed
            )
            self._scheduler.listeners.append(self._recorder)
        if self._shadow is not None:  # after all that read reasons: its cycle ends the one that they are about
            self._scheduler.listeners.append(self._shadow)

    def _add_writers(self, state: ClusterState, groups: dict[ObjectKey, str]) -> None:
        """Add the writers of statuses and events as listeners of the loop."""
        store = self._scheduler.store
        maker = EventMaker(socket.gethostname(), lambda: uuid4().hex[:16])
        outbox = Outbox(
            self._sockets,
            self._queue,
            self._courier.send,
            status_failed=self._status_refused,
            event_failed=maker.forget,
        )
        self._statuses = StatusWriter(state, store, groups, outbox.statuses)
        self._events = EventWriter(
            state, store, groups, maker, outbox.events, lone_pods=self._settings.scheduled_events
        )
        conflicts = DeviceConflictWriter(state, store, outbox.statuses, self._events.warn)
        self._late = StatusTimer(self._thread, self._statuses, self._events)
        self._scheduler.listeners += [self._statuses, self._events, self._late, conflicts]

    def _status_refused(self, key: ObjectKey) -> None:
        again = self._statuses.failed(key, self._thread.now())
        if again is not None:
            self._thread.call_at(again, self._scheduler.explain)

    def _recording_failed(self, why: str) -> None:
        self._log.error("recording stopped; scheduling continues", why=why)

    def _page_lost(self, why: str) -> None:
        self._log.warning("the page was disconnected; scheduling continues", why=why)

    def _facts(self) -> dict[str, Any]:
        """Fields of `/debug/state` about this replica. On the loop's thread."""
        return {
            "leads": self._leads,
            "isComplete": self._complete,
            "unanswered": self._world.unanswered,
            "waitingJobs": len(self._scheduler.state.waiting),
            "policy": self._scheduler.policy.source,
        }

    def _viewer_facts(self) -> ProgramFacts:
        """From any thread."""
        stalled = self._thread.stalled_for()
        return program_facts(self.metrics, self._log, self._leads, self._world.unanswered, self._shadow, stalled)

    def _use(self, policy: Policy) -> None:
        self._given_policy = policy
        why = self._no_reservations
        policy = replace(policy, no_reservations=f"Reservations cannot be written ({why})" if why else "")
        self._thread.hand_over(partial(self._scheduler.use, policy))
        if self._viewer is not None:
            self._viewer.use(policy)

    # -- reports to a hub --------------------------------------------------------------------------------------

    async def _report_to(self, hub: Connection) -> None:
        self._hub = ApiClient(hub)
        try:
            await self._hub.check()
        except NoAnswerError as error:  # a credential plugin failed: that may pass, and each report logs it
            self._log.warning("the hub cannot be reached yet", why=error.message)
        self._reporter = HubReporter(
            self._hub,
            self._settings.report_as,
            self._settings.report_lifetime,
            self._log,
            may_write=self._may_write,
            clock=wall_clock,
            interval=INTERVAL,
        )
        self._scheduler.listeners.append(self._placement_pods)
        self._thread.hand_over(self._report)

    def _report(self) -> None:
        """Offer a report, every `INTERVAL` while this replica leads. On the loop's thread."""
        now = self._thread.now()
        if self._reporter is not None and self._complete and self._leads:
            state = self._scheduler.state
            made = member_report(state, self._placement_pods, now)
            points = member_scores(state) if self._settings.report_scores else None
            self._sockets.call_soon_threadsafe(self._reporter.offer, made, points)
        self._thread.call_at(now + int(INTERVAL * SECOND), self._report)

    async def _close(self) -> None:
        await super()._close()
        if self._reporter is not None:
            await self._hub.close()

    # -- between the threads -----------------------------------------------------------------------------------

    def _deliver(self, delivery: Delivery) -> None:
        super()._deliver(delivery)
        if delivery.kind.name == "ResourceClaim":
            self._courier.send(self._device_check.look)
        elif delivery.kind.name in ("PersistentVolumeClaim", "PersistentVolume", "Pod"):
            self._courier.send(partial(self._look_at_volumes, delivery))

    # -- on the loop's thread ----------------------------------------------------------------------------------

    def check_devices(self, bind: Bind, versions: Versions, answer: Callable[[str], None]) -> None:
        """Called when the claims of a pod are allocated and it is about to be bound."""
        self._device_check.ask(bind, versions, answer)

    def _look_at_volumes(self, delivery: Delivery) -> None:
        waits = self._volume_waits
        if waits.is_empty:
            return
        if delivery.is_list:
            waits.look_at_all()
        else:
            waits.look([_key(item.last if isinstance(item, Gone) else item) for item in delivery.items])

    def await_volumes(self, bind: Bind, versions: Versions, answer: Callable[[str], None]) -> None:
        """All is written that a pod's volumes need to be bound."""
        self._volume_waits.ask(bind, versions, answer)

    def volumes_refused(self, bind: Bind, why: str) -> None:
        self._volume_waits.refused(bind, why)

    def _catch_up(self) -> None:
        self._scheduler.catch_up()

    def _lead_if_complete(self) -> None:
        leads = self._complete and self._leads and self._knows_version
        self._scheduler.lead(leads)
        self._gangs.lead(leads)
        if self._late is not None:
            self._late.lead(leads)

    def _carry_out(self, changes: Sequence[Change]) -> None:
        """Carry out changes that are in no plan: evictions of half-bound gangs, and released claims."""
        self._observer.wrote(changes)
        self._world.carry_out(changes)

    def _gang_timed_out(self, job: Job, why: str) -> None:
        if self._settings.dry_run:
            return
        self.metrics.broken_gangs.inc()
        self._events.gang_timed_out(job, why, self._thread.now())
        self._log.warning("gang evicted because it could not be completed in time", job=job.key, why=why)

    def ended(self, change: Change, ending: Ending) -> None:
        """Take the outcome of a change."""
        if ending.result is WriteResult.DONE:
            self._observer.settled(change)
            self._scheduler.settled(change, ending.version)
            return
        if isinstance(change, Bind) and change.binding.volumes:
            self._say_not_bound(change, ending.why)
        if isinstance(change, Evict):
            self._eviction_refused(change, ending)
        else:
            if isinstance(change, WriteReservation) and not self._no_reservations:
                self._sockets.call_soon_threadsafe(self._reservations_refused.set)
            if isinstance(change, WriteStops):
                record = f"{change.key[1]}/{change.key[2]}"
                self._log.warning("cannot record an eviction; its job is not protected", record=record, why=ending.why)
            self._scheduler.refused(change, ending.why)

    def _say_not_bound(self, change: Bind, why: str) -> None:
        """A pod that was to be bound with its volumes is not. The next plan may place it again at once, so that no
        reason would ever show why it takes so long: the pod gets an event.
        """
        if not self._settings.dry_run:
            _, namespace, name = change.key
            about = Regarding("v1", "Pod", namespace, name, change.uid)
            self._events.warn(about, "FailedScheduling", "Binding", why, self._thread.now())

    def _eviction_refused(self, change: Evict, ending: Ending) -> None:
        scheduler, now = self._scheduler, self._thread.now()
        held = hold_budgets(scheduler.store, change) if ending.by_budget else 0
        if ending.by_budget and not held:
            # No budget that we know of explains it: deciding at once would only request the same eviction again.
            later = now + int(LONG_PAUSE * SECOND)
            self._thread.call_at(later, partial(scheduler.refused, change, ending.why))
            return
        scheduler.refused(change, ending.why)
        withdrawn = withdrawals(scheduler.state, scheduler.store, change, now)
        if withdrawn:
            scheduler.store.sent(withdrawn)
            self._world.carry_out(withdrawn)

    # -- policies ----------------------------------------------------------------------------------------------

    def policy_used(self, source: str, warnings: tuple[str, ...]) -> None:
        self.metrics.policy_reloads.labels("used").inc()
        self._log.info("policy in use", source=source)
        for warning in warnings:
            self._log.warning(warning, source=source)

    def policy_refused(self, source: str, why: str) -> None:
        self.metrics.policy_reloads.labels("refused").inc()
        self._log.error("policy rejected; the previous one stays in use", source=source, why=why)
        self._thread.hand_over(partial(self._say_policy_refused, source, why))

    def _say_policy_refused(self, source: str, why: str) -> None:
        """Write an event about the ConfigMap, or about the lease if the policy is a file. On the loop's thread."""
        if self._settings.dry_run:
            return
        if self._settings.policy_config_map:
            namespace, name = self._settings.policy_config_map.split("/")[:2]
            about = Regarding("v1", "ConfigMap", namespace, name, "")
        else:
            chosen = self._settings.leader_election
            namespace = chosen.namespace or self._client.connection.namespace
            about = Regarding(LEASES, "Lease", namespace, chosen.name, "")
        self._events.warn(about, "PolicyRefused", "Reloading", f"{source}: {why}", self._thread.now())

    def _metrics_text(self) -> bytes:
        if not self._settings.dry_run:
            self.metrics.events_dropped.set(self._events.dropped)
        self._pending.show(self.metrics.pending_pods)
        self.metrics.unanswered.set(self._world.unanswered)
        return self.metrics.text()


def _key(item: ApiObject | ObjectKey) -> ObjectKey:
    return item if isinstance(item, tuple) else kinds.key(item)
