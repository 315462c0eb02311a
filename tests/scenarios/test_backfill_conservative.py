"""backfill `conservative`: every waiting job is promised a start, and no job behind makes it later."""

from support import engine
from support.contention import DAY, notes, plan, waiting, waiting_gang
from support.objects import HOST, at, node
from support.streams import Work, busy, lasting, limited, planning, promises, stream

CONSERVATIVE = planning("conservative")
EASY = planning("easy")


def test_every_waiting_job_has_a_promise():
    jobs = [waiting(f"j{i}", created=i, cpu=2, **limited(10)) for i in range(4)]
    found = plan(node("n1", cpu=2), busy("r", "n1", 30), jobs, policy=CONSERVATIVE)
    starts = {pod: held.planned_start for pod, held in promises(found).items()}
    assert starts == {f"j{i}": at(DAY + 30 + 10 * i) for i in range(4)}
    assert f"it is planned to start at {at(DAY + 60)}" in notes(found, "j3")
    assert found.document()["recheckAt"] == at(DAY + 30)


def test_promises_fill_the_gaps_that_earlier_ones_leave():
    """The first needs both nodes from 30 on; the third fits before it, the second does not."""
    cluster = [node("n1", cpu=2), node("n2", cpu=2), busy("a", "n1", 30), busy("b", "n2", 10)]
    jobs = [
        waiting_gang("first", 2, cpu=2, **limited(50)),
        waiting("second", created=1, cpu=2, **limited(21)),
        waiting("third", created=2, cpu=2, **limited(20)),
    ]
    found = plan(cluster, jobs, policy=CONSERVATIVE)
    starts = {pod: held.planned_start for pod, held in promises(found).items()}
    assert starts == {
        "first-0": at(DAY + 30),
        "first-1": at(DAY + 30),
        "second": at(DAY + 80),
        "third": at(DAY + 10),
    }


def test_no_job_may_delay_the_second_in_line_either():
    """Ten seconds of a cpu would not delay the head, but the one behind it. With easy that counts for nothing."""
    cluster = [node("n1", cpu=2), node("n2", cpu=2), busy("a", "n1", 30), busy("b", "n2", 20, cpu=1)]
    on_n1 = {"activeDeadlineSeconds": 99, "nodeSelector": {HOST: "n1"}}
    jobs = [
        waiting("head", cpu=2, spec=on_n1),
        waiting("second", created=1, cpu=2, **limited(5)),
        waiting("third", created=2, cpu=1, **limited(25)),
    ]
    strict, loose = plan(cluster, jobs, policy=CONSERVATIVE), plan(cluster, jobs, policy=EASY)
    assert engine.bound(loose) == {"third": "n2"}
    assert engine.bound(strict) == {}
    assert promises(strict)["second"].planned_start == at(DAY + 20)
    assert engine.waiting(strict)["third"].nodes == {"insufficient cpu": 1, "node(s) resource was(were) reserved": 1}


def test_those_ahead_are_not_said_to_wait_for_those_behind():
    jobs = [waiting(f"j{i}", created=i, cpu=1 if i else 3, **limited(40)) for i in range(3)]
    found = plan(node("n1", cpu=3), busy("r", "n1", 30), jobs, policy=CONSERVATIVE)
    assert engine.waiting(found)["j0"].nodes == {"insufficient cpu": 1}
    assert engine.waiting(found)["j1"].nodes == {"node(s) resource was(were) reserved": 1}


def test_nor_those_that_have_no_start_in_sight_for_those_behind_them():
    cluster = [node("n1", cpu=2), node("n2", cpu=2), busy("a", "n1", 30), busy("b", "n2", 20, cpu=1)]
    on_n1 = {"activeDeadlineSeconds": 99, "nodeSelector": {HOST: "n1"}}
    jobs = [
        waiting("head", cpu=2, spec=on_n1),
        waiting("giant", created=1, cpu=5, **limited(50)),
        waiting("third", created=2, cpu=2, **limited(40)),
    ]
    found = plan(cluster, jobs, policy=CONSERVATIVE)
    assert promises(found)["third"].planned_start == at(DAY + 20)
    assert engine.waiting(found)["giant"].nodes == {"insufficient cpu": 2}


def test_a_run_of_unknown_length_is_never_over():
    jobs = [waiting("who-knows", cpu=2), waiting("behind", created=1, cpu=2, **limited(10))]
    found = plan(node("n1", cpu=2), busy("r", "n1", 30), jobs, policy=CONSERVATIVE)
    assert {pod: held.planned_start for pod, held in promises(found).items()} == {"who-knows": at(DAY + 30)}


def test_what_rests_on_a_soft_promise_is_soft():
    policy = planning("conservative", overrun="allow")
    jobs = [waiting("a", cpu=2, **lasting(10)), waiting("b", created=1, cpu=2, **limited(10))]
    found = promises(plan(node("n1", cpu=2), busy("r", "n1", 30), jobs, policy=policy))
    assert {pod: (held.planned_start, held.soft) for pod, held in found.items()} == {
        "a": (at(DAY + 30), False),
        "b": (at(DAY + 40), True),
    }


def test_a_run_that_may_go_on_is_promised_nothing_in_front_of_others():
    """By its run time it would be gone before the head comes: that is not sure."""
    policy = planning("conservative", overrun="allow")
    cluster = [node("n1", cpu=2), node("n2", cpu=2), busy("a", "n1", 30), busy("b", "n2", 10)]
    jobs = [waiting_gang("head", 2, cpu=2, **limited(50)), waiting("maybe", created=1, cpu=2, **lasting(5))]
    found = promises(plan(cluster, jobs, policy=policy))
    assert found["maybe"].planned_start == at(DAY + 80)


def test_through_time_every_job_starts_when_it_was_first_promised():
    works = [
        Work("a", 0, run=10, stated=10, cpu=2),
        Work("b", 1, run=5, stated=5, cpu=4),
        Work("c", 2, run=9, stated=9, cpu=2),
        Work("d", 2, run=8, stated=8, cpu=2),
    ]
    found = stream([4], CONSERVATIVE, works)
    assert found.started == {"a": 0, "b": 10, "c": 15, "d": 2}
    first = {}  # type: ignore[var-annotated]
    for one in found.passes:
        first = {**one.promised, **first}
    assert first == {"b": 10, "c": 15}
