"""The page of a sandbox: the watch on its scheduler, actions on its jobs, and the server."""

from __future__ import annotations

from collections.abc import Callable, Sequence
from pathlib import Path

from msgspec.structs import replace

from fairway.api import kinds
from fairway.api.kinds import ApiObject
from fairway.api.pods import Pod
from fairway.api.scheduling import PodGroup
from fairway.app.logs import RunLog
from fairway.app.sandbox import Runner, Sandbox
from fairway.app.view.behind import LiveFacts
from fairway.app.view.details import held_pods
from fairway.app.view.history_ring import IN_MEMORY, HistoryRing
from fairway.app.view.mirror import Mirror
from fairway.app.view.models.jobs import JobAction, JobActionRequest, JobSummary
from fairway.app.view.watch import ClusterWatch
from fairway.sim.virtual_jobs import is_ended
from fairway.state.annotations import HOLD, is_held
from fairway.state.reader import job_of
from fairway.web.application import LoopbackPage
from fairway.web.asking import RequestRefusedError, Viewer
from fairway.web.page_log import to_standard_error
from fairway.web.shown import ShownCluster
from fairway.web.worker import WhatIfWorker


def sandbox_watch(sandbox: Sandbox) -> ClusterWatch:
    """A watch that follows the sandbox's scheduler from now on."""
    watch = ClusterWatch(Mirror(sandbox.policy, sandbox.now), lambda: sandbox.now)
    watch.coming = lambda: sandbox.coming
    sandbox.listen(watch)
    return watch


class SandboxActions:
    """Actions on jobs of a sandbox."""

    def __init__(self, sandbox: Sandbox) -> None:
        self._sandbox = sandbox

    def allowed(self, viewer: Viewer, job: JobSummary) -> list[JobAction]:
        if job.state == "finished":
            return []
        found: list[JobAction] = ["cancel"]
        if job.kind == "PodGroup":
            found.append("reprioritise")
        known = self._known(job.job)
        if any(is_held(thing.metadata) for thing in known):
            found.append("release")
        elif job.state != "running" or job.placed < job.pods:
            found.append("hold")
        return found

    def act(self, viewer: Viewer, job: str, request: JobActionRequest) -> str:
        match request.action:
            case "cancel":
                return self._cancel(job)
            case "reprioritise":
                return self._reprioritise(job, request.priority_class)
            case "hold":
                return self._hold(job)
            case "release":
                return self._release(job)

    def _cancel(self, job: str) -> str:
        known = self._known(job)
        if not known:
            raise RequestRefusedError(404, f"{job}: there is no such job")
        namespace, _, name = job.partition("/")
        of_controller = "/" in name
        self._sandbox.delete([kinds.key(thing) for thing in known] if of_controller else [("Job", namespace, name)])
        return f"{job}: deleted"

    def _reprioritise(self, job: str, priority_class: str | None) -> str:
        if not priority_class:
            raise RequestRefusedError(422, "reprioritise needs `priorityClass`")
        namespace, _, name = job.partition("/")
        key = "PodGroup", namespace, name
        group = next((one for one in self._sandbox.objects() if kinds.key(one) == key), None)
        if not isinstance(group, PodGroup):
            raise RequestRefusedError(404, f"{job}: there is no PodGroup of this name")
        pods = [thing for thing in self._known(job) if isinstance(thing, Pod) and not thing.spec.node_name]
        objects: list[Pod | PodGroup] = [group, *pods]
        self._sandbox.apply([_with_class(thing, priority_class) for thing in objects])
        return f"{job}: its priority class is {priority_class} now, and that of its pods that wait"

    def _hold(self, job: str) -> str:
        known = self._known(job)
        if not known:
            raise RequestRefusedError(404, f"{job}: there is no such job")
        waiting = [thing for thing in known if isinstance(thing, Pod) and not thing.spec.node_name]
        if not waiting:
            raise RequestRefusedError(422, f"{job}: none of its pods is pending; pods on nodes cannot be held")
        groups = [thing for thing in known if isinstance(thing, PodGroup)]
        self._annotate(groups or waiting, "true")
        is_controlled = not groups and "/" in job.partition("/")[2]  # named by kind and name of the controller
        return f"{job}: {held_pods(len(waiting)) if is_controlled else 'held'}"

    def _release(self, job: str) -> str:
        held = [thing for thing in self._known(job) if is_held(thing.metadata)]
        if not held:
            raise RequestRefusedError(422, f"{job}: is not held (annotation {HOLD})")
        self._annotate(held, None)
        return f"{job}: released"

    def _annotate(self, things: Sequence[Pod | PodGroup], value: str | None) -> None:
        changed: list[ApiObject] = []
        for thing in things:
            others = {name: text for name, text in thing.metadata.annotations.items() if name != HOLD}
            notes = others if value is None else {**others, HOLD: value}
            changed.append(replace(thing, metadata=replace(thing.metadata, annotations=notes)))
        self._sandbox.apply(changed)

    def _known(self, job: str) -> list[Pod | PodGroup]:
        """The pods of the job and its PodGroup."""
        found: list[Pod | PodGroup] = []
        for thing in self._sandbox.objects():
            if isinstance(thing, Pod):
                if job_of(thing) == job and not is_ended(thing):
                    found.append(thing)
            elif isinstance(thing, PodGroup) and f"{thing.metadata.namespace}/{thing.metadata.name}" == job:
                found.append(thing)
        return found


def _with_class(thing: Pod | PodGroup, name: str) -> ApiObject:
    """A group's priority is limited by that of its pods, so pending pods get the class too: on a cluster their
    controller would recreate them.
    """
    if isinstance(thing, Pod):
        return replace(thing, spec=replace(thing.spec, priority_class_name=name, priority=None))
    return replace(thing, spec=replace(thing.spec, priority_class_name=name))


class SandboxPage(LoopbackPage):
    """The page of a sandbox, with its history in a file or in memory."""

    def __init__(
        self,
        sandbox: Sandbox,
        port: int,
        token: str,
        history: str | Path = IN_MEMORY,
        log: Callable[[str], None] = to_standard_error,
    ) -> None:
        """`log` writes a line of the log."""
        ring, watch = HistoryRing(history), sandbox_watch(sandbox)
        watch.drawn = ring.take
        shown = ShownCluster("sandbox", "Sandbox", watch, sandbox=sandbox, history=ring, what_if=WhatIfWorker())
        shown.log = RunLog(write=log)
        shown.lateness = lambda: LiveFacts(unseen=watch.unseen())
        super().__init__(shown, port, token)

    def paced_by(self, runner: Runner) -> None:
        self.shown.pace = runner
