"""Each kind of write on a real API server (spec K18 to K24): what is refused, and what is not answered, row by row.

Bindings are in `test_kube_writing` (spec K7), what each row writes is in `test_kube_requests_server`. Answers are lost
before or after the server did the work; both look the same from here.
"""

from __future__ import annotations

from collections.abc import Callable
from pathlib import Path
from typing import Any

import pytest

from fairway.kube.http.exchange import NO_ANSWER, ApiAnswer, ApiRequest
from kube.cluster import Cluster, eventually
from kube.controlplane.plane import ControlPlane
from kube.intercepted import Faults, Send, is_settled
from kube.live import Live
from kube.test_kube_rules import group, member

POLICY = """
actions: [enqueue, {name: reserve, arguments: {starvingJobTimeThreshold: 1}}, allocate, preempt]
tiers:
- plugins: [{name: priority}, {name: gang}, {name: drf, arguments: {priorityFirst: true}}]
- plugins: [{name: predicates}, {name: proportion}, {name: nodeorder}]
"""
CONFLICT = ApiAnswer(409, b'{"kind":"Status","reason":"Conflict","message":"says the test"}')

Matches = Callable[[ApiRequest], bool]


class Spoiled:
    """The first `times` requests of one row are answered otherwise, or not at all."""

    def __init__(self, matches: Matches, *, was_done: bool, times: int = 2, answer: ApiAnswer = NO_ANSWER) -> None:
        self._matches, self._was_done, self._left, self._answer = matches, was_done, times, answer
        self.faults = Faults(self._fault)

    async def _fault(self, request: ApiRequest, send: Send) -> ApiAnswer | None:
        if not self._left or not self._matches(request):
            return None
        self._left -= 1
        if self._was_done:
            await send(request)
        return self._answer

    def sent(self) -> int:
        return sum(map(self._matches, self.faults.requests))

    @property
    def is_used(self) -> bool:
        return self.sent() > 0


@pytest.fixture(name="policy")
def a_policy_with_all_actions(tmp_path: Path) -> str:
    path = tmp_path / "policy.yaml"
    path.write_text(POLICY)
    return str(path)


def urgent(cluster: Cluster) -> str:
    name = f"{cluster.namespace}-urgent"
    cluster.make("/apis/scheduling.k8s.io/v1/priorityclasses", {"metadata": {"name": name}, "value": 1000})
    return name


def status_of(text: bytes) -> Matches:
    """Writes to statuses with so much in them."""
    return lambda request: request.path.endswith("/status") and text in (request.body or b"")


def condition(cluster: Cluster, pod: str) -> dict[str, Any]:
    found = cluster.get(f"{cluster.pods}/{pod}")["status"].get("conditions", [])
    return next((one for one in found if one["type"] == "PodScheduled"), {})


@pytest.mark.parametrize("was_done", [True, False])
def test_row_eviction_without_an_answer_ends_by_what_the_pod_shows(
    cluster: Cluster, policy: str, was_done: bool
) -> None:
    spoiled = Spoiled(lambda request: request.path.endswith("/eviction"), was_done=was_done)
    cluster.node("n", cpu=4)
    with Live(cluster, policy=policy, prepare=spoiled.faults.install) as live:
        for name in ("low-1", "low-2"):
            cluster.pod(name, cpu="2", terminationGracePeriodSeconds=30)
        eventually(lambda: all(cluster.places().values()))
        for name in ("low-1", "low-2"):
            cluster.runs(name)
        cluster.pod("high", cpu="2", priorityClassName=urgent(cluster))

        def leaving() -> list[str]:
            pods = cluster.plane.call("GET", cluster.pods)["items"]
            return [pod["metadata"]["name"] for pod in pods if "deletionTimestamp" in pod["metadata"]]

        eventually(leaving)
        eventually(lambda: not live.scheduler._queue.unended())
        assert live.logged("refused") == []
        victims = leaving()
        assert len(victims) == 1  # and no second one in its place
        cluster.delete(f"{cluster.pods}/{victims[0]}")
        eventually(lambda: cluster.places()["high"] == "n")


def test_row_nomination_without_an_answer_is_written_again(cluster: Cluster, policy: str) -> None:
    spoiled = Spoiled(status_of(b"nominatedNodeName"), was_done=False)
    node = cluster.node("n", cpu=2)
    with Live(cluster, policy=policy, prepare=spoiled.faults.install):
        cluster.pod("low", cpu="2", terminationGracePeriodSeconds=30)
        eventually(lambda: cluster.places()["low"])
        cluster.runs("low")
        cluster.pod("high", cpu="2", priorityClassName=urgent(cluster))
        eventually(lambda: cluster.get(f"{cluster.pods}/high")["status"].get("nominatedNodeName") == node)
        assert spoiled.sent() >= 3


