"""When a job starts, by rolling decide forward: with known ends, behind others, and where no end is known."""

from typing import Any

from hypothesis import given, settings
from hypothesis import strategies as st
from msgspec.structs import replace

from fairway.api.meta import Condition
from fairway.api.pods import PodStatus
from fairway.api.policy import parse_policy
from fairway.app.explain.look_ahead import forecast
from fairway.app.explain.model import Forecast
from fairway.app.sandbox.engine import Sandbox, create
from fairway.app.sandbox.store import Store
from fairway.app.sandbox.world import InitialWorld
from fairway.clock import SECOND, format_rfc3339, to_datetime
from fairway.scheduler.plugins.installed import default_registry
from fairway.sim.scenario.model import TimingPart
from support.effort import examples
from support.engine import flat, policy
from support.explaining import explained, lasting, since, situation
from support.objects import NOW, gang, node, pod, queue

MINUTE = 60 * SECOND
DAY = 86_400
EAGER = "actions: [enqueue, {name: reserve, arguments: {starvingJobTimeThreshold: 600}}, allocate]"


def foreseen(name: str, *objects: object) -> Forecast:
    found = explained(name, *objects).forecast
    assert found is not None
    return found


def after(minutes: float) -> str:
    return format_rfc3339(NOW + int(minutes * MINUTE))


def ends(minutes: int) -> dict[str, Any]:
    """A pod that is ended for sure so many minutes after its start."""
    return {"spec": {"activeDeadlineSeconds": minutes * 60}}


def test_it_starts_when_enough_has_ended() -> None:
    there = [
        since(pod("a", node="n", cpu=2, **ends(30)), 600),
        since(pod("b", node="n", cpu=2, **ends(50)), 600),
    ]
    found = foreseen("w", node("n", cpu=4), there, pod("w", cpu=4))
    assert (found.start, found.estimate, found.unknown_count) == (after(40), False, 0)
    assert found.text == f"starts at {after(40)} (in 40m) if nothing else arrives"


def test_an_expected_run_time_that_is_not_enforced_makes_it_an_estimate() -> None:
    there = since(pod("a", node="n", cpu=4, annotations=lasting("30m")), 600)
    found = foreseen("w", node("n", cpu=4), there, pod("w", cpu=4))
    assert (found.start, found.estimate) == (after(20), True)
    assert "(an estimate, based on run times that are not enforced)" in found.text


def test_what_it_does_not_rest_on_does_not_make_it_an_estimate() -> None:
    there = [
        since(pod("a", node="n", cpu=4, **ends(30)), 0),
        since(pod("b", node="m", cpu=1, annotations=lasting("2h")), 0),
    ]
    found = foreseen("w", node("n", cpu=4), node("m", cpu=1), there, pod("w", cpu=4))
    assert (found.start, found.estimate) == (after(30), False)


def test_those_ahead_in_line_go_first_and_their_run_times_count() -> None:
    objects = [
        node("n", cpu=4),
        since(pod("a", node="n", cpu=4, **ends(10)), 0),
        pod("first", cpu=4, created=0, **ends(20)),
        pod("second", cpu=4, created=1, **ends(40)),
        pod("third", cpu=4, created=2),
    ]
    assert foreseen("first", objects).start == after(10)
    assert foreseen("second", objects).start == after(30)
    assert foreseen("third", objects).start == after(70)


def test_the_start_of_another_with_no_known_end_hides_what_comes_after() -> None:
    objects = [
        node("n", cpu=4),
        since(pod("a", node="n", cpu=4, **ends(10)), 0),
        pod("first", cpu=4, created=0),
        pod("second", cpu=4, created=1),
    ]
    found = foreseen("second", objects)
    assert (found.start, found.not_before) == (None, after(10))
    assert [(end.pod, end.node) for end in found.unknown_ends] == [("default/first", "n")]
    assert "not before a pod without a known end finishes (1 pod has none)" in found.text


def test_runs_with_no_known_end_are_counted_even_where_a_start_is_in_sight() -> None:
    there = [pod("a", node="n", cpu=1), since(pod("b", node="n", cpu=3, **ends(10)), 0)]
    found = foreseen("w", node("n", cpu=4), there, pod("w", cpu=3))
    assert (found.start, found.unknown_count) == (after(10), 1)
    assert found.text.endswith("; 1 pod has no known end and is assumed to keep running")


def test_a_gang_starts_when_all_it_needs_is_free_at_once() -> None:
    there = [since(pod(f"r{i}", node="n", cpu=1, **ends(10 * (i + 1))), 0) for i in range(4)]
    assert foreseen("g", node("n", cpu=4), there, gang("g", members=3, cpu=1)).start == after(30)


