"""What operators do with `fairway run`: policies, dry runs, health, signals, replicas."""

from __future__ import annotations

import json
import os
import signal
import socket
import subprocess
import sys
import urllib.request
from pathlib import Path
from typing import Any

import pytest

from fairway.app.live.program import LeaderElection
from fairway.app.live.settings import read_settings
from fairway.errors import InputError
from fairway.kube.writing.write_queue import WriteRank
from kube.cluster import Cluster, eventually
from kube.live import Live

ONLY_ENQUEUE = "actions: enqueue\n"
ALLOCATING = "actions: enqueue, allocate\n"
HEAD = "apiVersion: fairway.dev/v1alpha1\nkind: FairwayConfiguration\n"


def lease(cluster: Cluster, **changed: Any) -> LeaderElection:
    """A lease of this test's own, in its namespace."""
    return LeaderElection(namespace=cluster.namespace, duration=5, renew_deadline=3, retry=1, **changed)


def answer(live: Live, path: str) -> tuple[int, str]:
    try:
        with urllib.request.urlopen(f"http://127.0.0.1:{live.scheduler.health.port}{path}", timeout=10) as found:
            return found.status, found.read().decode()
    except urllib.error.HTTPError as error:
        return error.code, error.read().decode()


def test_health_readiness_and_metrics_are_served(cluster: Cluster) -> None:
    cluster.node("n")
    with Live(cluster) as live:
        cluster.pod("p")
        eventually(lambda: cluster.places() == {"p": "n"})
        assert answer(live, "/healthz") == (200, "ok\n")
        assert answer(live, "/readyz") == (200, "ok\n")
        eventually(lambda: 'scheduler_schedule_attempts_total{result="scheduled"} 1.0' in answer(live, "/metrics")[1])
        text = answer(live, "/metrics")[1]
        assert 'fairway_api_requests_total{code="201",method="POST"}' in text
        assert "fairway_leader 1.0" in text


def test_a_policy_file_is_read_again_and_a_bad_one_keeps_the_old(cluster: Cluster, tmp_path: Path) -> None:
    cluster.node("n")
    policy = tmp_path / "policy.yaml"
    policy.write_text(ONLY_ENQUEUE)
    with Live(cluster, policy=str(policy), policy_interval=0.1, leader_election=lease(cluster)) as live:
        cluster.pod("p")
        eventually(lambda: live.cycles)
        policy.write_text("actions: enqueue, alocate\n")
        refused = eventually(lambda: live.logged("policy rejected; the previous one stays in use"))
        assert "alocate" in refused[0]["why"]
        path = f"/apis/events.k8s.io/v1/namespaces/{cluster.namespace}/events"
        said = eventually(lambda: [one for one in cluster.get(path)["items"] if one["reason"] == "PolicyRefused"])
        assert "alocate" in said[0]["note"]
        assert b'fairway_policy_reloads_total{result="refused"} 1.0' in live.scheduler.metrics.text()
        assert cluster.places() == {"p": ""}
        policy.write_text(ALLOCATING)
        eventually(lambda: cluster.places() == {"p": "n"})


def test_a_policy_in_a_config_map_is_read_again(cluster: Cluster) -> None:
    cluster.node("n")
    path = f"/api/v1/namespaces/{cluster.namespace}/configmaps"
    cluster.make(path, {"metadata": {"name": "fairway-policy"}, "data": {"policy.yaml": ONLY_ENQUEUE}})
    with Live(cluster, policy_config_map=f"{cluster.namespace}/fairway-policy", policy_interval=0.1) as live:
        cluster.pod("p")
        cluster.plane.call("PATCH", f"{path}/fairway-policy", {"data": {"policy.yaml": "nonsense: 1"}}, kind="merge")
        eventually(lambda: live.logged("policy rejected; the previous one stays in use"))
        cluster.plane.call("PATCH", f"{path}/fairway-policy", {"data": {"policy.yaml": ALLOCATING}}, kind="merge")
        eventually(lambda: cluster.places() == {"p": "n"})


