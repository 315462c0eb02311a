"""`LiveScheduler`: connects the loop to an API server and runs until it is told to end.

Two threads (K5). The event loop has sockets, the lease and time limits, and is the main thread, for signals; the other
has the state and decides. Whatever ends the deciding thread ends the process: a new one knows all it needs from the
server.
"""

from __future__ import annotations

import asyncio
import contextlib
import gc
import signal
import socket
import threading
import traceback
from collections.abc import Sequence
from functools import partial
from random import Random
from uuid import uuid4

from fairway.api.kinds import ObjectKey
from fairway.api.policy import Policy, load_policy
from fairway.app.live.dry import DryWorld
from fairway.app.live.health import HealthServer
from fairway.app.live.logs import RunLog
from fairway.app.live.metrics import RunMetrics
from fairway.app.live.observing import LoopObserver, ReadingObserver, RequestObserver
from fairway.app.live.policies import ConfigMapText, FileText, PolicySource, PolicyText
from fairway.app.live.settings import RunSettings
from fairway.app.live.shadow import ShadowPolicy
from fairway.app.live.status_timer import StatusTimer
from fairway.clock import SECOND, wall_clock
from fairway.drive.change import Change, Evict
from fairway.drive.loop import Rhythm, SchedulerLoop
from fairway.kube.budgets import hold_budgets, withdrawals
from fairway.kube.claim_guard import ClaimGuard
from fairway.kube.client import ApiClient
from fairway.kube.connection import Connection
from fairway.kube.event_requests import EventMaker, Regarding
from fairway.kube.events import EventWriter
from fairway.kube.exchange import LONG_PAUSE, Ending, WriteResult
from fairway.kube.feed import Feed
from fairway.kube.gangs import GangGuard
from fairway.kube.lease import Elector, LeaseSettings, boot_clock
from fairway.kube.lease_keeper import LeaseKeeper
from fairway.kube.loop_thread import Courier, LoopThread
from fairway.kube.outbox import Outbox
from fairway.kube.paths import LEASES
from fairway.kube.reflector import Delivery, Reflector
from fairway.kube.served import SCHEDULER_KINDS
from fairway.kube.slim import Sharing
from fairway.kube.status import StatusWriter
from fairway.kube.world import KubeWorld
from fairway.kube.write_queue import WriteQueue, WriteRank
from fairway.scheduler.plugins.installed import default_registry
from fairway.state.cluster import ClusterState
from fairway.state.jobs import Job

FINISH = 20.0
"""Seconds that writes have to end after the signal to stop; a pod has 30 by default."""
FINISH_TALK = 2.0
"""Seconds for statuses and events after that."""
FAILED = 70
YOUNG = 100_000
"""New objects after which the garbage collector looks at them. Nearly all that a cycle makes is freed at once without
it; by default it would look after every 700, and cost as much as a decision.
"""


