"""Cases of reserving (spec S6), as data, through `fairway plan` on manifests."""

import json
from pathlib import Path
from typing import Any

import numpy as np
import pytest

from fairway.api.kinds import ApiObject
from fairway.scheduler.framework.session import Session
from fairway.scheduler.plugins.installed import default_registry
from fairway.scheduler.reservations.reserving import raw_score, tens
from support import objects as make
from support.cli import invoke, write
from support.contention import reserving
from support.engine import state_of
from support.objects import NOW

CASES = json.loads((Path(__file__).parents[1] / "cases" / "reserve.json").read_text())["cases"]
PLANNED = [case for case in CASES if "reservations" in case["expect"]]
SCORED = [case for case in CASES if "reserve_score" in case["expect"]]

POLICY = """
actions:
- name: enqueue
- name: reserve
  arguments: {starvingJobTimeThreshold: 1, reservedNodePercent: 50}
- name: allocate
- name: backfill
tiers:
- plugins: [{name: priority}, {name: gang}, {name: drf}, {name: predicates}, {name: proportion}, {name: nodeorder}]
"""


def objects_of(case: dict[str, Any]) -> list[ApiObject]:
    nodes = [make.node(name, **amounts) for name, amounts in case["nodes"].items()]
    there = [_pod(pod, node=pod["node"]) for pod in case["running"]]
    job = case["job"]
    group = make.group("job", minimum=job["minMember"], created=0)
    held = [_reservation(group, job["annotation"])] if "annotation" in job else []
    waiting = [_pod(task, group="job") for task in job["tasks"]]
    others = [_pod(pod, created=0) for pod in case.get("also_pending", ())]
    return [*nodes, *there, group, *held, *waiting, *others]


def _reservation(group: ApiObject, rows: list[dict[str, str]]) -> ApiObject:
    """The cases write what is reserved as rows; a `Reservation` carries them."""
    meta = group.metadata
    spec = {"jobRef": {"kind": "PodGroup", "name": meta.name, "uid": meta.uid}, "places": rows}
    return make.made("Reservation", meta.name, meta.namespace, spec=spec)


def _pod(given: dict[str, str], **rest: Any) -> ApiObject:
    return make.pod(given["pod"], cpu=given["cpu"], memory=given["memory"], **rest)


def test_every_case_is_used():
    assert len(PLANNED) + len(SCORED) == len(CASES) == 5


@pytest.mark.parametrize("case", PLANNED, ids=lambda case: case["name"])
def test_the_cases_through_the_command_line(case, tmp_path):
    policy = tmp_path / "policy.yaml"
    policy.write_text(POLICY)
    file = write(objects_of(case), tmp_path)
    now = case.get("now", "2026-01-02T00:00:00Z")
    result = invoke("plan", "-f", str(file), "--now", now, "--policy", str(policy), "-o", "json", "--paranoid")
    plan = result.plan
    bindings = {entry["pod"].removeprefix("default/"): entry["node"] for entry in plan["bindings"]}
    assert bindings == case["expect"]["bindings"]
    reservations = {
        entry["pod"].removeprefix("default/"): {"node": entry["node"], "state": entry["state"]}
        for entry in plan["reservations"]
    }
    assert reservations == case["expect"]["reservations"]
    assert all(entry["job"] == "default/job" for entry in plan["reservations"])


@pytest.mark.parametrize("case", SCORED, ids=lambda case: case["name"])
def test_the_score_of_nodes(case):
    objects = []
    for name, amounts in case["nodes"].items():
        used = amounts.pop("used")
        objects += [make.node(name, **amounts), make.pod(f"on-{name}", node=name, **used)]
    state = state_of(objects, make.pod("asks", cpu=5, memory="5G"))
    session = Session(state, reserving(), NOW, default_registry())
    raw = raw_score(session, state.tasks["default/asks"].shape)
    rank = session.nodes.snapshot.rank
    scores = tens(raw, np.ones(len(raw), dtype=np.bool_), 2, rank)
    names = session.nodes.snapshot.names
    assert {names[row]: score for row, score in enumerate(scores)} == case["expect"]["reserve_score"]
