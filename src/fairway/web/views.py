"""The answers to all operations: a method for each, by its name in the contract."""

from __future__ import annotations

from typing import Any

from fairway import __version__
from fairway.app.view.job_table import JobQuery
from fairway.app.view.models.history import SchedulerPage
from fairway.app.view.models.jobs import JobsPage
from fairway.app.view.models.nodes import NodesMap
from fairway.app.view.models.queues import QueuesPage
from fairway.app.view.models.session import ClusterSummary, SessionInfo, ViewCapabilities
from fairway.app.view.scheduler_page import scheduler_page
from fairway.web.asking import Asked, RequestRefusedError
from fairway.web.shown import ShownCluster


class Views:
    """Methods are called from threads of a pool, several at once."""

    def __init__(self, shown: ShownCluster) -> None:
        self._shown = shown
        self._watch = shown.watch
        self.viewers = 0
        """Clients of the stream of events."""

    def answer(self, name: str, asked: Asked) -> Any:
        method = getattr(self, name, None)
        if method is None:
            raise RequestRefusedError(501, f"{name} is not answered here")
        return method(asked)

    # -- what is shown -------------------------------------------------------------------------------------------

    def session(self, asked: Asked) -> SessionInfo:
        shown, picture, viewer = self._shown, self._watch.picture, asked.viewer
        names = viewer.namespaces
        return SessionInfo(
            version=__version__,
            source=shown.kind,
            title=shown.title,
            now=picture.now,
            revision=picture.revision,
            user=viewer.name,
            namespaces=None if names is None else sorted(names),
            capabilities=ViewCapabilities(
                apply=shown.sandbox is not None,
                actions=False,
                pace=shown.pace is not None,
                what_if=False,
                history=False,
                devices=False,
                fleet=False,
                live=shown.kind != "recording",
            ),
            speed=None if shown.pace is None else float(shown.pace.speed),
            paused=shown.pace is not None and shown.pace.paused,
        )

    def overview(self, asked: Asked) -> ClusterSummary:
        return self._watch.picture.summary

    def jobs(self, asked: Asked) -> JobsPage:
        query = JobQuery(**asked.query, visible=asked.viewer.namespaces)
        return self._watch.picture.jobs.page(query)

    def queues(self, asked: Asked) -> QueuesPage:
        return self._watch.picture.queues

    def nodes(self, asked: Asked) -> NodesMap:
        return self._watch.picture.nodes

    def scheduler(self, asked: Asked) -> SchedulerPage:
        picture = self._watch.picture
        counts = picture.summary
        with self._watch.mirror() as mirror:
            return scheduler_page(mirror, counts.jobs.waiting, counts.waiting_pods, self._shown.facts(), self.viewers)
