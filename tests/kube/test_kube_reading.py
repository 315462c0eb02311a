"""Reading a real API server, rule by rule (spec K1 to K6)."""

from __future__ import annotations

import asyncio
import socket
import threading
import urllib.error
from collections.abc import Callable, Coroutine, Sequence
from functools import partial
from random import Random
from typing import Any

import pytest

from fairway.api.core import Node
from fairway.api.kinds import ApiObject, Kind
from fairway.app.live.program import LeaderElection
from fairway.errors import ApiError, NoAnswerError
from fairway.kube.http.client import ApiClient, Query
from fairway.kube.kinds import SCHEDULER_KINDS
from fairway.kube.reading import reflector as reflector_module
from fairway.kube.reading.decoding import Sharing, UnreadableObject
from fairway.kube.reading.reflector import Delivery, Gone, Reflector
from fairway.kube.reading.served import find_served
from fairway.kube.server.kubeconfig import find_connection
from fairway.state.cluster import Event
from kube.cluster import Cluster, crd, eventually
from kube.live import Live


def kind_of(name: str, version: str = "v1") -> Kind:
    return next(kind for kind in SCHEDULER_KINDS if kind.name == name and version in kind.api_versions)


class Seen:
    """What a reflector delivers, put together as the loop would, and what it reports."""

    def __init__(self) -> None:
        self.lists: list[list[ApiObject]] = []
        self.things: dict[tuple[str, str], ApiObject] = {}
        self.installed: bool | None = None
        self.unreadable: list[UnreadableObject] = []
        self.relisted: list[str] = []
        self.failures: list[ApiError] = []

    def deliver(self, delivery: Delivery) -> None:
        if delivery.is_list:
            self.installed = bool(delivery.api_version)
            self.lists.append([item for item in delivery.items if not isinstance(item, Gone)])
            self.things.clear()
        for item in delivery.items:
            last = item.last if isinstance(item, Gone) else item
            key = (last[1], last[2]) if isinstance(last, tuple) else (last.metadata.namespace, last.metadata.name)
            if isinstance(item, Gone):
                self.things.pop(key, None)
            else:
                self.things[key] = item

    def names(self, namespace: str) -> set[str]:
        return {name for where, name in list(self.things) if where == namespace}

    def listed(self, kind: Kind, count: int, seconds: float) -> None: ...

    def not_installed(self, kind: Kind) -> None: ...

    def left_out(self, kind: Kind, unreadable: UnreadableObject) -> None:
        self.unreadable.append(unreadable)

    def failed(self, kind: Kind, error: ApiError, wait: float) -> None:
        self.failures.append(error)

    def relists(self, kind: Kind, why: str) -> None:
        self.relisted.append(why)


class TestClient(ApiClient):
    """Counts requests, and refuses what it is told to."""

    __test__ = False
    can_stream = True
    cut_off = False

    def __init__(self, cluster: Cluster) -> None:
        super().__init__(find_connection(str(cluster.plane.kubeconfig())))
        self.pages: list[Query] = []
        self.watches: list[Query] = []

    async def request(self, method: str, path: str, body: object = None, **rest: Any) -> bytes:
        if "limit" in (rest.get("query") or {}):
            self.pages.append(dict(rest["query"]))
        return await super().request(method, path, body, **rest)

    def stream(self, path: str, query: Query, *, silence: float) -> Any:
        if self.cut_off:
            raise NoAnswerError("no network")
        self.watches.append(dict(query))
        if "sendInitialEvents" in query and not self.can_stream:
            raise ApiError(422, "Invalid", "sendInitialEvents: Forbidden")
        return super().stream(path, query, silence=silence)

    def drop_connections(self) -> None:
        """As a network does that forgets them."""
        pool: Any = self._pool
        for connection in list(pool._busy):
            connection._channel.shutdown(socket.SHUT_RDWR)


