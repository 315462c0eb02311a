"""The list of jobs that wait, made class by class, against the same made job by job."""

from hypothesis import HealthCheck, given, settings

from fairway.api.kinds import ApiObject
from fairway.api.policy import Policy
from fairway.scheduler.decide import NO_METER, _cycle
from fairway.scheduler.framework.session import Session
from fairway.scheduler.plan import Pending
from fairway.scheduler.plugins.installed import default_registry
from fairway.scheduler.report.waiting_jobs import WaitingJobs, pending_jobs
from support import objects as make
from support.clusters import clusters, policies
from support.contended import contended, evicting_policies
from support.effort import examples
from support.engine import policy as make_policy
from support.engine import state_of

modest = settings(
    max_examples=examples(25),
    deadline=None,
    suppress_health_check=[HealthCheck.too_slow, HealthCheck.data_too_large],
)
ACTIONS = (
    "enqueue, allocate, backfill",
    "enqueue, reserve, allocate, reclaim, backfill",
)


def finished(objects: list[ApiObject], policy: Policy) -> Session:
    session = _cycle(state_of(objects), policy, make.NOW, default_registry(), {}, NO_METER, explains=True)
    session.accounts.compute_deserved()
    return session


def one_by_one(session: Session) -> list[Pending]:
    waiting = WaitingJobs(session)
    found: list[Pending] = []
    positions: dict[str, int] = {}
    for _, run, row in waiting.ordered():
        positions[run.queue.name] = positions.get(run.queue.name, 0) + 1
        found.append(waiting.entry(run, row, positions[run.queue.name]))
    return found


@modest
@given(clusters(), policies(ACTIONS))
def test_of_all_that_wait(objects: list[ApiObject], policy: Policy) -> None:
    session = finished(objects, policy)
    assert pending_jobs(session, WaitingJobs(session)) == one_by_one(session)


@modest
@given(contended(), evicting_policies())
def test_where_pods_are_evicted(objects: list[ApiObject], policy: Policy) -> None:
    session = finished(objects, policy)
    assert pending_jobs(session, WaitingJobs(session)) == one_by_one(session)


def test_classes_of_one_namespace_are_mixed_by_age() -> None:
    pods = [make.pod(f"p{age}", cpu=100 + age % 3, created=age) for age in range(9)]
    session = finished([make.node("n", cpu=1), *reversed(pods)], make_policy())
    found = pending_jobs(session, WaitingJobs(session))
    assert [entry.job for entry in found] == [f"default/p{age}" for age in range(9)]
    assert [entry.position for entry in found] == [*range(1, 10)]
    assert found == one_by_one(session)