def test_row_nomination_of_a_pod_that_goes_is_forgotten(cluster: Cluster, policy: str) -> None:
    """The claimant is deleted when its nomination is about to be written."""

    async def fault(request: ApiRequest, send: Send) -> ApiAnswer | None:
        if status_of(b"nominatedNodeName")(request) and "/high/" in request.path:
            cluster.delete(f"{cluster.pods}/high")
        return None

    faults = Faults(fault)
    cluster.node("n", cpu=2)
    with Live(cluster, policy=policy, prepare=faults.install) as live:
        cluster.pod("low", cpu="2", terminationGracePeriodSeconds=30)
        eventually(lambda: cluster.places()["low"])
        cluster.runs("low")
        cluster.pod("high", cpu="2", priorityClassName=urgent(cluster))
        eventually(lambda: any(status_of(b"nominatedNodeName")(request) for request in list(faults.requests)))
        eventually(lambda: "high" not in cluster.places())
        eventually(lambda: is_settled(live))
        cluster.delete(f"{cluster.pods}/low")
        cluster.pod("next", cpu="2")
        eventually(lambda: cluster.places() == {"next": "n"})


@pytest.mark.parametrize("was_done", [True, False])
def test_row_reservation_without_an_answer_is_written_again_and_there_is_one(
    installed: ControlPlane, cluster: Cluster, policy: str, was_done: bool
) -> None:
    """Where it was made, the second request is refused (409), and the one that is there is read."""
    spoiled = Spoiled(lambda request: request.method == "POST" and "/reservations" in request.path, was_done=was_done)
    reservations = f"/apis/fairway.dev/v1alpha1/namespaces/{cluster.namespace}/reservations"
    cluster.node("n", cpu=2)
    with Live(cluster, policy=policy, prepare=spoiled.faults.install) as live:
        cluster.pod("first", cpu="2")
        eventually(lambda: cluster.places()["first"])
        cluster.runs("first")
        cluster.pod("waits", cpu="2")
        found = eventually(lambda: installed.call("GET", reservations)["items"])
        eventually(lambda: is_settled(live))
        assert spoiled.is_used
        assert [one["spec"]["jobRef"]["name"] for one in found] == ["waits"]
        cluster.delete(f"{cluster.pods}/first")
        eventually(lambda: cluster.places()["waits"] == "n")
        eventually(lambda: installed.call("GET", reservations)["items"] == [], "it is released")


@pytest.mark.parametrize("answer", [NO_ANSWER, CONFLICT], ids=["lost", "refused"])
def test_row_waiting_is_said_in_the_end_and_holds_no_binding_up(cluster: Cluster, answer: ApiAnswer) -> None:
    spoiled = Spoiled(status_of(b"Unschedulable"), was_done=False, times=1, answer=answer)
    with Live(cluster, prepare=spoiled.faults.install):
        cluster.pod("waits")
        eventually(lambda: spoiled.is_used)
        if answer is NO_ANSWER:
            eventually(lambda: condition(cluster, "waits").get("reason") == "Unschedulable")
        cluster.node("n", cpu=1)
        eventually(lambda: cluster.places() == {"waits": "n"})
        eventually(lambda: condition(cluster, "waits").get("status") == "True")


def test_row_waiting_an_event_without_an_answer_is_dropped(cluster: Cluster) -> None:
    own = f"/namespaces/{cluster.namespace}/events"  # what other tests left on the server may be worth an event too
    spoiled = Spoiled(lambda request: request.path.endswith(own), was_done=False, times=1)
    cluster.node("n", cpu=1)
    with Live(cluster, prepare=spoiled.faults.install) as live:
        cluster.pod("p")
        eventually(lambda: spoiled.is_used)
        eventually(lambda: not live.scheduler._queue.unended())
        assert cluster.places() == {"p": "n"}
        assert spoiled.sent() == 1


@pytest.mark.parametrize("answer", [NO_ANSWER, CONFLICT], ids=["lost", "refused"])
def test_row_standing_is_written_again_with_the_newest(
    installed: ControlPlane, cluster: Cluster, answer: ApiAnswer
) -> None:
    def status(request: ApiRequest) -> bool:
        return "/podgroups/" in request.path and request.path.endswith("/status")

    spoiled = Spoiled(status, was_done=False, answer=answer)
    cluster.node("n", cpu=2)
    with Live(cluster, prepare=spoiled.faults.install):
        path = group(cluster, "g", 2)
        member(cluster, "g-0", "g")
        member(cluster, "g-1", "g")
        eventually(lambda: all(cluster.places().values()))
        for name in ("g-0", "g-1"):
            cluster.runs(name)
        eventually(lambda: cluster.get(path).get("status", {}).get("phase") == "Running")
        assert spoiled.sent() >= 3
