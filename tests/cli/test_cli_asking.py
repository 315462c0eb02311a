"""`queue`, `plan --only` and `policy import`: asking before submitting anything."""

from __future__ import annotations

import json
from pathlib import Path

import pytest
import yaml

from fairway.cli.main import fairway, run

NODE = "{apiVersion: v1, kind: Node, metadata: {name: n1}, status: {allocatable: {cpu: 4, pods: 10}}}"
POD = """
apiVersion: v1
kind: Pod
metadata: {name: %s, namespace: team, creationTimestamp: "2026-01-01T00:00:00Z"%s}
spec: {schedulerName: fairway, nodeName: "%s", containers: [{name: c, resources: {requests: {cpu: %s}}}]%s}
status: {phase: %s%s}
"""
NOW = ("--now", "2026-01-01T00:10:00Z")


def call(*arguments: str) -> int:
    return run(fairway, arguments)


def a_pod(name: str, cpu: int, node: str = "", deadline: int | None = None) -> str:
    started = ', startTime: "2026-01-01T00:00:00Z"' if node else ""
    more = f", activeDeadlineSeconds: {deadline}" if deadline is not None else ""
    return POD % (name, "", node, cpu, more, "Running" if node else "Pending", started)


@pytest.fixture(name="cluster")
def a_cluster(tmp_path: Path) -> str:
    path = tmp_path / "cluster.yaml"
    path.write_text("\n---\n".join([NODE, a_pod("r", 3, "n1", 3600), a_pod("w1", 4, deadline=600), a_pod("w2", 4)]))
    return str(path)


def test_queue_lists_position_reason_and_estimated_start(cluster: str, capsys: pytest.CaptureFixture[str]) -> None:
    assert call("queue", "-f", cluster, *NOW, "-o", "json") == 0
    rows = json.loads(capsys.readouterr().out)["items"]
    assert [(row["position"], row["job"], row["reason"]) for row in rows] == [
        (1, "team/w1", "InsufficientResources"),
        (2, "team/w2", "InsufficientResources"),
    ]
    assert rows[0]["estimatedStart"] == "2026-01-01T01:00:00Z"
    assert rows[1]["estimatedStart"] == "2026-01-01T01:10:00Z"
    assert rows[0]["waitingFor"] == 600 * 1_000_000


def test_queue_of_a_queue_that_is_not_there(cluster: str, capsys: pytest.CaptureFixture[str]) -> None:
    assert call("queue", "defualt", "-f", cluster, *NOW) == 2
    assert "did you mean 'default'?" in capsys.readouterr().err


def test_plan_only_says_what_happens_to_the_job_and_to_the_others(
    cluster: str, tmp_path: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    job = tmp_path / "job.yaml"
    job.write_text(a_pod("small", 1))
    assert call("plan", "-f", cluster, "--only", str(job), *NOW, "-o", "json") == 0
    asked = json.loads(capsys.readouterr().out)
    assert [(entry["pod"], entry["node"]) for entry in asked["bindings"]] == [("team/small", "n1")]
    assert asked["others"] == []
    job.write_text(a_pod("big", 40))
    assert call("plan", "-f", cluster, "--only", str(job), *NOW) == 0
    out = capsys.readouterr().out
    assert "team/big" in out
    assert "Nothing changes for other pods." in out


def test_plan_only_names_what_others_lose(tmp_path: Path, capsys: pytest.CaptureFixture[str]) -> None:
    cluster, job = tmp_path / "c.yaml", tmp_path / "j.yaml"
    cluster.write_text("\n---\n".join([NODE, a_pod("w1", 4)]))
    job.write_text(a_pod("first", 4).replace("containers:", "priority: 100, containers:"))
    assert call("plan", "-f", str(cluster), "--only", str(job), *NOW) == 0
    assert "team/w1: not bound to n1" in capsys.readouterr().out


def test_plan_only_of_something_that_is_not_scheduled(
    cluster: str, tmp_path: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    other = tmp_path / "q.yaml"
    other.write_text("{apiVersion: scheduling.volcano.sh/v1beta1, kind: Queue, metadata: {name: q}}")
    assert call("plan", "-f", cluster, "--only", str(other), *NOW) == 2
    assert "no pods, expected at least one pod or workload" in capsys.readouterr().err


VOLCANO = """\
actions: "enqueue, allocate, backfill"
tiers:
- plugins:
  - name: priority
  - name: gang
- plugins:
  - name: overcommit
  - name: drf
  - name: predicates
  - name: proportion
  - name: nodeorder
"""


@pytest.mark.parametrize("wrapped", [False, True])
def test_volcanos_configuration_becomes_a_policy(
    wrapped: bool, tmp_path: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    config = {"apiVersion": "v1", "kind": "ConfigMap", "data": {"volcano-scheduler.conf": VOLCANO}}
    path, made = tmp_path / "v.yaml", tmp_path / "p.yaml"
    path.write_text(yaml.safe_dump(config) if wrapped else VOLCANO)
    assert call("policy", "import", str(path)) == 0
    captured = capsys.readouterr()
    assert "overcommit is a Volcano plugin; it is a part of the enqueue action here" in captured.err
    made.write_text(captured.out)
    assert call("policy", "check", str(made)) == 0
    names = [plugin["name"] for tier in yaml.safe_load(captured.out)["tiers"] for plugin in tier["plugins"]]
    assert names == ["priority", "gang", "drf", "predicates", "proportion", "nodeorder"]


@pytest.mark.parametrize("data", [None, {}, {"a": "b"}, {"a.conf": 5}, {"a.conf": "", "b.conf": ""}])
def test_a_config_map_without_a_configuration(data: object, tmp_path: Path, capsys: pytest.CaptureFixture[str]) -> None:
    path = tmp_path / "v.yaml"
    path.write_text(yaml.safe_dump({"apiVersion": "v1", "kind": "ConfigMap", "data": data}))
    assert call("policy", "import", str(path)) == 2
    assert "v.yaml: data: expected" in capsys.readouterr().err


def test_an_old_dump_without_now_is_warned_of_and_its_own_time_offered(fairway, tmp_path):
    file = tmp_path / "dump.yaml"
    file.write_text(
        "apiVersion: v1\nkind: Node\nmetadata: {name: n1, creationTimestamp: '2026-01-01T00:00:00Z'}\n"
        "status: {allocatable: {cpu: '4', pods: '9'}}\n"
    )
    said = fairway("plan", "-f", str(file)).err
    assert "--now 2026-01-01T00:00:00Z decides as of then" in said
    assert "--now" not in fairway("plan", "-f", str(file), "--now", "2026-01-01T00:00:00Z").err


def _listed(fairway, tmp_path, status):
    file = tmp_path / "given.yaml"
    node = "apiVersion: v1\nkind: Node\nmetadata: {name: n1}\nstatus: {allocatable: {cpu: '4', pods: '9'}}\n---\n"
    pod = "apiVersion: v1\nkind: Pod\nmetadata: {name: p}\n"
    pod += "spec: {schedulerName: fairway, nodeName: n1, containers: [{name: c}]}\n"
    file.write_text(f"{node}{pod}status: {{phase: {status}}}\n")
    (job,) = json.loads(fairway("get", "jobs", "-f", str(file), "-o", "json").out)["items"]
    return job


def test_a_bound_pod_that_has_not_started_is_starting(fairway, tmp_path):
    assert _listed(fairway, tmp_path, "Pending")["phase"] == "starting"
    assert _listed(fairway, tmp_path, "Running")["phase"] == "running"


def test_get_invents_no_time_of_creation(fairway, tmp_path):
    assert not _listed(fairway, tmp_path, "Running").get("created")
