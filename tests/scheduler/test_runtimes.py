"""How long runs take, how sure that is, and when one that outlives its time is reckoned to end."""

from typing import Any

import pytest

from fairway.api.arguments import BackfillArguments
from fairway.clock import SECOND
from fairway.scheduler.backfill.runtimes import Runtime, Runtimes
from fairway.state.cluster import ClusterState
from support.contention import annotated, waiting
from support.engine import state_of
from support.objects import gang, node, pod, queue
from support.streams import EXPECTED, lasting, limited

EVICT = BackfillArguments(mode="easy")
ALLOW = BackfillArguments(mode="easy", overrun="allow")
BEST_EFFORT = BackfillArguments()


def runtime_of(state: ClusterState, arguments: BackfillArguments, pod: str = "default/p") -> Runtime | None:
    return Runtimes(state, arguments).of(state.tasks[pod])


@pytest.mark.parametrize(
    ("said", "arguments", "span", "sure"),
    [
        (limited(50), EVICT, 50, 50),
        (limited(50), BEST_EFFORT, 50, 50),
        (lasting(30), EVICT, 30, 30),
        (lasting(30), ALLOW, 30, None),
        (lasting(30), BEST_EFFORT, 30, None),
        ({**lasting(30), **limited(50)}, EVICT, 30, 30),
        ({**lasting(30), **limited(50)}, ALLOW, 30, 50),
        ({**lasting(90), **limited(50)}, ALLOW, 50, 50),
        (lasting("1h30m"), EVICT, 5400, 5400),
        (lasting("1.5"), EVICT, 1.5, 1.5),
    ],
)
def test_what_is_said_and_what_the_policy_makes_of_it(
    said: dict[str, Any], arguments: object, span: float, sure: float
) -> None:
    found = runtime_of(state_of(waiting("p", cpu=1, **said)), arguments)  # type: ignore[arg-type]
    assert found == Runtime(int(span * SECOND), None if sure is None else int(sure * SECOND))


def test_nothing_said_is_nothing_known() -> None:
    assert runtime_of(state_of(waiting("p", cpu=1)), EVICT) is None


def test_a_pod_goes_before_its_group() -> None:
    group, first, second = gang("g", members=2, cpu=1)
    state = state_of(annotated(group, expected_runtime="60"), annotated(first, expected_runtime="20"), second)
    assert runtime_of(state, EVICT, "default/g-0") == Runtime(20 * SECOND, 20 * SECOND)
    assert runtime_of(state, EVICT, "default/g-1") == Runtime(60 * SECOND, 60 * SECOND)


def test_several_take_as_long_as_the_longest_and_are_as_sure_as_the_least_sure() -> None:
    state = state_of(
        waiting("a", cpu=1, **limited(10)), waiting("b", cpu=1, **lasting(40), **limited(90)), waiting("c", cpu=1)
    )
    runtimes, tasks = Runtimes(state, ALLOW), state.tasks
    assert runtimes.of_all([tasks["default/a"], tasks["default/b"]]) == Runtime(40 * SECOND, 90 * SECOND)
    assert runtimes.of_all([tasks["default/a"], tasks["default/c"]]) is None
    assert runtimes.of_all([]) is None


@pytest.mark.parametrize(
    "protected",
    [
        waiting("p", cpu=1, annotations={EXPECTED: "9", "volcano.sh/preemptable": "false"}),
        waiting("p", cpu=1, annotations={EXPECTED: "9", "fairway.dev/never-evict": "true"}),
        waiting("p", cpu=1, annotations={EXPECTED: "9"}, queue="safe"),
        waiting("p", cpu=1, annotations={EXPECTED: "9"}, priority=2_000_000_000),
    ],
    ids=["preemptable false", "never evict", "queue", "system"],
)
def test_the_end_of_what_may_not_be_evicted_is_not_sure(protected: object) -> None:
    state = state_of(annotated(queue("safe"), never_evict="true"), protected)
    assert runtime_of(state, EVICT) == Runtime(9 * SECOND, None)


def test_nor_to_that_of_pods_of_other_schedulers() -> None:
    state = state_of(node("n1"), pod("p", node="n1", **lasting(9)), scheduler_names=["other"])
    assert Runtimes(state, EVICT).of(state.foreign["default/p"]) == Runtime(9 * SECOND, None)


@pytest.mark.parametrize(
    ("runtime", "now", "end"),
    [
        (Runtime(10, 10), 5, 10),
        (Runtime(10, 10), 10, 10),
        (Runtime(10, 10), 99, 99),
        (Runtime(10, None), 9, 10),
        (Runtime(10, None), 10, 20),
        (Runtime(10, None), 20, 40),
        (Runtime(10, None), 39, 40),
        (Runtime(10, 25), 20, 25),
        (Runtime(10, 25), 30, 30),
    ],
)
def test_when_a_run_that_began_at_0_is_over(runtime: Runtime, now: int, end: int) -> None:
    """Sure ends come at any moment once they are due; others are put off to twice the time, and twice that."""
    assert runtime.end(0, now) == end
