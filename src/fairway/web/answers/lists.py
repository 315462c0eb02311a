"""What is shown at a glance, from the newest picture."""

from __future__ import annotations

from typing import Any

from msgspec.structs import replace

from fairway import __version__
from fairway.app.view.device_list import devices_page, has_devices
from fairway.app.view.job_table import JobQuery
from fairway.app.view.models.fleet import FleetPage
from fairway.app.view.models.history import SchedulerPage
from fairway.app.view.models.jobs import JobsPage
from fairway.app.view.models.nodes import DevicesPage, FitAnswer, NodesMap
from fairway.app.view.models.queues import QueuesPage
from fairway.app.view.models.session import ClusterSummary, SessionInfo, ViewCapabilities
from fairway.app.view.node_detail import fit as fitting
from fairway.app.view.scheduler_page import scheduler_page
from fairway.web.asking import Asked, RequestRefusedError, Viewer
from fairway.web.concealing import device_for, queues_for, scheduler_for, summary_for
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
    """Its hub is read as the scheduler, and knows nothing of the users of this cluster."""
    return viewer.namespaces is None and viewer.nodes


def fleet(shown: ShownCluster, asked: Asked) -> FleetPage:
    if shown.fleet is None:
        raise RequestRefusedError(404, "no hub is connected")
    if not _sees_the_fleet(asked.viewer):
        raise RequestRefusedError(403, "only a user who may list the nodes and pods of this cluster may see its fleet")
    return shown.fleet()


ANSWERS: dict[str, Any] = {
    "fleet": fleet,
    "session": session,
    "overview": overview,
    "jobs": jobs,
    "queues": queues,
    "nodes": nodes,
    "fit": fit,
    "devices": devices,
    "scheduler": scheduler,
}
