"""A stand-in for a kubelet, as far as devices go: it checks of claims what a kubelet's DRA manager checks, calls the
drivers that registered on its node, and says what each container would be given.

Simpler than a real one: it looks when it is told to and not by watching, starts no containers, keeps nothing over a
restart, and prepares one claim after the other. A pod that cannot be admitted is an error here, where a kubelet tries
again.
"""

from __future__ import annotations

import json
from pathlib import Path
from typing import Any

from agent.players import Looped, PlayedKubelet
from kube.controlplane.plane import ControlPlane

DRA = "/apis/resource.k8s.io/v1"
SPECIAL = "resource.kubernetes.io/extended-resource-claim"


class StandInError(Exception):
    """What a kubelet would write into an event of the pod."""


class StandInKubelet:
    def __init__(self, plane: ControlPlane, node: str, looped: Looped, folder: Path) -> None:
        self._plane = plane
        self.node = node
        self._cdi = folder / "cdi"
        self._driver = PlayedKubelet(looped, folder / "kr").register()
        self._claims: dict[str, dict[str, str]] = {}
        """The claims of each pod that runs, by pod uid: claim uid and how the driver was told of it."""

    def sync(self) -> dict[str, dict[str, list[str]]]:
        """Start what was bound here, end what is being deleted. For each pod that runs now: the ids of the devices of
        each container, as the plugin's variable says.
        """
        found: dict[str, dict[str, list[str]]] = {}
        pods = self._plane.call("GET", f"/api/v1/pods?fieldSelector=spec.nodeName%3D{self.node}")["items"]
        for uid in set(self._claims) - {pod["metadata"]["uid"] for pod in pods}:
            self._unprepare(uid)
        for pod in pods:
            if pod["metadata"].get("deletionTimestamp") or pod["status"]["phase"] in ("Succeeded", "Failed"):
                self._end(pod)
            else:
                found[pod["metadata"]["name"]] = self._start(pod)
        return found

    def _start(self, pod: dict[str, Any]) -> dict[str, list[str]]:
        given: dict[str, list[str]] = {}
        uid = pod["metadata"]["uid"]
        for name, requests in self._wanted(pod):
            claim = self._claim(pod, name)
            words = f"{pod['metadata']['namespace']} {name} {claim['metadata']['uid']}"
            (devices,) = self._driver.prepare(words).values()
            if isinstance(devices, str):
                raise StandInError(devices)
            self._claims.setdefault(uid, {})[claim["metadata"]["uid"]] = words
            for container, request in requests:
                cdi = [one for device in devices if request in ("", device[0]) for one in device[2]]
                given.setdefault(container, []).extend(self._visible(cdi))
        path = f"/api/v1/namespaces/{pod['metadata']['namespace']}/pods/{pod['metadata']['name']}/status"
        self._plane.call("PATCH", path, {"status": {"phase": "Running"}}, kind="merge")
        return given

    def _wanted(self, pod: dict[str, Any]) -> list[tuple[str, list[tuple[str, str]]]]:
        """Each claim of the pod, with the containers that use it and by which of its requests ("" is all)."""
        made = {one["name"]: one.get("resourceClaimName") for one in pod["status"].get("resourceClaimStatuses", ())}
        containers = [*pod["spec"].get("initContainers", ()), *pod["spec"]["containers"]]
        found = []
        for entry in pod["spec"].get("resourceClaims", ()):
            name = entry.get("resourceClaimName") or made.get(entry["name"])
            if not name:
                raise StandInError(f"claim {entry['name']} of the pod was not made yet")
            uses = [
                (container["name"], use.get("request", ""))
                for container in containers
                for use in container.get("resources", {}).get("claims", ())
                if use["name"] == entry["name"]
            ]
            found.append((name, uses))
        special = pod["status"].get("extendedResourceClaimStatus")
        if special:
            uses = [(one["containerName"], one["requestName"]) for one in special["requestMappings"]]
            found.append((special["resourceClaimName"], uses))
        return found

    def _claim(self, pod: dict[str, Any], name: str) -> dict[str, Any]:
        """What a kubelet requires before it calls a driver."""
        where = f"claim {name}"
        claim: dict[str, Any] = self._plane.call(
            "GET", f"{DRA}/namespaces/{pod['metadata']['namespace']}/resourceclaims/{name}"
        )
        owners = claim["metadata"].get("ownerReferences", [])
        uid = pod["metadata"]["uid"]
        is_special = claim["metadata"].get("annotations", {}).get(SPECIAL) == "true"
        if is_special and [owner["uid"] for owner in owners if owner.get("controller")] != [uid]:
            raise StandInError(f"{where} was not made for the pod")
        allocation = claim.get("status", {}).get("allocation")
        if allocation is None:
            raise StandInError(f"{where} is not allocated")
        if "resource.kubernetes.io/delete-protection" not in claim["metadata"].get("finalizers", ()):
            raise StandInError(f"{where} is not protected from deletion")
        if uid not in [user["uid"] for user in claim["status"].get("reservedFor", ())]:
            raise StandInError(f"{where} is not reserved for the pod")
        terms = allocation["nodeSelector"]["nodeSelectorTerms"]
        if [term["matchFields"][0]["values"] for term in terms] != [[self.node]]:
            raise StandInError(f"{where} is allocated for another node")
        for result in allocation["devices"]["results"]:
            if result["driver"] != self._driver.info.name:
                raise StandInError(f"{where}: driver {result['driver']} is not registered")
        return claim

    def _visible(self, cdi: list[str]) -> list[str]:
        """From the specs in the folder that a container runtime reads."""
        found: list[str] = []
        for path in self._cdi.glob("*.json"):
            spec = json.loads(path.read_text())
            for device in spec["devices"]:
                if f"{spec['kind']}={device['name']}" in cdi:
                    for text in device["containerEdits"].get("env", ()):
                        name, _, value = text.partition("=")
                        found += value.split(",") if name == "VISIBLE_DEVICES" else []
        return found

    def _unprepare(self, uid: str) -> None:
        for words in self._claims.pop(uid, {}).values():
            (error,) = self._driver.unprepare(words).values()
            if error:
                raise StandInError(error)

    def _end(self, pod: dict[str, Any]) -> None:
        self._unprepare(pod["metadata"]["uid"])
        path = f"/api/v1/namespaces/{pod['metadata']['namespace']}/pods/{pod['metadata']['name']}"
        self._plane.call("DELETE", path, {"gracePeriodSeconds": 0})
