"""What `fairway plan` and `fairway queues` print: the contract for programs, and a page for people."""

import json

import pytest
import yaml

from support import objects as make
from support.cli import invoke, run_plan, write

OBJECTS = [
    make.node("n1", cpu=4),
    make.node("n2", cpu=4),
    make.queue("q", 3),
    make.quota("team", 2),
    *make.gang("fits", "team", members=3, queue="q", cpu=2, created=1),
    *make.gang("waits", "team", members=3, queue="q", cpu=2, created=5),
    *make.pods("late", 12, cpu=1),
]

CONTRACT = {
    "bindings": {"pod", "node", "devices", "annotations"},
    "evictions": {"pod", "node", "for", "action", "reason"},
    "reservations": {"pod", "job", "node", "state"},
    "nominations": {"pod", "node"},
    "released": {"pod", "node", "reason"},
    "pending": {"job", "reason", "message", "nodes"},
    "queues": {"name", "weight", "deserved", "allocated", "share"},
    "namespaces": {"queue", "namespace", "weight", "allocated", "share", "weightedShare"},
    "resourceClasses": {"name", "allocatable", "requested"},
}


def test_the_contract_of_the_json(tmp_path):
    plan = run_plan(OBJECTS, tmp_path).plan
    assert CONTRACT.keys() | {"recheckAt"} <= plan.keys()
    for part, keys in CONTRACT.items():
        for row in plan[part]:
            assert keys <= row.keys(), part
    assert plan["bindings"][0] | {"job": ""} == {
        "pod": "default/late-00",
        "node": "n1",
        "devices": [],
        "annotations": {},
        "job": "",
        "volumes": [],
    }


def test_yaml_says_the_same_as_json(tmp_path):
    file = str(write(OBJECTS, tmp_path))
    now = ("--now", "2026-01-02T00:00:00Z")
    as_json = invoke("plan", "-f", file, *now, "-o", "json").plan
    assert yaml.safe_load(invoke("plan", "-f", file, *now, "-o", "yaml").out) == as_json


def test_the_page_for_people(tmp_path):
    out = run_plan(OBJECTS, tmp_path, output="table").out
    assert "Placed 5 pods" in out
    assert "Pending: 11 jobs" in out
    rows = {line.split()[0]: line for line in out.splitlines() if line.split()}
    assert "n1, n2 (2)" in rows["team/fits"]
    assert "default/late-02 .. late-11 (10)" in out
    assert "6 of 6 cpu" in out
    assert "█" in out


def test_nothing_to_place(tmp_path):
    assert "Nothing to place." in run_plan([make.node("n1", cpu=1)], tmp_path, output="table").out
    stuck = run_plan([make.pod("p", cpu=1)], tmp_path, output="table").out
    assert "Nothing can be placed now." in stuck
    assert "the cluster has no nodes" in stuck


def test_queues_shows_the_shares_alone(tmp_path):
    file = str(write(OBJECTS, tmp_path))
    shares = json.loads(invoke("queues", "-f", file, "-o", "json").out)
    assert list(shares) == ["queues", "namespaces"]
    table = invoke("queues", "-f", file).out
    assert "Placed" not in table
    assert "75.0%" in table


def test_pods_of_other_schedulers_use_room_and_are_left_alone(tmp_path):
    theirs = {"spec": {"schedulerName": "default-scheduler"}}
    pods = [make.pod("mine", cpu=1), make.pod("theirs", cpu=1, **theirs), make.pod("runs", node="n1", cpu=3, **theirs)]
    objects = [make.node("n1", cpu=4), *pods]
    file = str(write(objects, tmp_path))
    plan = invoke("plan", "-f", file, "-o", "json", "--scheduler-name", "fairway", "--paranoid").plan
    assert [binding["pod"] for binding in plan["bindings"]] == ["default/mine"]
    assert plan["pending"] == []
    [queue] = plan["queues"]
    assert (queue["deserved"], queue["allocated"], queue["share"]) == ({"cpu": "1"}, {"cpu": "1"}, 1.0)


@pytest.mark.parametrize("time", ["yesterday", "2026-01-01", "2026-13-01T00:00:00Z"])
def test_a_time_that_is_none_is_an_error(time, tmp_path):
    result = invoke("plan", "-f", str(write(OBJECTS, tmp_path)), "--now", time)
    assert (result.code, result.out) == (2, "")
    assert "--now" in result.err


def test_a_plugin_of_a_peer_is_named_as_such(tmp_path):
    policy = "tiers: [{plugins: [{name: nodegroup}]}]"
    result = run_plan(OBJECTS, tmp_path, policy=policy)
    assert result.code == 2
    assert "nodegroup is a Volcano plugin that Fairway does not have" in result.err


def test_proportion_and_capacity_cannot_be_used_together(tmp_path):
    policy = "tiers: [{plugins: [{name: proportion}, {name: capacity}]}]"
    assert "capacity cannot be used together with proportion" in run_plan(OBJECTS, tmp_path, policy=policy).err
