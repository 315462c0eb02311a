"""What clocks, operators and chance may do to a running scheduler: each is harmless, or is made good."""

from __future__ import annotations

import asyncio
import json
import threading
import time
from collections import Counter
from pathlib import Path
from typing import Any

import pytest

from fairway.app.live.program import LeaderElection
from fairway.clock import SECOND, wall_clock
from fairway.kube.http.exchange import ApiAnswer, ApiRequest
from fairway.kube.writing.loop_thread import SteadyClock
from kube.cluster import Cluster, eventually
from kube.controlplane.plane import ControlPlane
from kube.intercepted import Faults, Send, is_settled
from kube.live import Live
from kube.process import RunProcess
from kube.proxy import Asked, FaultProxy
from kube.test_kube_dra_features import FeatureSite
from kube.test_kube_rules import group, member

MISTAKE = "this is an error in Fairway, please report it"
ALL_ACTIONS = """
actions: [enqueue, {name: reserve, arguments: {starvingJobTimeThreshold: 1}}, allocate, preempt, reclaim, backfill]
tiers:
- plugins: [{name: priority}, {name: gang}, {name: drf, arguments: {priorityFirst: true}}]
- plugins: [{name: predicates}, {name: proportion}, {name: nodeorder}, {name: devices}]
"""


class MovedClock:
    """A wall clock that a test sets."""

    def __init__(self) -> None:
        self.ahead = 0

    def install(self, scheduler: Any) -> None:
        scheduler._thread._clock = SteadyClock(lambda: wall_clock() + self.ahead)


@pytest.mark.parametrize("hours", [-6, 6])
def test_a_clock_that_jumps_stops_no_decision_and_no_reason(cluster: Cluster, hours: int) -> None:
    clock = MovedClock()
    cluster.node("n", cpu=2)
    with Live(cluster, prepare=clock.install) as live:
        cluster.pod("before")
        eventually(lambda: cluster.places() == {"before": "n"})
        clock.ahead = hours * 3600 * SECOND
        cluster.pod("after")
        cluster.pod("waits", cpu="8")
        eventually(lambda: cluster.places() == {"before": "n", "after": "n", "waits": ""})

        def reason() -> str:
            found = cluster.get(f"{cluster.pods}/waits")["status"].get("conditions", [])
            return next((one.get("reason", "") for one in found if one["type"] == "PodScheduled"), "")

        eventually(lambda: reason() == "Unschedulable")
        assert live.logged(MISTAKE) == []


def test_a_node_that_comes_back_smaller_under_its_name_counts_with_the_pods_it_has(cluster: Cluster) -> None:
    node = cluster.node("n", cpu=4)
    with Live(cluster) as live:
        cluster.pod("old", cpu="2")
        eventually(lambda: cluster.places() == {"old": "n"})
        cluster.delete(f"/api/v1/nodes/{node}")
        cluster.node("n", cpu=3)
        cluster.pod("fits", cpu="1")
        eventually(lambda: cluster.places()["fits"] == "n")
        cluster.pod("waits", cpu="1")
        cycles = live.cycles
        eventually(lambda: live.cycles > cycles)
        eventually(lambda: is_settled(live))
        assert cluster.places()["waits"] == ""
        cluster.delete(f"{cluster.pods}/old")
        eventually(lambda: cluster.places() == {"fits": "n", "waits": "n"})


def test_a_node_that_is_replaced_while_a_pod_is_bound_to_it(cluster: Cluster) -> None:
    """The server takes the binding: a binding names a node, and knows nothing of its uid. The pod counts there."""
    once = [True]

    def replace() -> None:
        cluster.delete(f"/api/v1/nodes/{cluster.namespace}-n")
        cluster.node("n", cpu=1)

    async def fault(request: ApiRequest, send: Send) -> ApiAnswer | None:
        if request.path.endswith("/first/binding") and once[0]:
            once[0] = False
            await asyncio.to_thread(replace)
        return None

    cluster.node("n", cpu=2)
    with Live(cluster, prepare=Faults(fault).install) as live:
        cluster.pod("first")
        eventually(lambda: cluster.places() == {"first": "n"})
        cluster.pod("second")
        cycles = live.cycles
        eventually(lambda: live.cycles > cycles)
        eventually(lambda: is_settled(live))
        assert cluster.places() == {"first": "n", "second": ""}


