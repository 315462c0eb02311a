"""`KubeProgram`: the life of a program that watches an API server, decides, and writes.

There are two threads (spec K5). The main thread runs the event loop and owns sockets, signals, the lease and time
limits; the other one owns the state and decides. An error on the deciding thread ends the process: a new process reads
everything it needs from the API server.
"""

from __future__ import annotations

import asyncio
import gc
import socket
import sys
import threading
import traceback
from abc import ABC, abstractmethod
from collections.abc import Coroutine, Sequence
from functools import partial
from random import Random
from typing import Annotated, Any, ClassVar, Protocol
from uuid import uuid4

import msgspec
from msgspec import Meta

from fairway.api.kinds import Kind
from fairway.app.health import HealthServer
from fairway.app.live.observing import ProgramMetrics, ReadingObserver, RequestObserver
from fairway.app.live.watchdog import StallWatchdog
from fairway.app.logs import RunLog, forward_library_logs
from fairway.app.stopping import finished_before_stop, stop_signals
from fairway.clock import wall_clock
from fairway.kube.http import ApiClient
from fairway.kube.lease import Elector, LeaseKeeper, LeaseSettings, boot_clock
from fairway.kube.reading import Delivery, Feed, ReadObserver, Reflector, Sharing
from fairway.kube.server import Connection
from fairway.kube.writing import Courier, LoopThread, WriteQueue, WriteRank

FINISH = 15.0
"""Seconds for the last cycle and its writes after the signal to stop; a pod has 30 by default."""
LAST_CYCLE = 5.0
"""Seconds of these for the cycle. A plan that comes later is not carried out, and nothing is lost by that."""
FINISH_REPORTS = 2.0
"""Seconds for statuses and events after that."""
FAILED = 70
YOUNG = 100_000
"""New objects after which the garbage collector runs. Nearly all objects of a cycle are freed by reference counting at
once; with the default of 700, the collector would cost as much as a decision.
"""
SOME_YOUNG, TURNS_OF_YOUNG = 2_000, 1_000
"""New objects from which the collector runs between two cycles, and the number of such runs until it also visits the
survivors of earlier ones. It visits every element of a list: 100,000 objects with long lists, such as node affinity
with thousands of values, took 100 to 230 ms in the middle of a cycle.
"""
TURN = 0.0002
"""Seconds after which a thread must give up the interpreter lock. The default is 25 times as long, and a request loses
the lock several times: hardly any request would be sent while the other thread decides.
"""


Span = Annotated[float, Meta(ge=0, le=86400)]
"""A duration in seconds."""


def collect_young() -> None:
    """Collect garbage among new objects if there are enough of them."""
    young, turns, _ = gc.get_count()
    if gc.isenabled() and young >= SOME_YOUNG:
        gc.collect(0 if turns < TURNS_OF_YOUNG else 1)


class LeaderElection(msgspec.Struct, rename="camel", frozen=True, forbid_unknown_fields=True):
    """Only the replica that holds the lease decides. Durations are in seconds."""

    enabled: bool = True
    namespace: str = ""
    """Namespace of the lease; "" is that of the service account or of the context."""
    name: str = "fairway"
    duration: Annotated[int, Meta(ge=2, le=3600)] = 15
    renew_deadline: Annotated[int, Meta(ge=1, le=3600)] = 10
    retry: Annotated[int, Meta(ge=1, le=3600)] = 2


class ProgramSettings(Protocol):
    """The settings that every program has."""

    @property
    def connections(self) -> int: ...

    @property
    def dry_run(self) -> bool: ...

    @property
    def http_address(self) -> str: ...

    @property
    def leader_election(self) -> LeaderElection: ...

    @property
    def stall_timeout(self) -> float: ...

    @property
    def unhealthy_after(self) -> float: ...


