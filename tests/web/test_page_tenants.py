"""A user who may see one namespace: no answer to any operation, and no event, names what is in another."""

import json
from typing import Any

import pytest
from starlette.testclient import TestClient

from fairway.app.logs import RunLog
from fairway.app.view.details import HIDDEN
from fairway.app.view.history_ring import HistoryRing
from fairway.app.view.models.cluster import FleetPage
from fairway.app.view.models.history import EvictionEntry, SchedulerProblem
from fairway.app.view.scheduler_page import ProgramFacts
from fairway.web.application import application
from fairway.web.asking import Viewer
from fairway.web.concealing import conceal, eviction_for
from fairway.web.contract import OPERATIONS
from fairway.web.sandbox_page import sandbox_watch
from fairway.web.shown import ShownCluster
from fairway.web.stream import delta
from fairway.web.worker import WhatIfWorker
from support.devices import asking, device_node, gpu, kind_class
from support.engine import policy
from support.objects import HOST, gang, node, pod, priority_class, queue
from support.page_routes import read_addresses
from support.sandboxes import after, made, running_for

OTHER = "zq9-others"
MARK = "zq9"
"""In every name that is of the other namespace."""
OWN = Viewer("tenant", frozenset({"own"}), nodes=True, queues=True)
FEW = OWN._replace(nodes=False, queues=False)
JOB_PATHS = [
    "own/waits",
    "own/wants",
    "own/robbed",
    "own/taker",
    "waits",
    f"{MARK}-low",
    f"{OTHER}/{MARK}-low",
    "own/none",
]


class FixedAccess:
    """Lets one viewer in."""

    cookie = "fairway"

    def __init__(self) -> None:
        self.now = OWN

    async def viewer(self, bearer: str | None, cookie: str | None) -> Viewer:
        return self.now

    async def login(self, token: str) -> str:
        return "cookie"

    async def logout(self, cookie: str | None) -> None:
        raise AssertionError


@pytest.fixture(scope="module")
def page():
    """Each has evicted a pod of the other, waits for the other, and has devices."""
    plugins = ("priority", "gang", "predicates", "nodeorder", "devices")
    chosen = policy(actions=[{"name": one} for one in ("enqueue", "allocate", "preempt", "backfill")], plugins=plugins)
    sandbox = made(
        device_node("n-1", gpu("gpu-0"), gpu("gpu-1"), cpu=2),
        node("n-2", cpu=4),
        node(f"{MARK}-node", cpu=8, taints=["apart=x:NoSchedule"]),
        kind_class("any-gpu", "nvidia-gpu"),
        queue("q"),
        queue("shared"),
        queue(f"{MARK}-queue"),
        priority_class("high", 10),
        priority_class("higher", 20),
        asking(f"{MARK}-device", OTHER, classes={"any-gpu": 1}, queue=f"{MARK}-queue", annotations=running_for("3h")),
        asking("device", "own", classes={"any-gpu": 1}, queue="q", annotations=running_for("3h")),
        pod(f"{MARK}-low", OTHER, cpu=3, queue="shared", labels={f"{MARK}-label": MARK}, annotations=running_for("2h")),
        pod(
            "robbed", "own", cpu=1, queue="shared", spec={"nodeSelector": {HOST: "n-2"}}, annotations=running_for("2h")
        ),
        with_policy=chosen,
    )
    ring, watch = HistoryRing(), sandbox_watch(sandbox)
    watch.drawn = ring.take
    watch.catch_up()
    after(sandbox, 60)
    watch.catch_up()
    first = watch.picture
    high: dict[str, Any] = {"queue": "shared", "annotations": running_for("1h")}
    first_class, higher_class = (
        {"priorityClassName": name, "priority": n} for name, n in (("high", 10), ("higher", 20))
    )
    sandbox.apply([pod("taker", "own", cpu=3, spec=first_class, **high)])
    after(sandbox, 120)
    watch.catch_up()
    tolerated = {"tolerations": [{"operator": "Exists"}], "nodeName": f"{MARK}-node"}
    sandbox.apply(
        [pod(f"{MARK}-high", OTHER, cpu=1, spec=higher_class, **high), pod(f"{MARK}-on", OTHER, spec=tolerated)]
    )
    after(sandbox, 180)
    sandbox.apply([*gang("waits", "own", members=2, cpu=3, queue="shared"), pod(f"{MARK}-w", OTHER, cpu=4, queue="q")])
    sandbox.apply([pod("wants", "own", cpu=4, queue="q")])  # what both have would have to end
    after(sandbox, 400)
    watch.catch_up()
    problems = (SchedulerProblem("", "error", f"cannot bind {OTHER}/{MARK}-low"),)
    shown = ShownCluster(
        "live",
        "test",
        watch,
        history=ring,
        what_if=WhatIfWorker(),
        facts=lambda: ProgramFacts(problems=problems),
        fleet=lambda: FleetPage(True, MARK, [], []),
        log=RunLog(write=lambda line: None),
    )
    access = FixedAccess()
    site = application(shown, access, lambda: None)
    yield TestClient(site.app), access, shown, first, site.hub
    sandbox.close()


