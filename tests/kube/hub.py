"""A hub for one test, on a real API server with OCM's own definitions; and a placer in the test's own process."""

from __future__ import annotations

import asyncio
import json
import threading
import urllib.error
from collections.abc import Callable, Mapping, Sequence
from types import TracebackType
from typing import Any

import msgspec

from fairway.app.hub import FleetController, FleetSettings
from fairway.app.live.program import LeaderElection
from fairway.app.logs import RunLog
from fairway.kube.http.exchange import ApiAnswer, ApiRequest, MayLeave
from fairway.kube.install.options import InstallOptions
from fairway.kube.install.output import objects
from fairway.kube.server.kubeconfig import find_connection
from kube.cluster import Cluster, eventually
from kube.controlplane.plane import ControlPlane
from kube.ocm import GROUP, SCORES, V1, V1BETA1, V1BETA2, definitions
from kube.servers import apply

LABEL = f"{GROUP}/placement"


def install(plane: ControlPlane, kinds: Sequence[dict[str, Any]] | None = None) -> None:
    """OCM's definitions, unchanged, and the access of the placer. `kinds` are those of another release."""
    path = "/apis/apiextensions.k8s.io/v1/customresourcedefinitions"
    wanted = definitions() if kinds is None else kinds
    for one in wanted:
        try:
            plane.call("POST", path, one)
        except urllib.error.HTTPError as error:
            if error.code != 409:
                raise

    def established() -> bool:
        names = {one["metadata"]["name"] for one in wanted}
        for one in plane.call("GET", path)["items"]:
            conditions = {c["type"]: c["status"] for c in one.get("status", {}).get("conditions") or []}
            if conditions.get("Established") == "True":
                names.discard(one["metadata"]["name"])
        return not names

    eventually(established, "OCM's definitions are served")
    installed = objects(InstallOptions(part="fleet", name="fairway-fleet"))
    apply(plane, [one for one in installed if "rbac" in one["apiVersion"] or one["kind"] == "Namespace"])


