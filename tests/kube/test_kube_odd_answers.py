"""A server, or something in its place, that answers 200 with the wrong content, 404 to everything, byte by byte, or not
at all: nothing is believed that the API server did not say.
"""

from __future__ import annotations

import time
from collections import Counter
from collections.abc import Callable
from pathlib import Path

import pytest

from fairway.kube.http.exchange import ApiAnswer, ApiRequest
from fairway.kube.kinds import SCHEDULER_KINDS
from fairway.kube.reading import reflector
from kube.cluster import Cluster, eventually
from kube.intercepted import Faults, Send, is_settled
from kube.live import Live
from kube.proxy import Asked, FaultProxy

PAGE = ApiAnswer(200, b"<html>You are logged out</html>")


def test_a_binding_that_something_else_answers_is_looked_at_and_made(cluster: Cluster) -> None:
    left = [3]

    async def fault(request: ApiRequest, send: Send) -> ApiAnswer | None:
        if request.path.endswith("/binding") and left[0]:
            left[0] -= 1
            return PAGE
        return None

    cluster.node("n", cpu=1)
    with Live(cluster, prepare=Faults(fault).install) as live:
        cluster.pod("p")
        eventually(lambda: cluster.places() == {"p": "n"})
        eventually(lambda: is_settled(live))
        assert left == [0]
        assert live.logged("refused") == []


def test_an_eviction_that_something_else_answers_is_looked_at_and_made(cluster: Cluster, tmp_path: Path) -> None:
    left = [2]

    async def fault(request: ApiRequest, send: Send) -> ApiAnswer | None:
        if request.path.endswith("/eviction") and left[0]:
            left[0] -= 1
            return PAGE
        return None

    policy = tmp_path / "policy.yaml"
    policy.write_text("""
actions: [enqueue, allocate, preempt]
tiers:
- plugins: [{name: priority}, {name: gang}, {name: drf, arguments: {priorityFirst: true}}]
- plugins: [{name: predicates}, {name: proportion}, {name: nodeorder}]
""")
    name = f"{cluster.namespace}-urgent"
    cluster.make("/apis/scheduling.k8s.io/v1/priorityclasses", {"metadata": {"name": name}, "value": 1000})
    cluster.node("n", cpu=1)
    with Live(cluster, policy=str(policy), prepare=Faults(fault).install):
        cluster.pod("low")
        eventually(lambda: cluster.places()["low"])
        cluster.runs("low")
        cluster.pod("high", priorityClassName=name)
        eventually(lambda: cluster.places() == {"high": "n"})
        assert left == [0]


class Gateway:
    """Stands in the server's place for some requests, for as long as it is switched on."""

    def __init__(self, proxy: FaultProxy, fault: str, matches: Callable[[Asked], bool]) -> None:
        self.is_on = False
        self.asked = Counter[str]()
        self._fault, self._matches = fault, matches
        proxy.choose = self._choose

    def _choose(self, asked: Asked) -> str:
        if self.is_on and self._matches(asked):
            self.asked[asked.path] += 1
            return self._fault
        return ""

    @property
    def answered(self) -> int:
        return self.asked.total()


@pytest.mark.parametrize("fault", ["not-found", "empty-object", "status-object", "other-list", "page"])
def test_what_a_gateway_says_is_not_the_end_of_all_objects(cluster: Cluster, tmp_path: Path, fault: str) -> None:
    """All watches break, and what begins them again is answered by a gateway: what runs still counts."""
    cluster.node("n", cpu=2)
    with FaultProxy(cluster.plane) as proxy:
        gateway = Gateway(proxy, fault, lambda asked: not asked.is_write)
        with Live(cluster, kubeconfig=str(proxy.kubeconfig(tmp_path))) as live:
            cluster.pod("runs", cpu="2")
            eventually(lambda: cluster.places()["runs"])
            known = live.on_loop(live.store.counts)
            gateway.is_on = True
            proxy.cut_watches()
            # After a 404 the APIs themselves are looked for: three requests in each round, else one.
            core, each = ("/api/v1", 6) if fault == "not-found" else ("/api/v1/pods", 2)
            eventually(lambda: gateway.answered > each * len(SCHEDULER_KINDS), "all kinds were asked for again")
            eventually(lambda: gateway.asked[core] > 2)
            assert live.on_loop(live.store.counts) == known
            cluster.pod("waits", cpu="2")
            gateway.is_on = False
            eventually(
                lambda: live.on_loop(lambda: ("Pod", cluster.namespace, "waits") in dict(live.store.of_kind("Pod")))
            )
            cycles = live.cycles
            cluster.pod("fits", cpu="0")
            eventually(lambda: live.cycles > cycles and cluster.places()["fits"])
            assert cluster.places()["waits"] == ""


@pytest.mark.parametrize("fault", ["no-head", "drip"])
def test_a_watch_whose_answer_never_begins_is_given_up(
    cluster: Cluster, tmp_path: Path, fault: str, monkeypatch: pytest.MonkeyPatch
) -> None:
    """Half an answer, or one byte of its head now and then."""
    cluster.node("n")
    with FaultProxy(cluster.plane) as proxy:
        gateway = Gateway(proxy, fault, lambda asked: asked.is_watch and asked.path.endswith("/pods"))

        def hasten(scheduler: object) -> None:
            client = scheduler._client  # type: ignore[attr-defined]
            client._limits = client._limits._replace(seconds=2.0)

        with Live(cluster, kubeconfig=str(proxy.kubeconfig(tmp_path)), prepare=hasten):
            gateway.is_on = True
            proxy.cut_watches()
            eventually(lambda: gateway.answered >= 2, "it was given up, and tried again")
            gateway.is_on = False
            cluster.pod("p")
            eventually(lambda: cluster.places() == {"p": "n"})


def test_a_watch_that_falls_silent_is_begun_again(
    cluster: Cluster, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(reflector, "SILENCE", 3.0)
    cluster.node("n")
    with FaultProxy(cluster.plane) as proxy, Live(cluster, kubeconfig=str(proxy.kubeconfig(tmp_path))) as live:
        proxy.silence_watches()
        begin = time.monotonic()
        cluster.pod("p")
        eventually(lambda: cluster.places() == {"p": "n"})
        assert time.monotonic() - begin < 60
        assert live.logged("reading failed") == [], "an old server is silent about kinds that never change"
