"""Choose devices by class, and nodes that have them (spec D21 to D23).

Which devices a task is given is worked out where placements are written (`DeviceAssignments`); what the columns cannot
tell about a node, in `DeviceFit`. The plugin is the policy's say in both: without it no pod gets devices.
"""

from __future__ import annotations

from collections.abc import Iterable

from fairway.api.arguments import DevicesArguments
from fairway.api.devices import MAX_USERS
from fairway.devices.select.requests import CLASS_MISSING, ResolvedRequests
from fairway.resources.columns import IntColumn
from fairway.scheduler.framework.hooks import (
    AssignsDevices,
    Check,
    Filters,
    LimitsNodes,
    LooksAround,
    Opens,
    ValidatesJobs,
)
from fairway.scheduler.framework.job_run import JobRun
from fairway.scheduler.framework.view import SessionView
from fairway.scheduler.placement.node_view import NodeView
from fairway.scheduler.verdict import DEVICES_TEXT, YES, Reason, Verdict
from fairway.state.shapes import Shape

ADMIN_ACCESS = "resource.kubernetes.io/admin-access"
"""The label of namespaces whose claims may look at devices that others have."""


class Devices(Opens, ValidatesJobs, Filters, LimitsNodes, LooksAround, AssignsDevices):
    """Choose devices by class, and nodes that have them."""

    name = "devices"
    Arguments = DevicesArguments

    def __init__(self, arguments: DevicesArguments) -> None:
        self._strategies: tuple[str, ...] = arguments.strategy
        self._session: SessionView | None = None

    def open(self, session: SessionView) -> None:
        self._session = session

    def device_strategies(self) -> tuple[str, ...]:
        return self._strategies

    def job_valid(self, job: JobRun) -> Verdict:
        """Whether what it asks for exists, and its namespace may ask for it."""
        session = self._session
        assert session is not None
        for run in job.template.runs:
            if run.shape.devices is None:
                continue
            requests = session.devices.requests.of(run.shape).resolved
            if why := self._not_allowed(session, job.namespace, requests):
                return Verdict(False, Reason.NAMESPACE_NOT_ALLOWED, self.name, why)
            if why := _too_many_users(session, job, run.shape):
                return Verdict(False, Reason.DEVICE_UNAVAILABLE, self.name, why)
            for missing in requests.missing:
                found = missing.what == CLASS_MISSING
                reason = Reason.CLASS_NOT_FOUND if found else Reason.DEVICE_UNAVAILABLE
                return Verdict(False, reason, self.name, missing.text)
        return YES

    def _not_allowed(self, session: SessionView, namespace: str, requests: ResolvedRequests) -> str:
        """Which class, by limits or by claim, the namespace may not ask for; "" if it may all."""
        labels, ledger = session.state.namespaces.labels(namespace), session.devices.ledger
        for option in (option for request in requests.requests for option in request.options):
            known = ledger.class_of(option.selector)
            if known is not None and not known.admits(labels):
                return f"namespace {namespace} may not request resource class {known.name}"
        if requests.admin and labels.get(ADMIN_ACCESS) != "true":
            return f"namespace {namespace} is not labelled {ADMIN_ACCESS}=true, which adminAccess needs"
        return ""

    def feasible(self, shape: Shape, nodes: NodeView) -> Iterable[Check]:
        session = self._session
        if session is None or not session.devices.uses_devices(shape):
            return ()
        serves = session.device_fit.serves(shape, nodes)
        return () if serves is None else (Check(serves, DEVICES_TEXT, Reason.DEVICE_UNAVAILABLE),)

    def limit(self, shape: Shape, nodes: NodeView) -> IntColumn | None:
        session = self._session
        if session is None or not session.devices.uses_devices(shape):
            return None
        return session.device_fit.limits(shape, nodes)

    def looks_around(self, shape: Shape) -> bool:
        """Pods that share a claim follow each other to its node, and what several nodes reach is there once."""
        devices = None if self._session is None else self._session.devices
        if devices is None or not devices.uses_devices(shape):
            return False
        return bool(devices.requests.of(shape).resolved.shared) or devices.shares_devices(shape)


def _too_many_users(session: SessionView, job: JobRun, shape: Shape) -> str:
    """Which claim cannot be reserved for as many more pods as the job starts with; "" if all can."""
    for named in shape.devices.claims if shape.devices is not None else ():
        claim = session.state.devices.claims.get(named.claim)
        if claim is None:
            continue
        sharing = [
            task for task in job.waiting if task.shape.devices is not None and named in task.shape.devices.claims
        ]
        own = {task.key.partition("/")[2] for task in sharing}
        others = sum(user.resource != "pods" or user.name not in own for user in claim.status.reserved_for)
        more = max(1, min(len(sharing), job.minimum - job.ready))
        if others + more > MAX_USERS:
            return f"resource claim {named.claim} is reserved for {others} pods, {more} more would exceed {MAX_USERS}"
    return ""
