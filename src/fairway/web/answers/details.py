"""One job or one node."""

from __future__ import annotations

from typing import Any

from msgspec.structs import replace

from fairway.app.view.job_detail import HIDDEN, job_detail, job_manifest
from fairway.app.view.models.job import JobDetail, JobManifest
from fairway.app.view.models.nodes import NodeDetail, NodePod
from fairway.app.view.node_detail import node_detail
from fairway.errors import InputError
from fairway.web.asking import Asked, RequestRefusedError, Viewer
from fairway.web.concealing import device_for, job_for, reservations_for
from fairway.web.shown import ShownCluster


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
    """The job that is asked for: one that may not be seen is not there. A name without a namespace could be any."""
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


ANSWERS: dict[str, Any] = {"job": job, "manifest": manifest, "node": node}
