"""Evictions, reservations, what happened, and nodes over time."""

from __future__ import annotations

from itertools import islice
from typing import Any

from msgspec.structs import replace

from fairway.app.view.history_page import history_page
from fairway.app.view.history_page import queue_history as history_of_queue
from fairway.app.view.history_ring import HistoryRing
from fairway.app.view.job_detail import HIDDEN
from fairway.app.view.models.history import HistoryPage, QueueHistory
from fairway.app.view.models.moves import (
    EvictionEntry,
    EvictionsPage,
    FeedPage,
    NodesTimeline,
    ReservationsPage,
    TimelineNode,
    TimelineSpan,
)
from fairway.app.view.timeline import timeline as over_time
from fairway.clock import Micros, format_rfc3339, parse_rfc3339
from fairway.errors import InputError
from fairway.web.asking import Asked, RequestRefusedError, Viewer
from fairway.web.concealing import eviction_for, history_for, queue_history_for, reservations_for
from fairway.web.shown import ShownCluster


def evictions(shown: ShownCluster, asked: Asked) -> EvictionsPage:
    before, viewer = asked.query["before"], asked.viewer
    with shown.watch.mirror() as mirror:
        journal = mirror.journal
        known = [entry for entry in reversed(journal.evictions) if _is_visible(entry, viewer)]
        older = [entry for entry in known if before is None or entry.id < before]
        by_rule: dict[str, int] = {}
        for entry in known:
            by_rule[entry.rule] = by_rule.get(entry.rule, 0) + 1
        return EvictionsPage(
            revision=mirror.revision,
            now=format_rfc3339(mirror.now),
            total=len(known),
            lost_pod_seconds=round(sum(entry.lost_seconds or 0.0 for entry in known), 3),
            by_rule=by_rule,
            rows=[eviction_for(entry, viewer) for entry in older[: asked.query["limit"]]],
        )


def _is_visible(entry: EvictionEntry, viewer: Viewer) -> bool:
    return viewer.namespaces is None or viewer.sees(entry.job) or viewer.sees(entry.for_job)


def reservations(shown: ShownCluster, asked: Asked) -> ReservationsPage:
    page = shown.watch.picture.reservations
    return replace(page, rows=reservations_for(page.rows, asked.viewer))


def feed(shown: ShownCluster, asked: Asked) -> FeedPage:
    query, viewer = asked.query, asked.viewer
    kinds, job, before, limit = set(query["kind"]), query["job"], query["before"], query["limit"]
    with shown.watch.mirror() as mirror:
        found = (
            entry
            for entry in reversed(mirror.journal.feed)
            if (before is None or entry.id < before)
            and (not kinds or entry.kind in kinds)
            and (job is None or entry.job == job)
            and (viewer.namespaces is None or (entry.job and viewer.sees(entry.job)))
        )
        rows = list(islice(found, limit + 1))
        return FeedPage(mirror.revision, format_rfc3339(mirror.now), rows[:limit], len(rows) > limit)


def timeline(shown: ShownCluster, asked: Asked) -> NodesTimeline:
    viewer, query = asked.viewer, asked.query
    if not viewer.nodes:
        raise RequestRefusedError(403, "you may not list nodes of this cluster")
    times = _times(asked)
    with shown.watch.mirror() as mirror:
        found = over_time(
            mirror,
            shown.watch.picture,
            *times,
            search=query["search"] or "",
            pool=query["pool"],
            offset=query["offset"],
            limit=query["limit"],
        )
    return found if viewer.namespaces is None else replace(found, nodes=[_of(node, viewer) for node in found.nodes])


def _of(node: TimelineNode, viewer: Viewer) -> TimelineNode:
    return replace(node, spans=[span if viewer.sees(span.job) else _hidden(span, viewer) for span in node.spans])


def _hidden(span: TimelineSpan, viewer: Viewer) -> TimelineSpan:
    return replace(span, job=HIDDEN, queue=span.queue if viewer.queues else "")


def _times(asked: Asked) -> tuple[Micros | None, Micros | None]:
    begin, end = (None if text is None else parse_rfc3339(text) for text in (asked.query["from"], asked.query["to"]))
    if begin is not None and end is not None and begin > end:
        raise InputError(f"from={asked.query['from']} is after to={asked.query['to']}")
    return begin, end


def history(shown: ShownCluster, asked: Asked) -> HistoryPage:
    ring, points = _ring(shown, asked), int(asked.query["points"])
    return history_for(history_page(ring, shown.watch.picture, *_times(asked), points), asked.viewer)


def queue_history(shown: ShownCluster, asked: Asked) -> QueueHistory:
    ring, points = _ring(shown, asked), int(asked.query["points"])
    found = history_of_queue(ring, shown.watch.picture, asked.path["name"], *_times(asked), points)
    return queue_history_for(found, asked.viewer)


def _ring(shown: ShownCluster, asked: Asked) -> HistoryRing:
    if not asked.viewer.queues:
        raise RequestRefusedError(403, "you may not list queues of this cluster")
    if shown.history is None:
        raise RequestRefusedError(404, "no history is kept here")
    return shown.history


ANSWERS: dict[str, Any] = {
    "history": history,
    "queue_history": queue_history,
    "evictions": evictions,
    "reservations": reservations,
    "feed": feed,
    "timeline": timeline,
}
