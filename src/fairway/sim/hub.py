"""The hub of a simulated fleet: the placements of jobs, decided by the same `place` that decides on a real one.

Each job has a Placement of its own, which chooses one cluster. A job of which no pod has a node follows its decision;
once a pod has one the job stays in its cluster, and its decision with it.
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from typing import Protocol

from msgspec.structs import replace

from fairway.api.fleet import (
    ManagedCluster,
    ManagedClusterSelector,
    ManagedClusterSet,
    ManagedClusterSetBinding,
    ManagedClusterSetBindingSpec,
    ManagedClusterSetSpec,
    Placement,
    PlacementDecision,
    PlacementSpec,
)
from fairway.api.meta import LabelSelector, ObjectMeta
from fairway.clock import SECOND, Micros
from fairway.fleet import FleetState, place
from fairway.fleet.names import SET_LABEL, USED_BY_NAME, USED_BY_NAMESPACE
from fairway.fleet.plan import Outcome
from fairway.resources.quantity import format_amount
from fairway.sim.loop import EventLoop, Rank
from fairway.sim.scenario.checks import placement_spec
from fairway.sim.scenario.model import PlacementTemplate
from fairway.sim.virtual_jobs import SimJob, total

PAUSE: Micros = SECOND
"""Delay before placements that others have overtaken are decided again."""
ALL_CLUSTERS = "global"
"""The set of all clusters of the fleet."""


class FleetClusters(Protocol):
    """The clusters that jobs are sent to."""

    def enter(self, cluster: str, job: SimJob) -> None: ...

    def leave(self, cluster: str, job: SimJob) -> None: ...


class PlacedJob:
    """An unfinished job. `cluster` is "" while none is chosen."""

    __slots__ = ("cluster", "decisions", "job", "placement", "started")

    def __init__(self, job: SimJob, placement: Placement) -> None:
        self.job = job
        self.placement = placement
        self.cluster = ""
        self.started = False
        self.decisions: Sequence[PlacementDecision] = ()


class Hub:
    """The placements of jobs."""

    def __init__(self, loop: EventLoop, clusters: FleetClusters, templates: Sequence[PlacementTemplate]) -> None:
        self.jobs: dict[str, PlacedJob] = {}
        self.pods: set[str] = set()
        """Names of the pods of all jobs, which must be unique across clusters."""
        self.decided = 0
        """The number of placements decided."""
        self.used: set[str] = set()
        """Templates by which a job was placed."""
        self._loop = loop
        self._clusters = clusters
        self._state = FleetState([_cluster_set(ALL_CLUSTERS)])
        self._bound: dict[str, set[str]] = {}
        self._sets = {ALL_CLUSTERS}
        self._templates: dict[str, tuple[PlacementTemplate, PlacementSpec]] = {}
        for template in templates:
            self._templates |= dict.fromkeys(template.namespaces or ("",), (template, placement_spec(template)))
        self._planned: tuple[Micros, int] | None = None

    @property
    def unplaced(self) -> int:
        return sum(not entry.cluster for entry in self.jobs.values())

    @property
    def will_decide(self) -> bool:
        return self._planned is not None

    def report(self, cluster: ManagedCluster) -> None:
        """Updates a cluster from its report."""
        name = cluster.metadata.labels.get(SET_LABEL)
        if name is not None and name not in self._sets:
            self._sets.add(name)
            self._state.upsert(_cluster_set(name))
        self._state.upsert(cluster)
        self._look_at(self._loop.now)

    def submit(self, job: SimJob) -> None:
        """A job arrives: a cluster is chosen for it at this instant, if possible."""
        namespace, name = job.key.split("/", 1)
        for missing in self._sets - self._bound.setdefault(namespace, set()):
            self._bound[namespace].add(missing)
            meta = ObjectMeta(name=missing, namespace=namespace)
            self._state.upsert(ManagedClusterSetBinding(ManagedClusterSetBindingSpec(missing), meta))
        placement = self._placement(job, namespace, name)
        self.jobs[job.key] = PlacedJob(job, placement)
        self.pods.update(pod.key for pod in job.pods)
        if placement.spec.requirements:  # only then it matters what its pods use
            _label(job, {USED_BY_NAMESPACE: namespace, USED_BY_NAME: name})
        self._state.upsert(placement)
        self._look_at(self._loop.now)

    def started(self, key: str) -> None:
        """A pod of a job has a node: its decision is fixed until the job is done."""
        entry = self.jobs[key]
        if entry.started:
            return
        entry.started = True
        self._state.delete(entry.placement)
        for decision in entry.decisions:
            self._state.upsert(decision)

    def finished(self, key: str) -> None:
        entry = self.jobs.pop(key)
        self.pods.difference_update(pod.key for pod in entry.job.pods)
        for decision in entry.decisions:
            self._state.delete(decision)
        self._look_at(self._loop.now)

    def _placement(self, job: SimJob, namespace: str, name: str) -> Placement:
        found = self._templates.get(namespace) or self._templates.get("")
        spec, notes = PlacementSpec(number_of_clusters=1), {}
        if found is not None:
            template, spec = found
            self.used.add(template.name)
            notes = template.annotations
            if template.requires_free:
                amounts = total([pod.amounts for pod in job.pods])
                texts = {name: format_amount(name, amount) for name, amount in amounts.items() if name != "pods"}
                spec = replace(spec, requirements=texts)
        return Placement(metadata=ObjectMeta(name=name, namespace=namespace, annotations=notes), spec=spec)

    def _look_at(self, when: Micros) -> None:
        """Decide at a time, after all other events of that instant."""
        if self._planned is not None:
            if self._planned[0] <= when:
                return
            self._loop.cancel(self._planned[1])
        self._planned = when, self._loop.plan(when, Rank.PASS, self._decide, None)

    def _decide(self, _: None) -> None:
        self._planned = None
        now = self._loop.now
        if self._state.affected(now):
            plan = place(self._state, now)
            self._state.apply(plan)
            self.decided += len(plan.outcomes)
            for outcome in plan.outcomes:
                self._carry_out(outcome)
        if self._state.affected(now):  # by what was just decided
            self._look_at(now + PAUSE)
        elif instants := [instant for _, instant in self._state.rechecks() if instant > now]:
            self._look_at(min(instants))

    def _carry_out(self, outcome: Outcome) -> None:
        entry = self.jobs["/".join(outcome.key)]
        entry.decisions = outcome.slices
        chosen = next((item.cluster for item in outcome.decisions), "")
        before, entry.cluster = entry.cluster, chosen
        if chosen == before:
            return
        if before:
            self._clusters.leave(before, entry.job)
        if chosen:
            self._clusters.enter(chosen, entry.job)


def _cluster_set(name: str) -> ManagedClusterSet:
    if name != ALL_CLUSTERS:
        return ManagedClusterSet(metadata=ObjectMeta(name=name))
    selector = ManagedClusterSelector("LabelSelector", LabelSelector())
    return ManagedClusterSet(metadata=ObjectMeta(name=name), spec=ManagedClusterSetSpec(selector))


def _label(job: SimJob, labels: Mapping[str, str]) -> None:
    for pod in job.pods:
        meta = pod.pod.metadata
        pod.pod = replace(pod.pod, metadata=replace(meta, labels={**meta.labels, **labels}))
