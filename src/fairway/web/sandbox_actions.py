"""What the user of a sandbox may do to its jobs."""

from __future__ import annotations

from msgspec.structs import replace

from fairway.api import kinds
from fairway.api.scheduling import PodGroup
from fairway.app.sandbox.engine import Sandbox
from fairway.app.view.models.job import JobAction, JobActionRequest
from fairway.app.view.models.jobs import JobSummary
from fairway.web.asking import RequestRefusedError, Viewer


class SandboxActions:
    """See the module."""

    def __init__(self, sandbox: Sandbox) -> None:
        self._sandbox = sandbox

    def allowed(self, viewer: Viewer, job: JobSummary) -> list[JobAction]:
        if job.state == "finished" or job.kind == "Controller":
            return []
        return ["cancel", "reprioritise"] if job.kind == "PodGroup" else ["cancel"]

    def act(self, viewer: Viewer, job: str, request: JobActionRequest) -> str:
        namespace, _, name = job.partition("/")
        if request.action == "cancel":
            self._sandbox.delete([("Job", namespace, name)])
            return f"{job}: deleted"
        if request.action == "reprioritise" and request.priority_class:
            key = "PodGroup", namespace, name
            group = next((one for one in self._sandbox.objects() if kinds.key(one) == key), None)
            if not isinstance(group, PodGroup):
                raise RequestRefusedError(404, f"{job}: there is no PodGroup of this name")
            self._sandbox.apply([replace(group, spec=replace(group.spec, priority_class_name=request.priority_class))])
            return f"{job}: its priority class is {request.priority_class} now"
        raise RequestRefusedError(422, f"{request.action} is not for a job of a sandbox")
