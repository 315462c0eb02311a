"""The tables of namespace fair share and worked examples (spec S3.3), through `fairway plan` on manifests.

Each case is run again with all objects shuffled: the output must not change by a byte.
"""

import json
import os
import random
import subprocess
import sys
from collections import Counter
from pathlib import Path
from typing import Any

import pytest

from fairway.api.kinds import ApiObject
from support import objects as make
from support.cli import LENDING_NONE, Result, run_plan, write
from support.engine import state_of

CASES = Path(__file__).parents[1] / "cases"
SEED = json.loads((CASES / "namespace-fair-share.json").read_text())
FAIRNESS = {case["name"]: case for case in json.loads((CASES / "fairness.json").read_text())["cases"]}

TABLES = {table["name"]: table for table in SEED["tables"]}


def table_objects(table: dict[str, Any], **each: Any) -> list[ApiObject]:
    found = [make.node("n1", **table["cluster"])]
    found += [make.queue(name, queue["weight"]) for name, queue in table["queues"].items()]
    weights = {row["namespace"]: row["weight"] for row in table["namespaces"]}
    found += [make.quota(namespace, weight) for namespace, weight in weights.items()]
    for row in table["namespaces"]:
        name, count = f"{row['queue']}-{row['namespace']}", int(row["requested"])
        found += make.pods(name, count, row["namespace"], queue=row["queue"], cpu=1, **each)
    return found


def both_ways(objects: list[ApiObject], tmp_path: Path, **options: str) -> Result:
    """The result, after it was the same for several orders of the objects."""
    result = run_plan(objects, tmp_path, **options)
    for seed in range(3):
        mixed = objects.copy()
        random.Random(seed).shuffle(mixed)
        again = run_plan(mixed, tmp_path, **options)
        assert (again.out, again.err) == (result.out, result.err)
    return result


RESERVING = """
actions: [enqueue, {name: reserve, arguments: {starvingJobTimeThreshold: 60}}, allocate, reclaim, backfill]
"""


@pytest.mark.parametrize("created", [None, -86_400, 0, 86_339, 86_400], ids=["no age", "2 d", "1 d", "61 s", "new"])
@pytest.mark.parametrize("table", TABLES.values(), ids=TABLES)
def test_the_tables_of_the_proposal(table, created, tmp_path):
    """They hold at any age of the backlog: one that starves as a whole is shared like any other."""
    policy = LENDING_NONE if table["lending"] == "none" else ""
    each = {} if created is None else {"created": created}
    if created is not None:
        policy = RESERVING + policy
    plan = both_ways(table_objects(table, **each), tmp_path, policy=policy).plan
    deserved = {queue["name"]: queue["deserved"]["cpu"] for queue in plan["queues"]}
    assert {name: deserved[name] for name in table["queues"]} == {
        name: queue["assigned"] for name, queue in table["queues"].items()
    }
    assigned = {(row["queue"], row["namespace"]): row["allocated"]["cpu"] for row in plan["namespaces"]}
    for row in table["namespaces"]:
        assert assigned.get((row["queue"], row["namespace"]), "0") == row["assigned"], row
    bound = Counter(binding["pod"].rsplit("-", 1)[0] for binding in plan["bindings"])
    for row in table["namespaces"]:
        assert bound[f"{row['namespace']}/{row['queue']}-{row['namespace']}"] == int(row["assigned"])


@pytest.mark.parametrize("row", SEED["weights"], ids=lambda row: ",".join(row["quotas"]) or "none")
def test_weights_of_namespaces(row):
    state = state_of([make.quota("ns", text, f"q{i}") for i, text in enumerate(row["quotas"])])
    assert state.namespaces.weight("ns") == row["weight"]


@pytest.mark.parametrize("name", ["drf-9cpu-18gb", "drf-100cpu"])
def test_dominant_resource_fairness_between_two_jobs(name, tmp_path):
    case = FAIRNESS[name]
    objects = [make.node("n1", **case["cluster"])]
    for job, asked in case["jobs"].items():
        objects += make.gang(job.lower(), members=asked["pending"], minimum=1, **asked["task"])
    plan = both_ways(objects, tmp_path).plan
    placed = Counter(binding["job"].split("/")[1].upper() for binding in plan["bindings"])
    assert placed == case["expect"]


