"""Bindings and evictions on a server that loses answers, does things late and is written to by others.

The server here is a model with one pod, written from the API's documentation: what a script says in the end must be
true of it, also after every request that was still under way has arrived.
"""

from __future__ import annotations

import asyncio
from typing import Any

import msgspec
from hypothesis import given, settings
from hypothesis import strategies as st

from fairway.api.kinds import ObjectKey
from fairway.drive.change import Bind, Change, Evict
from fairway.kube.http.exchange import NO_ANSWER, ApiAnswer, ApiRequest, Ending, WriteResult, perform
from fairway.kube.requests.changes import script_of
from fairway.scheduler.plan import Binding, Eviction
from support.effort import examples
from support.objects import BEGIN

KEY: ObjectKey = ("Pod", "a", "p")
BIND = Bind(KEY, "u1", Binding("a/p", "n1"), BEGIN)
EVICT = Evict(KEY, "u1", Eviction("a/p", "n1", "a/j", "preempt", ""), BEGIN)


def answer(status: int, body: Any = None) -> ApiAnswer:
    return ApiAnswer(status, msgspec.json.encode(body or {}))


class OnePodServer:
    """Fates and interferences are used up one per request; then all is well."""

    def __init__(self, fates: list[str], others: list[str]) -> None:
        self.pod: dict[str, Any] | None = {"uid": "u1", "node": "", "deleted": False}
        self.late: list[ApiRequest] = []
        self._fates, self._others = list(fates), list(others)

    def send(self, request: ApiRequest) -> ApiAnswer:
        self._interfere(self._others.pop(0) if self._others else "")
        fate = self._fates.pop(0) if self._fates else "answered"
        if fate == "busy":
            return answer(429)
        if fate == "undone":
            return NO_ANSWER
        if fate == "late":
            self.late.append(request)
            return NO_ANSWER
        done = self._do(request)
        return {"answered": done, "lost": NO_ANSWER, "failed": answer(500)}[fate]

    def settle(self) -> None:
        """Everything that was still under way arrives."""
        for request in self.late:
            self._do(request)
        self.late.clear()

    def _interfere(self, other: str) -> None:
        if other == "arrive" and self.late:
            self._do(self.late.pop(0))
        elif other == "replace":
            self.pod = {"uid": "u2", "node": "", "deleted": False}
        elif other == "delete":
            self.pod = None
        elif other == "bind" and self.pod and not self.pod["node"]:
            self.pod["node"] = "n9"
        elif other == "terminate" and self.pod:
            self.pod["deleted"] = True

    def _do(self, request: ApiRequest) -> ApiAnswer:
        pod = self.pod
        if pod is None:
            return answer(404)
        if request.method == "GET":
            meta = {"uid": pod["uid"], **({"deletionTimestamp": "2026-01-01T00:00:00Z"} if pod["deleted"] else {})}
            return answer(200, {"metadata": meta, "spec": {"nodeName": pod["node"]}})
        body = msgspec.json.decode(request.body or b"{}")
        if request.path.endswith("/binding"):
            if body["metadata"]["uid"] != pod["uid"] or pod["node"] or pod["deleted"]:
                return answer(409)
            pod["node"] = body["target"]["name"]
            return answer(201)
        if request.path.endswith("/eviction"):
            if body["deleteOptions"]["preconditions"]["uid"] != pod["uid"]:
                return answer(409)
            pod["deleted"] = True
            return answer(201)
        return answer(200)


def ended(change: Change, server: OnePodServer) -> Ending:
    for _ in range(50):
        ending = once(change, server)
        if ending.result != WriteResult.AGAIN:
            return ending
    raise AssertionError("never ends")


def once(change: Change, server: OnePodServer) -> Ending:
    script = script_of(change)
    try:
        request = next(script)
        while True:
            request = script.send(server.send(request))
    except StopIteration as end:
        ending: Ending = end.value
        return ending


def test_scripts_run_on_an_event_loop() -> None:
    server = OnePodServer([], [])

    async def send(request: ApiRequest) -> ApiAnswer:
        return server.send(request)

    assert asyncio.run(perform(script_of(BIND), send)).result == WriteResult.DONE
    assert server.pod is not None
    assert server.pod["node"] == "n1"


FATES = st.lists(st.sampled_from(["answered", "lost", "failed", "undone", "late", "busy"]), max_size=8)
OTHERS = st.lists(st.sampled_from(["", "", "arrive", "replace", "delete", "bind", "terminate"]), max_size=8)


@settings(max_examples=examples(150))
@given(FATES, OTHERS)
def test_what_is_said_of_a_binding_is_true_for_ever(fates: list[str], others: list[str]) -> None:
    server = OnePodServer(fates, others)
    ending = ended(BIND, server)
    server.settle()
    pod = server.pod
    ours = pod is not None and pod["uid"] == "u1" and pod["node"] == "n1"
    if ending.result == WriteResult.REFUSED:
        assert not ours
    else:
        assert ours or pod is None or pod["uid"] != "u1"


@settings(max_examples=examples(150))
@given(FATES, OTHERS)
def test_what_is_said_of_an_eviction_is_true(fates: list[str], others: list[str]) -> None:
    server = OnePodServer(fates, others)
    ending = ended(EVICT, server)
    pod = server.pod
    if ending.result == WriteResult.DONE:
        assert pod is None or pod["uid"] != "u1" or pod["deleted"]
    else:
        assert pod is None or pod["uid"] != "u1"
