"""`fairway record`, and commands that are asked about a live cluster instead of files."""

from __future__ import annotations

import json
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import pytest

from kube.controlplane.plane import ControlPlane
from kube.servers import apply, create, namespace, pod, remove
from support.cli import invoke, write
from support.objects import gang, node, queue
from support.objects import pod as pod_object

NOW = "2026-01-02T00:00:00Z"


def objects() -> list[Any]:
    mine = [node("n1", cpu=4), queue("q", 2), *gang("g", members=3, cpu=2, queue="q"), pod_object("p", cpu=1)]
    theirs = pod_object("theirs", cpu=1, node="n1", spec={"schedulerName": "default-scheduler"})
    return [*mine, theirs]


def test_what_was_recorded_gives_the_same_plan(tmp_path: Path) -> None:
    file = write(objects(), tmp_path)
    out = tmp_path / "out"
    assert invoke("record", "-f", str(file), "--out", str(out), "--now", NOW).code == 0
    first = invoke("plan", "-f", str(file), "--now", NOW, "-o", "json").plan
    again = invoke("plan", "-f", str(out / "objects"), "--now", NOW, "-o", "json").plan
    assert again == first
    replayed = invoke("replay", str(out / "cycle"), "--at", "0", "-o", "json")
    assert replayed.plan == first
    assert "the plan is identical to the recorded one" in replayed.err


def test_two_recordings_of_the_same_are_the_same_bytes(tmp_path: Path) -> None:
    file = write(objects(), tmp_path)
    for name in ("a", "b"):
        assert invoke("record", "-f", str(file), "--out", str(tmp_path / name), "--now", NOW).code == 0
    for path in sorted((tmp_path / "a").rglob("*.*")):
        assert path.read_bytes() == (tmp_path / "b" / path.relative_to(tmp_path / "a")).read_bytes()


def test_free_text_is_left_out(tmp_path: Path) -> None:
    notes = {
        "kubectl.kubernetes.io/last-applied-configuration": '{"password": "hunter2"}',
        "example.com/token": "hunter2",
        "note": "hunter2",
        "k8s.io.evil.example/x": "hunter2",
        "fairway.dev/expected-runtime": "1h",
        "volcano.sh/preemptable": "false",
    }
    file = write([node("n1", cpu=1), pod_object("p", cpu=1, annotations=notes)], tmp_path)
    out = tmp_path / "out"
    result = invoke("record", "-f", str(file), "--out", str(out), "--now", NOW, "-o", "json")
    assert result.plan["objects"] == {"Node": 1, "Pod": 1}
    (kept,) = json.loads((out / "objects" / "pod.json").read_text())["items"]
    assert set(kept["metadata"]["annotations"]) == {"fairway.dev/expected-runtime", "volcano.sh/preemptable"}
    for path in out.rglob("*.json"):
        assert "hunter2" not in path.read_text()


@pytest.mark.parametrize(
    ("arguments", "said"),
    [
        (["plan"], "Missing option '-f' / '--file', or '--kubeconfig'"),
        (["plan", "-f", "x", "--context", "y"], "cannot be combined"),
        (["plan", "--kubeconfig", "there-is-none"], "there-is-none"),
        (["record", "--kubeconfig", "there-is-none", "--out", "x"], "there-is-none"),
        (["apply", "--kubeconfig", "x"], "No such option"),
    ],
)
def test_what_cannot_be_asked_is_said(arguments: list[str], said: str) -> None:
    result = invoke(*arguments)
    assert result.code == 2
    assert said in result.err
    assert result.out == ""


# -- on a real server ----------------------------------------------------------------------------------------------


@pytest.fixture(name="config", scope="module")
def a_cluster_to_ask_about(plane: ControlPlane) -> Iterator[str]:
    namespace(plane, "asked")
    host = {"apiVersion": "v1", "kind": "Node", "metadata": {"name": "asked-n1", "labels": {"asked": "yes"}}}
    apply(plane, [host])
    amounts = {"cpu": "4", "memory": "8Gi", "pods": "110"}
    status = {
        "status": {"capacity": amounts, "allocatable": amounts, "conditions": [{"type": "Ready", "status": "True"}]}
    }
    plane.call("PATCH", "/api/v1/nodes/asked-n1/status", status, kind="strategic")
    secret = {"apiVersion": "v1", "kind": "Secret", "metadata": {"name": "s", "namespace": "asked"}}
    create(plane, {**secret, "stringData": {"key": "hunter2"}})
    for name, cpu in (("fits", "1"), ("large", "64")):
        thing = pod(name, "asked", limits={"cpu": cpu}, spec={"nodeSelector": {"asked": "yes"}})
        container = thing["spec"]["containers"][0]
        container.update(env=[{"name": "PASSWORD", "value": "hunter2"}], args=["--token=hunter2"])
        thing["metadata"]["annotations"] = {"example.com/token": "hunter2"}
        create(plane, thing)
    yield str(plane.kubeconfig("admin"))
    remove(plane, host)


def test_every_reading_command_answers_about_a_cluster(config: str) -> None:
    asked = ("--kubeconfig", config)
    plan = invoke("plan", *asked, "-o", "json").plan
    bound = {binding["pod"]: binding["node"] for binding in plan["bindings"]}
    assert bound["asked/fits"] == "asked-n1"
    waiting = {entry["job"] for entry in plan["pending"]}
    assert "asked/large" in waiting
    assert "insufficient cpu" in invoke("explain", "asked/large", *asked).out
    assert "asked/large" in invoke("queue", *asked, "-o", "json").out
    for arguments in (["queues"], ["classes"], ["place"], ["order", "asked/large"]):
        result = invoke(*arguments, *asked, "-o", "json")
        assert result.code == 0, (arguments, result.err)
    named = invoke("plan", "--kubeconfig", config, "--context", "admin", "-o", "json")
    assert named.code == 0


def test_a_recorded_cluster_is_decided_alike_and_holds_no_secret(config: str, tmp_path: Path) -> None:
    out = tmp_path / "out"
    result = invoke("record", "--kubeconfig", config, "--out", str(out), "--now", NOW)
    assert result.code == 0, result.err
    live = invoke("plan", "--kubeconfig", config, "--now", NOW, "-o", "json").plan
    filed = invoke("plan", "-f", str(out / "objects"), "--now", NOW, "-o", "json").plan
    assert filed["bindings"] == live["bindings"]
    assert filed["pending"] == live["pending"]
    assert invoke("replay", str(out / "cycle"), "--at", "0").code == 0
    text = "".join(path.read_text() for path in (out / "objects").iterdir())
    assert "asked/fits" in text or '"fits"' in text
    assert "hunter2" not in text
    assert "PASSWORD" not in text
    assert "secret.json" not in {path.name for path in (out / "objects").iterdir()}


def test_a_user_that_the_server_does_not_know_is_told(plane: ControlPlane, config: str) -> None:
    found = json.loads(Path(config).read_text())
    found["users"][0]["user"] = {"token": "not-a-token"}
    path = plane.folder / "unknown.kubeconfig"
    path.write_text(json.dumps(found))
    result = invoke("plan", "--kubeconfig", str(path))
    assert result.code == 2
    assert "Unauthorized" in result.err