@pytest.mark.parametrize("step", ["resourceclaims/c", "resourceclaims/c/status"])
def test_a_claim_that_is_made_again_under_its_name_is_another_claim(
    installed: ControlPlane, cluster: Cluster, tmp_path: Path, step: str
) -> None:
    """Before each write of an allocation; afterwards a finalizer keeps it."""
    site = FeatureSite(cluster)
    site.slice({"name": "a"}, {"name": "b"})
    site.claim("c", site.exactly())
    done = threading.Event()

    def remake() -> None:
        site.plane.call("PATCH", f"{site.claims}/c", {"metadata": {"finalizers": None}}, kind="merge")
        cluster.delete(f"{site.claims}/c")
        site.claim("c", site.exactly())

    def choose(asked: Asked) -> str:
        if asked.is_write and asked.path.endswith(step) and not done.is_set():
            done.set()
            remake()
        return ""

    with FaultProxy(installed) as proxy:
        proxy.choose = choose
        with Live(cluster, kubeconfig=str(proxy.kubeconfig(tmp_path))) as live:
            site.pod("p", "c")
            eventually(lambda: cluster.places()["p"] == "n")
            assert done.is_set()
            assert site.status("c").get("allocation"), "the claim that is there now has the device"
            assert [user["name"] for user in site.status("c")["reservedFor"]] == ["p"]
            assert live.logged(MISTAKE) == []


@pytest.mark.parametrize("fault", ["", "slow"])
def test_a_signal_while_a_gang_is_bound_leaves_no_half(cluster: Cluster, tmp_path: Path, fault: str) -> None:
    """SIGTERM at the third of twenty bindings: those that were decided are made before the process ends."""
    cluster.node("n", cpu=40)
    begun = threading.Event()
    bindings = Counter[str]()

    def choose(asked: Asked) -> str:
        if asked.is_write and asked.path.endswith("/binding"):
            bindings["all"] += 1
            if bindings["all"] == 3:
                begun.set()
            return fault
        return ""

    with FaultProxy(cluster.plane) as proxy:
        proxy.choose = choose
        run = RunProcess(
            tmp_path,
            "run",
            kubeconfig=str(proxy.kubeconfig(tmp_path)),
            schedulerNames=[cluster.scheduler],
            leaderElection={"namespace": cluster.namespace},
            connections=2,
        )
        run.start()
        path = f"/apis/scheduling.k8s.io/v1alpha2/namespaces/{cluster.namespace}/podgroups"
        spec = {"schedulingPolicy": {"gang": {"minCount": 20}}}
        cluster.make(path, {"kind": "PodGroup", "metadata": {"name": "g"}, "spec": spec})
        for number in range(20):
            cluster.pod(f"g-{number}", schedulingGroup={"podGroupName": "g"})
        eventually(begun.is_set, "the gang is being bound")
        assert run.stop() == 0
        assert run.problems() == []
    assert set(cluster.places().values()) == {"n"}
    lease = f"/apis/coordination.k8s.io/v1/namespaces/{cluster.namespace}/leases/fairway"
    assert not cluster.get(lease)["spec"].get("holderIdentity")


def test_two_schedulers_of_one_name_without_a_lease_bind_each_pod_once(
    installed: ControlPlane, cluster: Cluster
) -> None:
    """What no operator should do: each pod has one node, whole gangs start, and neither scheduler fails."""
    for number in range(4):
        cluster.node(f"n{number}", cpu=40)
    with Live(cluster) as one, Live(cluster) as two:
        for number in range(4):
            group(cluster, f"g{number}", 5)
        for number in range(60):
            if number < 20:
                member(cluster, f"g{number % 4}-{number}", f"g{number % 4}")
            else:
                cluster.pod(f"p{number}")
        eventually(lambda: len(cluster.places()) == 60 and all(cluster.places().values()))
        for live in (one, two):
            eventually(lambda: is_settled(live))  # noqa: B023 - looked at before the next one
            assert live.logged(MISTAKE) == []
            assert live.logged("gang evicted because it could not be completed in time") == []


