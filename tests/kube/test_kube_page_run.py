"""The page of `fairway run` on a real API server: users are shown, and may do, what the server says."""

from __future__ import annotations

import json
import os
import signal
import socket
import urllib.request
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import pytest

from kube.cluster import Cluster, eventually
from kube.controlplane.plane import ControlPlane
from kube.page_of_run import MARK, READING, LivePageOf, PageReply, Tenancy, account, running_page, tenants, their_pod
from kube.process import RunProcess
from support.page_routes import read_addresses
from support.web_pages import TOKEN


@pytest.fixture(name="tenancy")
def two_tenants(installed: ControlPlane, cluster: Cluster) -> Iterator[Tenancy]:
    with tenants(installed, cluster) as tenancy:
        yield tenancy


@pytest.fixture(name="page")
def a_page(installed: ControlPlane, cluster: Cluster, tmp_path: Path, request: Any) -> Iterator[LivePageOf]:
    with running_page(cluster, tmp_path, **getattr(request, "param", {})) as page:
        yield page


def condition(cluster: Cluster, pod: str) -> Any:
    """`PodScheduled` of a pod."""
    conditions = cluster.get(f"{cluster.pods}/{pod}")["status"].get("conditions", [])
    return next((one for one in conditions if one["type"] == "PodScheduled"), {})


def first_events(page: LivePageOf, token: str, until: str) -> str:
    """Of the stream, up to a text in it."""
    with socket.create_connection(("127.0.0.1", page.port), timeout=60) as stream:
        head = f"GET /api/v1/events HTTP/1.1\r\nHost: x\r\nAuthorization: Bearer {token}\r\n\r\n"
        stream.sendall(head.encode())
        text = b""
        while until.encode() not in text:
            part = stream.recv(65536)
            assert part, text.decode()
            text += part
        return text.decode()


def test_each_user_is_shown_what_kubectl_would_show(page: LivePageOf, cluster: Cluster, tenancy: Tenancy) -> None:
    own, other, token, admin = tenancy
    plane = cluster.plane
    plane.call("POST", "/apis/scheduling.k8s.io/v1/priorityclasses", {"metadata": {"name": f"{own}-high"}, "value": 10})
    node = cluster.node("n", cpu=4)
    their_pod(cluster, other, f"{MARK}-low")
    path = f"/api/v1/namespaces/{other}/pods/{MARK}-low"
    eventually(lambda: plane.call("GET", path)["spec"].get("nodeName"), "their pod is bound")
    eventually(lambda: page.ask("/api/v1/session", admin).status == 200, "the page is there")
    assert page.ask("/api/v1/session", "not-a-token").status == 401
    shown = f"/api/v1/jobs?search={MARK}-low"  # other tests may have left jobs of theirs
    eventually(lambda: page.ask(shown, admin).document["total"] == 1, "the page shows the pod")
    cluster.pod("taker", cpu="3", priorityClassName=f"{own}-high")  # evicts theirs
    eventually(lambda: page.job(f"{own}/taker", admin).get("victims"), "the eviction is shown")
    cluster.pod("waits", cpu="3")
    eventually(lambda: page.job(f"{own}/waits", admin).get("sentence", "").startswith("It waits"), "it waits")
    # The first question of this user: what may be seen is believed for a minute.
    assert page.ask("/api/v1/jobs", token).document["total"] == 2

    jobs = [f"{own}/taker", f"{own}/waits", "taker", f"{MARK}-low", f"{other}/{MARK}-low"]
    asked, told = 0, {}
    for address in read_addresses(jobs=jobs, queues=["default"], nodes=[node]):
        answer = page.ask(address, token)
        assert 200 <= answer.status < 500, (address, answer)
        asked += answer.status == 200
        text = answer.text
        if MARK in address:
            assert answer.status in (403, 404), (address, answer)
            for name in jobs:
                text = text.replace(f"{name}: there is no such job", "")
        if MARK in text or f'"{node}"' in text.replace(f'"node":"{node}"', ""):  # the node of its own pod it may see
            told[address] = text
    assert told == {}
    assert asked >= 12
    assert MARK in page.ask(f"/api/v1/explanations/{own}/waits", admin).text + page.ask("/api/v1/evictions", admin).text
    assert page.job(f"{own}/taker", token)["victims"][0]["pod"] == "(a job of another namespace)"
    for closed in ("queues", "nodes", "devices", "timeline", "history", "scheduler"):
        assert page.ask(f"/api/v1/{closed}", token).status == 403
    assert page.ask("/api/v1/nodes", admin).status == 200

    their_pod(cluster, other, f"{MARK}-more")
    eventually(lambda: MARK in page.ask("/api/v1/jobs?search=more", admin).text, "the page shows it")
    cluster.pod("third", cpu="3")
    events = first_events(page, token, f"{own}/third")
    assert MARK not in events
    action = page.ask(f"/api/v1/actions/{own}/waits", token, {"action": "cancel"})
    assert (action.status, "--allow-actions" in action.text) == (403, True)
    plane.call("DELETE", f"/apis/scheduling.k8s.io/v1/priorityclasses/{own}-high")


