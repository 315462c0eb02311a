"""A small API server for tests of the agent: nodes, ResourceSlices and ResourceClaims, with versions and conflicts.

It checks of a slice what the real one would refuse and the agent could get wrong.
"""

from __future__ import annotations

import itertools
import json
import re
import threading
from http.server import BaseHTTPRequestHandler, ThreadingHTTPServer
from typing import Any

LABEL = re.compile(r"[a-z0-9]([-a-z0-9]{0,61}[a-z0-9])?")
SLICES = "/apis/resource.k8s.io/v1/resourceslices"


class SmallApi:
    """Serves until it is closed; what was written is in `slices` and `nodes`, every request in `log`."""

    def __init__(self, *, with_devices: bool = True) -> None:
        self.nodes: dict[str, dict[str, Any]] = {}
        self.slices: dict[str, dict[str, Any]] = {}
        self.claims: dict[str, dict[str, Any]] = {}
        self.log: list[str] = []
        self.preconditions: list[dict[str, str]] = []
        """Of each deletion."""
        self.problems: list[str] = []
        self.failing = 0
        """Answer so many requests with 500."""
        self.silent = False
        """Answer nothing."""
        self._versions = itertools.count(1)
        self._with_devices = with_devices
        api = self

        class Handler(BaseHTTPRequestHandler):
            protocol_version = "HTTP/1.1"

            def log_message(self, *_: object) -> None: ...

            def _serve(self) -> None:
                if api.silent:
                    self.close_connection = True
                    return
                size = int(self.headers.get("Content-Length") or 0)
                body = json.loads(self.rfile.read(size)) if size else None
                status, answer = api.answer(self.command, self.path, body)
                data = json.dumps(answer).encode()
                self.send_response(status)
                self.send_header("Content-Type", "application/json")
                self.send_header("Content-Length", str(len(data)))
                self.end_headers()
                self.wfile.write(data)

            do_GET = do_POST = do_PUT = do_PATCH = do_DELETE = _serve  # noqa: N815 - by the library's names

        self._server = ThreadingHTTPServer(("127.0.0.1", 0), Handler)
        self._server.daemon_threads = True
        self._thread = threading.Thread(target=self._server.serve_forever, args=(0.02,), daemon=True)
        self._thread.start()

    @property
    def url(self) -> str:
        return f"http://127.0.0.1:{self._server.server_address[1]}"

    def close(self) -> None:
        self._server.shutdown()
        self._server.server_close()
        self._thread.join()

    # -- for tests -------------------------------------------------------------------------------------------

    def node(self, name: str, **labels: str) -> None:
        self.nodes[name] = {"metadata": {"name": name, "uid": f"uid-{name}", "labels": labels, "annotations": {}}}
        self.nodes[name]["status"] = {"capacity": {}}

    def claim(self, name: str, *devices: tuple[str, str, str], driver: str = "devices.fairway.dev", **more: Any) -> str:
        """Allocated: each device is (request, pool, device)."""
        results = [
            {"request": request, "driver": driver, "pool": pool, "device": device, **more}
            for request, pool, device in devices
        ]
        status = {"allocation": {"devices": {"results": results}}} if devices else {}
        uid = f"uid-{name}"
        self.claims[name] = {"metadata": {"name": name, "namespace": "ns", "uid": uid}, "spec": {}, "status": status}
        return f"ns {name} {uid}"

    def devices(self, pool: str) -> dict[str, dict[str, Any]]:
        """Of the newest generation, if it is complete."""
        mine = [one["spec"] for one in self.slices.values() if one["spec"]["pool"]["name"] == pool]
        newest = max((spec["pool"]["generation"] for spec in mine), default=0)
        current = [spec for spec in mine if spec["pool"]["generation"] == newest]
        if not current or len(current) != current[0]["pool"]["resourceSliceCount"]:
            return {}
        return {device["name"]: device for spec in current for device in spec.get("devices", ())}

    def writes(self) -> list[str]:
        return [line for line in self.log if not line.startswith("GET")]

    # -- answers ---------------------------------------------------------------------------------------------

    def answer(self, method: str, target: str, body: Any) -> tuple[int, Any]:
        path, _, query = target.partition("?")
        self.log.append(f"{method} {path}")
        if self.failing:
            self.failing -= 1
            return 500, {"message": "broken", "reason": "InternalError"}
        if path.startswith("/apis/resource.k8s.io/v1") and not self._with_devices:
            return 404, {"message": "no such group", "reason": "NotFound"}
        if path == "/apis/resource.k8s.io/v1":
            verbs = ["list", "watch"]
            found = {"name": "resourceslices", "kind": "ResourceSlice", "verbs": verbs}
            return 200, {"kind": "APIResourceList", "resources": [found]}
        if path == "/apis":
            return 200, {"kind": "APIGroupList", "groups": []}
        if path.startswith(SLICES):
            return self._slice(method, path.removeprefix(SLICES).strip("/"), query, body)
        if "/resourceclaims/" in path:
            return _found(self.claims.get(path.rpartition("/")[2]))
        if path.startswith("/api/v1/nodes/"):
            return self._node(method, path.split("/")[4], body)
        return 404, {"message": f"nothing at {path}", "reason": "NotFound"}

    def _node(self, method: str, name: str, body: Any) -> tuple[int, Any]:
        node = self.nodes.get(name)
        if node is None or method == "GET":
            return _found(node)
        _merge(node, body)
        return 200, node

    def _slice(self, method: str, name: str, query: str, body: Any) -> tuple[int, Any]:
        if method == "GET":
            return 200, {"items": [one for one in self.slices.values() if _selected(one, query)]}
        if method == "DELETE":
            wanted = (body or {}).get("preconditions", {})
            self.preconditions.append(wanted)
            if name in self.slices and wanted.get("uid") != self.slices[name]["metadata"]["uid"]:
                return 409, {"message": "the uid in the precondition is another", "reason": "Conflict"}
            return _found(self.slices.pop(name, None))
        name = name or body["metadata"]["name"]
        before = self.slices.get(name)
        if method == "POST" and before is not None:
            return 409, {"message": "already exists", "reason": "AlreadyExists"}
        if method == "PUT" and before is None:
            return _found(None)
        if before is not None and body["metadata"]["resourceVersion"] != before["metadata"]["resourceVersion"]:
            return 409, {"message": "the object has been modified", "reason": "Conflict"}
        problem = _slice_problem(body)
        if problem:
            self.problems.append(problem)
            return 422, {"message": problem, "reason": "Invalid"}
        body["metadata"]["resourceVersion"] = str(next(self._versions))
        body["metadata"].setdefault("uid", f"uid-{name}")
        self.slices[name] = body
        return 200 if before else 201, body


