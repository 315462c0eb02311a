"""What the user of a sandbox may do to its jobs."""

from __future__ import annotations

from msgspec.structs import replace

from fairway.api import kinds
from fairway.api.pods import Pod, SchedulingGate
from fairway.api.scheduling import PodGroup
from fairway.app.sandbox.engine import Sandbox
from fairway.app.view.models.job import JobAction, JobActionRequest
from fairway.app.view.models.jobs import JobSummary
from fairway.sim.objects import is_ended
from fairway.state.reader import job_of
from fairway.web.asking import RequestRefusedError, Viewer
from fairway.web.owners import HELD


class SandboxActions:
    """See the module."""

    def __init__(self, sandbox: Sandbox) -> None:
        self._sandbox = sandbox

    def allowed(self, viewer: Viewer, job: JobSummary) -> list[JobAction]:
        if job.state == "finished" or job.kind == "Controller":
            return []
        found: list[JobAction] = ["cancel"]
        if job.kind == "PodGroup":
            found.append("reprioritise")
        if job.held:
            found.append("release")
        elif job.state in ("waiting", "starting"):
            found.append("hold")
        return found

    def act(self, viewer: Viewer, job: str, request: JobActionRequest) -> str:
        match request.action:
            case "cancel":
                namespace, _, name = job.partition("/")
                self._sandbox.delete([("Job", namespace, name)])
                return f"{job}: deleted"
            case "reprioritise":
                return self._reprioritise(job, request.priority_class)
            case "hold":
                return self._hold(job)
            case "release":
                return self._release(job)

    def _reprioritise(self, job: str, priority_class: str | None) -> str:
        if not priority_class:
            raise RequestRefusedError(422, "reprioritise needs `priorityClass`")
        namespace, _, name = job.partition("/")
        key = "PodGroup", namespace, name
        group = next((one for one in self._sandbox.objects() if kinds.key(one) == key), None)
        if not isinstance(group, PodGroup):
            raise RequestRefusedError(404, f"{job}: there is no PodGroup of this name")
        self._sandbox.apply([replace(group, spec=replace(group.spec, priority_class_name=priority_class))])
        return f"{job}: its priority class is {priority_class} now"

    def _hold(self, job: str) -> str:
        """Here pods can be gated though they exist: as if their controller had made them again."""
        pods = self._pods(job)
        if any(pod.spec.node_name for pod in pods):
            raise RequestRefusedError(422, f"{job}: has pods on nodes; a job that waits can be held")
        self._gate(pods, (SchedulingGate(HELD),))
        return f"{job}: held"

    def _release(self, job: str) -> str:
        held = [pod for pod in self._pods(job) if SchedulingGate(HELD) in pod.spec.scheduling_gates]
        if not held:
            raise RequestRefusedError(422, f"{job}: is not held")
        self._gate(held, ())
        return f"{job}: released"

    def _gate(self, pods: list[Pod], more: tuple[SchedulingGate, ...]) -> None:
        changed = []
        for pod in pods:
            others = tuple(gate for gate in pod.spec.scheduling_gates if gate.name != HELD)
            changed.append(replace(pod, spec=replace(pod.spec, scheduling_gates=(*others, *more))))
        self._sandbox.apply(changed)

    def _pods(self, job: str) -> list[Pod]:
        found = [one for one in self._sandbox.objects() if isinstance(one, Pod) and job_of(one) == job]
        if not found:
            raise RequestRefusedError(404, f"{job}: there is no such job")
        return [pod for pod in found if not is_ended(pod)]
