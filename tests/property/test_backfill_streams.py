"""Random streams of jobs through time: what backfilling promises, it keeps."""

from collections.abc import Callable, Iterable, Sequence

from experiments.schedule import Job, Start
from hypothesis import given, settings
from hypothesis import strategies as st

from fairway.clock import SECOND
from oracles.conservative import simulate_conservative
from oracles.easy import simulate
from support.effort import examples
from support.streams import Stream, Work, planning, stream

HOSTS = 4


@st.composite
def whole_hosts(draw: st.DrawFn) -> list[Job]:
    jobs = []
    for number in range(draw(st.integers(4, 14))):
        walltime = draw(st.integers(1, 9))
        run = draw(st.integers(1, walltime))
        jobs.append(Job(number, draw(st.integers(0, 4)), draw(st.integers(1, HOSTS)), walltime, run))
    return jobs


def _agree(mode: str, oracle: Callable[[Iterable[Job], int], list[Start]], jobs: list[Job]) -> None:
    works = [Work(f"j{job.number:02d}", job.submit, job.run, job.walltime, job.hosts) for job in jobs]
    found = stream([1] * HOSTS, planning(mode), works)
    scaled = [Job(j.number, j.submit * SECOND, j.hosts, j.walltime * SECOND, j.run * SECOND) for j in jobs]
    for start in oracle(scaled, HOSTS):
        name = f"j{start.job.number:02d}"
        assert found.started[name] * SECOND == start.at, name
        assert sorted(found.places[name]) == [f"n{host:02d}" for host in start.hosts], name


@settings(max_examples=examples(60), deadline=None)
@given(whole_hosts())
def test_easy_is_the_textbook_easy(jobs: list[Job]) -> None:
    _agree("easy", simulate, jobs)


@settings(max_examples=examples(60), deadline=None)
@given(whole_hosts())
def test_conservative_is_the_textbook_conservative(jobs: list[Job]) -> None:
    _agree("conservative", simulate_conservative, jobs)


@st.composite
def works(draw: st.DrawFn, *, exact: bool, unknown: bool) -> list[Work]:
    """Jobs of all sizes. Not all state a run time if `unknown`; they take as long as stated if `exact`."""
    found = []
    for number in range(draw(st.integers(5, 14))):
        stated = draw(st.integers(1, 9))
        states = not unknown or draw(st.integers(0, 3)) > 0
        found.append(
            Work(
                f"j{number:02d}",
                draw(st.integers(0, 4)),
                stated if exact else draw(st.integers(1, stated)),
                stated if states else None,
                tasks=draw(st.integers(1, 2)),
                cpu=draw(st.integers(0 if unknown else 1, 4)),
                stating=draw(st.sampled_from(["deadline", "pod", "group"])),
            )
        )
    return found


def nodes() -> st.SearchStrategy[list[int]]:
    return st.lists(st.integers(1, 4), max_size=2).map(lambda sizes: [4, *sizes, 4])


def first_in_line(found: Stream, jobs: Sequence[Work], now: int) -> str | None:
    """Who came first of those that wait."""
    waiting = [job for job in jobs if job.submit <= now and found.started.get(job.name, now + 1) > now]
    return min(waiting, key=lambda job: (job.submit, job.name)).name if waiting else None


@settings(max_examples=examples(60), deadline=None)
@given(nodes(), works(exact=False, unknown=True), st.sampled_from(["evict", "allow"]))
def test_no_job_that_runs_ahead_makes_the_start_of_the_head_later(
    sizes: list[int], jobs: list[Work], overrun: str
) -> None:
    found = stream(sizes, planning("easy", overrun=overrun), jobs)
    promised: dict[str, int] = {}
    for one in found.passes:
        head = first_in_line(found, jobs, one.now)
        if head is None:
            continue
        if head in promised:
            assert one.promised.get(head, promised[head] + 1) <= promised[head], (one.now, head)
        if head in one.promised:
            promised[head] = one.promised[head]
    for head, start in promised.items():
        assert found.started[head] <= start, head
    assert not found.evicted
    assert len(found.started) == len(jobs)


@settings(max_examples=examples(60), deadline=None)
@given(nodes(), works(exact=True, unknown=False))
def test_with_conservative_no_promise_moves_later_unless_something_new_is_heard(
    sizes: list[int], jobs: list[Work]
) -> None:
    found = stream(sizes, planning("conservative"), jobs)
    promised: dict[str, int] = {}
    for one in found.passes:
        waiting = [job for job in jobs if job.submit <= one.now and found.started[job.name] > one.now]
        for job in waiting:
            assert job.name in one.promised, "every waiting job has a promise"
            assert one.promised[job.name] <= promised.get(job.name, one.promised[job.name]), (one.now, job.name)
            promised[job.name] = one.promised[job.name]
    for name, start in promised.items():
        assert found.started[name] <= start, name
    assert len(found.started) == len(jobs)


@settings(max_examples=examples(40), deadline=None)
@given(nodes(), works(exact=False, unknown=False))
def test_with_conservative_the_first_in_line_is_never_put_off(sizes: list[int], jobs: list[Work]) -> None:
    found = stream(sizes, planning("conservative"), jobs)
    promised: dict[str, int] = {}
    for one in found.passes:
        head = first_in_line(found, jobs, one.now)
        if head is not None:
            assert one.promised[head] <= promised.get(head, one.promised[head])
            promised[head] = one.promised[head]
    assert all(found.started[head] <= start for head, start in promised.items())