def addresses() -> list[str]:
    nodes = ["n-1", "n-2", f"{MARK}-node"]
    return read_addresses(jobs=JOB_PATHS, queues=[f"{MARK}-queue", "shared"], nodes=nodes)


@pytest.mark.parametrize("viewer", [OWN, FEW], ids=["with nodes and queues", "of pods only"])
def test_no_answer_names_what_is_in_another_namespace(page, viewer):
    client, access, *_ = page
    access.now = viewer
    told: dict[str, str] = {}
    for address in addresses():
        given = MARK in address
        answer = client.get(address)
        assert answer.status_code < 500, (address, answer.text)
        text = answer.text
        if viewer.queues:  # queues and nodes are of the whole cluster: who may list them sees their names
            text = text.replace(f"{MARK}-queue", "(queue)").replace(f"{MARK}-node", "(node)")
        if given:  # what was asked for is said back
            assert answer.status_code in (200, 403, 404), (address, answer.text)
            for name in (f"{OTHER}/{MARK}-low", f"{MARK}-low", f"{MARK}-queue"):
                text = text.replace(f"{name}: there is no such job", "").replace(f'"queue":"{name}"', "")
        if MARK in text:
            told[address] = text[max(0, text.index(MARK) - 80) : text.index(MARK) + 40]
    assert told == {}


def test_each_operation_was_asked(page):
    asked = {address.partition("?")[0].rstrip("/") for address in addresses()}
    for operation in OPERATIONS:
        if operation.method == "GET" and not operation.streams:
            stem = "/api/v1" + operation.path.partition("{")[0].rstrip("/")
            assert any(one.startswith(stem) for one in asked), operation.name
    assert len(asked) > 40


def test_there_was_something_to_hide(page):
    client, access, *_ = page
    access.now = Viewer("admin")
    for address in ("jobs", "evictions", "devices", "feed", "explanations/own/wants", "jobs/own/taker", "history",
                    "starts/own/waits", "jobs/own/robbed", "timeline", "queues", "scheduler", "fleet",
                    "orders/own/robbed"):  # fmt: skip
        assert MARK in client.get(f"/api/v1/{address}").text, address
    rows = client.get("/api/v1/evictions").json()["rows"]
    pairs = {(row["job"].partition("/")[0], row["forJob"].partition("/")[0]) for row in rows}
    assert {(OTHER, "own"), ("own", OTHER)} <= pairs