def _selected(one: dict[str, Any], query: str) -> bool:
    wanted = re.findall(r"spec\.(\w+)(?:=|%3D)([^,%&]+)", query)
    return bool(wanted) and all(one["spec"][field] == value for field, value in wanted)


def _found(thing: Any) -> tuple[int, Any]:
    return (404, {"message": "not found", "reason": "NotFound"}) if thing is None else (200, thing)


def _merge(thing: dict[str, Any], patch: dict[str, Any]) -> None:
    for key, value in patch.items():
        if value is None:
            thing.pop(key, None)
        elif isinstance(value, dict):
            _merge(thing.setdefault(key, {}), value)
        else:
            thing[key] = value


def _slice_problem(body: dict[str, Any]) -> str:
    spec = body["spec"]
    devices = spec.get("devices", [])
    if spec["pool"].get("resourceSliceCount", 0) < 1:
        return "spec.pool.resourceSliceCount must be greater than zero"
    if len(devices) > (64 if any(one.get("taints") for one in devices) else 128):
        return f"too many devices: {len(devices)}"
    if len({one["name"] for one in devices}) < len(devices):
        return "duplicate device"
    for one in devices:
        if not LABEL.fullmatch(one["name"]):
            return f"{one['name']} is not a DNS label"
        if len(one.get("attributes", {})) + len(one.get("capacity", {})) > 32:
            return "too many attributes"
        for name, value in one.get("attributes", {}).items():
            if len(value) != 1 or len(str(value.get("string", "")).encode()) > 64:
                return f"attribute {name}: {value}"
    return ""
