"""Actions on jobs of a live cluster, made with the user's own token, so that the API server decides."""

from __future__ import annotations

import asyncio
from collections.abc import Coroutine, Iterable, Sequence
from typing import Any, NamedTuple

import msgspec

from fairway.app.view.details import JobOwner, find_job, held_pods, owner_of
from fairway.app.view.mirror import Mirror
from fairway.app.view.models.jobs import JobAction, JobActionRequest, JobSummary
from fairway.app.view.picture import pod_of
from fairway.app.view.watch import ClusterWatch
from fairway.errors import ApiError, NoAnswerError
from fairway.kube.http import JSON, MERGE_PATCH, ApiClient
from fairway.kube.server import Connection, FixedCredentials, Identity
from fairway.state.annotations import HOLD, is_held
from fairway.state.jobs import WAITING, Job, TaskState
from fairway.web.asking import RequestRefusedError, Viewer

PATIENCE = 60.0
GROUPS = (
    "scheduling.volcano.sh/v1beta1",
    "scheduling.k8s.io/v1beta1",
    "scheduling.k8s.io/v1alpha2",
    "scheduling.x-k8s.io/v1alpha1",
)
"""Paths that may have the PodGroup; only the API server can tell which one does."""
_FORBIDDEN, _NOT_FOUND = 403, 404


class ApiWrite(NamedTuple):
    """A write to the first of the paths that has the object."""

    method: str
    paths: tuple[str, ...]
    body: Any = None


class ClusterActions:
    """Thread-safe: requests run on the server's event loop."""

    def __init__(self, connection: Connection, watch: ClusterWatch) -> None:
        self._connection = connection
        self._watch = watch
        self.loop: asyncio.AbstractEventLoop | None = None

    def allowed(self, viewer: Viewer, job: JobSummary) -> list[JobAction]:
        """Actions that make sense for the job; the API server decides whether the user may take them."""
        if not viewer.token:
            return []
        if job.state == "finished":
            return []
        found: list[JobAction] = ["cancel"]
        if job.kind == "PodGroup":
            found.append("reprioritise")
        with self._watch.mirror() as mirror:
            known = find_job(mirror, job.job)
            if known is not None and holds(mirror, known):
                found.append("release")
            elif known is not None and known.pending:
                found.append("hold")
        return found

    def act(self, viewer: Viewer, job: str, request: JobActionRequest) -> str:
        if not viewer.token:
            raise RequestRefusedError(403, "actions need your own token")
        with self._watch.mirror() as mirror:
            found = find_job(mirror, job)
            if found is None:
                raise RequestRefusedError(404, f"{job}: there is no such job")
            work = self._work(viewer, mirror, found, request)
        assert self.loop is not None
        return asyncio.run_coroutine_threadsafe(work, self.loop).result(PATIENCE)

    def _work(self, viewer: Viewer, mirror: Mirror, job: Job, request: JobActionRequest) -> Coroutine[Any, Any, str]:
        match request.action:
            case "cancel":
                return self._cancel(viewer, job, owner_of(mirror, job))
            case "reprioritise":
                if not request.priority_class or job.kind != "PodGroup":
                    raise RequestRefusedError(422, "reprioritise needs a PodGroup and `priorityClass`")
                limit = _limit_by_pods(mirror, job, request.priority_class)
                return self._reprioritise(viewer, job, request.priority_class, limit)
            case "release":
                if not holds(mirror, job):
                    raise RequestRefusedError(422, f"{job.key}: is not held (annotation {HOLD})")
                return self._annotate(viewer, job, _held_by(mirror, job), None, "released")
            case "hold":
                if not job.pending:
                    raise RequestRefusedError(
                        422, f"{job.key}: none of its pods is pending; pods on nodes cannot be held"
                    )
                return self._hold(viewer, job)

    async def _cancel(self, viewer: Viewer, job: Job, owner: JobOwner | None) -> str:
        if owner is not None and not owner.path:
            raise RequestRefusedError(
                422, f"{job.key}: its pods are made by {owner.title}, which would make them again; delete that"
            )
        if owner is not None:
            await self._send(viewer, [ApiWrite("DELETE", (owner.path,), {"propagationPolicy": "Background"})])
            return f"{job.key}: {owner.title} deleted"
        pods = _pods(job)
        paths = [_pod_path(job, pod) for pod in pods]
        if job.group:
            paths.insert(0, _group_path(job))
        await self._send(viewer, [ApiWrite("DELETE", path) for path in paths])
        return f"{job.key}: deleted with {'1 pod' if len(pods) == 1 else f'{len(pods)} pods'}"

    async def _reprioritise(self, viewer: Viewer, job: Job, name: str, limit: str) -> str:
        await self._send(viewer, [ApiWrite("PATCH", _group_path(job), {"spec": {"priorityClassName": name}})])
        return f"{job.key}: its priority class is {name} now{limit}"

    async def _hold(self, viewer: Viewer, job: Job) -> str:
        """Writes to the PodGroup, even if the page has not seen it yet, or else to each pod."""
        pods = [_pod_path(job, pod) for pod in _waiting_pods(job)]
        if job.kind == "PodGroup":
            try:
                return await self._annotate(viewer, job, [_group_path(job)], "true", "held")
            except RequestRefusedError:
                if job.group:
                    raise
        what = held_pods(len(pods)) if job.kind == "Controller" else "held"
        return await self._annotate(viewer, job, pods, "true", what)

    async def _annotate(
        self, viewer: Viewer, job: Job, paths: Sequence[tuple[str, ...]], value: str | None, what: str
    ) -> str:
        body = {"metadata": {"annotations": {HOLD: value}}}
        await self._send(viewer, [ApiWrite("PATCH", path, body) for path in paths])
        return f"{job.key}: {what}"

    async def _send(self, viewer: Viewer, requests: Sequence[ApiWrite]) -> None:
        """Sends writes as the user and raises the first refusal."""
        own = FixedCredentials(Identity(f"Bearer {viewer.token}"))
        connection = Connection(
            self._connection.server, own, self._connection.trust, self._connection.proxy, self._connection.namespace
        )
        client = ApiClient(connection)
        try:
            for request in requests:
                await _sent(client, request)
        except ApiError as error:
            raise RequestRefusedError(403 if error.status in (401, 403) else 422, str(error)) from None
        except NoAnswerError as error:
            raise RequestRefusedError(503, str(error)) from None
        finally:
            await client.close()


