"""k like tasks placed at once go exactly where they would go one by one."""

from hypothesis import given, settings
from hypothesis import strategies as st

from fairway.scheduler.registry import default_registry
from fairway.scheduler.session import Session
from support import clusters, engine
from support import objects as make

POLICIES = {
    "packing": engine.policy(plugins=("predicates",), binpack={}),
    "spreading": engine.policy(plugins=("predicates",), nodeorder={"balancedAllocation": 0}),
    "even": engine.policy(plugins=("predicates",), nodeorder={"leastAllocated": 0, "balancedAllocation": 1}),
    "both": engine.policy(plugins=("predicates",), nodeorder={}, binpack={}),
    "nothing": engine.policy(plugins=("predicates",)),
}


def session_of(objects, policy):
    return Session(engine.state_of(objects), policy, make.NOW, default_registry())


@settings(max_examples=60, deadline=None)
@given(clusters.nodes(most=9), clusters.templates(), st.integers(1, 12), st.sampled_from(sorted(POLICIES)))
def test_many_at_once_and_one_by_one(nodes, kind, count, policy):
    objects = [nodes, [make.pod(f"p{i:02d}", **kind) for i in range(count)]]
    at_once, one_by_one = session_of(objects, POLICIES[policy]), session_of(objects, POLICIES[policy])
    assert chosen(at_once, count) == [row for _ in range(count) for row in chosen(one_by_one, 1)]


def chosen(session, count):
    task, *rest = session.state.tasks.values()
    rows = session.kernel.choose(task.shape, count)
    if rows:
        session.write(task.shape, [task, *rest][: len(rows)], rows, 1)
        if len(rows) < count and session.kernel.column(task.shape).around:
            rows = rows + chosen(session, count - len(rows))
    return rows


def test_what_is_taken_back_leaves_no_trace():
    session = session_of([make.node(f"n{i}", cpu=4) for i in range(3)] + make.pods("p", 9, cpu=1), POLICIES["both"])
    task, *rest = session.state.tasks.values()
    before, idle = session.kernel.column(task.shape).keys.copy(), session.snapshot.idle.copy()
    rows = session.kernel.choose(task.shape, 5)
    session.write(task.shape, [task, *rest][: len(rows)], rows, 1)
    assert (session.kernel.column(task.shape).keys != before).any()
    session.write(task.shape, [task, *rest][: len(rows)], rows, -1)
    assert (session.snapshot.idle == idle).all()
    assert (session.kernel.column(task.shape).keys == before).all()
