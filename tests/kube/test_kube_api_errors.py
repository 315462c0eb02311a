"""What an API server may answer, and `fairway run` must live with: each is a story on a real one."""

from __future__ import annotations

import json
import urllib.error
from collections import Counter
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import pytest

from fairway.kube.install.options import InstallOptions
from fairway.kube.install.output import objects
from fairway.kube.reading import reflector
from kube.cluster import Cluster, crd, eventually
from kube.controlplane.plane import SCHEDULER, ControlPlane
from kube.live import Live
from kube.proxy import Asked, FaultProxy
from kube.servers import apply

FLOW = "flowcontrol.apiserver.k8s.io/v1"
VOLCANO = "/apis/scheduling.volcano.sh/v1beta1"
CRDS = "/apis/apiextensions.k8s.io/v1/customresourcedefinitions"
MAX_BINDINGS = 400
"""Until one of them must have met another at the server."""


@pytest.fixture(name="proxy")
def a_proxy(plane: ControlPlane) -> Iterator[FaultProxy]:
    with FaultProxy(plane) as proxy:
        yield proxy


def bindings(proxy: FaultProxy) -> list[float]:
    return [at for at, asked in list(proxy.asked) if asked.path.endswith("/binding")]


def all_bound(cluster: Cluster) -> bool:
    return all(cluster.places().values())


def test_a_server_that_asks_to_wait_is_left_alone_for_that_long(
    cluster: Cluster, proxy: FaultProxy, tmp_path: Path
) -> None:
    refused: list[float] = []

    def choose(asked: Asked) -> str:
        if asked.path.endswith("/binding") and len(refused) < 1:
            refused.append(bindings(proxy)[-1])
            return "busy"  # for one second
        return ""

    proxy.choose = choose
    cluster.node("n", cpu=20)
    with Live(cluster, kubeconfig=str(proxy.kubeconfig(tmp_path)), connections=1) as live:
        for number in range(5):
            cluster.pod(f"p{number}")
        eventually(lambda: all_bound(cluster))
        assert live.logged("refused") == []
    after = [at - refused[0] for at in bindings(proxy) if at > refused[0]]
    assert min(after) >= 0.99


def test_what_priority_and_fairness_rejects_is_written_all_the_same(
    cluster: Cluster, proxy: FaultProxy, tmp_path: Path
) -> None:
    name = cluster.namespace
    limits = {"nominalConcurrencyShares": 0, "borrowingLimitPercent": 0, "limitResponse": {"type": "Reject"}}
    head = {"apiVersion": FLOW, "metadata": {"name": name}}
    bind = {"verbs": ["create"], "apiGroups": [""], "resources": ["pods/binding"], "namespaces": [name]}
    schema = {
        "priorityLevelConfiguration": {"name": name},
        "matchingPrecedence": 2,
        "rules": [{"subjects": [{"kind": "User", "user": {"name": SCHEDULER}}], "resourceRules": [bind]}],
    }
    cluster.make(f"/apis/{FLOW}/prioritylevelconfigurations", {**head, "spec": {"type": "Limited", "limited": limits}})
    cluster.make(f"/apis/{FLOW}/flowschemas", {**head, "spec": schema})
    flow = f"/apis/{FLOW}/flowschemas/{name}"
    eventually(lambda: cluster.get(flow).get("status", {}).get("conditions"), "the server knows the flow")
    cluster.node("n", cpu=1000, pods=1000)
    answers: Counter[int] = Counter()
    made = 0
    with Live(cluster, kubeconfig=str(proxy.kubeconfig(tmp_path))) as live:
        while not answers[429] and made < MAX_BINDINGS:  # whether two meet at the server is up to the machine
            for number in range(made, made + 20):
                cluster.pod(f"p{number}")
            made += 20
            eventually(lambda: all_bound(cluster))
            answers = Counter(one.status for one in proxy.passed if one.asked.path.endswith("/binding"))
        assert live.logged("refused") == []
    assert answers[201] == made
    assert answers[429] > 0