def test_a_dry_run_says_what_it_would_write_and_writes_nothing(cluster: Cluster) -> None:
    cluster.node("n")
    cluster.pod("p")
    before = cluster.get(f"{cluster.pods}/p")["metadata"]["resourceVersion"]
    with Live(cluster, dry_run=True) as live:
        said = eventually(lambda: live.logged("would write"))
        assert said[0]["object"] == f"Pod {cluster.namespace}/p"
        assert said[0]["node"] == f"{cluster.namespace}-n"
        cluster.pod("q")
        eventually(lambda: len(live.logged("would write")) == 2)
        assert live.scheduler._queue.unended() == 0
    assert cluster.get(f"{cluster.pods}/p")["metadata"]["resourceVersion"] == before
    assert cluster.places() == {"p": "", "q": ""}


def test_a_shadow_policy_is_compared_and_not_carried_out(cluster: Cluster, tmp_path: Path) -> None:
    cluster.node("n")
    (tmp_path / "shadow.yaml").write_text(ONLY_ENQUEUE)
    with Live(cluster, shadow_policy=str(tmp_path / "shadow.yaml")) as live:
        cluster.pod("p")
        eventually(lambda: cluster.places() == {"p": "n"})
        said = eventually(lambda: live.logged("shadow policy differs"))
        assert said[0]["bindings"] == f"{cluster.namespace}/p"
        assert b'fairway_shadow_differences_total{kind="bindings"} 1.0' in live.scheduler.metrics.text()
        shown = json.loads(answer(live, "/debug/plan")[1])["shadow"]
        assert shown["differences"] == {"bindings": [f"{cluster.namespace}/p"]}


@pytest.mark.parametrize("number", [signal.SIGTERM, signal.SIGINT])
def test_a_signal_ends_it_cleanly_and_the_lease_is_free(cluster: Cluster, number: signal.Signals) -> None:
    cluster.node("n", cpu=100)
    for index in range(20):
        cluster.pod(f"p{index}")
    command = [
        sys.executable,
        "-m",
        "fairway.cli.main",
        "run",
        "--kubeconfig",
        str(cluster.plane.kubeconfig("scheduler")),
    ]
    command += ["--scheduler-names", cluster.scheduler, "--lease-namespace", cluster.namespace]
    command += ["--http-address", "127.0.0.1:0", "--log-format", "json"]
    run = subprocess.Popen(command, stderr=subprocess.PIPE, text=True, env={**os.environ, "PYTHONUNBUFFERED": "1"})
    path = f"/apis/coordination.k8s.io/v1/namespaces/{cluster.namespace}/leases/fairway"
    eventually(lambda: (cluster.get(path) or {}).get("spec", {}).get("holderIdentity"))
    eventually(lambda: any(cluster.places().values()))
    run.send_signal(number)
    _, text = run.communicate(timeout=60)
    assert run.returncode == 0, text
    assert '"message":"stopped"' in text
    assert not cluster.get(path)["spec"].get("holderIdentity")
    assert all(cluster.places().values()), "what was decided is written before the end"


def test_K12_a_standby_takes_over_when_the_leader_ends_and_knows_all_by_then(cluster: Cluster) -> None:
    cluster.node("n", cpu=10)
    first = Live(cluster, leader_election=lease(cluster))
    with first:
        eventually(lambda: first.scheduler._leads)
        with Live(cluster, leader_election=lease(cluster)) as second:
            cluster.pod("p1")
            eventually(lambda: cluster.places() == {"p1": "n"})
            assert not second.scheduler._leads
            assert second.cycles == 0
            first.stop()
            cluster.pod("p2")
            eventually(lambda: cluster.places() == {"p1": "n", "p2": "n"})
            assert second.scheduler._leads


def test_K13_a_replica_that_cannot_renew_writes_nothing_more(cluster: Cluster) -> None:
    cluster.node("n", cpu=10)
    with Live(cluster, leader_election=lease(cluster)) as live:
        eventually(lambda: live.scheduler._leads)
        keeper: Any = live.scheduler._lease
        keeper.elector._until = float("-inf")
        keeper._send = lambda request: _nothing()
        cluster.pod("p")
        eventually(lambda: not live.scheduler._leads)
        assert cluster.places() == {"p": ""}
        assert live.scheduler._queue.unended(WriteRank.RESERVATION) == 0


async def _nothing() -> Any:
    from fairway.kube.http.exchange import NO_ANSWER

    return NO_ANSWER