class Reading:
    """A reflector on a thread of its own: `with Reading(cluster, kind) as reading:`"""

    def __init__(self, cluster: Cluster, kind: Kind, *, can_stream: bool = True) -> None:
        self.cluster = cluster
        self.kind = kind
        self.seen = Seen()
        self.client = TestClient(cluster)
        self.client.can_stream = can_stream
        self._started = threading.Event()
        self._thread = threading.Thread(target=lambda: asyncio.run(self._run()), daemon=True)

    async def _run(self) -> None:
        self._loop = asyncio.get_running_loop()
        self.reflector = reflector = Reflector(
            self.client,
            self.kind,
            self.seen.deliver,
            self.seen,
            scheduler_names={self.cluster.scheduler},
            sharing=Sharing(),
            random=Random(0),
        )
        self._task = asyncio.create_task(reflector.run())
        self._started.set()
        await asyncio.gather(self._task, return_exceptions=True)
        await self.client.close()

    def __enter__(self) -> Reading:
        self._thread.start()
        assert self._started.wait(30)
        eventually(lambda: self.seen.lists, "the first list")
        return self

    def __exit__(self, *_: object) -> None:
        self.on_sockets(self._task.cancel)
        self._thread.join(30)

    def on_sockets(self, call: Callable[[], Any]) -> None:
        self._loop.call_soon_threadsafe(call)


def run(story: Callable[[], Coroutine[Any, Any, None]]) -> None:
    asyncio.run(story())


