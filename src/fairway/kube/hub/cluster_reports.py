"""What clusters report, as far as it needs to be watched: when a report ends, and whether it makes sense.

What makes no sense counts as not reported, which concerns that cluster alone. A condition on the ManagedCluster says
what is wrong, for as long as it is.
"""

from __future__ import annotations

from collections.abc import Iterable, Iterator
from typing import Protocol

from fairway.api.fleet import ManagedCluster
from fairway.api.kinds import ApiObject, ObjectKey
from fairway.clock import SECOND, Micros
from fairway.fleet import FleetState, reports
from fairway.fleet.names import REPORTED_AT
from fairway.kube.hub.status import cluster_write, condition_facts, report_condition, shown_report
from fairway.kube.requests.statuses import StatusWrite
from fairway.kube.throttle import INTERVAL, StatusThrottle

MOST_AHEAD = 60 * SECOND
"""That the clock of a cluster may be ahead of ours before its ManagedCluster says so."""
_AHEAD = (
    f"annotation {REPORTED_AT}: the cluster's clock is more than {MOST_AHEAD // SECOND} s ahead of the hub's;"
    " its reports count from when they come"
)


class KnownClusters(Protocol):
    def get(self, key: ObjectKey) -> ApiObject | None: ...


class ClusterReports:
    """See the module."""

    def __init__(self, throttle: StatusThrottle[ObjectKey]) -> None:
        self._throttle = throttle
        self._ends: dict[str, tuple[Micros, ManagedCluster]] = {}
        self._came: dict[str, tuple[Micros, Micros]] = {}
        """By cluster when its report was made, by its own clock, and when it came, by ours."""
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

    def trusted(self, cluster: ManagedCluster, now: Micros) -> ManagedCluster:
        """The cluster with what counts of its report."""
        end = self._end_of(cluster, now)
        return cluster if end is None or now < end else reports.untrusted(cluster)

    def _end_of(self, cluster: ManagedCluster, now: Micros) -> Micros | None:
        """No report counts for longer than its cluster said, from when it came: a silent cluster whose clock is an hour
        ahead would be trusted for that hour.
        """
        name, until, made = cluster.metadata.name, reports.ends_at(cluster), reports.made_at(cluster)
        if until is None or made is None:
            self._came.pop(name, None)
            return until
        came = self._came.get(name)
        if came is None or came[0] != made:
            came = self._came[name] = made, now
        return min(until, came[1] + max(0, until - made))

    def _is_ahead(self, name: str) -> bool:
        made, came = self._came.get(name, (0, 0))
        return made > came + MOST_AHEAD

    def _problems(self, cluster: ManagedCluster, state: FleetState) -> tuple[str, ...]:
        found = problems_of(state, cluster)
        return (*found, _AHEAD) if self._is_ahead(cluster.metadata.name) else found

    def seen(self, cluster: ManagedCluster, state: FleetState, now: Micros) -> None:
        """A cluster was taken in."""
        name = cluster.metadata.name
        end = self._end_of(cluster, now)
        if end is not None and end > now:
            self._ends[name] = end, cluster
        else:
            self._ends.pop(name, None)
        problems = self._problems(cluster, state)
        if problems:
            self._refused.add(name)
        else:
            self._refused.discard(name)
        if problems or shown_report(cluster) is not None:
            self._look.add(name)
            self._check_shown(cluster, now)

    def _check_shown(self, cluster: ManagedCluster, now: Micros) -> None:
        """Another program that writes all conditions takes ours away. What was written last may be on its way to us."""
        key = _key(cluster.metadata.name)
        last = self._throttle.last(key)
        if last is not None and last[1] + INTERVAL <= now and last[0] != condition_facts(shown_report(cluster)):
            self._throttle.forget(key)

    def gone(self, cluster: ManagedCluster) -> None:
        name = cluster.metadata.name
        self._ends.pop(name, None)
        self._came.pop(name, None)
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
            condition = report_condition(cluster, self._problems(cluster, state))
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
