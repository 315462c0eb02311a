"""`fairway order`: the keys that put a job where it stands, and which of them decides."""

from __future__ import annotations

import json
from collections.abc import Callable, Iterator
from itertools import pairwise
from pathlib import Path
from typing import Any

import pytest
from hypothesis import given
from hypothesis import strategies as st

from fairway.app.explain import Situation
from fairway.app.view.job_order import job_order
from fairway.scheduler.decide import consider, decide_and_explain
from fairway.scheduler.framework.plugin_set import Registry
from fairway.scheduler.plugins import BUILT_IN
from fairway.scheduler.report.order_keys import ConsideredJob
from support import objects as make
from support.cli import write
from support.engine import flat, policy, state_of
from support.objects import NOW
from support.sandboxes import made
from support.web_pages import served

Fairway = Callable[..., Any]

CLUSTER = [
    make.node("n1", cpu=4),
    make.queue("research"),
    make.quota("team-a", 2),
    make.pod("busy", "team-a", cpu=2, node="n1", queue="research"),
    make.pod("older", "team-a", cpu=8, queue="research", created=0),
    make.pod("newer", "team-a", cpu=8, queue="research", created=60),
    make.pod("urgent", "team-a", cpu=8, queue="research", created=90, spec={"priority": 100}),
    make.pod("other", "team-b", cpu=8, queue="research", created=120),
]


def asked(name: str, *objects: Any) -> Any:
    return job_order(Situation(flat(objects or CLUSTER), policy(), NOW), name)


def deciding(found: Any, side: str) -> list[tuple[str, str, str]]:
    return [(key.level, key.plugin, key.key) for key in found.keys if side in key.decides]


def test_a_namespace_with_more_comes_later_and_says_by_how_much() -> None:
    found = asked("urgent")
    assert (found.position, found.of, found.before, found.after) == (2, 4, "team-b/other", "team-a/older")
    assert deciding(found, "before") == [("namespace", "drf", "weighted share")]
    share = next(key for key in found.keys if key.key == "weighted share")
    assert share.own == "0.25 = dominant share 0.5 / weight 2"
    assert share.before == "0 = dominant share 0 / weight 1"


def test_priority_then_creation_inside_a_namespace() -> None:
    assert deciding(asked("urgent"), "after") == [("job", "priority", "priority")]
    found = asked("older")
    assert (found.before, found.after) == ("team-a/urgent", "team-a/newer")
    assert deciding(found, "after") == [("job", "tie rule", "created")]
    assert [key.own for key in found.keys if key.key == "ready"] == ["not ready, 0 of 1 pods"]


def test_the_first_and_the_last_have_one_neighbour() -> None:
    assert (asked("other").before, asked("newer").after) == (None, None)


def test_an_external_plugin_shows_its_key_as_it_is() -> None:
    by_length = type(
        "ByLength",
        (),
        {"name": "bylength", "__init__": lambda self, _: None, "job_key": lambda self, job: ("len", len(job.key))},
    )
    registry = Registry(BUILT_IN, [by_length])
    jobs = consider(state_of(*CLUSTER), policy(bylength={}, registry=registry), NOW, registry=registry)
    parts = [part for part in jobs[0].parts if part.plugin == "bylength"]
    assert [(part.level, part.key, part.text) for part in parts] == [("job", "job_key", "('len', 12)")]


def test_an_external_plugin_that_fails_is_left_out() -> None:
    def boom(self: object, job: object) -> int:
        raise RuntimeError("boom")

    odd = type("Odd", (), {"name": "odd", "__init__": lambda self, _: None, "job_key": boom})
    registry = Registry(BUILT_IN, [odd])
    jobs = consider(state_of(*CLUSTER), policy(odd={}, registry=registry), NOW, registry=registry)
    assert [job.job for job in jobs] == [job.job for job in consider(state_of(*CLUSTER), policy(), NOW)]


@given(
    st.lists(
        st.tuples(st.sampled_from("xyz"), st.sampled_from("ab"), st.integers(0, 2), st.integers(0, 3)), max_size=8
    ),
    st.booleans(),
)
def test_the_order_is_that_of_the_plan_and_the_first_difference_is_smaller(
    jobs: list[tuple[str, str, int, int]], priority_first: bool
) -> None:
    waiting = [
        make.pod(f"p{number}", f"ns-{namespace}", cpu=8, queue=queue, spec={"priority": priority}, created=created)
        for number, (namespace, queue, priority, created) in enumerate(jobs)
    ]
    held = [make.pod("held", "ns-x", cpu=1, node="n", queue="a")]
    objects = [make.node("n", cpu=4), make.queue("a"), make.queue("b", 3), *held, *waiting]
    chosen = policy(drf={"priorityFirst": priority_first})
    found = consider(state_of(*objects), chosen, NOW)
    plan = decide_and_explain(state_of(*objects), chosen, NOW)
    positions = {entry.job: (entry.queue, entry.position) for entry in plan.pending}
    assert {job.job: (job.queue, job.position) for job in found} == positions
    for one, two in pairwise(found):
        assert _values(one) < _values(two)
        if one.queue == two.queue:
            assert one.position < two.position


def _values(job: ConsideredJob) -> list[Any]:
    return [part.value for part in job.parts]


def test_from_files(fairway: Fairway, tmp_path: Path) -> None:
    arguments = ("order", "urgent", "-f", str(write(CLUSTER, tmp_path)), "--now", "2026-01-02T00:00:00Z", "--all-pods")
    result = fairway(*arguments)
    assert result.code == 0, result.err
    assert "team-a/urgent: position 2 of 4 in queue research, 2 of 4 over all queues" in result.out
    assert "It is behind team-b/other by weighted share of the namespace (plugin drf)." in result.out
    assert "It is ahead of team-a/older by priority of the job (plugin priority)." in result.out
    data = json.loads(fairway(*arguments, "-o", "json").out)
    assert (data["before"], data["after"], data["position"]) == ("team-b/other", "team-a/older", 2)
    running = fairway("order", "busy", *arguments[2:])
    assert running.code == 2
    assert "team-a/busy is not pending" in running.err


@pytest.fixture
def sandbox(monkeypatch: pytest.MonkeyPatch) -> Iterator[None]:
    sandbox = made(*CLUSTER)
    with served(sandbox) as page:
        monkeypatch.setenv("FAIRWAY_SANDBOX", page.address)
        yield
    sandbox.close()


@pytest.mark.usefixtures("sandbox")
def test_from_the_sandbox(fairway: Fairway) -> None:
    result = fairway("order", "team-a/urgent")
    assert result.code == 0, result.err
    assert "It is behind team-b/other by weighted share" in result.out
    assert fairway("order", "nosuch").code == 2
    assert fairway("order", "urgent", "--now", "2026-01-02T00:00:00Z").code == 2
