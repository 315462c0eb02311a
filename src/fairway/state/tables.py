"""`ClusterTables`: all that is known of the cluster, by object and in columns; only the intake writes it."""

from __future__ import annotations

from collections.abc import Iterable, Iterator
from functools import cached_property

import numpy as np

from fairway.api.scheduling import PodDisruptionBudget
from fairway.resources.columns import Axis
from fairway.state import reader
from fairway.state.annotations import SHOWN, AnnotationProblems
from fairway.state.aside import SetAside
from fairway.state.derived import Derived, Log
from fairway.state.device_requests import DeviceFacts
from fairway.state.eviction_records import EvictionRecords
from fairway.state.history import RunHistory
from fairway.state.jobs import ON_NODE, Job, ReservationRecord, Task
from fairway.state.namespaces import Namespaces
from fairway.state.nodes import NodeTable
from fairway.state.pod_terms import PodTerms
from fairway.state.queues import QueueTree
from fairway.state.reservations import ReservationObjects
from fairway.state.topology import HyperNodes
from fairway.state.volumes import Volumes, VolumeUse
from fairway.state.waiting import WaitingIndex

CPU, MEMORY, PODS = 0, 1, 2
"""The rows that every axis begins with."""


class ClusterTables:
    """`scheduler_names` None means that every pod is scheduled here."""

    def __init__(self, scheduler_names: Iterable[str] | None = None) -> None:
        self.scheduler_names = None if scheduler_names is None else frozenset(scheduler_names)
        self.axis = Axis(("cpu", "memory", "pods"))
        self.nodes = NodeTable(self.axis)
        self.queues = QueueTree()
        self.namespaces = Namespaces()
        self.volumes = Volumes()
        self.volume_use = VolumeUse()
        self.devices = DeviceFacts()
        self.priorities = reader.Priorities()
        self.budgets: dict[str, PodDisruptionBudget] = {}
        self.tasks: dict[str, Task] = {}
        self.groups: dict[str, Job] = {}
        self.foreign: dict[str, Task] = {}
        self.nominations: dict[str, ReservationRecord] = {}
        self.reservations = ReservationObjects()
        self.eviction_records = EvictionRecords(lambda key: self.tasks.get(key))
        self.gates: dict[str, tuple[str, ...]] = {}
        """The scheduling gates of pods that have some, by pod."""
        self.indexed_pods = 0
        """Pods of jobs that carry an index."""
        self.annotation_problems = AnnotationProblems()
        self.aside = SetAside()
        """Objects that could not be taken in."""
        self.terms = PodTerms(self.namespaces.labels, self.pods)
        self.waiting = WaitingIndex(self.queues)
        self.derived = Derived(self)
        """All that is kept between cycles and can be made again."""
        self.broken_gangs: dict[Job, None] = {}
        """Gangs that have started and have fewer pods than their minimum by now."""
        self.changed_jobs: Log[Job] = Log()
        """Jobs that changed, for indexes of them."""

    @cached_property
    def hyper_nodes(self) -> HyperNodes:
        """Made when the first is seen, or a job asks for a topology."""
        return HyperNodes()

    @cached_property
    def history(self) -> RunHistory:
        """Made when the first run ends, or an estimate asks for past ones."""
        return RunHistory()

    def pods(self) -> Iterator[Task]:
        """All pods that may be on a node, those of other schedulers too."""
        yield from self.tasks.values()
        yield from self.foreign.values()

    def jobs(self) -> Iterator[Job]:
        """Every job: the groups, then the pods that are alone."""
        yield from self.groups.values()
        yield from (task.job for task in self.tasks.values() if task.job.alone)

    def job_of(self, kind: str, key: str) -> Job | None:
        """The job of a kind (PodGroup, Controller or Pod) and a key; a group that was not created yet is none."""
        if kind == "PodGroup":
            group = self.groups.get(key)
            return group if group is not None and group.group else None
        if kind == "Controller":
            implicit = self.groups.get(key)
            return implicit if implicit is not None and implicit.implicit else None
        task = self.tasks.get(key)
        return task.job if task is not None and task.job.alone else None

    def overrun_jobs(self) -> Iterator[Job]:
        """Jobs that are there and were once evicted for outliving their expected run time."""
        for reservation in self.reservations.with_overruns():
            named = reservation.spec.job_ref
            job = self.job_of(named.kind, f"{reservation.metadata.namespace}/{named.name}")
            if job is not None:
                yield job

    def warnings(self) -> list[str]:
        unknown = sorted(name for name in self.priorities.named if not self.priorities.known(name))
        return [
            *self.namespaces.warnings(),
            *self.devices.warnings(),
            *self.annotation_problems.warnings(),
            *self._lost_nodes(),
            *self.reservations.warnings(self.job_of),
            *self.aside.warnings(),
            *(f"priorityclass {name} not found: treated as if none were named" for name in unknown),
        ]

    def _lost_nodes(self) -> list[str]:
        """Pods of ours on nodes that are not there: they count in their queue as long as they are."""
        nodes = self.nodes
        lost: dict[str, int] = {}
        for row in np.flatnonzero(~nodes.alive[: len(nodes)]).tolist():
            count = sum(task.key in self.tasks and task.state in ON_NODE for task in nodes.tasks[row])
            if count:
                lost[nodes.names[row]] = count
        found = [
            f"node {name} does not exist, but {'1 pod is' if count == 1 else f'{count} pods are'} on it: counted in "
            f"{'its queue' if count == 1 else 'their queues'}"
            for name, count in sorted(lost.items())[:SHOWN]
        ]
        if len(lost) > SHOWN:
            found.append(f"{len(lost) - SHOWN} more nodes with pods do not exist")
        return found

    def reservation_of(self, task: Task) -> ReservationRecord | None:
        """The reservation that a waiting task's objects carry."""
        reserved = (task.job.reservations or {}).get(task.key)
        return self.nominations.get(task.key) if reserved is None else reserved
