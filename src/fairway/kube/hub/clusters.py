"""Reports of clusters to their hub: until when each is valid, and whether it is plausible.

An implausible value counts as not reported, which concerns that cluster alone. A condition on the ManagedCluster says
what is wrong, for as long as it is.
"""

from __future__ import annotations

from collections.abc import Iterable, Iterator
from typing import Protocol

from fairway.api.fleet import ManagedCluster
from fairway.api.kinds import ApiObject, ObjectKey
from fairway.api.meta import Condition
from fairway.clock import SECOND, Micros, to_datetime
from fairway.fleet import FleetState, reports
from fairway.fleet.names import REPORT_CONDITION, REPORTED_AT
from fairway.kube.http.exchange import ApiRequest, encoded
from fairway.kube.http.paths import object_path
from fairway.kube.hub.placements import MAX_MESSAGE, condition_body, since
from fairway.kube.requests.statuses import StatusWrite
from fairway.kube.throttle import INTERVAL, StatusFacts, StatusThrottle

MANAGER = "fairway-fleet"
APPLY = "application/apply-patch+yaml"
MAX_AHEAD = 60 * SECOND
"""How far the clock of a cluster may be ahead of ours before its ManagedCluster says so."""
_AHEAD = (
    f"annotation {REPORTED_AT}: the cluster's clock is more than {MAX_AHEAD // SECOND} s ahead of the hub's;"
    " its reports count from when they come"
)


class ClusterLookup(Protocol):
    def get(self, key: ObjectKey) -> ApiObject | None: ...


class ClusterReports:
    """Validity and conditions of all clusters' reports."""

    def __init__(self, throttle: StatusThrottle[ObjectKey]) -> None:
        self._throttle = throttle
        self._ends: dict[str, tuple[Micros, ManagedCluster]] = {}
        self._came: dict[str, tuple[Micros, Micros]] = {}
        """By cluster: when its report was made, by its own clock, and when it arrived, by ours."""
        self._look: set[str] = set()
        """Clusters whose condition may have to be written."""
        self._refused: set[str] = set()

    @property
    def refused(self) -> int:
        """How many clusters have an implausible report."""
        return len(self._refused)

    @property
    def next_end(self) -> Micros | None:
        return min((end for end, _ in self._ends.values()), default=None)

    def trusted(self, cluster: ManagedCluster, now: Micros) -> ManagedCluster:
        """The cluster with the valid part of its report."""
        end = self._end_of(cluster, now)
        return cluster if end is None or now < end else reports.untrusted(cluster)

    def _end_of(self, cluster: ManagedCluster, now: Micros) -> Micros | None:
        """A report is valid for as long as its cluster said, counted from when it arrived: a silent cluster whose clock
        is an hour ahead would otherwise be trusted for that hour.
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
        return made > came + MAX_AHEAD

    def _problems(self, cluster: ManagedCluster, state: FleetState) -> tuple[str, ...]:
        problems = problems_of(state, cluster)
        return (*problems, _AHEAD) if self._is_ahead(cluster.metadata.name) else problems

    def seen(self, cluster: ManagedCluster, state: FleetState, now: Micros) -> None:
        """A cluster was taken into the state."""
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
        """Another program that writes all conditions removes ours. An object may not show a recent write yet."""
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
        ended = [(name, cluster) for name, (end, cluster) in self._ends.items() if end <= now]
        for name, _ in ended:
            del self._ends[name]
        return [cluster for _, cluster in ended]

    def look_at(self, name: str) -> None:
        self._look.add(name)

    def look_at_all(self, state: FleetState) -> None:
        self._look.update(state.clusters)

    def waiting(self) -> Iterable[ObjectKey]:
        return [_key(name) for name in self._look]

    def due(self, version: str, clusters: ClusterLookup, state: FleetState, now: Micros) -> Iterator[StatusWrite]:
        """Conditions to write now."""
        for name in sorted(self._look):
            cluster = clusters.get(_key(name))
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
    """The problems of a cluster's report. `cluster` is as the cluster wrote it."""
    name = cluster.metadata.name
    error = state.aside.error(_key(name))
    if error:
        return (error,)
    slot = state.table.slots.get(name)
    facts = None if slot is None else state.table.facts[slot]
    return (*reports.problems(cluster), *(() if facts is None else facts.warnings))


# -- the condition of a cluster -------------------------------------------------------------------------------------


def report_condition(cluster: ManagedCluster, problems: Iterable[str]) -> Condition | None:
    """The condition for a cluster's report; None: there are no problems, and there is no condition to clear."""
    prefix = f"cluster {cluster.metadata.name}: "
    texts = [text.removeprefix(prefix) for text in problems]
    if texts:
        return Condition(REPORT_CONDITION, "False", "InvalidReport", "; ".join(texts)[:MAX_MESSAGE])
    if shown_report(cluster) is None:
        return None
    return Condition(REPORT_CONDITION, "True", "ReportAccepted", "all that the cluster reports can be used")


def shown_report(cluster: ManagedCluster) -> Condition | None:
    return next((one for one in cluster.status.conditions if one.type == REPORT_CONDITION), None)


def condition_facts(condition: Condition | None) -> StatusFacts:
    return StatusFacts() if condition is None else StatusFacts((condition.status, condition.reason), condition.message)


def cluster_write(version: str, cluster: ManagedCluster, condition: Condition, now: Micros) -> StatusWrite:
    """One condition, by server-side apply: those of others are neither touched nor read."""
    meta = cluster.metadata
    key = ("ManagedCluster", "", meta.name)
    shown = shown_report(cluster)
    dated = since(condition, {} if shown is None else {shown.type: shown}, to_datetime(now))
    body = {
        "apiVersion": version,
        "kind": "ManagedCluster",
        "metadata": {"name": meta.name, "uid": meta.uid},
        "status": {"conditions": [condition_body(dated)]},
    }
    path = f"{object_path(version, 'managedclusters', key)}/status?fieldManager={MANAGER}&force=true"
    return StatusWrite(key, ApiRequest("PATCH", path, encoded(body), APPLY))


def _key(name: str) -> ObjectKey:
    return "ManagedCluster", "", name
