"""A cluster without DRA, on a real server: from a plugin through the agent's annotation to the record on a pod."""

from __future__ import annotations

import contextlib
import shutil
import tempfile
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import pytest

from agent.players import PlayedPlugin, eventually, looped
from fairway.kube.install.agent import NAME, agent, agent_rules
from fairway.kube.install.options import InstallOptions
from kube.cluster import Cluster
from kube.controlplane.plane import ControlPlane
from kube.live import Live
from kube.servers import Refused, apply
from kube.test_kube_agent import OnNode, as_agent

GPU = "example.com/gpu"
CLASSES = "/apis/fairway.dev/v1alpha1/resourceclasses"
RECORD = "scheduler.alpha.kubernetes.io/resClass_"


@pytest.fixture(name="host")
def a_folder_of_sockets() -> Iterator[Path]:
    folder = Path(tempfile.mkdtemp(prefix="fw", dir="/tmp"))
    yield folder
    shutil.rmtree(folder, ignore_errors=True)


@pytest.fixture(name="without_dra")
def what_is_installed_without_dra(installed: ControlPlane) -> Iterator[ControlPlane]:
    apply(installed, agent(InstallOptions(agent_publish="annotation")))
    yield installed
    apply(installed, agent(InstallOptions()))


def status(cluster: Cluster) -> tuple[Any, Any]:
    found = cluster.get(f"{CLASSES}/{cluster.namespace}").get("status", {})
    return found.get("allocatable"), found.get("requested")


def record(cluster: Cluster, name: str) -> dict[str, str]:
    notes = cluster.get(f"{cluster.pods}/{name}")["metadata"].get("annotations", {})
    return {key.removeprefix(RECORD): text for key, text in notes.items() if key.startswith(RECORD)}


@pytest.mark.parametrize("kind", [GPU, "gpu"])
def test_the_whole_path_without_dra(kind: str, without_dra: ControlPlane, cluster: Cluster, host: Path) -> None:
    """Also where a mapping renames the kind of the devices: they count once, though the node lists the resource."""
    node = cluster.node("n1")
    mapping = host / "map.yaml"
    named = f"resources: [{{resource: {GPU}, kind: {kind}}}]"
    mapping.write_text(f"{{apiVersion: fairway.dev/v1alpha1, kind: DeviceMapping, {named}}}")
    expressions = [{"key": "Kind", "operator": "In", "values": [GPU, "gpu"]}]
    spec = {"resourceSelector": [{"matchExpressions": expressions}]}
    body = {"apiVersion": "fairway.dev/v1alpha1", "kind": "ResourceClass", "metadata": {"name": cluster.namespace}}
    cluster.make(CLASSES, {**body, "spec": spec})
    limits = {f"resourceclass.fairway.dev/{cluster.namespace}": "1"}

    def pod(name: str) -> None:
        cluster.pod(name, containers=[{"name": "c", "image": "i", "resources": {"limits": limits}}])

    def capacity() -> str | None:
        text: str | None = cluster.get(f"/api/v1/nodes/{node}")["status"]["capacity"].get(GPU)
        return text

    with looped() as players, contextlib.ExitStack() as stack, Live(cluster, user="scheduler"):
        stack.enter_context(OnNode(host, without_dra, node, publish="annotation", plugin_grace=1.0, mapping=mapping))
        plugin = PlayedPlugin(players, host / "dp", GPU, ["g0", "g1"]).start()
        eventually(lambda: capacity() == "2", "the capacity is written")
        eventually(lambda: status(cluster) == (2, 0), "the class counts the devices of the annotation")
        for name in ("a", "b", "late"):
            pod(name)
        eventually(lambda: sorted(cluster.places().values()) == ["", "n1", "n1"], "two pods are bound")
        given = [key for name, where in cluster.places().items() if where for key in record(cluster, name)]
        assert sorted(given) == [f"{cluster.namespace}_g0", f"{cluster.namespace}_g1"]
        claims = cluster.get(f"/apis/resource.k8s.io/v1/namespaces/{cluster.namespace}/resourceclaims")
        assert claims["items"] == [], "no claim tells of what no driver publishes"
        eventually(lambda: status(cluster) == (2, 2))

        gone = next(name for name, where in cluster.places().items() if where)
        cluster.delete(f"{cluster.pods}/{gone}")
        eventually(lambda: all(cluster.places().values()), "its device goes to the pod that waits")
        plugin.change(g1="Unhealthy")
        eventually(lambda: capacity() == "1" and status(cluster) == (1, 2), "a broken device in use stays in use")
        for name in cluster.places():
            cluster.delete(f"{cluster.pods}/{name}")
        eventually(lambda: status(cluster) == (1, 0), "all is free")
        plugin.stop()
        eventually(lambda: capacity() in (None, "0") and status(cluster) == (0, 0), "the plugin is gone")


def test_an_agent_without_dra_writes_annotations_and_capacity_of_its_own_node_only(
    without_dra: ControlPlane, cluster: Cluster
) -> None:
    mine, other = cluster.node("n1"), cluster.node("n2")
    user = f"system:serviceaccount:{NAME}:{NAME}"
    assert {verb for one in agent_rules("annotation") for verb in one["verbs"]} == {"get", "patch"}

    def patch(node: str, body: dict[str, Any], part: str = "") -> None:
        kind = "application/merge-patch+json"
        as_agent(without_dra, "PATCH", f"/api/v1/nodes/{node}{part}", body, user, mine, kind)

    def is_allowed() -> bool:  # access takes a moment to be in force, and so does the policy
        with contextlib.suppress(Refused):
            patch(mine, {"metadata": {"annotations": {"fairway.dev/devices": "[]"}}})
            return True
        return False

    def is_held_to_its_own() -> bool:
        try:
            patch(other, {"metadata": {"annotations": {"fairway.dev/devices": "[]"}}})
        except Refused as refused:
            return "its own node only" in str(refused)
        return False

    eventually(is_allowed)
    eventually(is_held_to_its_own)
    patch(mine, {"status": {"capacity": {GPU: "1"}}}, "/status")
    for body in ({"spec": {"unschedulable": True}}, {"metadata": {"labels": {"a": "b"}}}):
        with pytest.raises(Refused, match="annotations and capacity only"):
            patch(mine, body)