class Hub(Cluster):
    """One namespace, one set of clusters bound to it, and clusters whose names begin with the test's."""

    sets, placements = V1BETA2, V1BETA1
    """API versions."""

    def __init__(self, plane: ControlPlane, name: str, *, bound: bool = True) -> None:
        self._install(plane)
        super().__init__(plane, name)
        self.set_name = self.namespace
        self.make(
            f"/apis/{self.sets}/managedclustersets",
            {"apiVersion": self.sets, "kind": "ManagedClusterSet", "metadata": {"name": self.set_name}},
        )
        if bound:
            self.bind_set()

    def _install(self, plane: ControlPlane) -> None:
        install(plane)

    def bind_set(self) -> None:
        body = {"metadata": {"name": self.set_name}, "spec": {"clusterSet": self.set_name}}
        self.make(
            f"{self._in(self.sets)}/managedclustersetbindings",
            self._object(self.sets, "ManagedClusterSetBinding", body),
        )

    def _in(self, version: str) -> str:
        return f"/apis/{version}/namespaces/{self.namespace}"

    @staticmethod
    def _object(version: str, kind: str, body: Mapping[str, Any]) -> dict[str, Any]:
        return {"apiVersion": version, "kind": kind, **body}

    # -- clusters --------------------------------------------------------------------------------------------

    def full(self, name: str) -> str:
        return f"{self.namespace}-{name}"

    def short(self, name: str) -> str:
        return name.removeprefix(f"{self.namespace}-")

    def managed(
        self,
        name: str,
        allocatable: Mapping[str, str] | None = None,
        capacity: Mapping[str, str] | None = None,
        *,
        labels: Mapping[str, str] | None = None,
        annotations: Mapping[str, str] | None = None,
        taints: list[dict[str, Any]] | None = None,
    ) -> str:
        full = self.full(name)
        meta = {
            "name": full,
            "labels": {f"{GROUP}/clusterset": self.set_name, **(labels or {})},
            "annotations": dict(annotations or {}),
        }
        spec = {"hubAcceptsClient": True, "taints": taints or []}
        self.make(f"/apis/{V1}/managedclusters", self._object(V1, "ManagedCluster", {"metadata": meta, "spec": spec}))
        self.reports(name, allocatable or {"cpu": "10"}, capacity)
        return full

    def reports(self, name: str, allocatable: Mapping[str, str], capacity: Mapping[str, str] | None = None) -> None:
        """What the registration agent writes."""
        available = {
            "type": "ManagedClusterConditionAvailable",
            "status": "True",
            "reason": "ManagedClusterAvailable",
            "message": "",
            "lastTransitionTime": "2026-01-01T00:00:00Z",
        }
        status = {"allocatable": allocatable, "capacity": capacity or allocatable, "conditions": [available]}
        self.patch(f"{self.path(name)}/status", {"status": status})

    def path(self, name: str) -> str:
        return f"/apis/{V1}/managedclusters/{self.full(name)}"

    def patch(self, path: str, body: Mapping[str, Any]) -> Any:
        return self.plane.call("PATCH", path, dict(body), kind="merge")

    def annotate(self, name: str, **annotations: Any) -> None:
        """Annotations of `fairway.dev/`; what is no text is written as JSON."""
        texts = {
            f"fairway.dev/{key.replace('_', '-')}": one if one is None or isinstance(one, str) else json.dumps(one)
            for key, one in annotations.items()
        }
        self.patch(self.path(name), {"metadata": {"annotations": texts}})

    def taint(self, name: str, *taints: dict[str, Any]) -> None:
        self.patch(self.path(name), {"spec": {"taints": list(taints)}})

    def condition_of(self, name: str, type: str) -> dict[str, Any] | None:
        found = self.get(self.path(name))["status"].get("conditions", [])
        return next((one for one in found if one["type"] == type), None)

    def score(self, cluster: str, resource: str, until: str | None = None, **scores: int) -> None:
        """As an add-on writes them, in the namespace of the cluster."""
        space = self.full(cluster)
        if self.get(f"/api/v1/namespaces/{space}") is None:
            self.make("/api/v1/namespaces", {"metadata": {"name": space}})
        path = f"/apis/{SCORES}/namespaces/{space}/addonplacementscores"
        if self.get(f"{path}/{resource}") is None:
            self.make(path, self._object(SCORES, "AddOnPlacementScore", {"metadata": {"name": resource}}))
        status: dict[str, Any] = {"scores": [{"name": name, "value": value} for name, value in scores.items()]}
        if until is not None:
            status["validUntil"] = until
        self.patch(f"{path}/{resource}/status", {"status": status})

    # -- placements ------------------------------------------------------------------------------------------

    def placement(self, name: str, *, annotations: Mapping[str, str] | None = None, **spec: Any) -> dict[str, Any]:
        meta = {"name": name, "annotations": dict(annotations or {})}
        return self.make(
            f"{self._in(self.placements)}/placements",
            self._object(self.placements, "Placement", {"metadata": meta, "spec": spec}),
        )

    def placement_path(self, name: str) -> str:
        return f"{self._in(self.placements)}/placements/{name}"

    @property
    def decisions_path(self) -> str:
        return f"{self._in(self.placements)}/placementdecisions"

    def slices(self, placement: str) -> list[dict[str, Any]]:
        found: list[dict[str, Any]] = self.get(f"{self.decisions_path}?labelSelector={LABEL}%3D{placement}")["items"]
        return sorted(found, key=lambda one: int(one["metadata"]["name"].rpartition("-")[2]))

    def chosen(self, placement: str) -> list[str]:
        """The chosen clusters by their short names, in the order of the slices."""
        return [
            self.short(one["clusterName"])
            for decision in self.slices(placement)
            for one in decision.get("status", {}).get("decisions", [])
        ]

    def status(self, placement: str) -> dict[str, Any]:
        found: dict[str, Any] = self.get(self.placement_path(placement)).get("status", {})
        return found

    def condition(self, placement: str, type: str = "PlacementSatisfied") -> tuple[str, str, str] | None:
        for one in self.status(placement).get("conditions", []):
            if one["type"] == type:
                return one["status"], one["reason"], one["message"]
        return None

    def notes(self, placement: str) -> list[tuple[str, str]]:
        """Reason and text of the events about a placement, oldest first."""
        items = self.get(f"/apis/events.k8s.io/v1/namespaces/{self.namespace}/events")["items"]
        own = [one for one in items if one["regarding"]["name"] == placement]
        own.sort(key=lambda one: (one["eventTime"], int(one["metadata"]["resourceVersion"])))
        return [(one["reason"], one["note"].replace(f"{self.namespace}-", "")) for one in own]

    def clean(self) -> None:
        for one in self.get(self.decisions_path)["items"]:
            self.delete(f"{self.decisions_path}/{one['metadata']['name']}")
        super().clean()
        for one in self.get(self.decisions_path)["items"]:
            self.delete(f"{self.decisions_path}/{one['metadata']['name']}")