async def _sent(client: ApiClient, request: ApiWrite) -> None:
    """A refusal is final only if no other path has the object: the user may have permissions for one kind only."""
    data = None if request.body is None else msgspec.json.encode(request.body)
    kind = MERGE_PATCH if request.method == "PATCH" else JSON
    refusals: list[ApiError] = []
    for path in request.paths:
        try:
            await client.request(request.method, path, data, content_type=kind)
        except ApiError as error:
            if error.status not in (_FORBIDDEN, _NOT_FOUND):
                raise
            refusals.append(error)
        else:
            return
    raise min(refusals, key=lambda error: error.status)


def _limit_by_pods(mirror: Mirror, job: Job, name: str) -> str:
    """A warning if the class has a higher priority than the job's pods: the priority of existing pods cannot be
    changed.
    """
    most = max((task.priority for task in job.tasks), default=None)
    if most is None or mirror.state.priorities.value(name) <= most:
        return ""
    return f", but it counts as {most}, the highest priority of its own pods: make them again with that class"


def holds(mirror: Mirror, job: Job) -> bool:
    """Whether the annotation holds it; scheduling gates of others are not the page's to remove."""
    return job.held or bool(_held_pods(mirror, job))


def _held_by(mirror: Mirror, job: Job) -> list[tuple[str, ...]]:
    """Paths of all objects with the annotation."""
    pods = [_pod_path(job, pod) for pod in _held_pods(mirror, job)]
    return [_group_path(job), *pods] if job.held else pods


def _held_pods(mirror: Mirror, job: Job) -> list[str]:
    """Pods with the annotation."""
    known = ((task.key.partition("/")[2], pod_of(mirror, task.key)) for task in job.tasks)
    return [name for name, pod in known if pod is not None and is_held(pod.metadata)]


def _waiting_pods(job: Job) -> Iterable[str]:
    return (task.key.partition("/")[2] for task in job.tasks if task.state in WAITING)


def _pods(job: Job) -> list[str]:
    return [task.key.partition("/")[2] for task in job.tasks if task.state is not TaskState.SUCCEEDED]


def _pod_path(job: Job, pod: str) -> tuple[str, ...]:
    return (f"/api/v1/namespaces/{job.namespace}/pods/{pod}",)


def _group_path(job: Job) -> tuple[str, ...]:
    name = job.key.partition("/")[2]
    return tuple(f"/apis/{version}/namespaces/{job.namespace}/podgroups/{name}" for version in GROUPS)
