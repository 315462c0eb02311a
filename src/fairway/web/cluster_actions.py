"""What users may do to jobs of a live cluster: with their own token, so the API server says whether they may."""

from __future__ import annotations

import asyncio
from collections import OrderedDict
from collections.abc import Coroutine, Sequence
from typing import Any

import msgspec

from fairway.app.view.job_detail import find_job
from fairway.app.view.mirror import Mirror
from fairway.app.view.models.job import JobAction, JobActionRequest
from fairway.app.view.models.jobs import JobSummary
from fairway.app.view.watch import ClusterWatch
from fairway.errors import ApiError, NoAnswerError
from fairway.kube.client import ApiClient
from fairway.kube.connection import Connection, FixedCredentials, Identity
from fairway.kube.exchange import JSON, MERGE_PATCH
from fairway.state.jobs import Job, TaskState
from fairway.web.asking import RequestRefusedError, Viewer
from fairway.web.owners import HELD, JobOwner, owner_by_key, owner_of

PATIENCE = 60.0
MOST_HELD = 1_000
GROUPS = "scheduling.volcano.sh/v1beta1"


ApiWrite = tuple[str, str, Any]
"""Method, path and body."""


class ClusterActions:
    """Methods are called from threads of a pool; requests are made on the server's event loop."""

    def __init__(self, connection: Connection, watch: ClusterWatch) -> None:
        self._connection = connection
        self._watch = watch
        self._held: OrderedDict[str, JobOwner] = OrderedDict()
        """Jobs whose controllers were suspended here: their pods go, so the cluster no longer shows them."""
        self.loop: asyncio.AbstractEventLoop | None = None

    def allowed(self, viewer: Viewer, job: JobSummary) -> list[JobAction]:
        """What makes sense for the job; whether the user may, the API server says."""
        if not viewer.token:
            return []
        if job.state == "finished":
            return ["release"] if job.job in self._held else []
        found: list[JobAction] = ["cancel"]
        if job.kind == "PodGroup":
            found.append("reprioritise")
        if job.held:
            found.append("release")
        elif job.state in ("waiting", "starting"):
            with self._watch.mirror() as mirror:
                known = find_job(mirror, job.job)
                owner = None if known is None else owner_of(mirror, known)
            if owner is not None and owner.suspends:
                found.append("hold")
        return found

    def act(self, viewer: Viewer, job: str, request: JobActionRequest) -> str:
        if not viewer.token:
            raise RequestRefusedError(403, "an action needs a token of your own")
        with self._watch.mirror() as mirror:
            found = find_job(mirror, job)
            if found is not None:
                work = self._work(viewer, mirror, found, request)
            elif request.action == "release":
                work = self._resume(viewer, job, self._held.get(job) or owner_by_key(job))
            else:
                raise RequestRefusedError(404, f"{job}: there is no such job")
        assert self.loop is not None
        return asyncio.run_coroutine_threadsafe(work, self.loop).result(PATIENCE)

    def _work(self, viewer: Viewer, mirror: Mirror, job: Job, request: JobActionRequest) -> Coroutine[Any, Any, str]:
        owner = owner_of(mirror, job)
        match request.action:
            case "cancel":
                return self._cancel(viewer, job, owner)
            case "reprioritise":
                if not request.priority_class or not job.group:
                    raise RequestRefusedError(422, "reprioritise needs a PodGroup and `priorityClass`")
                return self._reprioritise(viewer, job, request.priority_class)
            case "release":
                if job.gated:
                    return self._release(viewer, job, _ungated(mirror, job))
                return self._resume(viewer, job.key, self._held.get(job.key) or owner)
            case "hold":
                return self._hold(viewer, job, owner)

    async def _cancel(self, viewer: Viewer, job: Job, owner: JobOwner | None) -> str:
        if owner is not None and not owner.path:
            raise RequestRefusedError(
                422, f"{job.key}: its pods are made by {owner.title}, which would make them again; delete that"
            )
        if owner is not None:
            await self._send(viewer, [("DELETE", owner.path, {"propagationPolicy": "Background"})])
            return f"{job.key}: {owner.title} deleted"
        pods = _pods(job)
        paths = [_pod_path(job, pod) for pod in pods]
        if job.group:
            paths.insert(0, _group_path(job))
        await self._send(viewer, [("DELETE", path, None) for path in paths])
        return f"{job.key}: deleted with {'1 pod' if len(pods) == 1 else f'{len(pods)} pods'}"

    async def _reprioritise(self, viewer: Viewer, job: Job, name: str) -> str:
        await self._send(viewer, [("PATCH", _group_path(job), {"spec": {"priorityClassName": name}})])
        return f"{job.key}: its priority class is {name} now"

    async def _hold(self, viewer: Viewer, job: Job, owner: JobOwner | None) -> str:
        if owner is None or not owner.suspends:
            made = "nothing makes its pods" if owner is None else f"its pods are made by {owner.title}"
            raise RequestRefusedError(
                422,
                f"{job.key}: {made}, and a pod that exists cannot be gated again; only a Job or a JobSet can be held "
                "(spec.suspend)",
            )
        if any(task.node >= 0 for task in job.tasks):
            raise RequestRefusedError(
                422, f"{job.key}: has pods on nodes, which a hold would delete; cancel it, or wait"
            )
        await self._send(viewer, [("PATCH", owner.path, {"spec": {"suspend": True}})])
        self._held[job.key] = owner
        while len(self._held) > MOST_HELD:
            self._held.popitem(last=False)
        return f"{job.key}: held; {owner.title} is suspended"

    async def _resume(self, viewer: Viewer, job: str, owner: JobOwner | None) -> str:
        if owner is None or not owner.suspends:
            raise RequestRefusedError(422, f"{job}: is not held")
        await self._send(viewer, [("PATCH", owner.path, {"spec": {"suspend": False}})])
        self._held.pop(job, None)
        return f"{job}: released; {owner.title} goes on"

    async def _release(self, viewer: Viewer, job: Job, patches: list[ApiWrite]) -> str:
        await self._send(viewer, patches)
        return f"{job.key}: released"

    async def _send(self, viewer: Viewer, requests: Sequence[ApiWrite]) -> None:
        """As the user; the first refusal ends it, and is said."""
        own = FixedCredentials(Identity(f"Bearer {viewer.token}"))
        connection = Connection(
            self._connection.server, own, self._connection.trust, self._connection.proxy, self._connection.namespace
        )
        client = ApiClient(connection)
        try:
            for method, path, body in requests:
                data = None if body is None else msgspec.json.encode(body)
                kind = MERGE_PATCH if method == "PATCH" else JSON
                await client.request(method, path, data, content_type=kind)
        except ApiError as error:
            raise RequestRefusedError(403 if error.status in (401, 403) else 422, str(error)) from None
        except NoAnswerError as error:
            raise RequestRefusedError(503, str(error)) from None
        finally:
            await client.close()


def _ungated(mirror: Mirror, job: Job) -> list[ApiWrite]:
    """Only gates that hold by this name are ours to take."""
    found: list[ApiWrite] = []
    for pod in _pods(job):
        gates = [gate for gate in mirror.state.gates.get(f"{job.namespace}/{pod}", ()) if gate != HELD]
        body = {"spec": {"schedulingGates": [{"name": gate} for gate in gates] or None}}
        found.append(("PATCH", _pod_path(job, pod), body))
    return found


def _pods(job: Job) -> list[str]:
    return [task.key.partition("/")[2] for task in job.tasks if task.state is not TaskState.SUCCEEDED]


def _pod_path(job: Job, pod: str) -> str:
    return f"/api/v1/namespaces/{job.namespace}/pods/{pod}"


def _group_path(job: Job) -> str:
    return f"/apis/{GROUPS}/namespaces/{job.namespace}/podgroups/{job.key.partition('/')[2]}"
