"""NeverFits is never said wrongly: what it is said of cannot be placed on the emptied cluster either."""

from hypothesis import HealthCheck, given, settings
from hypothesis import strategies as st

from fairway.api.core import Node
from fairway.api.pods import Pod
from fairway.api.scheduling import PodGroup
from support.clusters import clusters
from support.effort import examples
from support.engine import decided, policy, state_of


def alone(objects, job):
    """The nodes, and of all else only what belongs to the job."""
    kept = []
    for thing in objects:
        if isinstance(thing, Pod):
            name = thing.metadata.annotations.get("scheduling.k8s.io/group-name") or thing.metadata.name
            owner = next((f"{one.kind.lower()}/{one.name}" for one in thing.metadata.owner_references), "")
            if f"{thing.metadata.namespace}/{owner or name}" != job:
                continue
        elif isinstance(thing, PodGroup):
            if f"{thing.metadata.namespace}/{thing.metadata.name}" != job:
                continue
        elif not isinstance(thing, Node):
            continue
        kept.append(thing)
    return kept


@settings(
    max_examples=examples(150), deadline=None, suppress_health_check=[HealthCheck.too_slow, HealthCheck.data_too_large]
)
@given(clusters(), st.data())
def test_a_job_that_never_fits_is_not_placed_on_the_emptied_cluster(objects, data):
    chosen = policy(actions="allocate, backfill", plugins=("priority", "gang", "drf", "predicates"))
    plan = decided(state_of(objects), chosen)
    for row in plan.pending:
        own = alone(objects, row.job)
        bound = decided(state_of(own), chosen).bindings
        if row.reason == "NeverFits":
            assert not bound, row