def test_what_can_never_start_is_said_to_start_not_at_all() -> None:
    found = foreseen("w", node("n", cpu=4), since(pod("a", node="n", cpu=1, **ends(5)), 0), pod("w", gpu=1))
    assert (found.start, found.not_before) == (None, after(5))
    assert found.text.startswith("not at all as things are")
    closed = foreseen("w", node("n", cpu=4), queue("q", state="Closed"), pod("w", queue="q", cpu=1))
    assert closed.text.startswith("not at all")
    endless = foreseen("w", node("n", cpu=4), since(pod("a", node="n", cpu=1), 0), pod("w", cpu=8))
    assert endless.text.startswith("not at all as things are: it would be pending even in an empty cluster")


def test_a_pod_that_is_leaving_is_gone_at_the_end_of_its_grace() -> None:
    leaving = pod("a", node="n", cpu=4, leaving=True)
    found = foreseen("w", node("n", cpu=4), leaving, pod("w", cpu=4))
    assert found.start == format_rfc3339(NOW)


def test_a_run_past_its_deadline_is_over_at_any_moment() -> None:
    overdue = since(pod("a", node="n", cpu=4, **ends(5)), 3600)
    assert foreseen("w", node("n", cpu=4), overdue, pod("w", cpu=4)).start == format_rfc3339(NOW)


def test_past_runs_of_the_same_name_make_an_estimate() -> None:
    done = [
        replace(
            since(pod(f"train-{i}", phase="Succeeded", cpu=4), 7200),
            status=PodStatus(
                phase="Succeeded",
                start_time=to_datetime(NOW - 7200 * SECOND),
                conditions=(Condition("Ready", "False", last_transition_time=to_datetime(NOW - (6600 - i) * SECOND)),),
            ),
        )
        for i in range(3)
    ]
    there = since(pod("train-7", node="n", cpu=4), 60)
    found = foreseen("w", node("n", cpu=4), done, there, pod("w", cpu=4))
    assert found.start == format_rfc3339(NOW + (601 - 60) * SECOND + SECOND // 2)
    assert (found.estimate, found.unknown_count) == (True, 0)


def test_the_job_that_starves_is_served_by_its_reservation() -> None:
    """Small jobs would pass it by for an hour; a policy that reserves keeps the node for it."""
    objects = [
        node("n", cpu=4),
        since(pod("a", node="n", cpu=2, **ends(10)), 0),
        pod("big", cpu=4, created=DAY - 300),
        [pod(f"s{i}", cpu=2, created=DAY - 100 + i, **ends(20)) for i in range(6)],
    ]
    patient = explained("big", objects).forecast
    eager = explained("big", objects, with_policy=parse_policy(EAGER, "test", default_registry().catalog)).forecast
    assert patient is not None
    assert eager is not None
    assert (patient.start, eager.start) == (after(70), after(20))


Job = tuple[int, int, int]


@settings(max_examples=examples(25), deadline=None)
@given(
    st.lists(st.tuples(st.integers(1, 3), st.integers(1, 3), st.integers(1, 20)), min_size=1, max_size=8),
    st.lists(st.tuples(st.integers(1, 3), st.integers(1, 20)), max_size=3),
)
def test_what_is_foreseen_is_what_happens(jobs: list[Job], there: list[tuple[int, int]]) -> None:
    """Where runs take as long as they state and nothing else comes, every forecast is right to the microsecond."""
    objects = flat(
        [
            node("n", cpu=4),
            node("m", cpu=4),
            [since(pod(f"r{i}", node="nm"[i % 2], cpu=1, **ends(m)), 0) for i, (_, m) in enumerate(there)],
            [
                gang(f"g{i}", members=members, created=i, cpu=cpu, **ends(minutes))
                for i, (members, cpu, minutes) in enumerate(jobs)
            ],
        ]
    )
    foreseen = {f"default/g{i}": forecast(situation(objects), f"default/g{i}").start for i in range(len(jobs))}
    store = Store(":memory:")
    create(store, InitialWorld(NOW, objects, [], demo=False), policy())
    sandbox = Sandbox(store, timing=TimingPart())
    sandbox.advance(NOW + 400 * MINUTE)
    placed: dict[str, str | None] = dict.fromkeys(foreseen)
    for happening in sandbox.happenings(10_000):
        if happening.kind == "placed":
            placed[happening.job] = placed[happening.job] or format_rfc3339(happening.at)
    sandbox.close()
    assert foreseen == placed