def test_weighted_dominant_resource_fairness_between_two_namespaces(tmp_path):
    case = FAIRNESS["drf-weighted-2-1"]
    objects = [make.node("n1", **case["cluster"])]
    for name, asked in case["jobs"].items():
        objects.append(make.quota(name.lower(), case["weights"][name]))
        objects += make.pods("p", asked["pending"], name.lower(), **asked["task"])
    plan = both_ways(objects, tmp_path).plan
    placed = Counter(binding["pod"].split("/")[0].upper() for binding in plan["bindings"])
    assert placed == case["expect"]


@pytest.mark.parametrize(
    "name", ["three equal queues, 16 cpu, unit pods", "indivisible: two equal queues, 16 cpu, tasks of 3 cpu"]
)
def test_whole_tasks_between_equal_queues(name, tmp_path):
    case = FAIRNESS[name]
    objects = [make.node("n1", **case["cluster"])]
    for queue, weight in case["queues"].items():
        objects.append(make.queue(queue, weight))
        objects += make.pods(queue, case["pending_each"], queue=queue, **case.get("task", {"cpu": "1"}))
    plan = both_ways(objects, tmp_path).plan
    placed = Counter(binding["pod"].split("/")[1].split("-")[0] for binding in plan["bindings"])
    assert placed == case["expect_tasks"]
    deserved = [_milli(queue["deserved"]["cpu"]) for queue in plan["queues"]]
    assert sum(deserved) <= 16000


def test_few_young_pods_against_many_old_ones(tmp_path):
    case = FAIRNESS["10 pods against 1000 in one queue"]
    objects = [make.node("n1", **case["cluster"])]
    for age, (namespace, asked) in enumerate(sorted(case["namespaces"].items(), reverse=True)):
        objects += make.pods("p", asked["pending"], namespace, created=1000 * age, cpu=1)
    plan = both_ways(objects, tmp_path).plan
    placed = Counter(binding["pod"].split("/")[0] for binding in plan["bindings"])
    assert placed == case["expect_tasks"]


def test_the_order_is_worked_out_anew_after_each_placement(tmp_path):
    case = FAIRNESS["order of jobs after each placement"]
    objects = [make.node("n1", **case["cluster"])]
    for namespace, jobs in case["namespaces"].items():
        objects += [make.pod(job, namespace, created=int(job[3:]), cpu=case["requests"][job]) for job in jobs]
    plan = both_ways(objects, tmp_path).plan
    assert [binding["pod"].split("/")[1] for binding in plan["bindings"]] == case["expect_order"]


def test_the_order_of_objects_changes_neither_the_order_of_resources_nor_that_of_warnings(tmp_path):
    extended = [{"x.io/b": 2}, {"x.io/a": 1}, {"gpu": 1}, {"ephemeral_storage": "1G"}]
    objects = [make.node(f"n{i}", cpu=4, **more) for i, more in enumerate(extended)]
    objects += [make.queue(f"q{i}", deserved={"cpu": 1}, guarantee=more) for i, more in enumerate(extended)]
    objects += [make.pod(f"p{i}", queue=f"q{i}", cpu=1, **more) for i, more in enumerate(extended * 2)]
    plan = both_ways(objects, tmp_path).plan
    assert list(plan["queues"][0]["deserved"]) == ["cpu", "ephemeral-storage", make.GPU, "x.io/a", "x.io/b"]


def test_the_hash_seed_of_the_process_changes_nothing(tmp_path):
    objects = [make.node(f"n{i}", cpu=4, gpu=1, labels={"zone": f"z{i % 2}"}) for i in range(4)]
    objects += [make.queue(f"q{i}", i + 1, deserved={"cpu": 1}) for i in range(4)]
    objects += [thing for i in range(6) for thing in make.gang(f"g{i}", members=2, queue=f"q{i % 5}", cpu=1, gpu=1)]
    objects += [make.pod(f"p{i}", f"ns{i}", cpu=1, labels={"a": str(i)}, spec=make.spread("zone")) for i in range(6)]
    file = write(objects, tmp_path)
    command = [sys.executable, "-m", "fairway.cli.main", "plan", "-f", str(file), "-o", "json"]
    outputs = {
        subprocess.run(
            [*command, "--now", "2026-01-02T00:00:00Z"],
            env={**os.environ, "PYTHONHASHSEED": seed},
            capture_output=True,
            check=True,
        ).stdout
        for seed in ("0", "1", "random")
    }
    assert len(outputs) == 1


def _milli(text: str) -> int:
    return int(text[:-1]) if text.endswith("m") else 1000 * int(text)
