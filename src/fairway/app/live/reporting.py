"""`HubReporter`: keeps a hub informed about this cluster, as annotations of its ManagedCluster.

Reports are made on the loop's thread and sent from the event loop: at most one write in `INTERVAL`, and only where
something changed or the last report is about to end. A hub that does not answer costs the scheduler nothing.
"""

from __future__ import annotations

import asyncio
from collections.abc import Callable, Mapping

from fairway.app.live.logs import RunLog
from fairway.clock import SECOND, Clock, Micros, format_rfc3339
from fairway.drive import MemberReport
from fairway.fleet.names import REPORTED_AT, REPORTED_UNTIL
from fairway.kube.http.client import ApiClient
from fairway.kube.http.exchange import MERGE_PATCH, ApiAnswer, ApiRequest, encoded, explained
from fairway.kube.http.paths import collection_path, object_path

CLUSTERS = "cluster.open-cluster-management.io/v1"
SCORES = "cluster.open-cluster-management.io/v1alpha1"
SCORE_NAME = "fairway"
"""Of the AddOnPlacementScore, in the namespace that the hub has for the cluster."""
INTERVAL = 10.0
"""Seconds between two writes, at least."""
MOST_BYTES = 128 << 10
"""Of all annotations of an object together the server takes 256 KiB."""


class HubReporter:
    """See the module."""

    def __init__(
        self,
        client: ApiClient,
        cluster: str,
        lifetime: float,
        log: RunLog,
        *,
        may_write: Callable[[], bool],
        clock: Clock,
        interval: float = INTERVAL,
    ) -> None:
        self._client = client
        self._cluster = cluster
        self._lifetime = int(lifetime * SECOND)
        self._log = log
        self._may_write = may_write
        self._clock = clock
        self._interval = interval
        self._newest: MemberReport | None = None
        self._sent: MemberReport | None = None
        self._scores: Mapping[str, int] | None = None
        self._until: Micros = 0
        self._changed = asyncio.Event()
        self._trouble = ""
        self.written = 0
        self.failed = 0

    def offer(self, report: MemberReport, scores: Mapping[str, int] | None = None) -> None:
        """The newest report, and what of it is written as an AddOnPlacementScore, too. On the event loop's thread."""
        self._newest, self._scores = report, scores
        self._changed.set()

    async def run(self) -> None:
        """Until it is cancelled."""
        while True:
            await self._changed.wait()
            self._changed.clear()
            if self._is_due() and self._may_write():
                await self._write()
                await asyncio.sleep(self._interval)

    def _is_due(self) -> bool:
        """News, or a report of which less than half of its time is left."""
        return self._newest != self._sent or self._clock() > self._until - self._lifetime // 2

    async def _write(self) -> None:
        report = self._newest
        if report is None:
            return
        size = sum(len(text) for text in report.values())
        if size > MOST_BYTES:
            self._complain(f"the report has {size} bytes, a hub takes {MOST_BYTES}")
            return
        now = self._clock()
        until = now + self._lifetime
        notes = {**report, REPORTED_AT: format_rfc3339(now), REPORTED_UNTIL: format_rfc3339(until)}
        path = object_path(CLUSTERS, "managedclusters", ("ManagedCluster", "", self._cluster))
        answer = await self._client.send(
            ApiRequest("PATCH", path, encoded({"metadata": {"annotations": notes}}), MERGE_PATCH), self._may_write
        )
        if answer.ok and self._scores is not None:
            answer = await self._write_scores(self._scores, until)
        if answer.ok:
            self._sent, self._until = report, until
            self.written += 1
            if self._trouble:
                self._log.info("the hub takes reports again", cluster=self._cluster)
            self._trouble = ""
            return
        self._complain(_explained(answer))

    async def _write_scores(self, scores: Mapping[str, int], until: Micros) -> ApiAnswer:
        """The object is made where it is not there; its namespace is the hub's to make."""
        path = object_path(SCORES, "addonplacementscores", ("AddOnPlacementScore", self._cluster, SCORE_NAME))
        found = [{"name": name, "value": value} for name, value in sorted(scores.items())]
        status = {"status": {"scores": found, "validUntil": format_rfc3339(until)}}
        write = ApiRequest("PATCH", f"{path}/status", encoded(status), MERGE_PATCH)
        answer = await self._client.send(write, self._may_write)
        if answer.status != 404:
            return answer
        head = {"apiVersion": SCORES, "kind": "AddOnPlacementScore", "metadata": {"name": SCORE_NAME}}
        where = collection_path(SCORES, "addonplacementscores", self._cluster)
        made = await self._client.send(ApiRequest("POST", where, encoded(head)), self._may_write)
        return await self._client.send(write, self._may_write) if made.ok or made.status == 409 else made

    def _complain(self, why: str) -> None:
        """Once for each reason."""
        self.failed += 1
        if why != self._trouble:
            self._log.warning("the hub does not take the report", cluster=self._cluster, why=why)
        self._trouble = why


def _explained(answer: ApiAnswer) -> str:
    return "there is no such ManagedCluster" if answer.status == 404 else explained(answer)
