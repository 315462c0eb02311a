"""What users may do to jobs of a live cluster: with their own token, so the API server says whether they may."""

from __future__ import annotations

import asyncio
from collections.abc import Coroutine
from typing import Any

import msgspec

from fairway.app.view.job_detail import find_job
from fairway.app.view.models.job import JobAction, JobActionRequest
from fairway.app.view.models.jobs import JobSummary
from fairway.app.view.watch import ClusterWatch
from fairway.errors import ApiError, NoAnswerError
from fairway.kube.client import ApiClient
from fairway.kube.connection import Connection, FixedCredentials, Identity
from fairway.kube.exchange import MERGE_PATCH
from fairway.state.jobs import Job, TaskState
from fairway.web.asking import RequestRefusedError, Viewer

PATIENCE = 60.0
HELD = "fairway.dev/held"
"""The scheduling gate of pods that a user holds."""
GROUPS = "scheduling.volcano.sh/v1beta1"


class ClusterActions:
    """Methods are called from threads of a pool; requests are made on the server's event loop."""

    def __init__(self, connection: Connection, watch: ClusterWatch) -> None:
        self._connection = connection
        self._watch = watch
        self.loop: asyncio.AbstractEventLoop | None = None

    def allowed(self, viewer: Viewer, job: JobSummary) -> list[JobAction]:
        """What makes sense for the job; whether the user may, the API server says."""
        if not viewer.token or job.state == "finished":
            return []
        found: list[JobAction] = ["cancel"]
        if job.kind == "PodGroup":
            found.append("reprioritise")
        if job.held:
            found.append("release")
        return found

    def act(self, viewer: Viewer, job: str, request: JobActionRequest) -> str:
        if not viewer.token:
            raise RequestRefusedError(403, "an action needs a token of your own")
        with self._watch.mirror() as mirror:
            found = find_job(mirror, job)
            if found is None:
                raise RequestRefusedError(404, f"{job}: there is no such job")
            work = self._work(viewer, found, request)
        assert self.loop is not None
        return asyncio.run_coroutine_threadsafe(work, self.loop).result(PATIENCE)

    def _work(self, viewer: Viewer, job: Job, request: JobActionRequest) -> Coroutine[Any, Any, str]:
        pods = [task.key.partition("/")[2] for task in job.tasks if task.state not in (TaskState.SUCCEEDED,)]
        match request.action:
            case "cancel":
                return self._cancel(viewer, job, pods)
            case "reprioritise":
                if not request.priority_class or not job.group:
                    raise RequestRefusedError(422, "reprioritise needs a PodGroup and `priorityClass`")
                return self._reprioritise(viewer, job, request.priority_class)
            case "release":
                return self._release(viewer, job, pods)
            case _:
                raise RequestRefusedError(
                    422, "a pod that exists cannot be gated again: hold a job by its controller, or cancel it"
                )

    async def _cancel(self, viewer: Viewer, job: Job, pods: list[str]) -> str:
        paths = [f"/api/v1/namespaces/{job.namespace}/pods/{pod}" for pod in pods]
        if job.group:
            paths.insert(0, f"/apis/{GROUPS}/namespaces/{job.namespace}/podgroups/{job.key.partition('/')[2]}")
        await self._send(viewer, [("DELETE", path, None) for path in paths])
        return f"{job.key}: deleted with {len(pods)} pods"

    async def _reprioritise(self, viewer: Viewer, job: Job, name: str) -> str:
        path = f"/apis/{GROUPS}/namespaces/{job.namespace}/podgroups/{job.key.partition('/')[2]}"
        await self._send(viewer, [("PATCH", path, {"spec": {"priorityClassName": name}})])
        return f"{job.key}: its priority class is {name} now"

    async def _release(self, viewer: Viewer, job: Job, pods: list[str]) -> str:
        """Only gates that hold by this name are ours to take."""
        paths = [f"/api/v1/namespaces/{job.namespace}/pods/{pod}" for pod in pods]
        with self._watch.mirror() as mirror:
            others = {task.key: mirror.state.gates.get(task.key, ()) for task in job.tasks}
        bodies = []
        for path, pod in zip(paths, pods, strict=True):
            gates = [gate for gate in others.get(f"{job.namespace}/{pod}", ()) if gate != HELD]
            bodies.append(("PATCH", path, {"spec": {"schedulingGates": [{"name": gate} for gate in gates] or None}}))
        await self._send(viewer, bodies)
        return f"{job.key}: released"

    async def _send(self, viewer: Viewer, requests: list[tuple[str, str, Any]]) -> None:
        """As the user; the first refusal ends it, and is said."""
        own = FixedCredentials(Identity(f"Bearer {viewer.token}"))
        connection = Connection(
            self._connection.server, own, self._connection.trust, self._connection.proxy, self._connection.namespace
        )
        client = ApiClient(connection)
        try:
            for method, path, body in requests:
                data = None if body is None else msgspec.json.encode(body)
                await client.request(method, path, data, content_type=MERGE_PATCH)
        except ApiError as error:
            raise RequestRefusedError(403 if error.status in (401, 403) else 422, str(error)) from None
        except NoAnswerError as error:
            raise RequestRefusedError(503, str(error)) from None
        finally:
            await client.close()
