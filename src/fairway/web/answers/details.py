"""One job or one node."""

from __future__ import annotations

from typing import Any

from msgspec.structs import replace

from fairway.app.view.job_detail import HIDDEN, job_detail, job_manifest
from fairway.app.view.models.job import JobDetail, JobManifest
from fairway.app.view.models.nodes import NodeDetail, NodeDevice, NodePod
from fairway.app.view.node_detail import node_detail
from fairway.errors import InputError
from fairway.web.answers.moves import shown_to
from fairway.web.asking import Asked, RequestRefusedError, Viewer
from fairway.web.shown import ShownCluster


def job(shown: ShownCluster, asked: Asked) -> JobDetail:
    name, viewer = visible_job(asked), asked.viewer
    with shown.watch.mirror() as mirror:
        try:
            found = job_detail(mirror, shown.watch.picture, name)
        except InputError as error:
            raise RequestRefusedError(404, str(error)) from None
    return replace(
        found,
        victims=[shown_to(entry, viewer) for entry in found.victims],
        evicted_by=[shown_to(entry, viewer) for entry in found.evicted_by],
        allowed=[] if shown.actions is None else shown.actions.allowed(viewer, found.job),
    )


def manifest(shown: ShownCluster, asked: Asked) -> JobManifest:
    name = visible_job(asked)
    with shown.watch.mirror() as mirror:
        try:
            return job_manifest(mirror, name)
        except InputError as error:
            raise RequestRefusedError(404, str(error)) from None


def visible_job(asked: Asked) -> str:
    """The job that is asked for: one that may not be seen is not there."""
    name = asked.path["job"]
    if "/" in name and not asked.viewer.sees(name):
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
    rows = [row if viewer.sees(row.job) else replace(row, job=HIDDEN, pod=HIDDEN) for row in found.reservations]
    return replace(
        found,
        pods=[_pod(pod, viewer) for pod in found.pods],
        devices=[_device(device, viewer) for device in found.devices],
        reservations=rows,
    )


def _pod(pod: NodePod, viewer: Viewer) -> NodePod:
    return pod if viewer.sees(pod.pod) else replace(pod, pod=HIDDEN, job=HIDDEN)


def _device(device: NodeDevice, viewer: Viewer) -> NodeDevice:
    seen = {name: amount for name, amount in device.holders.items() if viewer.sees(name)}
    hidden = sum(amount for name, amount in device.holders.items() if not viewer.sees(name))
    return replace(device, holders=seen | {HIDDEN: hidden} if hidden else seen)


ANSWERS: dict[str, Any] = {"job": job, "manifest": manifest, "node": node}
