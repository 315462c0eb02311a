"""`fairway explain` on manifests, as its user sees it."""

import json
from collections.abc import Callable
from pathlib import Path
from typing import Any

import pytest
import yaml

from support import objects as make
from support.contention import DAY, running
from support.contention import reserved as reserves
from support.contention import waiting as waits

Fairway = Callable[..., Any]
CLUSTER = """
apiVersion: v1
kind: Node
metadata: {name: n1}
status: {allocatable: {cpu: "8", memory: 32Gi, nvidia.com/gpu: "4"}}
---
apiVersion: v1
kind: Pod
metadata: {name: busy, namespace: team, creationTimestamp: 2026-01-01T00:00:00Z}
spec:
  schedulerName: fairway
  nodeName: n1
  activeDeadlineSeconds: 3600
  containers: [{name: main, resources: {limits: {nvidia.com/gpu: "3"}}}]
status: {phase: Running, startTime: 2026-01-01T00:10:00Z}
---
apiVersion: v1
kind: Pod
metadata: {name: train, namespace: team, creationTimestamp: 2026-01-01T00:20:00Z}
spec:
  schedulerName: fairway
  containers: [{name: main, resources: {limits: {nvidia.com/gpu: "2"}}}]
"""


@pytest.fixture
def cluster(tmp_path: Path) -> str:
    path = tmp_path / "cluster.yaml"
    path.write_text(CLUSTER)
    return str(path)