def test_a_token_that_expires_during_a_watch_is_read_again(cluster: Cluster, proxy: FaultProxy, tmp_path: Path) -> None:
    """The file is written by the kubelet; here the server does not know the old token any more."""
    token = tmp_path / "token"
    token.write_text("expired")
    config = json.loads(proxy.kubeconfig(tmp_path).read_text())
    good = config["users"][0]["user"]["token"]
    config["users"][0]["user"] = {"tokenFile": str(token)}
    path = tmp_path / "config"
    path.write_text(json.dumps(config))
    token.write_text(good)
    cluster.node("n", cpu=20)
    with Live(cluster, kubeconfig=str(path)) as live:
        cluster.pod("p1")
        eventually(lambda: all_bound(cluster))
        token.write_text("expired")
        live.scheduler._client.connection.credentials.refused()  # as after the minute for which it is kept
        proxy.cut_watches()
        eventually(lambda: [line for line in live.logged("reading failed") if "401" in line["error"]])
        cluster.pod("p2")
        token.write_text(good)
        eventually(lambda: all_bound(cluster))
        assert live.logged("refused") == []


def test_a_server_without_lists_by_streaming_is_read_by_pages(
    cluster: Cluster, proxy: FaultProxy, tmp_path: Path, installed: ControlPlane
) -> None:
    """With every kind that it reads, those of others too."""
    proxy.choose = lambda asked: "no-streaming" if asked.is_list else ""
    for group, kind in (("topology.volcano.sh", "HyperNode"), ("scheduling.x-k8s.io", "PodGroup")):
        if cluster.get(f"{CRDS}/{kind.lower()}s.{group}") is None:
            cluster.make(CRDS, crd(group, "v1alpha1", kind, f"{kind.lower()}s", namespaced=kind == "PodGroup"))
        eventually(lambda: cluster.get(f"/apis/{group}/v1alpha1/{kind.lower()}s"))  # noqa: B023 - called at once
    cluster.node("n", cpu=20)
    cluster.pod("p1")
    with Live(cluster, kubeconfig=str(proxy.kubeconfig(tmp_path))):
        eventually(lambda: all_bound(cluster))
        cluster.pod("p2")
        eventually(lambda: all_bound(cluster))


def test_a_server_that_is_killed_and_has_forgotten_its_history_is_read_on(cluster: Cluster) -> None:
    cluster.node("n", cpu=20)
    with Live(cluster) as live:
        cluster.pod("p1")
        eventually(lambda: all_bound(cluster))
        cluster.plane.stop_server(kill=True)
        eventually(lambda: live.logged("reading failed"))
        cluster.plane.compact()
        cluster.plane.start_server()
        cluster.pod("p2")
        eventually(lambda: all_bound(cluster))
        cluster.delete(f"{cluster.pods}/p1")
        cluster.pod("p3", cpu="19")
        eventually(lambda: all_bound(cluster))


def test_definitions_that_are_deleted_and_installed_again(
    cluster: Cluster, installed: ControlPlane, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(reflector, "LOOK_AGAIN", 0.5)
    groups = f"{VOLCANO}/namespaces/{cluster.namespace}/podgroups"
    cluster.node("n", cpu=20)
    with Live(cluster) as live:
        _gang(cluster, groups, "first")
        eventually(lambda: all_bound(cluster))
        for name in ("podgroups.scheduling.volcano.sh", "queues.scheduling.volcano.sh"):
            cluster.delete(f"{CRDS}/{name}", grace=None)
        eventually(lambda: _is_gone(cluster, groups), "its definition is gone")
        cluster.pod("lone")
        eventually(lambda: cluster.places()["lone"] == "n")
        found = [thing for thing in objects(InstallOptions()) if thing["kind"] in ("CustomResourceDefinition", "Queue")]
        apply(installed, found)
        eventually(lambda: not _is_gone(cluster, groups))
        _gang(cluster, groups, "second")
        eventually(lambda: all_bound(cluster))
        eventually(lambda: cluster.get(f"{groups}/second").get("status", {}).get("phase") == "Running")
        assert live.scheduler.health is not None


def _gang(cluster: Cluster, groups: str, name: str) -> None:
    body: dict[str, Any] = {"apiVersion": VOLCANO.removeprefix("/apis/"), "kind": "PodGroup"}
    cluster.make(groups, {**body, "metadata": {"name": name}, "spec": {"minMember": 2}})
    for number in range(2):
        cluster.pod(f"{name}-{number}", metadata={"annotations": {"scheduling.k8s.io/group-name": name}})


def _is_gone(cluster: Cluster, path: str) -> bool:
    try:
        return cluster.get(path) is None
    except urllib.error.HTTPError:
        return True
