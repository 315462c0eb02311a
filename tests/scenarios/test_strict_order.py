"""`allocate` with `blocked: wait`: nothing starts behind a job that cannot."""

from typing import Any

import pytest

from fairway.api.policy import Policy
from support import engine
from support.contention import plan, waiting, waiting_gang
from support.objects import node, queue
from support.streams import Work, busy, limited, planning, promises, stream


def strict(*, plugins: tuple[str, ...] = ("gang", "predicates"), mode: str = "besteffort", **arguments: Any) -> Policy:
    actions = [
        {"name": "allocate", "arguments": {"blocked": "wait", **arguments}},
        {"name": "backfill", "arguments": {"mode": mode}},
    ]
    return engine.policy(actions=actions, plugins=plugins)


def big_first() -> list[object]:
    return [waiting("big", cpu=3), waiting("small", created=1, cpu=1)]


def test_a_small_job_does_not_pass_one_that_cannot_start():
    assert engine.bound(plan(node("n1", cpu=2), big_first(), policy=planning("besteffort"))) == {"small": "n1"}
    found = plan(node("n1", cpu=2), big_first(), policy=strict())
    assert engine.bound(found) == {}
    assert engine.reasons(found) == {"big": "NeverFits", "small": "Blocked"}
    assert "job default/big is before it in the queue and cannot start" in engine.waiting(found)["small"].message


def test_those_before_it_start():
    jobs = [waiting("first", cpu=1), waiting("big", created=1, cpu=3), waiting("last", created=2, cpu=1)]
    assert engine.bound(plan(node("n1", cpu=2), jobs, policy=strict())) == {"first": "n1"}


def test_a_gang_that_fits_only_in_part_holds_up_the_rest():
    jobs = [*waiting_gang("gang", 3, cpu=1), waiting("small", created=1, cpu=1)]
    assert engine.bound(plan(node("n1", cpu=2), jobs, policy=strict())) == {}


@pytest.mark.parametrize(("per_queue", "bound"), [(False, {}), (True, {"other": "n1"})])
def test_per_queue_a_job_only_holds_up_its_own_queue(per_queue: bool, bound: dict[str, str]):
    jobs = [
        waiting("big", cpu=3, queue="a"),
        waiting("mine", created=1, cpu=1, queue="a"),
        waiting("other", created=2, cpu=1, queue="b"),
    ]
    found = plan(queue("a"), queue("b"), node("n1", cpu=2), jobs, policy=strict(perQueue=per_queue))
    assert engine.bound(found) == bound
    assert engine.reasons(found)["mine"] == "Blocked"


def test_a_job_that_its_share_does_not_allow_yet_is_not_passed_in_its_queue():
    """Three of four cpus are taken; two more are above what the queue deserves, and above what is there."""
    policy = strict(plugins=("gang", "predicates", "proportion"))
    cluster = [node("n1", cpu=4), busy("r", "n1", 30, cpu=3)]
    jobs = [waiting("two", cpu=2), waiting("one", created=1, cpu=1)]
    assert engine.bound(plan(cluster, jobs, policy=policy)) == {}


def test_what_is_lent_is_used_in_order():
    policy = strict(plugins=("gang", "predicates", "proportion"))
    cluster = [queue("a"), queue("b"), node("n1", cpu=4)]
    jobs = [waiting(f"j{i}", created=i, cpu=1, queue="a") for i in range(4)] + [waiting("b0", cpu=1, queue="b")]
    assert len(engine.bound(plan(cluster, jobs, policy=policy))) == 4


def test_first_come_first_served_through_time():
    works = [
        Work("a", 0, run=10, stated=10, cpu=3),
        Work("b", 1, run=5, stated=5, cpu=4),
        Work("c", 2, run=1, stated=1, cpu=1),
    ]
    assert stream([4], strict(), works).started == {"a": 0, "b": 10, "c": 15}


def test_with_easy_the_head_is_planned_and_nothing_passes():
    jobs = [waiting("big", cpu=3, **limited(9)), waiting("small", created=1, cpu=1, **limited(5))]
    found = plan(node("n1", cpu=3), busy("r", "n1", 30), jobs, policy=strict(mode="easy"))
    assert engine.bound(found) == {}
    assert set(promises(found)) == {"big"}
    assert engine.reasons(found)["small"] == "Blocked"
