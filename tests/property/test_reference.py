"""The engine and its slow, obvious twin decide the same, step by step, on random clusters.

Every binding must be the same, and in the same order: so each step went to the smallest key that was allowed and
fitted (spec S5.2).
"""

from hypothesis import HealthCheck, given, note, settings
from hypothesis import strategies as st

from oracles.allocation import plan_bindings
from support.clusters import clusters, policies
from support.effort import examples
from support.engine import decided, state_of


@settings(
    max_examples=examples(120), deadline=None, suppress_health_check=[HealthCheck.too_slow, HealthCheck.data_too_large]
)
@given(clusters(), policies(), st.randoms(use_true_random=False))
def test_the_engine_decides_as_its_twin(objects, policy, random):
    expected = plan_bindings(objects, policy)
    random.shuffle(objects)
    plan = decided(state_of(objects), policy)
    bindings = [(binding.pod, binding.node) for binding in plan.bindings]
    note(f"waiting: {[(row.job, row.reason, row.message) for row in plan.pending]}")
    assert bindings == expected
