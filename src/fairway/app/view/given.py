"""A cluster that was read once, from manifests or from an API server, as `fairway get` lists it."""

from __future__ import annotations

from functools import cached_property
from typing import Any

import msgspec

from fairway.app.explain import Situation
from fairway.app.records import SandboxEvent, written
from fairway.app.view.frame import ClusterView, Frame, NodeUse
from fairway.app.view.jobs import JobRow, job_rows
from fairway.drive import ObjectStore
from fairway.errors import InputError


class GivenObjects:
    """Answers as the sandbox's client does; what waits, and why, is what the next cycle would say."""

    def __init__(self, situation: Situation) -> None:
        self._situation = situation

    @cached_property
    def _view(self) -> ClusterView:
        situation, store = self._situation, ObjectStore()
        for thing in situation.objects.values():
            store.seen(thing)
        return ClusterView(store, situation.state, situation.decide(), situation.now)

    def frame(self) -> Frame:
        return self._view.frame()

    def jobs(self) -> list[JobRow]:
        return job_rows(self._view.frame(), ())

    def nodes(self) -> list[NodeUse]:
        return self._view.nodes()

    def events(self) -> list[SandboxEvent]:
        raise InputError("events are kept by the sandbox; `kubectl get events` lists those of a cluster")

    def objects(self, kind: str) -> list[dict[str, Any]]:
        found = [thing for key, thing in sorted(self._situation.objects.items()) if key[0] == kind]
        return [msgspec.json.decode(written(thing), type=dict[str, Any]) for thing in found]