def test_why_what_would_help_and_when(fairway: Fairway, cluster: str, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv("COLUMNS", "80")
    result = fairway("explain", "train", "-f", cluster, "--now", "2026-01-01T00:30:00Z")
    assert (result.code, result.err) == (0, "")
    lines = [line.rstrip() for line in result.out.splitlines()]
    assert lines[0] == "team/train is pending in queue default"
    assert lines[1] == "  InsufficientResources: 0/1 nodes fit: 1 insufficient nvidia.com/gpu"
    assert "  queue position          1 of 1 in its queue, priority 0" in lines
    assert "  1. request at most 1 nvidia.com/gpu instead of 2" in lines
    assert "  2. wait for the end of team/busy (known to end by 2026-01-01T01:10:00Z)" in lines
    assert "  starts at 2026-01-01T01:10:00Z (in 40m) if nothing else arrives." in lines
    assert max(map(len, lines)) <= 80
    assert any("Tried without effect: " in line for line in lines)


def test_pods_of_the_cluster_itself_are_not_among_those_without_a_known_end(
    fairway: Fairway, cluster: str, tmp_path: Path
) -> None:
    daemon = CLUSTER.split("---")[1].replace("busy, namespace: team", "proxy, namespace: kube-system")
    daemon = daemon.replace("  activeDeadlineSeconds: 3600\n", "").replace('nvidia.com/gpu: "3"', "cpu: 1")
    service = daemon.replace("proxy, namespace: kube-system", "service, namespace: team")
    path = tmp_path / "all.yaml"
    path.write_text(f"{CLUSTER}---{daemon}---{service}")
    given = ("explain", "train", "-f", str(path), "--now", "2026-01-01T00:30:00Z")
    assert "No known end: team/service." in fairway(*given).out
    assert json.loads(fairway(*given, "-o", "json").out)["forecast"]["unknownCount"] == 1


def test_no_job_is_told_to_wait_for_the_end_of_pods_of_the_cluster_itself(fairway: Fairway, tmp_path: Path) -> None:
    path = tmp_path / "all.yaml"
    path.write_text(CLUSTER.replace("busy, namespace: team", "busy, namespace: kube-system"))
    found = fairway("explain", "train", "-f", str(path), "--now", "2026-01-01T00:30:00Z").out
    assert "request at most 1 nvidia.com/gpu instead of 2" in found
    assert "wait for the end of" not in found


def test_times_are_round_for_people_and_exact_for_programs(fairway: Fairway, cluster: str) -> None:
    given = ("explain", "train", "-f", cluster, "--now", "2026-01-01T00:30:00.123456Z")
    assert "starts at 2026-01-01T01:10:00Z (in 40m) if nothing else arrives." in fairway(*given).out
    Path(cluster).write_text(CLUSTER.replace("startTime: 2026-01-01T00:10:00Z", "startTime: 2026-01-01T00:10:00.4Z"))
    assert "starts at 2026-01-01T01:10:01Z (in 40m)" in fairway(*given).out
    assert json.loads(fairway(*given, "-o", "json").out)["forecast"]["start"] == "2026-01-01T01:10:00.400000Z"


def test_for_programs(fairway: Fairway, cluster: str) -> None:
    arguments = ("explain", "team/train", "-f", cluster, "--now", "2026-01-01T00:30:00Z", "-o")
    said = json.loads(fairway(*arguments, "json").out)
    assert (said["job"], said["standing"], said["reason"]) == ("team/train", "waiting", "InsufficientResources")
    assert said["nodes"] == {"insufficient nvidia.com/gpu": 1}
    assert (said["position"], said["line"], said["minimum"]) == (1, 1, 1)
    assert [change["kind"] for change in said["counterfactual"]["changes"]] == ["request", "ends"]
    assert said["counterfactual"]["changes"][1]["pods"] == ["team/busy"]
    assert said["counterfactual"]["complete"] is True
    assert said["forecast"]["start"] == "2026-01-01T01:10:00Z"
    assert said["forecast"]["estimate"] is False
    assert yaml.safe_load(fairway(*arguments, "yaml").out) == said


def test_the_same_question_has_the_same_answer(fairway: Fairway, cluster: str) -> None:
    arguments = ("explain", "train", "-f", cluster, "--now", "2026-01-01T00:30:00Z", "-o", "json")
    assert fairway(*arguments).out == fairway(*arguments).out


def test_a_job_that_runs_and_one_that_starts(fairway: Fairway, cluster: str) -> None:
    running = fairway("explain", "busy", "-f", cluster).out
    assert running.startswith("team/busy is running in queue default\n")
    assert "busy on n1" in running
    assert "What would start it now" not in running
    more = fairway("explain", "train", "-f", cluster, "--now", "2026-01-01T00:30:00Z", "--policy", "nowhere.yaml")
    assert more.code == 2
    assert "nowhere.yaml" in more.err


def test_a_job_that_is_not_there(fairway: Fairway, cluster: str) -> None:
    result = fairway("explain", "tarin", "-f", cluster)
    assert (result.code, result.out) == (2, "")
    assert result.err == "Error: tarin: there is no such job, expected one of team/busy, team/train\n"


def test_faults_of_files_are_told_as_everywhere(fairway: Fairway, tmp_path: Path) -> None:
    bad = tmp_path / "bad.yaml"
    bad.write_text("apiVersion: v1\nkind: Pod\nmetadata: {name: x}\nspec: {containers: 3}\n")
    result = fairway("explain", "x", "-f", str(bad))
    assert result.code == 2
    assert f"{bad}:4: spec.containers:" in result.err


def test_without_files_a_sandbox_is_asked(fairway: Fairway, monkeypatch: pytest.MonkeyPatch, tmp_path: Path) -> None:
    monkeypatch.setenv("XDG_STATE_HOME", str(tmp_path))
    result = fairway("explain", "x", "--sandbox", "http://127.0.0.1:1")
    assert result.code == 2
    assert "no sandbox answers at http://127.0.0.1:1" in result.err
    assert "start one with `fairway sandbox`" in result.err
    result = fairway("explain", "x", "--now", "2026-01-01T00:00:00Z")
    assert result.code == 2
    assert "--policy, --now, --scheduler-name and --all-pods require -f" in result.err


@pytest.mark.parametrize(
    ("state", "limit", "reserved", "waiting"),
    [("reserved", 100, 2, 0), ("allocated", 100, 2, 0), ("allocated", 30, 0, 2)],
)
def test_pods_that_are_allocated_reserved_and_waiting_are_counted_apart(
    fairway: Fairway, tmp_path: Path, state: str, limit: int, reserved: int, waiting: int
) -> None:
    """Of a gang of three one runs and one has a place reserved; with a limit of no node that is given up."""
    group = make.group("big", minimum=3, created=0, phase="Running")
    pods = [running("big-0", "n0", group="big", cpu=2), *(waits(f"big-{i}", group="big", cpu=2) for i in (1, 2))]
    nodes = [make.node(f"n{i}", cpu=2) for i in range(3)]
    others = [running("a", "n2", cpu=2), *([running("b", "n1", cpu=2)] if state == "reserved" else [])]
    path = tmp_path / "gang.yaml"
    things = [*nodes, *others, *reserves(group, ("big-1", "n1", state)), *pods]
    path.write_text(yaml.safe_dump_all(make.manifest(thing) for thing in things))
    policy = tmp_path / "policy.yaml"
    arguments = {"starvingJobTimeThreshold": 1, "reservedNodePercent": limit}
    actions = [{"name": "reserve", "arguments": arguments}, {"name": "allocate"}]
    policy.write_text(
        json.dumps({"actions": actions, "tiers": [{"plugins": [{"name": "gang"}, {"name": "predicates"}]}]})
    )
    given = ("explain", "big", "-f", str(path), "--policy", str(policy), "--now", make.at(DAY), "--all-pods")
    shown = fairway(*given)
    assert (shown.code, shown.err) == (0, "")
    kept = f"{reserved} reserved, " if reserved else ""
    assert f"  pods                    1 allocated, {kept}{waiting} pending, needs 3 at once" in shown.out
    assert "big-0 on n0" in shown.out
    assert "big-1 on" not in shown.out
    found = json.loads(fairway(*given, "-o", "json").out)
    assert (found["allocated"], found["reserved"], found["waiting"], found["minimum"]) == (1, reserved, waiting, 3)


@pytest.mark.parametrize(
    ("restarted", "now", "text"),
    [
        (0, 60, "evicted 3 times, protected until 2026-01-01T00:08:00Z"),
        (0, 600, "evicted 3 times, was protected until 2026-01-01T00:08:00Z"),
        (None, 60, "evicted 3 times; protected for 480 s from its next start"),
    ],
    ids=["running", "no longer", "pending"],
)
def test_how_often_it_was_stopped_and_until_when_it_is_protected(
    fairway: Fairway, tmp_path: Path, restarted: int | None, now: int, text: str
) -> None:
    pod = make.pod("g-0", group="g", cpu=9) if restarted is None else running("g-0", "n1", group="g", cpu=1, started=0)
    group = make.group("g", created=0, phase="Running")
    status: dict[str, Any] = {"stops": 3, "stoppedAt": "2025-12-31T23:59:00Z"}
    status |= {} if restarted is None else {"restartedAt": make.at(restarted)}
    reference = {"kind": "PodGroup", "name": "g", "uid": group.metadata.uid}
    record = make.made("EvictionRecord", "g", "default", spec={"jobRef": reference}, status=status)
    things = [make.manifest(thing) for thing in (make.node("n1", cpu=4), group, pod, record)]
    (tmp_path / "cluster.json").write_text(json.dumps({"apiVersion": "v1", "kind": "List", "items": things}))
    said = fairway("explain", "default/g", "-f", str(tmp_path / "cluster.json"), "--now", make.at(now))
    assert text in " ".join(said.out.split())
    document = json.loads(
        fairway("explain", "default/g", "-f", str(tmp_path / "cluster.json"), "--now", make.at(now), "-o", "json").out
    )
    assert (document["stopped"]["stops"], document["stopped"]["text"]) == (3, text)