def test_what_is_one_s_own_is_shown(page):
    client, access, *_ = page
    access.now = FEW
    names = {row["job"] for row in client.get("/api/v1/jobs").json()["rows"]}
    assert {"own/waits", "own/taker", "own/robbed", "own/device"} <= names
    summary = client.get("/api/v1/overview").json()
    assert summary["jobs"]["waiting"] + summary["jobs"]["running"] == len(names)
    assert (summary["nodes"], summary["resources"]) == (0, [])
    taken = client.get("/api/v1/jobs/own/taker").json()
    assert [entry["job"] for entry in taken["victims"]] == ["(a job of another namespace)"]
    assert client.get("/api/v1/manifests/own/waits").json()["yaml"].count("namespace: own") == 3
    for path in ("queues", "nodes", "devices", "timeline", "history", "scheduler", "fleet"):
        assert client.get(f"/api/v1/{path}").status_code == 403
    asked = {"changes": [{"kind": "queueWeight", "queue": "q", "weight": 9}]}
    assert client.post("/api/v1/what-if", json=asked).status_code == 403
    assert client.get("/api/v1/session").json()["capabilities"]["fleet"] is False


@pytest.mark.parametrize("viewer", [OWN, FEW])
def test_no_event_names_what_is_in_another_namespace(page, viewer):
    _, _, shown, first, hub = page
    found = delta(first, shown.watch.picture)
    assert MARK in json.dumps(hub._delta(found, 1, Viewer("admin")).decode())
    text = hub._delta(found, 1, viewer).decode()
    assert MARK not in text
    assert "own/taker" in text
    assert "evicted from" in text  # of own/robbed, for a job that has no name here


def test_concealing_looks_at_names_wherever_they_begin():
    known = {"own", "other", "n"}
    texts = {
        '"other/x"': '"(a job of another namespace)"',
        '"a\\nother/x-1.b"': '"a\\n(a job of another namespace)"',
        '"(other/x, own/y)"': '"((a job of another namespace), own/y)"',
        '"nvidia.com/gpu my-other/x another/x x/other/y"': '"nvidia.com/gpu my-other/x another/x x/other/y"',
        '{"other/x":1}': '{"(a job of another namespace)":1}',
        '"https://other/x"': '"https://other/x"',
    }
    for text, expected in texts.items():
        assert conceal(text.encode(), OWN, known).decode() == expected
        assert conceal(text.encode(), Viewer("admin"), known).decode() == text


# -- queues in evictions -----------------------------------------------------------------------------------------------


def evicted(job: str, for_job: str) -> EvictionEntry:
    names: dict[str, Any] = {"pod": f"{job}-0", "job": job, "queue": f"{job.partition('/')[0]}-queue", "node": "n-1"}
    return EvictionEntry(
        id=1, at="now", for_job=for_job, for_queue=f"{for_job.partition('/')[0]}-queue", rule="preempt",
        reason=f"for {for_job}", **names,
    )  # fmt: skip


@pytest.mark.parametrize("queues", [True, False])
@pytest.mark.parametrize("nodes", [True, False])
def test_queues_and_nodes_of_others_in_evictions_are_shown_to_who_may_list_them(queues: bool, nodes: bool) -> None:
    viewer = OWN._replace(queues=queues, nodes=nodes)
    theirs = eviction_for(evicted(f"{OTHER}/{MARK}-low", "own/taker"), viewer)
    assert (theirs.pod, theirs.job) == (HIDDEN, HIDDEN)
    assert theirs.queue == (f"{OTHER}-queue" if queues else "")
    assert theirs.node == ("n-1" if nodes else "")
    assert (theirs.for_job, theirs.for_queue) == ("own/taker", "own-queue")

    ours = eviction_for(evicted("own/robbed", f"{OTHER}/{MARK}-high"), viewer)
    assert (ours.pod, ours.job, ours.queue, ours.node) == ("own/robbed-0", "own/robbed", "own-queue", "n-1")
    assert (ours.for_job, ours.reason) == (HIDDEN, "")
    assert ours.for_queue == (f"{OTHER}-queue" if queues else "")

    strange = eviction_for(evicted(f"{OTHER}/a", f"{OTHER}/b"), FEW)
    assert OTHER not in str(strange)


def test_who_may_see_all_is_shown_all_of_an_eviction() -> None:
    entry = evicted(f"{OTHER}/a", f"{OTHER}/b")
    assert eviction_for(entry, Viewer("admin", None, nodes=False, queues=False)) == entry
