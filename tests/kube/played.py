"""`OnServer`: a real API server behind the face that contract stories are played on.

The reflectors, the write queue and the world are the real ones; time is the story's own. Between two instants the world
comes to rest: every write has been answered, and what the scheduler has seen is what the server has. A player does
what kubelets and controllers would: pods start, end, leave after their grace period, and are made again where a node
is lost.
"""

from __future__ import annotations

import asyncio
import heapq
import json
import threading
from collections.abc import Callable, Coroutine, Sequence
from functools import partial
from itertools import count
from queue import Empty, SimpleQueue
from random import Random
from typing import Any

from msgspec.structs import replace

from contract.worlds import TIMING, Played
from fairway.api.kinds import ApiObject, ObjectKey
from fairway.api.pods import Pod
from fairway.api.policy import Policy
from fairway.app.sandbox.world import run_time
from fairway.clock import SECOND, Micros, to_datetime
from fairway.drive.change import Bind, Change
from fairway.drive.loop import World
from fairway.drive.scheduler_loop import SchedulerLoop
from fairway.errors import ApiError
from fairway.kube.http.client import ApiClient
from fairway.kube.http.exchange import Ending, WriteResult
from fairway.kube.kinds import SCHEDULER_KINDS
from fairway.kube.reading.decoding import ObjectDecoder, Sharing, is_kept
from fairway.kube.reading.feed import Feed
from fairway.kube.reading.reflector import Delivery, Gone, Reflector
from fairway.kube.reading.served import ServedKind, find_served
from fairway.kube.server.kubeconfig import find_connection
from fairway.kube.writing.world import KubeWorld, Versions
from fairway.kube.writing.write_queue import WriteQueue
from fairway.sim.scheduling import rhythm_of
from kube.cluster import eventually
from kube.controlplane.plane import ControlPlane
from support.objects import NOW, manifest

NAMES = frozenset({"fairway", "default-scheduler"})
GRACE: Micros = TIMING.grace or 0
Call = Callable[[], None]


class StoryTime:
    """A timer whose time the story moves."""

    def __init__(self) -> None:
        self.time: Micros = NOW
        self._calls: list[tuple[Micros, int, list[Call]]] = []
        self._numbers = count()

    def now(self) -> Micros:
        return self.time

    def call_at(self, when: Micros, call: Call) -> StoryCall:
        held = [call]
        heapq.heappush(self._calls, (max(when, self.time), next(self._numbers), held))
        return StoryCall(held)

    def next(self) -> Micros | None:
        while self._calls and not self._calls[0][2]:
            heapq.heappop(self._calls)
        return self._calls[0][0] if self._calls else None

    def run_due(self) -> None:
        while (when := self.next()) is not None and when <= self.time:
            heapq.heappop(self._calls)[2][0]()


class StoryCall:
    def __init__(self, held: list[Call]) -> None:
        self._held = held

    def cancel(self) -> None:
        self._held.clear()


class Sockets:
    """An event loop on a thread."""

    def __init__(self) -> None:
        self.loop = asyncio.new_event_loop()
        self._thread = threading.Thread(target=self.loop.run_forever, daemon=True)
        self._thread.start()

    def run(self, coroutine: Coroutine[Any, Any, Any]) -> Any:
        return asyncio.run_coroutine_threadsafe(coroutine, self.loop).result(120)

    def close(self) -> None:
        self.loop.call_soon_threadsafe(self.loop.stop)
        self._thread.join(30)
        self.loop.close()