class LiveScheduler:
    """One run. `run` returns the exit code."""

    def __init__(
        self, settings: RunSettings, connection: Connection, log: RunLog, *, random: Random | None = None
    ) -> None:
        self._settings = settings
        self._client = ApiClient(connection)
        self._log = log
        self._random = random or Random()
        self.metrics = RunMetrics()
        self._thread = LoopThread()
        self._complete = False
        self._leads = False
        self._failure: BaseException | None = None
        self._stop: asyncio.Event
        self._sockets: asyncio.AbstractEventLoop
        self.health = HealthServer(self._is_healthy, self._is_ready, self._metrics_text)
        self.ready = threading.Event()
        """All kinds were listed; for tests."""

    # -- life ------------------------------------------------------------------------------------------------

    async def run(self) -> int:
        gc.set_threshold(YOUNG, 20, 100)
        self._stop = asyncio.Event()
        self._sockets = asyncio.get_running_loop()
        await self._client.check()
        source = PolicySource(self._policy_text(), self)
        policy = await source.first()
        self._build(policy)
        if self._settings.http_address:
            await self.health.start(self._settings.http_address)
        for number in (signal.SIGTERM, signal.SIGINT):
            with contextlib.suppress(ValueError, RuntimeError):  # only the main thread gets signals
                self._sockets.add_signal_handler(number, self.stop)
        thread = threading.Thread(target=self._decide, name="fairway-loop", daemon=True)
        thread.start()
        tasks = [asyncio.create_task(reflector.run()) for reflector in self._reflectors()]
        tasks.append(asyncio.create_task(source.watch(self._use, self._settings.policy_interval)))
        self._queue.start()
        try:
            if self._lease is None:
                self._led(True)
            else:
                tasks.append(asyncio.create_task(self._lease.keep()))
            await self._stop.wait()
            await self._finish()
        finally:
            for task in tasks:
                task.cancel()
            await asyncio.gather(*tasks, return_exceptions=True)
            if self._lease is not None:
                await self._lease.release()
            self._thread.stop()
            await asyncio.to_thread(thread.join, 10)
            await self._queue.stop()
            await self.health.close()
            await self._client.close()
        return self._exit_code()

    def stop(self) -> None:
        """On the event loop's thread: end cleanly."""
        if not self._stop.is_set():
            self._log.info("stopping")
            self._stop.set()

    async def _finish(self) -> None:
        """No new decision; what was decided is written; then others may know at once that we are gone."""
        decided = threading.Event()

        def last_decision() -> None:
            self._complete = False
            self._scheduler.lead(False)
            decided.set()

        if self._failure is None:
            self._thread.hand_over(last_decision)
            await asyncio.to_thread(decided.wait, FINISH)
        if not await self._queue.settle(WriteRank.RESERVATION, FINISH):
            self._log.warning("writes were not answered in time", writes=self._queue.unended(WriteRank.RESERVATION))
        await self._queue.settle(WriteRank.EVENT, FINISH_TALK)

    def _exit_code(self) -> int:
        if self._failure is None:
            self._log.info("stopped")
            return 0
        lines = "".join(traceback.format_exception(self._failure))
        self._log.error("this is an error in Fairway, please report it", traceback=lines)
        return FAILED

    # -- parts -----------------------------------------------------------------------------------------------

    def _policy_text(self) -> PolicyText | None:
        if self._settings.policy_config_map:
            return ConfigMapText(self._client, self._settings.policy_config_map)
        return FileText(self._settings.policy) if self._settings.policy else None

    def _build(self, policy: Policy) -> None:
        settings = self._settings
        state = ClusterState(settings.scheduler_names)
        self._observer = LoopObserver(self._log, self.metrics, dry_run=settings.dry_run)
        self._queue = WriteQueue(self._client.send, may_write=self._may_write, workers=settings.connections)
        self._queue.on_request = RequestObserver(self.metrics)
        self._courier = Courier(self._sockets, self._thread.hand_over)
        groups: dict[ObjectKey, str] = {}
        kube = KubeWorld(
            asyncio.get_running_loop(),
            self._queue,
            self._courier.send,
            groups=groups,
            most_unanswered=settings.max_in_flight_binds,
        )
        self._world: KubeWorld | DryWorld = DryWorld() if settings.dry_run else kube
        self._thread.may_decide = lambda: self._world.has_capacity
        self._scheduler = SchedulerLoop(
            self._world,
            self._thread,
            policy,
            state=state,
            rhythm=Rhythm(min_interval=int(settings.min_interval * SECOND)),
            listeners=[self._observer],
            makes_claims=False,
        )
        self._scheduler.lead(False)
        self._gangs = GangGuard(
            state,
            self._scheduler.store,
            self._thread,
            int(settings.gang_bind_timeout * SECOND),
            self._carry_out,
            self._gang_timed_out,
        )
        claims = ClaimGuard(state, self._scheduler.store, self._carry_out)
        self._scheduler.listeners += [self._gangs, claims]
        if not settings.dry_run:
            self._add_writers(state, groups)
        self._lease = self._lease_keeper()
        kube.reports = self
        self._feed = Feed(SCHEDULER_KINDS, self._scheduler, self._scheduler.store, self._listed, groups)
        if settings.shadow_policy:
            shadow = load_policy(settings.shadow_policy, default_registry().catalog)
            self._scheduler.listeners.append(
                ShadowPolicy(shadow, state, settings.shadow_every, self._log, self.metrics)
            )

    def _add_writers(self, state: ClusterState, groups: dict[ObjectKey, str]) -> None:
        """Statuses and events: listeners of the loop."""
        store = self._scheduler.store
        maker = EventMaker(socket.gethostname(), lambda: uuid4().hex[:16])
        outbox = Outbox(
            self._sockets,
            self._queue,
            self._courier.send,
            status_failed=lambda key: self._statuses.failed(key),
            event_failed=maker.forget,
        )
        self._statuses = StatusWriter(state, store, groups, outbox.statuses)
        self._events = EventWriter(state, store, groups, maker, outbox.event, lone_pods=self._settings.scheduled_events)
        self._scheduler.listeners += [self._statuses, self._events, StatusTimer(self._statuses, self._thread)]

    def _lease_keeper(self) -> LeaseKeeper | None:
        chosen = self._settings.leader_election
        if not chosen.enabled or self._settings.dry_run:
            return None
        lease = LeaseSettings(
            identity=f"{socket.gethostname()}_{uuid4()}",
            namespace=chosen.namespace or self._client.connection.namespace,
            name=chosen.name,
            duration=chosen.duration,
            renew_deadline=chosen.renew_deadline,
            retry=chosen.retry,
        )
        return LeaseKeeper(Elector(lease, boot_clock, wall_clock), self._client.send, self._led)

    def _reflectors(self) -> list[Reflector]:
        sharing = Sharing()
        observer = ReadingObserver(self._log, self.metrics)
        return [
            Reflector(
                self._client,
                kind,
                self._deliver,
                observer,
                scheduler_names=frozenset(self._settings.scheduler_names),
                sharing=sharing,
                random=self._random,
            )
            for kind in SCHEDULER_KINDS
        ]

    # -- between the threads -----------------------------------------------------------------------------------

    def _deliver(self, delivery: Delivery) -> None:
        self._courier.send(partial(self._feed.take, delivery))

    def _decide(self) -> None:
        """The deciding thread."""
        try:
            self._thread.run()
        except BaseException as error:
            self._failure = error
            self._sockets.call_soon_threadsafe(self._stop.set)

    def _use(self, policy: Policy) -> None:
        self._thread.hand_over(partial(self._scheduler.use, policy))

    def _led(self, leads: bool) -> None:
        """This replica may decide, or may not any more."""
        self._leads = leads
        self.metrics.leads.set(int(leads))
        self._log.info("leading" if leads else "not leading")
        self._thread.hand_over(self._lead_if_complete)

    def _may_write(self) -> bool:
        """Asked before every request that changes something (K13): the clock decides, not what we were told last."""
        return self._leads if self._lease is None else self._lease.elector.may_write()

    # -- on the loop's thread ----------------------------------------------------------------------------------

    def _listed(self) -> None:
        """All kinds were listed once: cycles may begin."""
        self._complete = True
        self._scheduler.catch_up()
        gc.collect()
        gc.freeze()
        self.metrics.ready.set(1)
        self.ready.set()
        self._lead_if_complete()

    def _lead_if_complete(self) -> None:
        leads = self._complete and self._leads
        self._scheduler.lead(leads)
        self._gangs.lead(leads)

    def _carry_out(self, changes: Sequence[Change]) -> None:
        self._world.carry_out(changes)

    def _gang_timed_out(self, job: Job, why: str) -> None:
        self.metrics.broken_gangs.inc()
        self._events.gang_timed_out(job, why, self._thread.now())
        self._log.warning("gang evicted: it could not be completed in time", job=job.key, why=why)

    def ended(self, change: Change, ending: Ending) -> None:
        """What became of a change."""
        if ending.result is WriteResult.DONE:
            self._observer.settled(change)
            self._scheduler.settled(change)
            return
        if isinstance(change, Evict):
            self._eviction_refused(change, ending)
        else:
            self._scheduler.refused(change, ending.why)

    def _eviction_refused(self, change: Evict, ending: Ending) -> None:
        scheduler, now = self._scheduler, self._thread.now()
        held = hold_budgets(scheduler.store, change) if ending.by_budget else 0
        if ending.by_budget and not held:
            # No budget of ours explains it: deciding at once would only ask for the same again.
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
        self._log.error("policy refused, the last good one stays in use", source=source, why=why)
        self._thread.hand_over(partial(self._say_policy_refused, source, why))

    def _say_policy_refused(self, source: str, why: str) -> None:
        """An event about the ConfigMap, or about the lease where the policy is a file. On the loop's thread."""
        if self._settings.dry_run:
            return
        if self._settings.policy_config_map:
            namespace, name = self._settings.policy_config_map.split("/")[:2]
            about = Regarding("v1", "ConfigMap", namespace, name, "")
        else:
            chosen = self._settings.leader_election
            namespace = chosen.namespace or self._client.connection.namespace
            about = Regarding(LEASES, "Lease", namespace, chosen.name, "")
        self._events.say(about, "PolicyRefused", "Reloading", f"{source}: {why}", self._thread.now())

    # -- health ------------------------------------------------------------------------------------------------

    def _is_healthy(self) -> tuple[bool, str]:
        return self._failure is None, "ok" if self._failure is None else "the deciding thread has ended"

    def _is_ready(self) -> tuple[bool, str]:
        if self._stop.is_set():
            return False, "stopping"
        if self._lease is not None and not self._lease.elector.is_known:
            return False, "the lease was not read yet"
        awaited = self._feed.awaited
        return not awaited, f"not listed yet: {', '.join(awaited)}" if awaited else "ok"

    def _metrics_text(self) -> bytes:
        if not self._settings.dry_run:
            self.metrics.events_dropped.set(self._events.dropped)
        self.metrics.unanswered.set(self._world.unanswered)
        return self.metrics.text()
