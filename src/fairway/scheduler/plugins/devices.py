"""Choose devices by class, and nodes that have them (seed 003).

Which devices a task is given is worked out where room is written (`Allotments`); what the columns cannot tell about a
node, in `DeviceFit`. The plugin is the policy's say in both: without it nobody gets devices.
"""

from __future__ import annotations

from collections.abc import Iterable

from fairway.api.arguments import DevicesArguments
from fairway.devices.requests import CLASS_MISSING
from fairway.resources.columns import IntColumn
from fairway.scheduler.hooks import Check
from fairway.scheduler.jobrun import JobRun
from fairway.scheduler.nodes.view import NodeView
from fairway.scheduler.session import Session
from fairway.scheduler.verdict import DEVICES_TEXT, YES, Reason, Verdict
from fairway.state.shapes import Shape

ADMIN_ACCESS = "resource.kubernetes.io/admin-access"
"""The label of namespaces whose claims may look at devices that others have."""


class Devices:
    name = "devices"
    built_in = True

    def __init__(self, arguments: DevicesArguments) -> None:
        self.chain: tuple[str, ...] = arguments.strategy
        self._session: Session | None = None

    def open(self, session: Session) -> None:
        self._session = session

    def job_valid(self, job: JobRun) -> Verdict:
        """Whether what it asks for exists, and its namespace may ask for it."""
        session = self._session
        assert session is not None
        for run in job.signature.runs:
            asks = run.shape.devices
            if asks is None:
                continue
            labels = session.state.namespaces.labels(job.namespace)
            for ask in asks.classes:
                known = session.devices.book.classes.get(ask.class_name)
                if known is not None and not known.admits(labels):
                    detail = f"namespace {job.namespace} may not ask for resource class {ask.class_name}"
                    return Verdict(False, Reason.NAMESPACE_NOT_ALLOWED, self.name, detail)
            needs = session.devices.asks.of(run.shape).needs
            if needs.admin and labels.get(ADMIN_ACCESS) != "true":
                detail = f"namespace {job.namespace} is not labelled {ADMIN_ACCESS}=true, which adminAccess needs"
                return Verdict(False, Reason.NAMESPACE_NOT_ALLOWED, self.name, detail)
            for missing in needs.missing:
                found = missing.what == CLASS_MISSING
                reason = Reason.CLASS_NOT_FOUND if found else Reason.DEVICE_UNAVAILABLE
                return Verdict(False, reason, self.name, missing.text)
        return YES

    def feasible(self, shape: Shape, nodes: NodeView) -> Iterable[Check]:
        session = self._session
        if session is None or not session.devices.minds(shape):
            return ()
        serves = session.device_fit.serves(shape, nodes)
        return () if serves is None else (Check(serves, DEVICES_TEXT, Reason.DEVICE_UNAVAILABLE),)

    def limit(self, shape: Shape, nodes: NodeView) -> IntColumn | None:
        session = self._session
        if session is None or not session.devices.minds(shape):
            return None
        return session.device_fit.limits(shape, nodes)

    def looks_around(self, shape: Shape) -> bool:
        """Pods that share a claim follow each other to its node, and what several nodes reach is there once."""
        devices = None if self._session is None else self._session.devices
        if devices is None or not devices.minds(shape):
            return False
        return bool(devices.asks.of(shape).needs.shared) or devices.shares_devices(shape)
