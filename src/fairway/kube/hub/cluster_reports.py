"""What clusters report, as far as it needs to be watched: when a report ends, and whether it makes sense.

What makes no sense counts as not reported, which concerns that cluster alone. A condition on the ManagedCluster says
what is wrong, for as long as it is.
"""

from __future__ import annotations

from collections.abc import Iterable, Iterator
from typing import Protocol

from fairway.api.fleet import ManagedCluster
from fairway.api.kinds import ApiObject, ObjectKey
from fairway.clock import Micros
from fairway.fleet import FleetState, reports
from fairway.kube.hub.status import cluster_write, condition_facts, report_condition, shown_report
from fairway.kube.status_requests import StatusWrite
from fairway.kube.throttle import StatusThrottle


class KnownClusters(Protocol):
    def get(self, key: ObjectKey) -> ApiObject | None: ...


class ClusterReports:
    """See the module."""

    def __init__(self, throttle: StatusThrottle[ObjectKey]) -> None:
        self._throttle = throttle
        self._ends: dict[str, tuple[Micros, ManagedCluster]] = {}
        self._look: set[str] = set()
        """Clusters whose condition may have to be written."""
        self._refused: set[str] = set()

    @property
    def refused(self) -> int:
        """How many clusters report something that makes no sense."""
        return len(self._refused)

    @property
    def next_end(self) -> Micros | None:
        return min((end for end, _ in self._ends.values()), default=None)

    def seen(self, cluster: ManagedCluster, state: FleetState, now: Micros) -> None:
        """A cluster was taken in."""
        name = cluster.metadata.name
        end = reports.ends_at(cluster)
        if end is not None and end > now:
            self._ends[name] = end, cluster
        else:
            self._ends.pop(name, None)
        problems = problems_of(state, cluster)
        if problems:
            self._refused.add(name)
        else:
            self._refused.discard(name)
        if problems or shown_report(cluster) is not None:
            self._look.add(name)

    def gone(self, cluster: ManagedCluster) -> None:
        name = cluster.metadata.name
        self._ends.pop(name, None)
        self._look.discard(name)
        self._refused.discard(name)
        self._throttle.forget(_key(name))

    def ended(self, now: Micros) -> list[ManagedCluster]:
        """Clusters whose report has just ended."""
        found = [(name, cluster) for name, (end, cluster) in self._ends.items() if end <= now]
        for name, _ in found:
            del self._ends[name]
        return [cluster for _, cluster in found]

    def look_at(self, name: str) -> None:
        self._look.add(name)

    def look_at_all(self, state: FleetState) -> None:
        self._look.update(state.clusters)

    def waiting(self) -> Iterable[ObjectKey]:
        return [_key(name) for name in self._look]

    def due(self, version: str, known: KnownClusters, state: FleetState, now: Micros) -> Iterator[StatusWrite]:
        """Conditions to write now."""
        for name in sorted(self._look):
            cluster = known.get(_key(name))
            if not isinstance(cluster, ManagedCluster):
                self._look.discard(name)
                continue
            condition = report_condition(cluster, problems_of(state, cluster))
            if condition is None:
                self._look.discard(name)
                continue
            facts, key = condition_facts(condition), _key(name)
            if self._throttle.is_due(key, facts, now, condition_facts(shown_report(cluster))):
                self._throttle.wrote(key, facts, now)
                yield cluster_write(version, cluster, condition, now)
            if self._throttle.next_look(key) is None:
                self._look.discard(name)


def problems_of(state: FleetState, cluster: ManagedCluster) -> tuple[str, ...]:
    """What is wrong with a cluster's report. `cluster` is as the cluster wrote it."""
    name = cluster.metadata.name
    error = state.aside.error(_key(name))
    if error:
        return (error,)
    slot = state.table.slots.get(name)
    facts = None if slot is None else state.table.facts[slot]
    return (*reports.problems(cluster), *(() if facts is None else facts.warnings))


def _key(name: str) -> ObjectKey:
    return "ManagedCluster", "", name