@pytest.mark.parametrize("can_stream", [True, False])
def test_K1_a_list_by_streaming_and_one_by_pages_see_the_same(
    cluster: Cluster, can_stream: bool, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(reflector_module, "PAGE", 3)
    for number in range(7):
        cluster.pod(f"p{number}")
    with Reading(cluster, kind_of("Pod"), can_stream=can_stream) as reading:
        assert reading.seen.names(cluster.namespace) == {f"p{number}" for number in range(7)}
        assert len(reading.client.pages) == 0 if can_stream else len(reading.client.pages) >= 3
        assert ("continue" in reading.client.pages[1]) if not can_stream else True
        cluster.pod("later")
        cluster.delete(f"{cluster.pods}/p0")
        eventually(lambda: reading.seen.names(cluster.namespace) == {"later", *(f"p{n}" for n in range(1, 7))})
        assert len(reading.seen.lists) == 1


def test_K1_a_watch_goes_on_from_where_it_broke_off(cluster: Cluster) -> None:
    with Reading(cluster, kind_of("Pod")) as reading:
        cluster.pod("p1")
        eventually(lambda: reading.seen.names(cluster.namespace) == {"p1"})
        for number in range(2, 5):
            reading.on_sockets(reading.client.drop_connections)
            cluster.pod(f"p{number}")
            eventually(partial(lambda count: len(reading.seen.names(cluster.namespace)) == count, number))
        assert len(reading.seen.lists) == 1
        assert all(query["resourceVersion"] for query in reading.client.watches[1:])


def test_K1_a_version_that_is_too_old_is_listed_again_and_the_difference_counts(cluster: Cluster) -> None:
    """410 Gone: objects that went while there was no watch are gone, those that came are there."""
    for name in ("stays", "goes"):
        cluster.pod(name)
    with Reading(cluster, kind_of("Pod")) as reading:
        reading.client.cut_off = True
        reading.on_sockets(reading.client.drop_connections)
        eventually(lambda: reading.seen.failures)
        cluster.delete(f"{cluster.pods}/goes")
        cluster.pod("comes")
        cluster.plane.compact()
        cluster.plane.stop_server()  # a server that starts anew knows no history but etcd's
        cluster.plane.start_server()
        reading.client.cut_off = False
        eventually(lambda: reading.seen.names(cluster.namespace) == {"stays", "comes"})
        assert len(reading.seen.lists) == 2
        assert any("too old" in why for why in reading.seen.relisted)


def test_K1_bookmarks_and_time_limits_are_asked_for(cluster: Cluster) -> None:
    with Reading(cluster, kind_of("Node")) as reading:
        query = reading.client.watches[0]
    assert query["allowWatchBookmarks"] == "true"
    assert (query["sendInitialEvents"], query["resourceVersionMatch"]) == ("true", "NotOlderThan")
    assert 300 <= int(query["timeoutSeconds"]) <= 600


def test_K1_a_server_that_goes_away_and_comes_back_is_read_on(cluster: Cluster) -> None:
    with Reading(cluster, kind_of("Pod")) as reading:
        cluster.pod("before")
        eventually(lambda: reading.seen.names(cluster.namespace) == {"before"})
        cluster.plane.stop_server(kill=True)
        eventually(lambda: reading.seen.failures, "a failure")
        cluster.plane.start_server()
        cluster.pod("after")
        eventually(lambda: reading.seen.names(cluster.namespace) == {"before", "after"})


GROUP, HYPER_NODES = "topology.volcano.sh", "/apis/topology.volcano.sh/v1alpha1/hypernodes"
CRDS = "/apis/apiextensions.k8s.io/v1/customresourcedefinitions"
HYPER_NODE = kind_of("HyperNode", f"{GROUP}/v1alpha1")


def install_hyper_nodes(cluster: Cluster) -> None:
    """Without a schema, so that the server takes any field."""
    cluster.make(CRDS, crd(GROUP, "v1alpha1", "HyperNode", "hypernodes", namespaced=False))
    eventually(lambda: cluster.get(HYPER_NODES), "the API of HyperNodes")


def hyper_node(cluster: Cluster, name: str, **spec: object) -> None:
    body = {"apiVersion": f"{GROUP}/v1alpha1", "kind": "HyperNode", "metadata": {"name": name}, "spec": spec}
    eventually(lambda: _made(cluster, body), "an API that takes objects")


def _made(cluster: Cluster, body: dict[str, Any]) -> bool:
    """An API that was just installed answers 404 to some requests for a moment."""
    try:
        cluster.make(HYPER_NODES, body)
    except urllib.error.HTTPError:
        return False
    return True


def test_K2_an_object_that_cannot_be_read_is_left_out_counted_and_named_once(cluster: Cluster) -> None:
    install_hyper_nodes(cluster)
    hyper_node(cluster, "bad", tier="high")
    hyper_node(cluster, "good", tier=2)
    cluster.node("n")
    with Live(cluster) as live:
        labels = {"metadata": {"labels": {"a": "b"}}}
        cluster.plane.call("PATCH", f"{HYPER_NODES}/bad", labels, kind="merge")
        cluster.pod("p")
        eventually(lambda: cluster.places() == {"p": "n"})
        eventually(lambda: b'fairway_unreadable_objects_total{kind="HyperNode"} 2.0' in live.scheduler.metrics.text())
        named = live.logged("object left out because it cannot be read")
        assert [line["object"] for line in named] == ["HyperNode bad"]
        assert "spec.tier" in named[0]["why"]
        known = live.on_loop(lambda: [thing.metadata.name for _, thing in live.store.of_kind("HyperNode")])
        assert known == ["good"]


def test_K3_a_kind_that_is_not_installed_is_found_when_it_is_and_forgotten_when_it_goes(
    cluster: Cluster, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(reflector_module, "LOOK_AGAIN", 0.3)
    with Reading(cluster, HYPER_NODE) as reading:
        assert reading.seen.installed is False
        install_hyper_nodes(cluster)
        hyper_node(cluster, "h1")
        eventually(lambda: reading.seen.names("") == {"h1"})
        cluster.delete(f"{CRDS}/hypernodes.{GROUP}", grace=None)
        eventually(lambda: reading.seen.installed is False and not reading.seen.things)
        eventually(lambda: cluster.get(f"{CRDS}/hypernodes.{GROUP}") is None)
        install_hyper_nodes(cluster)
        hyper_node(cluster, "h2")
        eventually(lambda: reading.seen.names("") == {"h2"})


def test_K3_discovery_finds_what_the_server_has(cluster: Cluster) -> None:
    async def story() -> None:
        client = TestClient(cluster)
        found = await find_served(client, SCHEDULER_KINDS)
        await client.close()
        paths = {served.path for served in found.values() if served is not None}
        assert {"/api/v1/pods", "/api/v1/nodes", "/apis/policy/v1/poddisruptionbudgets"} <= paths
        assert "/apis/resource.k8s.io/v1/resourceclaims" in paths
        assert "/apis/scheduling.k8s.io/v1alpha2/podgroups" in paths
        assert found[HYPER_NODE] is None

    run(story)


def test_K3_no_cycle_runs_before_every_kind_was_listed(cluster: Cluster) -> None:
    cluster.node("n")
    cluster.pod("p")
    held = threading.Event()

    def hold_back(scheduler: Any) -> None:
        """The list of namespaces waits until the test says so."""
        deliver = scheduler._deliver

        def later(delivery: Delivery) -> None:
            if delivery.kind.name == "Namespace":
                threading.Thread(target=lambda: (held.wait(60), deliver(delivery)), daemon=True).start()
            else:
                deliver(delivery)

        scheduler._deliver = later

    live = Live(cluster, prepare=hold_back)
    live._thread.start()
    eventually(
        lambda: len(live.logged("listed")) + len(live.logged("kind not installed; checking again every minute")) >= 20
    )
    eventually(lambda: live.scheduler._is_ready() == (False, "not listed yet: Namespace (v1)"))
    assert live.cycles == 0
    held.set()
    eventually(lambda: cluster.places() == {"p": "n"})
    live.stop()


def test_K4_pods_of_others_are_kept_from_their_binding_to_their_end(cluster: Cluster) -> None:
    node = cluster.node("n")
    with Reading(cluster, kind_of("Pod")) as reading:
        cluster.pod("other", schedulerName="another")
        cluster.pod("own")
        eventually(lambda: reading.seen.names(cluster.namespace) == {"own"})
        cluster.bind("other", node)
        eventually(lambda: reading.seen.names(cluster.namespace) == {"own", "other"})
        cluster.runs("other", "Succeeded")
        eventually(lambda: reading.seen.names(cluster.namespace) == {"own"})


class NodeEvents:
    """Counts what the state is told of nodes."""

    count = 0

    def applied(self, events: Sequence[Event]) -> None:
        self.count += sum(isinstance(event.object, Node) for event in events)

    def decided(self, cycle: object) -> None: ...

    def refused(self, change: object, why: str) -> None: ...


def test_K6_a_heartbeat_starts_no_cycle_and_a_change_that_matters_does(cluster: Cluster) -> None:
    node = cluster.node("n", cpu=1)
    with Live(cluster) as live:
        told = NodeEvents()
        live.on_loop(lambda: live.scheduler._scheduler.listeners.append(told))
        cluster.pod("p", cpu="2")
        for minute in range(5):
            beat = {"type": "Ready", "status": "True", "lastHeartbeatTime": f"2026-01-01T00:0{minute}:00Z"}
            body = {"status": {"conditions": [beat]}}
            cluster.plane.call("PATCH", f"/api/v1/nodes/{node}/status", body, kind="strategic")
        cluster.plane.call("PATCH", f"/api/v1/nodes/{node}", {"metadata": {"managedFields": [{}]}}, kind="merge")
        version = cluster.get(f"/api/v1/nodes/{node}")["metadata"]["resourceVersion"]
        key = ("Node", "", node)
        store: Any = live.store
        eventually(lambda: store.get(key).metadata.resource_version == version)
        assert told.count == 0
        larger = {"status": {"allocatable": {"cpu": "2"}, "capacity": {"cpu": "2"}}}
        cluster.plane.call("PATCH", f"/api/v1/nodes/{node}/status", larger, kind="strategic")
        eventually(lambda: cluster.places() == {"p": "n"})
        assert told.count == 1


def test_K5_a_long_cycle_costs_neither_the_lease_nor_a_watch(cluster: Cluster) -> None:
    """The deciding thread is busy for longer than the lease lasts: it is renewed, and what happens is still read."""
    cluster.node("n", cpu=10)
    election = LeaderElection(namespace=cluster.namespace, duration=3, renew_deadline=2, retry=1)
    busy, go_on = threading.Event(), threading.Event()
    with Live(cluster, leader_election=election) as live:
        eventually(lambda: live.scheduler._leads)

        def decide_for_long() -> None:
            busy.set()
            go_on.wait(60)

        live.scheduler._thread.hand_over(decide_for_long)
        assert busy.wait(30)
        path = f"/apis/coordination.k8s.io/v1/namespaces/{cluster.namespace}/leases/fairway"
        spec = cluster.get(path)["spec"]
        renewed = [spec["renewTime"]]
        while len(renewed) < 5:
            eventually(lambda: cluster.get(path)["spec"]["renewTime"] != renewed[-1])
            renewed.append(cluster.get(path)["spec"]["renewTime"])
        cluster.pod("p")
        waiting: Any = live.scheduler._thread._inbox
        eventually(lambda: waiting.qsize() > 0, "an event of the watch waits for the deciding thread")
        assert live.scheduler._leads
        assert len(live.logged("leading")) == 1
        go_on.set()
        eventually(lambda: cluster.places() == {"p": "n"})
        assert cluster.get(path)["spec"]["leaseTransitions"] == spec["leaseTransitions"]


def _is_read(reading: Reading, name: str) -> bool:
    return name in reading.seen.names(reading.cluster.namespace)


def test_K2_a_claim_with_parameters_of_any_depth_is_left_out_alone(cluster: Cluster) -> None:
    """What a driver's parameters contain is its user's: the API server takes thousands of levels."""

    def claim(name: str, levels: int) -> dict[str, Any]:
        parameters: Any = {}
        for _ in range(levels):
            parameters = {"a": parameters}
        opaque = {"driver": "gpu.example.com", "parameters": parameters}
        devices = {
            "requests": [{"name": "r", "exactly": {"deviceClassName": "gpu"}}],
            "config": [{"requests": ["r"], "opaque": opaque}],
        }
        return {
            "apiVersion": "resource.k8s.io/v1",
            "kind": "ResourceClaim",
            "metadata": {"name": name, "namespace": cluster.namespace},
            "spec": {"devices": devices},
        }

    claims = f"/apis/resource.k8s.io/v1/namespaces/{cluster.namespace}/resourceclaims"
    for can_stream in (True, False):
        with Reading(cluster, kind_of("ResourceClaim", "resource.k8s.io/v1"), can_stream=can_stream) as reading:
            before, after, deep = (f"{name}-{can_stream}".lower() for name in ("before", "after", "deep"))
            for name, levels in ((before, 3), (deep, 900), (after, 3)):
                cluster.make(claims, claim(name, levels))
            for name in (before, after):
                eventually(partial(_is_read, reading, name))
            assert deep not in reading.seen.names(cluster.namespace)
            assert ("ResourceClaim", cluster.namespace, deep) in [left.key for left in reading.seen.unreadable]


def test_a_mistake_of_ours_does_not_end_the_reading_of_a_kind(cluster: Cluster) -> None:
    with Reading(cluster, kind_of("Pod")) as reading:
        real = reading.seen.deliver
        wrong: list[Delivery] = []

        def deliver(delivery: Delivery) -> None:
            if not wrong:
                wrong.append(delivery)
                raise KeyError("a field that was always there")
            real(delivery)

        reading.reflector._deliver = deliver
        cluster.pod("p1")
        eventually(lambda: reading.seen.names(cluster.namespace) == {"p1"})
        assert "KeyError" in str(reading.seen.failures[0])
