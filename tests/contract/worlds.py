"""Every world behind one face, so that a story can be played on each of them and compared.

A world here is made of objects and a policy, told what users do, and asked where pods are. The loop in it is always
the real one; only what carries changes out differs.
"""

from __future__ import annotations

from abc import ABC, abstractmethod
from random import Random
from typing import ClassVar

from msgspec.structs import replace

from fairway.api import kinds
from fairway.api.core import Node
from fairway.api.kinds import ApiObject, ObjectKey
from fairway.api.pods import Pod
from fairway.api.policy import Policy
from fairway.app.sandbox.engine import Sandbox
from fairway.app.sandbox.journal import Journal
from fairway.app.sandbox.world import run_time
from fairway.clock import SECOND, to_datetime
from fairway.drive.loop import World
from fairway.drive.scheduler_loop import SchedulerLoop
from fairway.sim.assertions import Evidence
from fairway.sim.live import LiveCluster, make_job, populate, settle
from fairway.sim.loop import EventLoop
from fairway.sim.node_timeline import NodeTimeline
from fairway.sim.scenario.model import Span, TimingPart
from fairway.sim.scheduling import rhythm_of, schedule
from fairway.sim.spans import Drawn
from fairway.sim.virtual_cluster import NodePool
from fairway.sim.virtual_jobs import identified
from fairway.state.reader import job_of
from support import sandboxes
from support.objects import NOW

TIMING = TimingPart(start_delay=Drawn("fixed", 2 * SECOND, 2 * SECOND), grace=Span(10 * SECOND))


class Played(ABC):
    """A world that a story is played on; times are seconds after its beginning."""

    name: ClassVar[str]

    @abstractmethod
    def submit(self, *objects: ApiObject) -> None: ...

    @abstractmethod
    def delete(self, key: ObjectKey) -> None: ...

    @abstractmethod
    def advance(self, seconds: float) -> None: ...

    @abstractmethod
    def objects(self) -> list[ApiObject]: ...

    @property
    @abstractmethod
    def scheduler(self) -> SchedulerLoop: ...

    @property
    @abstractmethod
    def world(self) -> World: ...

    def places(self) -> dict[str, str]:
        """Where each pod is; "" waits, and "n1!" is terminating there."""
        return {
            thing.metadata.name: thing.spec.node_name + ("!" if thing.metadata.deletion_timestamp else "")
            for thing in self.objects()
            if isinstance(thing, Pod) and thing.status.phase in ("Pending", "Running")
        }

    def of_kind(self, kind: str) -> list[str]:
        return sorted(thing.metadata.name for thing in self.objects() if kinds.key(thing)[0] == kind)


class InSandbox(Played):
    name = "sandbox"

    def __init__(self, objects: list[ApiObject], policy: Policy) -> None:
        self.sandbox: Sandbox = sandboxes.made(*objects, with_policy=policy)

    def submit(self, *objects: ApiObject) -> None:
        self.sandbox.apply(objects)

    def delete(self, key: ObjectKey) -> None:
        self.sandbox.delete([key])

    def advance(self, seconds: float) -> None:
        sandboxes.after(self.sandbox, seconds)

    def objects(self) -> list[ApiObject]:
        return self.sandbox.objects()

    @property
    def scheduler(self) -> SchedulerLoop:
        return self.sandbox._scheduler

    @property
    def world(self) -> World:
        return self.sandbox._cluster


class InVirtualTime(Played):
    """The simulator's cluster, without the sandbox's file, commands and threads."""

    name = "virtual"

    def __init__(self, objects: list[ApiObject], policy: Policy) -> None:
        self.loop = EventLoop(NOW)
        self.cluster = LiveCluster(self.loop, NodePool(), Journal(), NodeTimeline(), Evidence(NOW), TIMING, Random(0))
        settle(populate(objects, run_time), self.cluster)
        self._scheduler = schedule(self.cluster, policy, rhythm_of("events", SECOND, reasons=False))

    def submit(self, *objects: ApiObject) -> None:
        pods: dict[str, list[Pod]] = {}
        for thing in objects:
            if isinstance(thing, Pod):
                pods.setdefault(job_of(thing), []).append(self._stamped(thing))
            elif isinstance(thing, Node):
                self.cluster.join(thing)
            else:
                self.cluster.write(thing)
        for key, members in pods.items():
            namespace, _, name = key.partition("/")
            group = self.cluster.objects.get(("PodGroup", namespace, name))
            self.cluster.take_up(make_job(key, group, members, run_time), members)  # type: ignore[arg-type]

    def _stamped(self, pod: Pod) -> Pod:
        meta = replace(pod.metadata, creation_timestamp=to_datetime(self.loop.now))
        return identified(replace(pod, metadata=meta), self.loop.now)

    def delete(self, key: ObjectKey) -> None:
        if key[0] == "Pod":
            self.cluster.withdraw(self.cluster.pods[f"{key[1]}/{key[2]}"])
        elif key[0] == "Node":
            self.cluster.fail(key[2], None)
        else:
            self.cluster.erase(self.cluster.objects[key])

    def advance(self, seconds: float) -> None:
        self.loop.run(NOW + int(seconds * SECOND))

    def objects(self) -> list[ApiObject]:
        return list(self.cluster.objects.values())

    @property
    def scheduler(self) -> SchedulerLoop:
        return self._scheduler

    @property
    def world(self) -> World:
        return self.cluster


WORLDS: list[type[Played]] = [InSandbox, InVirtualTime]
