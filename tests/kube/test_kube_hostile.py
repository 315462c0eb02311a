"""What a tenant may write into its own namespace: others are served all the same, and nothing of theirs is had."""

from __future__ import annotations

import contextlib
import json
import urllib.error
from typing import Any

from kube.cluster import Cluster, eventually
from kube.controlplane.plane import ControlPlane
from kube.intercepted import is_settled
from kube.live import Live
from kube.test_kube_dra_features import DRA, DRIVER, FeatureSite
from kube.test_kube_rules import VOLCANO, group, member

MISTAKE = "this is an error in Fairway, please report it"
LONG = "x" * 60_000
HUGE = {"cpu": "9" * 25, "memory": "8Ei", "example.com/" + "x" * 60: "1"}
NOTES: list[dict[str, str]] = [
    {"scheduling.k8s.io/group-name": LONG},
    {"scheduling.k8s.io/group-name": "kube-system/other"},
    {"scheduling.k8s.io/group-name": "../../other/g"},
    {"scheduling.k8s.io/group-name": "\u202e\n\x1b[31m"},
    {"fairway.dev/queue": LONG},
    {"fairway.dev/queue": "no such queue\n"},
    {"fairway.dev/min-available": "9" * 400},
    {"fairway.dev/min-available": "-1"},
    {"fairway.dev/expected-runtime": "9" * 5000},
    {"fairway.dev/expected-runtime": "1e9999h"},
    {"fairway.dev/starving-after": "0"},
    {"fairway.dev/nominated-since": "0001-01-01T00:00:00Z"},
    {"fairway.dev/nominated-since": LONG},
    {"fairway.dev/devices": "[" * 5000},
    {"fairway.dev/device-strategy": LONG},
    {"fairway.dev/user": LONG},
    {"volcano.sh/task-spec": LONG, "volcano.sh/preemptable": LONG, "volcano.sh/cooldown-time": LONG},
    {f"example.com/note-{number}": LONG for number in range(4)},
]
_NODES = "requiredDuringSchedulingIgnoredDuringExecution"
_TERMS = [{"matchExpressions": [{"key": f"k{number}", "operator": "Exists"}]} for number in range(400)]
_GREATER = {"matchExpressions": [{"key": "a", "operator": "Gt", "values": ["99999999999999999999"]}]}
_ANTI = {"topologyKey": "no/such-key", "labelSelector": {"matchLabels": {f"l{number}": "v" for number in range(200)}}}
SPECS: list[dict[str, Any]] = [
    {"affinity": {"nodeAffinity": {_NODES: {"nodeSelectorTerms": _TERMS}}}},
    {"affinity": {"nodeAffinity": {_NODES: {"nodeSelectorTerms": [_GREATER]}}}},
    {"affinity": {"podAntiAffinity": {_NODES: [_ANTI] * 50}}},
    {"schedulingGroup": {"podGroupName": "no-such-group"}},
    {"resourceClaims": [{"name": "d", "resourceClaimName": "of-another"}]},
    {"volumes": [{"name": "v", "persistentVolumeClaim": {"claimName": "no-such-claim"}}]},
    {"terminationGracePeriodSeconds": 2**62},
    {"tolerations": [{"operator": "Exists"}] * 200},
]
GROUPS: list[tuple[int, dict[str, Any]]] = [
    (2**31 - 1, {}),
    (1, {"minResources": HUGE}),
    (3, {"minTaskMember": {"x" * 200: 2**31 - 1}}),
    (1, {"queue": "x" * 200}),
    (1, {"priorityClassName": "x" * 200}),
]


def hostile(cluster: Cluster) -> int:
    """All of it, as far as the server takes it; how many pods there are."""
    for number, notes in enumerate(NOTES):
        cluster.pod(f"notes-{number}", metadata={"annotations": notes})
    for number, spec in enumerate(SPECS):
        with contextlib.suppress(urllib.error.HTTPError):
            cluster.pod(f"spec-{number}", **spec)
    for number, (minimum, spec) in enumerate(GROUPS):
        with contextlib.suppress(urllib.error.HTTPError):
            group(cluster, f"odd-{number}", minimum, **spec)
        member(cluster, f"member-{number}", f"odd-{number}")
    return len(cluster.places())


