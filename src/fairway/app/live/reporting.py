"""`HubReporter`: reports this cluster's free capacity to a hub, as annotations of its ManagedCluster.

Reports are made on the loop's thread and sent from the event loop: at most one write per `INTERVAL`, and only if
something has changed or the last report is about to expire. A hub that does not answer costs the scheduler nothing.
"""

from __future__ import annotations

import asyncio
from collections.abc import Callable, Mapping

from fairway.app.logs import RunLog
from fairway.clock import SECOND, Clock, Micros, format_rfc3339
from fairway.drive import MemberReport
from fairway.fleet.names import REPORTED_AT, REPORTED_UNTIL
from fairway.kube.http import (
    MERGE_PATCH,
    ApiAnswer,
    ApiClient,
    ApiRequest,
    collection_path,
    encoded,
    explained,
    object_path,
)

CLUSTERS = "cluster.open-cluster-management.io/v1"
SCORES = "cluster.open-cluster-management.io/v1alpha1"
SCORE_NAME = "fairway"
"""Name of the AddOnPlacementScore, in the hub's namespace for the cluster."""
INTERVAL = 10.0
"""Minimum seconds between two writes."""
MAX_BYTES = 128 << 10
"""Maximum size of a report. The API server limits all annotations of an object together to 256 KiB."""


class HubReporter:
    """Sends the newest report offered, until it is cancelled."""

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
        """Take the newest report, and the scores to write as an AddOnPlacementScore. On the event loop's thread."""
        self._newest, self._scores = report, scores
        self._changed.set()

    async def run(self) -> None:
        while True:
            await self._changed.wait()
            self._changed.clear()
            if self._is_due() and self._may_write():
                await self._write()
                await asyncio.sleep(self._interval)

    def _is_due(self) -> bool:
        """Whether the report has changed, or has lived for more than half of its lifetime."""
        return self._newest != self._sent or self._clock() > self._until - self._lifetime // 2

    async def _write(self) -> None:
        report = self._newest
        if report is None:
            return
        size = sum(len(text) for text in report.values())
        if size > MAX_BYTES:
            self._complain(f"the report has {size} bytes; the limit is {MAX_BYTES}")
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
                self._log.info("the hub accepts reports again", cluster=self._cluster)
            self._trouble = ""
            return
        self._complain(_explained(answer))

    async def _write_scores(self, scores: Mapping[str, int], until: Micros) -> ApiAnswer:
        """Write the scores, and create the object if it does not exist; the hub creates its namespace."""
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
        """Log a failure once per reason."""
        self.failed += 1
        if why != self._trouble:
            self._log.warning("the hub rejected the report", cluster=self._cluster, why=why)
        self._trouble = why


def _explained(answer: ApiAnswer) -> str:
    return "no such ManagedCluster" if answer.status == 404 else explained(answer)
