"""Random streams through every order and mode, with run times that are not what was stated: what is hard is kept."""

from typing import Any

from hypothesis import given
from hypothesis import settings as examples_of
from hypothesis import strategies as st

from support.effort import examples
from support.streams import Stream, Work, planning, stream

ORDERS = {
    "first come": ("gang", "predicates"),
    "share": ("gang", "drf", "predicates"),
    "priority": ("priority", "gang", "predicates"),
    "all": ("priority", "gang", "drf", "predicates", "proportion", "nodeorder"),
}


@st.composite
def works(draw: st.DrawFn) -> list[Work]:
    """Jobs of all sizes, namespaces and priorities, which run shorter or longer than they state; some state nothing."""
    found = []
    for number in range(draw(st.integers(4, 12))):
        stated = draw(st.integers(1, 9))
        stating = draw(st.sampled_from(["deadline", "pod", "group"]))
        longest = stated if stating == "deadline" else 15
        found.append(
            Work(
                f"j{number:02d}",
                draw(st.integers(0, 8)),
                draw(st.integers(1, longest)),
                stated if draw(st.integers(0, 5)) else None,
                tasks=draw(st.integers(1, 2)),
                cpu=draw(st.integers(1, 4)),
                stating=stating,
                namespace=draw(st.sampled_from(["a", "b"])),
                priority=draw(st.sampled_from([0, 0, 0, 5])),
            )
        )
    return found


settings = st.fixed_dictionaries(
    {
        "mode": st.sampled_from(["easy", "conservative"]),
        "order": st.sampled_from(["policy", "shortest"]),
        "overrun": st.sampled_from(["evict", "allow"]),
        "estimate": st.sampled_from(["requested", "user-history"]),
        "keepHead": st.booleans(),
    }
)


def nodes() -> st.SearchStrategy[list[int]]:
    return st.lists(st.integers(1, 4), max_size=2).map(lambda sizes: [4, *sizes, 4])


def first_starts(found: Stream) -> dict[str, int]:
    """By job: when it was first bound, whatever became of it."""
    starts: dict[str, int] = {}
    for one in found.passes:
        for binding in one.plan.bindings:
            starts.setdefault(binding.job.partition("/")[2], one.now)
    return starts


@examples_of(max_examples=examples(50), deadline=None)
@given(nodes(), works(), settings, st.sampled_from(sorted(ORDERS)))
def test_no_hard_planned_start_is_missed(
    sizes: list[int], jobs: list[Work], chosen: dict[str, Any], order: str
) -> None:
    arguments = {name: value for name, value in chosen.items() if name != "mode"}
    found = stream(sizes, planning(chosen["mode"], plugins=ORDERS[order], **arguments), jobs)
    starts, important = first_starts(found), {job.name: job.priority for job in jobs}
    planned: dict[str, int] = {}
    for one in found.passes:
        waiting = [job for job in jobs if job.submit <= one.now and starts.get(job.name, one.now + 1) > one.now]
        for name, start in list(planned.items()):
            overtaken = chosen["mode"] == "easy" and any(job.priority > important[name] for job in waiting)
            if overtaken and order in ("priority", "all"):
                del planned[name]  # a job of higher priority has come: that is what keepHead leaves open
            elif name in starts and starts[name] <= one.now:
                assert starts[name] <= start, (name, start)
                del planned[name]
            else:
                assert one.hard.get(name, start + 1) <= start, (one.now, name, "moved later, or is soft now")
        planned |= {name: start for name, start in one.hard.items() if starts.get(name, one.now + 1) > one.now}
    assert not planned
    assert len(starts) == len(jobs)


@examples_of(max_examples=examples(40), deadline=None)
@given(nodes(), works(), settings, st.sampled_from(sorted(ORDERS)))
def test_runs_that_are_evicted_for_overrunning_do_not_go_round_in_a_circle(
    sizes: list[int], jobs: list[Work], chosen: dict[str, Any], order: str
) -> None:
    arguments = {name: value for name, value in chosen.items() if name not in ("mode", "overrun")}
    policy = planning(chosen["mode"], plugins=ORDERS[order], overrun="evict", **arguments)
    found = stream(sizes, policy, jobs)
    assert found.started.keys() == {job.name for job in jobs}, "every job runs to its end"
    assert len(found.evicted) == len(set(found.evicted)), "no pod is evicted for overrunning twice"
