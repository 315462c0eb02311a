"""A lone pod and a PodGroup may have the same namespace, name and creation: plans tell them apart all the same.

The plan of a set of objects is one, whatever the order in which they came, however often it is asked for, and in
whatever process: nothing may fall through to where objects lie in memory, or to the order of a set.
"""

import os
import random
import subprocess
import sys
from pathlib import Path
from typing import Any

import pytest

from fairway.api.policy import Policy
from fairway.drive.recording import plan_text
from fairway.scheduler.decide import decide_and_explain
from support import objects as make
from support.contention import acting, reserving, running, waiting, waiting_gang
from support.engine import bound, flat, state_of
from support.objects import NOW

TWICE = 12
MODES = ("besteffort", "easy", "conservative")


def twins(namespace: str = "a", name: str = "x") -> list[Any]:
    """A lone pod and a group of one that differ in their kind only."""
    group, member = waiting_gang(name, 1, namespace=namespace, cpu=4)
    return [waiting(name, namespace=namespace, cpu=4), group, member]


def crowded() -> list[Any]:
    nodes = [make.node(f"n{i}", cpu=4, pods=10) for i in range(3)]
    there = [running(f"on-n{i}", f"n{i}", cpu=3, namespace="b") for i in range(3)]
    return flat([nodes, there, twins(), twins("b", "y"), twins("a", "z")])


def policies() -> list[Policy]:
    one = {"starvingJobTimeThreshold": 1, "maxReservedNodes": 1}
    found = [reserving(maxReservedNodes=1), reserving(maxReservedNodes=2, reservedNodePercent=100)]
    found += [acting("enqueue", ("reserve", one), "allocate", ("backfill", {"mode": mode})) for mode in MODES]
    found.append(acting("enqueue", "allocate", "preempt", "reclaim", "backfill"))
    return found


def shuffled(objects: list[Any], seed: int) -> list[Any]:
    mixed = list(objects)
    random.Random(seed).shuffle(mixed)
    return mixed


@pytest.mark.parametrize("policy", policies(), ids=lambda policy: policy.actions[1].name)
def test_the_plan_of_twins_is_one(policy):
    """Garbage in between moves new objects to other addresses."""
    plans, garbage = set(), []
    for number in range(TWICE):
        garbage += [object() for _ in range(number * 37)]
        plans.add(plan_text(decide_and_explain(state_of(shuffled(crowded(), number)), policy, NOW)))
    assert len(plans) == 1


def test_the_group_comes_first():
    found = decide_and_explain(state_of(shuffled(crowded(), 1)), reserving(maxReservedNodes=1), NOW)
    assert [(entry.job, entry.job_kind) for entry in found.reservations] == [("a/x", "PodGroup")]


@pytest.mark.parametrize("seed", range(6))
def test_allocate_and_the_events_after_it_tell_them_apart_too(seed):
    objects = flat([make.node("n", cpu=4), twins()])
    found = decide_and_explain(state_of(shuffled(objects, seed)), acting("enqueue", "allocate", "backfill"), NOW)
    assert bound(found) == {"a/x-0": "n"}


def test_all_processes_agree(tmp_path):
    script = tmp_path / "plans.py"
    script.write_text(
        "import hashlib, random, sys\n"
        "sys.path[:0] = sys.argv[1:]\n"
        "from property.test_same_names import crowded, policies, shuffled\n"
        "from support.engine import state_of\n"
        "from support.objects import NOW\n"
        "from fairway.scheduler.decide import decide_and_explain\n"
        "from fairway.drive.recording import plan_text\n"
        "states = [state_of(shuffled(crowded(), n)) for n, _ in enumerate(policies())]\n"
        "texts = [plan_text(decide_and_explain(s, p, NOW)) for s, p in zip(states, policies(), strict=True)]\n"
        "print(hashlib.sha256(b''.join(texts)).hexdigest())\n"
    )
    tests = Path(__file__).parents[1]
    said = set()
    for seed in ("0", "1", "4711"):
        environment = {**os.environ, "PYTHONHASHSEED": seed}
        run = subprocess.run(
            [sys.executable, str(script), str(tests)], env=environment, capture_output=True, text=True, check=False
        )
        assert run.returncode == 0, run.stderr
        said.add(run.stdout)
    assert len(said) == 1
