"""What an API server does with the PlacementDecisions of one namespace, in a few lines: for tests of their writer."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

import msgspec

from fairway.api.fleet import PlacementDecision
from fairway.fleet.slices import members
from fairway.kube.http.exchange import ApiAnswer, ApiRequest, Ending
from fairway.kube.hub.decisions import Publication, Slices

VERSION = "cluster.open-cluster-management.io/v1beta1"
PATH = f"/apis/{VERSION}/namespaces/ns/placementdecisions"


class FakeServer:
    """What an API server does with PlacementDecisions, in a few lines. `chosen_now` is called after each change."""

    def __init__(self, *pieces: PlacementDecision, chosen_now: Callable[[set[str]], None] = lambda names: None) -> None:
        self.version = 0
        self.objects: dict[str, dict[str, Any]] = {}
        self.tell = chosen_now
        for one in pieces:
            self._keep(one.metadata.name, msgspec.to_builtins(one), f"uid-{one.metadata.name}")

    def _keep(self, name: str, thing: dict[str, Any], uid: str) -> dict[str, Any]:
        self.version += 1
        thing["metadata"] = {**thing["metadata"], "namespace": "ns", "uid": uid, "resourceVersion": str(self.version)}
        self.objects[name] = thing
        return thing

    @property
    def slices(self) -> Slices:
        return {name: msgspec.convert(one, PlacementDecision) for name, one in self.objects.items()}

    @property
    def chosen(self) -> set[str]:
        return set().union(*(members(one) for one in self.slices.values()))

    def __call__(self, request: ApiRequest) -> ApiAnswer:
        answer = self._answer(request, {} if request.body is None else msgspec.json.decode(request.body))
        self.tell(self.chosen)
        return answer

    def _answer(self, request: ApiRequest, body: dict[str, Any]) -> ApiAnswer:
        path = request.path.partition("?")[0]
        name = path.removeprefix(PATH).strip("/").removesuffix("/status")
        if request.method == "GET":
            return _ok({"items": list(self.objects.values())})
        if request.method == "POST":
            name = body["metadata"]["name"]
            if name in self.objects:
                return ApiAnswer(409)
            body.pop("status", None)
            return _ok(self._keep(name, body, f"uid-{name}-{self.version}"))
        known = self.objects.get(name)
        if known is None:
            return ApiAnswer(404)
        if request.method == "DELETE":
            if body["preconditions"]["uid"] != known["metadata"]["uid"]:
                return ApiAnswer(409)
            del self.objects[name]
            return _ok({})
        if body["metadata"]["resourceVersion"] != known["metadata"]["resourceVersion"]:
            return ApiAnswer(409)
        if request.method == "PUT":
            assert path.endswith("/status")  # all but the status is kept
            assert body["metadata"]["uid"] == known["metadata"]["uid"]
            return _ok(self._keep(name, {**known, "status": body["status"]}, known["metadata"]["uid"]))
        assert not path.endswith("/status")
        changed = {**known, "metadata": _merge(known["metadata"], body["metadata"])}
        return _ok(self._keep(name, changed, known["metadata"]["uid"]))


def _merge(old: dict[str, Any], patch: dict[str, Any]) -> dict[str, Any]:
    found = dict(old)
    for name, value in patch.items():
        if value is None:
            found.pop(name, None)
        elif isinstance(value, dict):
            found[name] = _merge(found.get(name, {}), value)
        else:
            found[name] = value
    return found


def _ok(thing: dict[str, Any]) -> ApiAnswer:
    return ApiAnswer(200, msgspec.json.encode(thing))


def run(publication: Publication, server: Callable[[ApiRequest], ApiAnswer]) -> Ending:
    script = publication.script()
    try:
        request = next(script)
        while True:
            request = script.send(server(request))
    except StopIteration as end:
        ending: Ending = end.value
        return ending
