"""enqueue admits what its slow twin admits: groups that state `minResources`, in order, against the cluster (5.4)."""

from hypothesis import HealthCheck, given, note, settings
from hypothesis import strategies as st
from msgspec.structs import replace

from fairway.api.scheduling import PodGroup
from oracles.allocation import plan_bindings
from support import objects as make
from support.clusters import clusters, policies
from support.effort import examples
from support.engine import decided, policy, state_of

THOROUGH = settings(
    max_examples=examples(150), deadline=None, suppress_health_check=[HealthCheck.too_slow, HealthCheck.data_too_large]
)


@st.composite
def claiming_clusters(draw):
    """Most groups state what they will need, some of them without any pods."""
    found = []
    for thing in draw(clusters()):
        if isinstance(thing, PodGroup) and draw(st.booleans()):
            cpu = draw(st.sampled_from(("1", "2", "3", "5", "8", "13")))
            thing = replace(thing, spec=replace(thing.spec, min_resources={"cpu": cpu, "count/pods": "3"}))
        found.append(thing)
    for number in range(draw(st.integers(0, 2))):
        phase = draw(st.sampled_from(("", "Inqueue", "Running")))
        found.append(make.group(f"e{number}", minimum=2, resources={"cpu": 3}, created=number, phase=phase))
    return found


@THOROUGH
@given(claiming_clusters(), policies(), st.randoms(use_true_random=False))
def test_the_engine_admits_as_its_twin(objects, chosen, random):
    expected = plan_bindings(objects, chosen)
    random.shuffle(objects)
    plan = decided(state_of(objects), chosen)
    note(f"waiting: {[(row.job, row.reason, row.message) for row in plan.pending]}")
    assert [(binding.pod, binding.node) for binding in plan.bindings] == expected


@THOROUGH
@given(claiming_clusters())
def test_without_enqueue_no_group_is_kept_out(objects):
    plan = decided(state_of(objects), policy(actions="allocate, backfill"))
    placed = {"Inqueue", "Running"}
    for status in plan.status.pod_groups:
        reasons = [condition["reason"] for condition in status.conditions]
        assert status.phase in placed or reasons[0].startswith("Queue"), status
