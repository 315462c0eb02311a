"""k like tasks placed at once go exactly where they would go one by one, and what is taken back leaves no trace."""

import numpy as np
from hypothesis import given, settings
from hypothesis import strategies as st

from fairway.scheduler.framework.session import Session
from fairway.scheduler.placement.kernel import PLAIN
from fairway.scheduler.plugins.installed import default_registry
from support import clusters, engine
from support import objects as make
from support.effort import examples

POLICIES = {
    "packing": engine.policy(plugins=("predicates",), binpack={}),
    "spreading": engine.policy(plugins=("predicates",), nodeorder={"balancedAllocation": 0}),
    "even": engine.policy(plugins=("predicates",), nodeorder={"leastAllocated": 0, "balancedAllocation": 1}),
    "both": engine.policy(plugins=("predicates",), nodeorder={}, binpack={}),
    "nothing": engine.policy(plugins=("predicates",)),
}


def gang_in_session(nodes, policy, **gang):
    """A session on these nodes, and a gang in it with all its tasks waiting."""
    state = engine.state_of(nodes, make.gang("g", **gang))
    session = Session(state, policy, make.NOW, default_registry())
    [template] = state.waiting.templates()
    [job_class] = template.classes.values()
    return session, session.job_run(job_class.jobs[0], template, job_class)


def rows_of(nodes, policy, steps, **gang):
    session, job = gang_in_session(nodes, policy, **gang)
    statement = session.statement()
    for count in steps:
        statement.allocate(job, job.runs[0], count, PLAIN)
    statement.commit()
    return [row for _, _, rows in session.decisions.bindings for row in rows]


@settings(max_examples=examples(60), deadline=None)
@given(clusters.nodes(most=9), clusters.templates(), st.integers(1, 12), st.sampled_from(sorted(POLICIES)))
def test_many_at_once_and_one_by_one(nodes, kind, count, policy):
    at_once = rows_of(nodes, POLICIES[policy], [count], members=count, **kind)
    assert at_once == rows_of(nodes, POLICIES[policy], [1] * count, members=count, **kind)


@settings(max_examples=examples(40), deadline=None)
@given(clusters.nodes(), clusters.templates(), st.sampled_from(sorted(POLICIES)))
def test_what_is_taken_back_leaves_no_trace(nodes, kind, policy):
    session, job = gang_in_session(nodes, POLICIES[policy], members=9, **kind)
    [run] = job.runs
    keys, idle = session.nodes.kernel.column(run.shape).keys.copy(), session.nodes.snapshot.idle.copy()
    statement = session.statement()
    placed = statement.allocate(job, run, 5, PLAIN)
    assert placed == job.ready == run.placed
    statement.rollback()
    assert (session.nodes.snapshot.idle == idle).all()
    assert (session.nodes.kernel.column(run.shape).keys == keys).all()
    assert (job.ready, run.placed, job.queue.allocated, session.decisions.bindings) == (0, 0, [0] * len(idle), [])


def test_a_rollback_to_a_checkpoint_keeps_what_came_before():
    nodes = [make.node(f"n{i}", cpu=4) for i in range(3)]
    session, job = gang_in_session(nodes, POLICIES["both"], members=9, cpu=1)
    statement = session.statement()
    statement.allocate(job, job.runs[0], 2, PLAIN)
    checkpoint = statement.checkpoint()
    statement.allocate(job, job.runs[0], 3, PLAIN)
    statement.rollback(checkpoint)
    statement.commit()
    assert [task.key for _, tasks, _ in session.decisions.bindings for task in tasks] == ["default/g-0", "default/g-1"]


@settings(max_examples=examples(40), deadline=None)
@given(clusters.nodes(), clusters.templates(), st.integers(1, 6), st.sampled_from(sorted(POLICIES)), st.data())
def test_terms_confine_one_choice_and_no_other(nodes, kind, count, policy, data):
    """A domain and the caps of planned starts close rows, as if the shape could not go there, for one call only."""
    session, job = gang_in_session(nodes, POLICIES[policy], members=9, **kind)
    kernel, [run] = session.nodes.kernel, job.runs
    free = kernel.choose(run.shape, count, PLAIN)
    rows = st.lists(st.booleans(), min_size=session.nodes.snapshot.size, max_size=session.nodes.snapshot.size)
    domain, closed = np.array(data.draw(rows)), np.array(data.draw(rows))
    placing = PLAIN.within(domain).beside(lambda shape: np.where(closed, 0, 2))
    chosen = kernel.choose(run.shape, count, placing)
    assert all(domain[row] and not closed[row] and chosen.count(row) <= 2 for row in chosen)
    assert all(kernel.fit_count(run.shape, row, placing) <= 2 for row in chosen)
    assert kernel.choose(run.shape, count, PLAIN) == free