@pytest.mark.parametrize("page", [{"allow_actions": True}], indirect=True)
def test_users_act_with_their_own_rights(page: LivePageOf, cluster: Cluster, tenancy: Tenancy) -> None:
    own, other, reader, _ = tenancy
    plane = cluster.plane
    pods = {"apiGroups": [""], "resources": ["pods"], "verbs": ["delete", "patch"]}
    groups = {"apiGroups": ["scheduling.volcano.sh"], "resources": ["podgroups"], "verbs": ["patch"]}
    jobs = {"apiGroups": ["batch"], "resources": ["jobs"], "verbs": ["delete"]}
    writer = account(plane, own, "writer", [READING, pods, groups, jobs])
    cluster.pod("lone", cpu="64")
    template = {"spec": {"restartPolicy": "Never", "containers": [{"name": "c", "image": "i"}]}}
    path = f"/apis/batch/v1/namespaces/{own}/jobs"
    made = plane.call("POST", path, {"metadata": {"name": "train"}, "spec": {"template": template}})
    owner = {
        "apiVersion": "batch/v1",
        "kind": "Job",
        "name": "train",
        "uid": made["metadata"]["uid"],
        "controller": True,
    }
    cluster.pod("train-0", cpu="64", metadata={"ownerReferences": [owner]})
    their_pod(cluster, other, f"{MARK}-pod", containers=[{"name": "c", "image": "i"}])
    lone, train = f"{own}/lone", f"{own}/job/train"

    def act(token: str, job: str, action: str) -> PageReply:
        return page.ask(f"/api/v1/actions/{job}", token, {"action": action})

    eventually(lambda: "hold" in page.job(train, writer).get("allowed", ()), "the job is shown")
    eventually(lambda: page.job(lone, reader).get("allowed") == ["cancel", "hold"], "the pod is shown")
    for job, action in ((lone, "cancel"), (train, "hold"), (train, "cancel")):
        refused = act(reader, job, action)
        assert (refused.status, "forbidden" in refused.text) == (403, True), refused
    assert act(writer, f"{other}/{MARK}-pod", "cancel").status == 404

    def held(job: str, pod: str) -> None:
        what = "held" if job == lone else "1 pod that waits is held; pods that its controller makes later are not"
        assert act(writer, job, "hold").document["text"] == f"{job}: {what}"
        eventually(lambda: page.job(job, writer).get("allowed") == ["cancel", "release"], "it is held")
        assert act(reader, job, "release").status == 403
        eventually(lambda: condition(cluster, pod).get("reason") == "SchedulingGated", "its status says so")
        assert "held (annotation fairway.dev/hold)" in condition(cluster, pod)["message"]
        assert cluster.get(f"{cluster.pods}/{pod}")["metadata"]["annotations"] == {"fairway.dev/hold": "true"}

    held(lone, "lone")
    held(train, "train-0")
    cluster.node("n", cpu=128)
    cluster.pod("free", cpu="1")
    eventually(lambda: cluster.places()["free"] == "n", "the scheduler has seen the node")
    assert (cluster.places()["lone"], cluster.places()["train-0"]) == ("", "")
    assert act(writer, train, "release").status == 200
    eventually(lambda: cluster.places()["train-0"] == "n", "the released job is placed")

    assert act(writer, lone, "cancel").document["text"] == f"{lone}: deleted with 1 pod"
    assert "lone" not in cluster.places()
    assert act(writer, train, "cancel").document["text"] == f"{train}: Job train deleted"
    assert cluster.get(f"{path}/train") is None or cluster.get(f"{path}/train")["metadata"].get("deletionTimestamp")
    assert "Bearer" not in json.dumps(page.run.lines)
    assert writer not in json.dumps(page.run.lines)


@pytest.mark.parametrize("page", [{"allow_actions": True}], indirect=True)
@pytest.mark.parametrize(
    ("version", "spec"),
    [
        ("scheduling.volcano.sh/v1beta1", {"minMember": 2}),
        ("scheduling.k8s.io/v1alpha2", {"schedulingPolicy": {"gang": {"minCount": 2}}}),
    ],
)
def test_a_gang_is_held_by_its_group(
    page: LivePageOf, cluster: Cluster, tenancy: Tenancy, version: str, spec: dict[str, Any]
) -> None:
    """A user that may patch PodGroups needs no right to pods."""
    own, _, reader, _ = tenancy
    groups = {"apiGroups": [version.partition("/")[0]], "resources": ["podgroups"], "verbs": ["patch"]}
    writer = account(cluster.plane, own, "groups", [READING, groups])
    group = {"apiVersion": version, "kind": "PodGroup", "metadata": {"name": "gang"}, "spec": spec}
    cluster.make(f"/apis/{version}/namespaces/{own}/podgroups", group)
    notes = {"annotations": {"scheduling.k8s.io/group-name": "gang"}}
    for number in range(2):
        cluster.pod(f"gang-{number}", cpu="64", metadata=notes)
    gang = f"{own}/gang"

    def act(token: str, action: str) -> int:
        return page.ask(f"/api/v1/actions/{gang}", token, {"action": action}).status

    eventually(lambda: "hold" in page.job(gang, writer).get("allowed", ()), "the gang is shown")
    assert (act(reader, "hold"), act(writer, "hold")) == (403, 200)
    eventually(lambda: "it is held" in page.job(gang, writer).get("sentence", ""), "it is held")
    cluster.node("n", cpu=256)
    cluster.pod("free", cpu="1")
    eventually(lambda: cluster.places()["free"] == "n", "the scheduler has seen the node")
    assert {cluster.places()[f"gang-{number}"] for number in range(2)} == {""}
    eventually(lambda: condition(cluster, "gang-0").get("reason") == "SchedulingGated", "its pods say so")
    assert act(writer, "release") == 200
    eventually(lambda: {cluster.places()[f"gang-{number}"] for number in range(2)} == {"n"}, "it is placed")