def test_whatever_a_tenant_writes_others_are_served_and_nothing_breaks(
    installed: ControlPlane, cluster: Cluster
) -> None:
    cluster.node("n", cpu=200)
    with Live(cluster) as live:
        count = hostile(cluster)
        assert count >= 25
        cluster.pod("good")
        eventually(lambda: cluster.places()["good"] == "n")
        eventually(lambda: is_settled(live))
        assert live.logged(MISTAKE) == []
        assert max(len(json.dumps(line)) for line in list(live.lines)) < 70_000
    assert len(cluster.places()) == count + 1, "none was evicted"


def test_claims_and_groups_of_another_namespace_are_out_of_reach(installed: ControlPlane, cluster: Cluster) -> None:
    """A pod that names what another namespace has, by the very name, is given nothing of it."""
    site = FeatureSite(cluster)
    site.slice({"name": "a"})
    other = f"{cluster.namespace[:40]}-other"
    cluster.make("/api/v1/namespaces", {"metadata": {"name": other}})
    claims = f"{DRA}/namespaces/{other}/resourceclaims"
    request = {"devices": {"requests": [site.exactly()]}}
    installed.call("POST", claims, {"metadata": {"name": "theirs"}, "spec": request})
    groups = f"/apis/{VOLCANO}/namespaces/{other}/podgroups"
    head = {"apiVersion": VOLCANO, "kind": "PodGroup", "metadata": {"name": "theirs"}}
    installed.call("POST", groups, {**head, "spec": {"minMember": 2}})
    with Live(cluster) as live:
        site.pod("p", "theirs")
        member(cluster, "q-0", "theirs")
        member(cluster, "q-1", f"{other}/theirs")
        cycles = live.cycles
        cluster.pod("good")
        eventually(lambda: live.cycles > cycles and cluster.places()["good"])
        eventually(lambda: is_settled(live))
        assert cluster.places()["p"] == ""
        assert "allocation" not in installed.call("GET", f"{claims}/theirs").get("status", {})
        assert not installed.call("GET", f"{groups}/theirs").get("status", {}).get("running")
    for path in (f"{claims}/theirs", f"{groups}/theirs"):
        cluster.delete(path)


_TWENTY = f"[{', '.join(map(str, range(20)))}]"


def _loops(number: int) -> str:
    """Some 60,000 steps for each device, in a text that no other claim has."""
    text = f"device.attributes['{DRIVER}'].number != {number}"
    for level in range(3):
        text = f"{_TWENTY}.all(x{level}, {text})"
    return text


def test_claims_whose_selectors_take_long_delay_no_pod_of_another(installed: ControlPlane, cluster: Cluster) -> None:
    """Each of twelve claims takes seconds to be evaluated on these devices: they wait with a reason. A pod that comes
    meanwhile is bound while they still wait.
    """
    site = FeatureSite(cluster)
    site.slice(*({"name": f"d{number}", "attributes": {"number": {"int": 100 + number}}} for number in range(20)))
    with Live(cluster) as live:
        for number in range(12):
            request = site.exactly(selectors=[{"cel": {"expression": _loops(number)}}])
            site.claim(f"loops-{number}", request)
            site.pod(f"loops-{number}", f"loops-{number}")

        def reason(name: str) -> str:
            found = cluster.get(f"{cluster.pods}/{name}")["status"].get("conditions", [])
            return next((one.get("message", "") for one in found if one["type"] == "PodScheduled"), "")

        eventually(lambda: "scheduling budget" in reason("loops-11"))
        cycles = live.cycles
        innocent = f"{cluster.namespace[:40]}-innocent"
        cluster.make("/api/v1/namespaces", {"metadata": {"name": innocent}})
        spec = {
            "schedulerName": cluster.scheduler,
            "nodeSelector": {"test": cluster.namespace},
            "containers": [{"name": "c", "image": "i"}],
        }
        path = f"/api/v1/namespaces/{innocent}/pods"
        path += "/" + cluster.make(path, {"metadata": {"name": "good"}, "spec": spec})["metadata"]["name"]
        eventually(lambda: installed.call("GET", path)["spec"].get("nodeName"))
        assert live.cycles - cycles < 100
        assert cluster.places()["loops-11"] == "", "it still waits"
        cluster.pod("own")
        eventually(lambda: cluster.places()["own"] != "", "pods of the same namespace have their turns")
        assert live.logged(MISTAKE) == []