class LiveFleet:
    """`with LiveFleet(hub) as live:`; at its end the placer is stopped cleanly, and must have ended with 0."""

    def __init__(self, hub: Hub, *, user: str = "fleet", **settings: Any) -> None:
        chosen = {
            "kubeconfig": str(hub.plane.kubeconfig(user)),
            "leader_election": LeaderElection(enabled=False),
            "http_address": "127.0.0.1:0",
            "min_interval": 0.01,
            **settings,
        }
        self.hub = hub
        self.settings = FleetSettings(**chosen)
        self.lines: list[dict[str, Any]] = []
        log = RunLog("json", "debug", write=lambda line: self.lines.append(msgspec.json.decode(line)))
        self.placer = FleetController(self.settings, find_connection(self.settings.kubeconfig), log)
        self.requests: list[tuple[str, str]] = []
        """Method and path of each request that wrote."""
        self.exit_code: int | None = None
        self._thread = threading.Thread(target=self._run, name="live-fleet", daemon=True)

    def _run(self) -> None:
        self.exit_code = asyncio.run(self.placer.run())

    def __enter__(self) -> LiveFleet:
        self._thread.start()
        eventually(lambda: self.placer.ready.is_set() or not self._thread.is_alive(), "all kinds listed")
        if self._thread.is_alive():
            counted = self.placer._queue.on_request

            def listen(request: Any, answer: Any, seconds: float) -> None:
                if request.method != "GET":
                    self.requests.append((request.method, request.path))
                if counted is not None:
                    counted(request, answer, seconds)

            self.placer._queue.on_request = listen
        return self

    def __exit__(
        self, kind: type[BaseException] | None, error: BaseException | None, trace: TracebackType | None
    ) -> None:
        self.stop()
        if kind is None:
            assert self.exit_code == 0, [line for line in self.lines if line["level"] == "error"]

    def stop(self) -> None:
        if self._thread.is_alive():
            self.placer._sockets.call_soon_threadsafe(self.placer.stop)
            self._thread.join(60)
        assert not self._thread.is_alive()

    def logged(self, message: str) -> list[dict[str, Any]]:
        return [line for line in list(self.lines) if line["message"] == message]

    def on_loop(self, call: Callable[[], Any]) -> Any:
        """What a call gives on the deciding thread."""
        found: list[Any] = []
        done = threading.Event()

        def hand_over() -> None:
            found.append(call())
            done.set()

        self.placer._thread.hand_over(hand_over)
        assert done.wait(60)
        return found[0]

    def meet_a_change(self) -> None:
        """The next status of a placement finds that a user has just changed the placement."""
        queue, hub = self.placer._queue, self.hub
        send = queue._send

        async def after_a_change(request: ApiRequest, may_leave: MayLeave | None) -> ApiAnswer:
            path = request.path.partition("/status")[0]
            if request.method == "PUT" and "/placements/" in path:
                queue._send = send
                await asyncio.to_thread(hub.patch, path, {"metadata": {"annotations": {"team": "x"}}})
            return await send(request, may_leave)

        queue._send = after_a_change

    def settle(self) -> None:
        """Until nothing is left to decide or to write."""
        seen: list[dict[str, Any]] = [{}]

        def is_quiet() -> bool:
            seen[0] = {**self.on_loop(self._undecided), "writes": self.placer._queue.unended()}
            return not any(seen[0].values())

        try:
            eventually(is_quiet, "the placer is quiet")
        except AssertionError as error:
            raise AssertionError(f"{error}; what is left: {seen[0]}") from None

    def _undecided(self) -> dict[str, Any]:
        """What is left to decide, or waits for a write. On the deciding thread."""
        loop = self.placer.loop
        return {
            "unwritten": list(loop._unwritten)[:5],
            "foreign": list(loop._foreign)[:5],
            "dirty": loop.store.is_dirty,
            "affected": list(loop.state.affected(loop._timer.now()))[:5],
            "under way": [key for key, desk in loop._desks.items() if desk.under_way is not None][:5],
        }