def test_a_dry_run_writes_nothing_at_all(installed: ControlPlane, cluster: Cluster, tmp_path: Path) -> None:
    """By the server's own audit log: with every action, devices, a class, a gang, and a policy that breaks."""
    site = FeatureSite(cluster)
    site.slice({"name": "a"})
    site.claim("c", site.exactly())
    policy = tmp_path / "policy.yaml"
    policy.write_text(ALL_ACTIONS)
    low = cluster.node("full", cpu=1)
    cluster.pod("victim")
    cluster.bind("victim", low)
    cluster.runs("victim")
    name = f"{cluster.namespace}-urgent"
    cluster.make("/apis/scheduling.k8s.io/v1/priorityclasses", {"metadata": {"name": name}, "value": 1000})
    begin = len(installed.audit_file.read_text().splitlines())
    with Live(cluster, policy=str(policy), policy_interval=0.1, dry_run=True) as live:
        site.pod("claims", "c")
        cluster.pod("urgent", priorityClassName=name, nodeSelector={"kubernetes.io/hostname": low, "test": "x"})
        cluster.pod("wide", cpu="63")
        cluster.pod("wider", cpu="64")
        group(cluster, "g", 2)
        member(cluster, "g-0", "g")
        member(cluster, "g-1", "g")
        eventually(lambda: {"Bind", "AllocateClaim"} <= {line["change"] for line in live.logged("would write")})
        policy.write_text("actions: nonsense\n")
        eventually(lambda: live.logged("policy rejected; the previous one stays in use"))
        cycles = live.cycles
        cluster.pod("last")
        eventually(lambda: live.cycles > cycles)
    lines = installed.audit_file.read_text().splitlines()[begin:]
    events = [json.loads(line) for line in lines]
    own = [one for one in events if one.get("userAgent", "").startswith("fairway/")]
    assert own, "its requests are in the log"
    assert {one["verb"] for one in own} <= {"get", "list", "watch"}


def test_no_secret_is_in_a_log_a_page_or_an_event(cluster: Cluster, tmp_path: Path) -> None:
    token = json.loads(cluster.plane.kubeconfig("scheduler").read_text())["users"][0]["user"]["token"]
    faults = iter(["unauthorized", "reset", "error", "truncated", "lost", "busy", "conflict", "unavailable"] * 3)
    cluster.node("n", cpu=40)
    with FaultProxy(cluster.plane) as proxy:
        proxy.choose = lambda asked: next(faults, "") if asked.is_write else ""
        run = RunProcess(
            tmp_path,
            "run",
            kubeconfig=str(proxy.kubeconfig(tmp_path)),
            schedulerNames=[cluster.scheduler],
            leaderElection={"namespace": cluster.namespace},
            logLevel="debug",
        )
        run.start()
        for number in range(6):
            cluster.pod(f"p{number}")
        eventually(lambda: all(cluster.places().values()) and next(faults, "") == "")
        assert run.stop() == 0
    text = "".join(path.read_text(errors="replace") for path in tmp_path.glob("*.log"))
    assert len(text) > 1000
    for secret in (token, "Bearer", "Authorization"):
        assert secret not in text
    said = cluster.plane.call("GET", f"/apis/events.k8s.io/v1/namespaces/{cluster.namespace}/events")
    assert token not in json.dumps(said)


@pytest.mark.parametrize("renewed", ["1970-01-01T00:00:00.000000Z", "2199-01-01T00:00:00.000000Z"])
def test_a_lease_of_a_dead_leader_with_another_clock_is_taken_after_its_time(cluster: Cluster, renewed: str) -> None:
    path = f"/apis/coordination.k8s.io/v1/namespaces/{cluster.namespace}/leases"
    spec = {"holderIdentity": "dead", "leaseDurationSeconds": 3, "renewTime": renewed, "acquireTime": renewed}
    cluster.make(path, {"metadata": {"name": "fairway"}, "spec": {**spec, "leaseTransitions": 7}})
    cluster.node("n")
    cluster.pod("p")
    chosen = LeaderElection(namespace=cluster.namespace, duration=3, renew_deadline=2, retry=1)
    begin = time.monotonic()
    with Live(cluster, leader_election=chosen):
        eventually(lambda: cluster.places() == {"p": "n"})
        assert time.monotonic() - begin >= 3, "it has to wait, whatever the other's clock says"
        assert cluster.get(f"{path}/fairway")["spec"]["leaseTransitions"] == 8