class OnServer(Played):
    name = "server"

    def __init__(self, plane: ControlPlane, objects: list[ApiObject], policy: Policy) -> None:
        self.plane = plane
        self._inbox: SimpleQueue[Call] = SimpleQueue()
        self._born: dict[str, Micros] = {}
        self._started: set[str] = set()
        self._sockets = Sockets()
        self.time = StoryTime()
        self._client = ApiClient(find_connection(str(plane.kubeconfig("scheduler"))))
        found = self._sockets.run(find_served(self._client, SCHEDULER_KINDS))
        self._served: list[ServedKind] = [served for served in found.values() if served is not None]
        self._clear()
        self._sockets.run(self._start(policy))
        eventually(lambda: self._take() and not self._feed.awaited, "all kinds listed")
        self.submit(*objects)
        self._rest()

    async def _start(self, policy: Policy) -> None:
        self._queue = WriteQueue(self._client.send, workers=4, random=Random(0))
        groups: dict[ObjectKey, str] = {}
        loop = asyncio.get_running_loop()
        self._world = KubeWorld(loop, self._queue, self._inbox.put, groups=groups, max_unanswered=10_000)
        self._scheduler = SchedulerLoop(
            self._world, self.time, policy, rhythm=rhythm_of("events", SECOND, reasons=False)
        )
        self._world.reports = self
        self._feed = Feed(SCHEDULER_KINDS, self._scheduler, self._scheduler.store, group_versions=groups)
        self._queue.start()
        self._tasks = [
            asyncio.create_task(
                Reflector(
                    self._client, kind, self._deliver, self, scheduler_names=NAMES, sharing=Sharing(), random=Random(0)
                ).run()
            )
            for kind in SCHEDULER_KINDS
        ]

    def close(self) -> None:
        async def end() -> None:
            for task in self._tasks:
                task.cancel()
            await asyncio.gather(*self._tasks, return_exceptions=True)
            await self._queue.stop()
            await self._client.close()

        self._sockets.run(end())
        self._sockets.close()

    # -- reports -------------------------------------------------------------------------------------------

    def ended(self, change: Change, ending: Ending) -> None:
        if ending.result is WriteResult.DONE:
            self._scheduler.settled(change)
        else:
            self._scheduler.refused(change, ending.why)

    def check_devices(self, bind: Bind, versions: Versions, answer: Callable[[str], None]) -> None:
        """No other allocator is in these stories."""
        answer("")

    def await_volumes(self, bind: Bind, versions: Versions, answer: Callable[[str], None]) -> None:
        """Nor are volumes."""
        answer("")

    def volumes_refused(self, bind: Bind, why: str) -> None: ...

    def listed(self, *_: object) -> None: ...

    def not_installed(self, *_: object) -> None: ...

    def relists(self, *_: object) -> None: ...

    def left_out(self, kind: object, unreadable: object) -> None:
        raise AssertionError(unreadable)

    def failed(self, kind: object, error: ApiError, wait: float) -> None:
        """A kind that was just installed may ask for a moment; all else is a mistake, a right that is missing too."""
        assert error.status == 429, error

    def _deliver(self, delivery: Delivery) -> None:
        """Pods are as old as the story says, not the server's clock."""
        self._inbox.put(lambda: self._feed.take(delivery._replace(items=[self._aged(one) for one in delivery.items])))

    def _aged(self, item: ApiObject | Gone) -> ApiObject | Gone:
        if isinstance(item, Gone):
            return item
        born = to_datetime(self._born.setdefault(item.metadata.uid, self.time.time))
        aged: ApiObject = replace(item, metadata=replace(item.metadata, creation_timestamp=born))
        return aged

    # -- what users do -------------------------------------------------------------------------------------

    def submit(self, *objects: ApiObject) -> None:
        for thing in sorted(objects, key=lambda one: isinstance(one, Pod)):
            body = json.loads(json.dumps(manifest(thing), default=str))
            for name in ("uid", "resourceVersion", "creationTimestamp"):
                body["metadata"].pop(name, None)
            if isinstance(thing, Pod):
                for container in body["spec"]["containers"]:
                    container["image"] = "i"
            served = next(one for one in self._served if one.kind.name == body["kind"])
            self.plane.call("POST", self._path(served, body["metadata"].get("namespace", "")), body)

    def delete(self, key: ObjectKey) -> None:
        kind, namespace, name = key
        lost = [pod for pod in self._pods() if kind == "Node" and pod.spec.node_name == name]
        served = next(one for one in self._served if one.kind.name == kind)
        self.plane.call("DELETE", f"{self._path(served, namespace)}/{name}", {"gracePeriodSeconds": 0})
        for pod in lost:
            meta = pod.metadata
            self.plane.call("DELETE", self._pod_path(pod), {"gracePeriodSeconds": 0})
            self.submit(replace(pod, spec=replace(pod.spec, node_name=""), metadata=replace(meta, finalizers=())))

    def advance(self, seconds: float) -> None:
        end = NOW + int(seconds * SECOND)
        self._rest()
        while (when := self._next()) is not None and when <= end:
            self.time.time = max(when, self.time.time)
            self._play()
            self._rest()
        self.time.time = end
        self._rest()

    # -- the player ----------------------------------------------------------------------------------------

    def _next(self) -> Micros | None:
        times = [when for when, _ in self._actions()]
        planned = self.time.next()
        return min([*times, *([] if planned is None else [planned])], default=None)

    def _play(self) -> None:
        for when, act in self._actions():
            if when <= self.time.time:
                act()

    def _actions(self) -> list[tuple[Micros, Call]]:
        """What happens to pods on nodes if nothing else does: they leave, start or end."""
        found: list[tuple[Micros, Call]] = []
        for pod in self._pods():
            if not pod.spec.node_name or pod.status.phase not in ("Pending", "Running"):
                continue
            uid = pod.metadata.uid
            if pod.metadata.deletion_timestamp is not None:
                since = self._born.setdefault(f"{uid} leaves", self.time.time)
                found.append((since + GRACE, partial(self._leave, pod)))
                continue
            bound = self._born.setdefault(f"{uid} bound", self.time.time)
            if pod.status.phase == "Pending":
                found.append((bound + 2 * SECOND, partial(self._phase, pod, "Running")))
            elif (runs := run_time(pod, None)) is not None:
                found.append((bound + 2 * SECOND + runs, partial(self._phase, pod, "Succeeded")))
        return found

    def _leave(self, pod: Pod) -> None:
        self.plane.call("DELETE", self._pod_path(pod), {"gracePeriodSeconds": 0})

    def _phase(self, pod: Pod, phase: str) -> None:
        self.plane.call("PATCH", f"{self._pod_path(pod)}/status", {"status": {"phase": phase}}, kind="merge")

    # -- rest ----------------------------------------------------------------------------------------------

    def _rest(self) -> None:
        """Until nothing is left to happen at this instant."""

        def rests() -> bool:
            self._take()
            self.time.run_due()
            return not self._world.unanswered and self._inbox.empty() and self._has_seen_all() and self._is_idle()

        eventually(rests, "the world comes to rest")

    def _is_idle(self) -> bool:
        when = self.time.next()
        return self._inbox.empty() and not self._scheduler.store.is_dirty and (when is None or when > self.time.time)

    def _take(self) -> bool:
        try:
            while True:
                self._inbox.get_nowait()()
        except Empty:
            return True

    def _has_seen_all(self) -> bool:
        """Whether the store knows the newest version of everything."""
        seen = self._scheduler.store._seen
        for served in self._served:
            there = {(one.metadata.namespace, one.metadata.name): one for one in self._list(served)}
            known = {key[1:]: one for key, one in seen.get(served.kind.name, {}).items()}
            if served.kind.name == "PodGroup":
                known = {key: one for key, one in known.items() if key in there}
            versions = [{key: one.metadata.resource_version for key, one in side.items()} for side in (there, known)]
            if versions[0] != versions[1]:
                return False
        return True

    def _list(self, served: ServedKind) -> list[ApiObject]:
        body = json.dumps(self.plane.call("GET", served.path)).encode()
        return [thing for thing in ObjectDecoder(served).page(body).things if is_kept(thing, NAMES)]

    # -- looking -------------------------------------------------------------------------------------------

    def objects(self) -> list[ApiObject]:
        return [thing for served in self._served for thing in self._list(served)]

    @property
    def scheduler(self) -> SchedulerLoop:
        return self._scheduler

    @property
    def world(self) -> World:
        return _Waiting(self)

    def _pods(self) -> list[Pod]:
        served = next(one for one in self._served if one.kind.name == "Pod")
        return [thing for thing in self._list(served) if isinstance(thing, Pod)]

    def _pod_path(self, pod: Pod) -> str:
        return f"/api/v1/namespaces/{pod.metadata.namespace}/pods/{pod.metadata.name}"

    def _path(self, served: ServedKind, namespace: str) -> str:
        base, _, plural = served.path.rpartition("/")
        return f"{base}/namespaces/{namespace or 'default'}/{plural}" if served.kind.namespaced else served.path

    def _clear(self) -> None:
        """What stories before this one left."""
        for served in self._served:
            if served.kind.name in ("Pod", "Node", "Queue", "PodGroup", "Reservation"):
                for thing in self.plane.call("GET", served.path)["items"]:
                    meta = thing["metadata"]
                    path = f"{self._path(served, meta.get('namespace', ''))}/{meta['name']}"
                    self.plane.call("DELETE", path, {"gracePeriodSeconds": 0})


class _Waiting:
    """The world, for stories that look at once at what became of a change."""

    def __init__(self, played: OnServer) -> None:
        self._played = played

    def carry_out(self, changes: Sequence[Change]) -> None:
        self._played._world.carry_out(changes)
        eventually(lambda: self._played._take() and not self._played._world.unanswered)