def test_settings_come_from_a_file_and_flags_win(tmp_path: Path) -> None:
    path = tmp_path / "run.yaml"
    path.write_text(HEAD + "schedulerNames: [a, b]\nminInterval: 0.5\nleaderElection: {duration: 30, name: x}\n")
    found = read_settings(str(path), {"minInterval": 1.5, "leaderElection.enabled": False})
    assert (found.scheduler_names, found.min_interval) == (("a", "b"), 1.5)
    assert found.leader_election == LeaderElection(enabled=False, duration=30, name="x")


@pytest.mark.parametrize(
    ("text", "said"),
    [
        ("kind: Pod", "expected FairwayConfiguration of fairway.dev/v1alpha1"),
        (
            HEAD + "minIntervall: 1",
            "run.yaml:3: minIntervall: is an unknown field, did you mean 'minInterval'?",
        ),
        (HEAD + "minInterval: soon", "run.yaml:3: minInterval: is 'soon', expected a number from 0 to 86400"),
        (HEAD + "schedulerNames: []", "at least one name"),
        ("a: [", "run.yaml:"),
        (HEAD + "policy: a\npolicyConfigMap: b/c", "expected at most one"),
        (
            HEAD + "policyInterval: 0",
            "run.yaml:3: policyInterval: is the number 0, expected a number from 0.1",
        ),
        (
            HEAD + "gangBindTimeout: 0",
            "run.yaml:3: gangBindTimeout: is the number 0, expected a number from 1 to",
        ),
        (HEAD + "policyConfigMap: b", "expected namespace/name or namespace/name/key"),
        (HEAD + "policyConfigMap: b//c", "expected namespace/name or namespace/name/key"),
        (HEAD + "policyConfigMap: ../c", "expected namespace/name or namespace/name/key"),
        (HEAD + "minInterval: 1\nminInterval: 2", "run.yaml:4: the key 'minInterval' is here twice"),
        (HEAD + "leaderElection: 5", "run.yaml:3: leaderElection: is the number 5, expected a mapping"),
        (HEAD + "leaderElection: {name: a/b}", "leaderElection.name is 'a/b', expected a name"),
        (HEAD + "leaderElection: {name: ''}", "leaderElection.name is '', expected a name"),
        (
            HEAD + "leaderElection: {duration: 10}",
            "retry, renewDeadline and duration are 2, 10 and 10, expected increasing values",
        ),
    ],
)
@pytest.mark.parametrize("flags", [{}, {"leaderElection.enabled": False}], ids=["", "with a flag"])
def test_settings_that_cannot_be_used_are_an_error_that_says_why(
    tmp_path: Path, text: str, said: str, flags: dict[str, Any]
) -> None:
    path = tmp_path / "run.yaml"
    path.write_text(text)
    with pytest.raises(InputError) as error:
        read_settings(str(path), flags)
    assert said in str(error.value)


def test_a_flag_that_cannot_be_used_is_not_said_to_be_in_the_file(tmp_path: Path) -> None:
    path = tmp_path / "run.yaml"
    path.write_text(HEAD)
    with pytest.raises(InputError, match=r"^flags: maxInFlightBinds: is the number 0, expected a whole number from"):
        read_settings(str(path), {"maxInFlightBinds": 0})


def test_a_signal_before_the_server_has_answered_ends_it_cleanly(tmp_path: Path) -> None:
    """Its policy is in a ConfigMap, and the server takes connections and says nothing."""
    with socket.create_server(("127.0.0.1", 0)) as server:
        config = tmp_path / "config"
        where = f"http://127.0.0.1:{server.getsockname()[1]}"
        config.write_text(
            json.dumps(
                {
                    "clusters": [{"name": "c", "cluster": {"server": where}}],
                    "contexts": [{"name": "c", "context": {"cluster": "c"}}],
                    "current-context": "c",
                }
            )
        )
        command = [sys.executable, "-m", "fairway.cli.main", "run", "--kubeconfig", str(config)]
        command += ["--policy-config-map", "a/b", "--http-address", "127.0.0.1:0"]
        run = subprocess.Popen(command, stderr=subprocess.PIPE, text=True)
        server.settimeout(60)
        connection, _ = server.accept()
        with connection:
            connection.recv(100)
            run.send_signal(signal.SIGTERM)
            _, said = run.communicate(timeout=60)
    assert run.returncode == 0, said
    assert said.splitlines()[-1].endswith("INFO stopped")