class KubeProgram(ABC):
    """One run of a program. `run` returns the exit status."""

    kinds: ClassVar[tuple[Kind, ...]]
    """The kinds to watch."""

    def __init__(
        self,
        settings: ProgramSettings,
        connection: Connection,
        log: RunLog,
        metrics: ProgramMetrics,
        random: Random | None = None,
    ) -> None:
        self._common = settings
        self._client = ApiClient(connection)
        self._log = log
        self._random = random or Random()
        self._program_metrics = metrics
        self._thread = LoopThread()
        self._thread.on_idle = collect_young
        self._watchdog = StallWatchdog(self._thread, log, metrics, settings.stall_timeout, settings.unhealthy_after)
        self._complete = False
        self._leads = False
        self._failure: BaseException | None = None
        self._stop: asyncio.Event
        self._sockets: asyncio.AbstractEventLoop
        self._queue: WriteQueue
        self._courier: Courier
        self._lease: LeaseKeeper | None = None
        self._reading: list[tuple[Reflector, asyncio.Task[None]]] = []
        self._restarting: asyncio.Task[None] | None = None
        self._deciding_term = 0
        """The leadership term in which the loop's thread decides; a plan of an earlier term is not carried out."""
        self._feed: Feed
        self.health = HealthServer(self._is_healthy, self._is_ready, self._metrics_text)
        self.ready = threading.Event()
        """Set when all kinds have been listed; for tests."""

    # -- parts that a program adds ---------------------------------------------------------------------------------

    @abstractmethod
    async def _prepare(self) -> None:
        """Make all parts, including the feed; on the event loop's thread, before anything is read."""

    @abstractmethod
    def _lead_if_complete(self) -> None:
        """Start deciding if everything was read and this replica leads, else stop. On the loop's thread."""

    @abstractmethod
    def _catch_up(self) -> None:
        """Called when all kinds have been listed once. On the loop's thread."""

    def _tasks(self) -> Sequence[Coroutine[Any, Any, None]]:
        """Tasks that run beside reading and writing."""
        return ()

    async def _close(self) -> None:
        """Close connections, as the last step."""
        await self._client.close()

    def _scheduler_names(self) -> frozenset[str]:
        """The schedulers whose pending pods are kept; other pods are kept only if they have a node."""
        return frozenset()

    def _read_observer(self) -> ReadObserver:
        return ReadingObserver(self._log, self._program_metrics)

    # -- life ------------------------------------------------------------------------------------------------

    async def run(self) -> int:
        gc.set_threshold(YOUNG, 20, 100)
        gc.enable()
        sys.setswitchinterval(TURN)
        self._stop = asyncio.Event()
        self._sockets = asyncio.get_running_loop()
        forward_library_logs(self._log, "asyncio")
        with stop_signals(partial(self._sockets.call_soon_threadsafe, self.stop)):
            return await self._run()

    async def _run(self) -> int:
        if not await finished_before_stop(self._begin(), self._stop):  # nothing has been written yet
            await self._close()
            return self._exit_code()
        thread = threading.Thread(target=self._decide, name="fairway-loop", daemon=True)
        thread.start()
        self._read(self._reflectors())
        beside = (*self._tasks(), self._watchdog.run())
        tasks = [asyncio.create_task(self._guarded(task)) for task in beside]
        self._queue.start()
        try:
            if self._lease is None:
                self._led(True)
            else:
                tasks.append(asyncio.create_task(self._guarded(self._lease.keep())))
            await self._stop.wait()
            await self._finish()
        finally:
            tasks += [task for _, task in self._reading]
            for task in tasks:
                task.cancel()
            await asyncio.gather(*tasks, return_exceptions=True)
            if self._lease is not None:
                await self._release(self._lease)
            self._thread.stop()
            await asyncio.to_thread(thread.join, 1)
            await self._queue.stop()
            await self.health.close()
            await self._close()
        return self._exit_code()

    async def _begin(self) -> None:
        """Make all parts. This may send requests, which may take long."""
        await self._client.check()
        self._queue = WriteQueue(
            self._client.send, may_write=self._may_write, term=self._term_now, workers=self._common.connections
        )
        self._queue.on_request = RequestObserver(self._program_metrics)
        self._queue.on_bug = self._log_internal_error
        self._courier = Courier(self._sockets, self._thread.hand_over)
        self._lease = self._lease_keeper()
        await self._prepare()
        if self._common.http_address:
            await self.health.start(self._common.http_address)

    def stop(self) -> None:
        """Stop cleanly; on the event loop's thread."""
        if not self._stop.is_set():
            self._stop.set()
            self._log.info("stopping")

    async def _finish(self) -> None:
        """Decide nothing new, and write what was decided."""
        end = self._sockets.time() + FINISH
        decided = threading.Event()

        def last_decision() -> None:
            self._complete = False
            self._lead_if_complete()
            decided.set()

        if self._failure is None:
            self._thread.hand_over(last_decision)
            if not await asyncio.to_thread(decided.wait, LAST_CYCLE):
                self._log.warning("the last cycle did not finish in time")
        if not await self._queue.settle(WriteRank.RESERVATION, end - self._sockets.time()):
            self._log.warning("writes were not answered in time", writes=self._queue.unended(WriteRank.RESERVATION))
        await self._queue.settle(WriteRank.EVENT, FINISH_REPORTS)

    async def _release(self, lease: LeaseKeeper) -> None:
        """Release the lease so that a standby starts at once, but not while a write may still arrive."""
        if await self._queue.hold(FINISH_REPORTS):
            await lease.release()
        else:
            self._log.warning("not releasing the lease, because a write may still be in flight; it expires by itself")

    def _exit_code(self) -> int:
        if self._failure is None:
            self._log.info("stopped")
            return 0
        self._log_internal_error(self._failure)
        return FAILED

    def _log_internal_error(self, error: BaseException) -> None:
        lines = "".join(traceback.format_exception(error))
        self._log.error("this is an error in Fairway; please report it", traceback=lines)

    async def _guarded(self, task: Coroutine[Any, Any, None]) -> None:
        """Run a task; an error in it ends the program, which without its lease, or with an old policy, would only look
        alive.
        """
        try:
            await task
        except Exception as error:
            self._failure = self._failure or error
            self._stop.set()

    # -- parts -----------------------------------------------------------------------------------------------

    def _lease_keeper(self) -> LeaseKeeper | None:
        chosen = self._common.leader_election
        if not chosen.enabled or self._common.dry_run:
            return None
        lease = LeaseSettings(
            identity=f"{socket.gethostname()}_{uuid4()}",
            namespace=chosen.namespace or self._client.connection.namespace,
            name=chosen.name,
            duration=chosen.duration,
            renew_deadline=chosen.renew_deadline,
            retry=chosen.retry,
        )
        return LeaseKeeper(
            Elector(lease, boot_clock, wall_clock),
            self._client.send,
            self._led,
            cut_off=self._read_again,
            trouble=lambda why: self._log.warning("cannot acquire the lease", why=why),
        )

    def _reflectors(self) -> list[Reflector]:
        sharing = Sharing()
        observer = self._read_observer()
        return [
            Reflector(
                self._client,
                kind,
                self._deliver,
                observer,
                scheduler_names=self._scheduler_names(),
                sharing=sharing,
                random=self._random,
            )
            for kind in self.kinds
        ]

    def _read(self, reflectors: Sequence[Reflector]) -> None:
        self._reading = [(reflector, asyncio.create_task(reflector.run())) for reflector in reflectors]

    def _read_again(self) -> None:
        """List everything again before deciding: another replica may have led while the API server was unreachable, and
        a broken watch may not show that yet.
        """
        if not self._reading:
            return  # already in progress
        self._log.warning("the API server was unreachable; listing all objects again")
        reading, self._reading = self._reading, []
        for _, task in reading:
            task.cancel()
        self._courier.send(self._await_lists)

        async def restart() -> None:
            await asyncio.gather(*(task for _, task in reading), return_exceptions=True)
            for reflector, _ in reading:
                reflector.forget()
            if not self._stop.is_set():
                self._read([reflector for reflector, _ in reading])

        self._restarting = asyncio.create_task(restart())

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

    def _led(self, leads: bool) -> None:
        """This replica may decide, or may no longer."""
        self._leads = leads
        self._program_metrics.leads.set(int(leads))
        self._log.info("leading" if leads else "not leading")
        if not leads:
            self._queue.abandon()
        self._courier.send(partial(self._take_lead, self._term_now()))

    def _term_now(self) -> int:
        return 0 if self._lease is None else self._lease.elector.term

    def _may_write(self) -> bool:
        """Called before every write (spec K13): the clock decides, not the last message about the lease."""
        return self._leads if self._lease is None else self._lease.elector.may_write()

    # -- on the loop's thread ----------------------------------------------------------------------------------

    def _take_lead(self, term: int) -> None:
        self._deciding_term = term
        self._lead_if_complete()

    def _await_lists(self) -> None:
        self._complete = False
        self._feed.await_lists()
        self._lead_if_complete()

    def _listed(self) -> None:
        """All kinds have been listed once: decisions may start."""
        self._complete = True
        self._log.info("all kinds listed")
        self._catch_up()
        gc.freeze()
        self._program_metrics.ready.set(1)
        self.ready.set()
        self._lead_if_complete()

    # -- health ------------------------------------------------------------------------------------------------

    def _is_healthy(self) -> tuple[bool, str]:
        why = "a part of the program has failed" if self._failure is not None else self._watchdog.unhealthy()
        return not why, why or "ok"

    def _is_ready(self) -> tuple[bool, str]:
        if self._stop.is_set():
            return False, "stopping"
        if self._lease is not None and not self._lease.elector.is_known:
            return False, "the lease has not been read yet"
        awaited = self._feed.awaited
        return not awaited, f"not listed yet: {', '.join(awaited)}" if awaited else "ok"

    def _metrics_text(self) -> bytes:
        return self._program_metrics.text()