def test_scheduling_goes_on_when_the_page_is_killed(page: LivePageOf, cluster: Cluster, tenancy: Tenancy) -> None:
    cluster.node("n", cpu=4)
    eventually(lambda: page.ask("/api/v1/session", tenancy.admin).status == 200, "the page is there")
    page.stop_page(signal.SIGKILL)
    assert page.ask("/api/v1/session", tenancy.admin).status == 0
    cluster.pod("after")
    eventually(lambda: cluster.places()["after"] == "n", "the pod is bound")
    eventually(lambda: page.run.logged("the page was disconnected; scheduling continues"), "the log says so")
    page.start_page()  # as a kubelet does; what happened meanwhile is shown
    eventually(lambda: page.job(f"{cluster.namespace}/after", tenancy.admin).get("job"), "the page shows the pod")


def test_scheduling_goes_on_while_the_page_stands_still(page: LivePageOf, cluster: Cluster, tenancy: Tenancy) -> None:
    cluster.node("n", cpu=16)
    eventually(lambda: page.ask("/api/v1/session", tenancy.admin).status == 200, "the page is there")
    assert page.page is not None
    page.page.send_signal(signal.SIGSTOP)
    try:
        for number in range(8):
            cluster.pod(f"p-{number}")
        eventually(lambda: set(cluster.places().values()) == {"n"}, "the pods are bound")
    finally:
        page.page.send_signal(signal.SIGCONT)
    eventually(lambda: page.job(f"{cluster.namespace}/p-7", tenancy.admin).get("job"), "the page shows the last pod")


def test_the_page_finds_a_scheduler_that_was_killed_again(page: LivePageOf, cluster: Cluster, tenancy: Tenancy) -> None:
    cluster.node("n", cpu=16)
    cluster.pod("stays")
    cluster.pod("goes")
    eventually(lambda: set(cluster.places().values()) == {"n"}, "the pods are bound")
    eventually(lambda: page.job(f"{cluster.namespace}/goes", tenancy.admin).get("job"), "the page shows them")
    page.run.kill()
    assert page.ask("/api/v1/session", tenancy.admin).status == 200  # with what it knows
    cluster.delete(f"{cluster.pods}/goes")
    cluster.pod("new")
    page.run.start()
    eventually(lambda: page.job(f"{cluster.namespace}/new", tenancy.admin).get("job"), "the page shows the new pod")

    def shown() -> set[str]:
        rows = page.ask(f"/api/v1/jobs?namespace={cluster.namespace}&state=starting", tenancy.admin).document["rows"]
        return {row["job"].partition("/")[2] for row in rows}

    eventually(lambda: shown() == {"stays", "new"}, "and not the one that was deleted")
    assert "the scheduler feeds the page again" in page.log.read_text()


def test_a_page_that_run_starts_is_started_again(
    installed: ControlPlane, cluster: Cluster, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    """`fairway run --web`, as on a laptop."""
    monkeypatch.setenv("FAIRWAY_WEB_TOKEN", TOKEN)
    with socket.create_server(("127.0.0.1", 0)) as free:
        port = free.getsockname()[1]
    run = RunProcess(
        tmp_path,
        "run",
        kubeconfig=str(installed.kubeconfig("scheduler")),
        schedulerNames=[cluster.scheduler],
        leaderElection={"enabled": False},
        web=f"127.0.0.1:{port}",
    )
    run.start()

    def status() -> int:
        request = urllib.request.Request(f"http://127.0.0.1:{port}/api/v1/session")
        request.add_header("Authorization", f"Bearer {TOKEN}")
        try:
            with urllib.request.urlopen(request, timeout=10) as answer:
                return int(answer.status)
        except OSError:
            return 0

    try:
        eventually(lambda: status() == 200, "the page is there")
        assert run._process is not None
        children = Path(f"/proc/{run._process.pid}/task/{run._process.pid}/children").read_text().split()
        for thread in Path(f"/proc/{run._process.pid}/task").iterdir():
            children += (thread / "children").read_text().split()
        for child in set(children):
            os.kill(int(child), signal.SIGKILL)
        eventually(
            lambda: run.logged("the page exited and is being restarted; scheduling continues"), "the log says so"
        )
        eventually(lambda: status() == 200, "the page is there again")
    finally:
        code = run.stop()
    assert code == 0
    assert run.problems() == []
    assert status() == 0
