"""Answers to GET: what is shown, from the newest picture of the cluster."""

from __future__ import annotations

from itertools import islice
from typing import Any

from msgspec.structs import replace

from fairway import __version__
from fairway.app.view.details import HIDDEN, job_detail, job_manifest, node_detail
from fairway.app.view.details import fit as fitting
from fairway.app.view.history_ring import HistoryRing, history_page
from fairway.app.view.history_ring import queue_history as history_of_queue
from fairway.app.view.job_table import JobQuery
from fairway.app.view.models.cluster import DevicesPage, FitAnswer, FleetPage, NodeDetail, NodePod, NodesMap, QueuesPage
from fairway.app.view.models.history import (
    EvictionEntry,
    EvictionsPage,
    FeedPage,
    HistoryPage,
    NodesTimeline,
    QueueHistory,
    ReservationsPage,
    SchedulerPage,
    TimelineNode,
    TimelineSpan,
)
from fairway.app.view.models.jobs import JobDetail, JobManifest, JobsPage
from fairway.app.view.models.session import ClusterSummary, SessionInfo, ViewCapabilities
from fairway.app.view.node_map import devices_page, has_devices
from fairway.app.view.scheduler_page import scheduler_page
from fairway.app.view.timeline import timeline as over_time
from fairway.clock import Micros, format_rfc3339, parse_rfc3339
from fairway.errors import InputError
from fairway.web.asking import Asked, RequestRefusedError, Viewer
from fairway.web.concealing import (
    device_for,
    eviction_for,
    history_for,
    job_for,
    queue_history_for,
    queues_for,
    reservations_for,
    scheduler_for,
    summary_for,
)
from fairway.web.shown import ShownCluster


def session(shown: ShownCluster, asked: Asked) -> SessionInfo:
    picture, viewer = shown.watch.picture, asked.viewer
    names = viewer.namespaces
    with shown.watch.mirror() as mirror:
        devices = has_devices(mirror)
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
            actions=shown.actions is not None,
            pace=shown.pace is not None,
            what_if=shown.what_if is not None and names is None,
            history=shown.history is not None and viewer.queues,
            devices=devices and viewer.nodes,
            fleet=shown.fleet is not None and _sees_the_fleet(viewer),
            live=shown.kind != "recording",
        ),
        speed=None if shown.pace is None else float(shown.pace.speed),
        paused=shown.pace is not None and shown.pace.paused,
        behind=shown.behind(),
        cycle=shown.cycle,
        cycles=list(shown.cycles or ()),
    )


def overview(shown: ShownCluster, asked: Asked) -> ClusterSummary:
    return summary_for(shown.watch.picture, asked.viewer)


def jobs(shown: ShownCluster, asked: Asked) -> JobsPage:
    query = {name: value for name, value in asked.query.items() if value is not None}
    return shown.watch.picture.jobs.page(JobQuery(**query, visible=asked.viewer.namespaces))


def queues(shown: ShownCluster, asked: Asked) -> QueuesPage:
    _check(asked.viewer.queues, "queues")
    return queues_for(shown.watch.picture.queues, asked.viewer)


def nodes(shown: ShownCluster, asked: Asked) -> NodesMap:
    _check(asked.viewer.nodes, "nodes")
    return shown.watch.picture.nodes


def fit(shown: ShownCluster, asked: Asked) -> FitAnswer:
    _check(asked.viewer.nodes, "nodes")
    with shown.watch.mirror() as mirror:
        return fitting(mirror, int(asked.query["pods"]), asked.query["request"])


def devices(shown: ShownCluster, asked: Asked) -> DevicesPage:
    _check(asked.viewer.nodes, "nodes")
    query = asked.query
    with shown.watch.mirror() as mirror:
        page = devices_page(
            mirror,
            class_name=query["class"] or "",
            node=query["node"] or "",
            kind=query["kind"] or "",
            holder=query["holder"] or "",
            offset=query["offset"],
            limit=query["limit"],
            sees=asked.viewer.sees,
        )
    return replace(page, devices=[device_for(one, asked.viewer) for one in page.devices])


def scheduler(shown: ShownCluster, asked: Asked) -> SchedulerPage:
    _check(asked.viewer.queues, "queues")
    counts = shown.watch.picture.summary
    with shown.watch.mirror() as mirror:
        page = scheduler_page(mirror, counts.jobs.waiting, counts.waiting_pods, shown.facts(), shown.viewers())
    return scheduler_for(page, asked.viewer)


def _check(allowed: bool, kind: str) -> None:
    if not allowed:
        raise RequestRefusedError(403, f"you may not list {kind} of this cluster")


def _sees_the_fleet(viewer: Viewer) -> bool:
    """Only for users who may see everything: the hub is read with the page's own account, not the user's."""
    return viewer.namespaces is None and viewer.nodes


def fleet(shown: ShownCluster, asked: Asked) -> FleetPage:
    if shown.fleet is None:
        raise RequestRefusedError(404, "no hub is connected")
    if not _sees_the_fleet(asked.viewer):
        raise RequestRefusedError(403, "the fleet requires permission to list nodes and pods of this cluster")
    return shown.fleet()


def job(shown: ShownCluster, asked: Asked) -> JobDetail:
    name, viewer = visible_job(asked), asked.viewer
    with shown.watch.mirror() as mirror:
        try:
            found = job_detail(mirror, shown.watch.picture, name)
        except InputError as error:
            raise RequestRefusedError(404, str(error)) from None
    allowed = [] if shown.actions is None else shown.actions.allowed(viewer, found.job)
    return replace(job_for(found, viewer), allowed=allowed)


def manifest(shown: ShownCluster, asked: Asked) -> JobManifest:
    name = visible_job(asked)
    with shown.watch.mirror() as mirror:
        try:
            return job_manifest(mirror, name)
        except InputError as error:
            raise RequestRefusedError(404, str(error)) from None


def visible_job(asked: Asked) -> str:
    """The requested job; 404 if the user may not see it. A name without a namespace is refused as ambiguous."""
    name = asked.path["job"]
    if not asked.viewer.sees(name) or ("/" not in name and asked.viewer.namespaces is not None):
        raise RequestRefusedError(404, f"{name}: there is no such job")
    return name


def node(shown: ShownCluster, asked: Asked) -> NodeDetail:
    viewer = asked.viewer
    if not viewer.nodes:
        raise RequestRefusedError(403, "you may not list nodes of this cluster")
    with shown.watch.mirror() as mirror:
        try:
            found = node_detail(mirror, shown.watch.picture, asked.path["name"])
        except InputError as error:
            raise RequestRefusedError(404, str(error)) from None
    if viewer.namespaces is None:
        return found
    return replace(
        found,
        pods=[_pod(pod, viewer) for pod in found.pods],
        devices=[device_for(device, viewer) for device in found.devices],
        reservations=reservations_for(found.reservations, viewer),
    )


def _pod(pod: NodePod, viewer: Viewer) -> NodePod:
    hidden = replace(pod, pod=HIDDEN, job=HIDDEN, queue=pod.queue if viewer.queues else "")
    return pod if viewer.sees(pod.pod) else hidden


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
    "job": job,
    "manifest": manifest,
    "node": node,
    "fleet": fleet,
    "session": session,
    "overview": overview,
    "jobs": jobs,
    "queues": queues,
    "nodes": nodes,
    "fit": fit,
    "devices": devices,
    "scheduler": scheduler,
    "history": history,
    "queue_history": queue_history,
    "evictions": evictions,
    "reservations": reservations,
    "feed": feed,
    "timeline": timeline,
}
"""The function for each operation, by its name in the contract."""
