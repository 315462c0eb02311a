"""What is logged and counted of a placer's decisions."""

from __future__ import annotations

import traceback

from fairway.app.live.logs import RunLog
from fairway.app.live.metrics import ProgramMetrics
from fairway.fleet import FleetPlan
from fairway.fleet.rules import Key
from fairway.kube.http.exchange import Ending, WriteResult

_DECISION_SECONDS = (0.001, 0.002, 0.005, 0.01, 0.02, 0.05, 0.1, 0.2, 0.5, 1, 2, 5, 10)


class FleetMetrics(ProgramMetrics):
    """Of the placer."""

    def __init__(self) -> None:
        super().__init__()
        counter, gauge = self._counter, self._gauge
        self.decisions = counter("fairway_fleet_decisions", "Placements decided.")
        self.decision_seconds = self._histogram(
            "fairway_fleet_decision_duration_seconds",
            "Time to decide the placements that events affected.",
            _DECISION_SECONDS,
        )
        self.moves = counter("fairway_fleet_moves", "Clusters that joined or left a decision.", "move")
        self.publications = counter("fairway_fleet_publications", "Decisions written, by result.", "result")
        self.repairs = counter("fairway_fleet_repairs", "Decisions written again because another program changed them.")
        self.misconfigured = counter("fairway_fleet_misconfigured", "Decisions about misconfigured placements.")
        self.failed = counter("fairway_fleet_failed", "Decisions that ended in an error of the program.")
        self.set_aside = gauge("fairway_fleet_clusters_set_aside", "Clusters that report something unusable.")


class FleetWatcher:
    """Of the loop, on its thread."""

    def __init__(self, log: RunLog, metrics: FleetMetrics, *, dry_run: bool) -> None:
        self._log = log
        self._metrics = metrics
        self._dry_run = dry_run

    def decided(self, plan: FleetPlan, seconds: float) -> None:
        metrics = self._metrics
        metrics.decisions.inc(len(plan.outcomes))
        metrics.decision_seconds.observe(seconds)
        say = self._log.info if self._dry_run else self._log.debug
        shown = self._log.shows("info" if self._dry_run else "debug")
        for outcome in plan.outcomes:
            if outcome.rules.problems:
                metrics.misconfigured.inc()
                self._log.warning("misconfigured", placement=outcome.name, why="; ".join(outcome.rules.problems))
            for move in outcome.moves:
                metrics.moves.labels("joined" if move.joined else "left").inc()
                if shown:
                    what = "joins" if move.joined else "leaves"
                    say(what, placement=outcome.name, cluster=move.cluster, score=move.score, reason=move.reason)

    def published(self, key: Key, ending: Ending) -> None:
        self._metrics.publications.labels(ending.result.value).inc()
        if ending.result is not WriteResult.DONE:
            self._log.warning("decision not written", placement="/".join(key), why=ending.why)

    def repairs(self, key: Key) -> None:
        self._metrics.repairs.inc()
        self._log.warning("decision was changed by another program, written again", placement="/".join(key))

    def failed(self, key: Key, error: Exception) -> None:
        self._metrics.failed.inc()
        trace = "".join(traceback.format_exception(error))
        self._log.error("placement not decided: an error in Fairway", placement="/".join(key), why=trace)

    def set_aside(self, clusters: int) -> None:
        self._metrics.set_aside.set(clusters)
