"""A backlog that starves as a whole is shared as if nothing starved, and reservations leave guarantees alone (6.2)."""

from collections import Counter
from typing import Any

from hypothesis import given, settings
from hypothesis import strategies as st

from fairway.api.kinds import ApiObject
from fairway.scheduler.plan import Plan
from support import objects as make
from support.contention import DAY, plan, reserving, running, waiting
from support.effort import examples
from support.engine import flat, policy

SPACES = ("a", "b", "c")
QUEUES = ("p", "q")


def shared(found: Plan) -> Counter[tuple[str, ...]]:
    """Pods bound, by queue and namespace: names are `queue-number`."""
    places = (binding.pod.split("/") for binding in found.bindings)
    return Counter((name.split("-")[0], space) for space, name in places)


@st.composite
def backlogs(draw: st.DrawFn) -> list[ApiObject]:
    """Pods of one cpu that are all of one age, more than there is room for."""
    size = draw(st.integers(2, 12))
    queues = [make.queue(name, draw(st.integers(1, 3))) for name in QUEUES]
    quotas = [make.quota(name, draw(st.integers(1, 3))) for name in SPACES]
    pods: list[Any] = []
    for queue in QUEUES:
        for space in SPACES:
            pods += make.pods(queue, draw(st.integers(0, 9)), space, queue=queue, cpu=1, created=0)
    return flat([make.node("n", cpu=size, pods=200), queues, quotas, pods])


@settings(max_examples=examples(60))
@given(backlogs(), st.sampled_from(("fair", "priority")))
def test_a_backlog_of_any_age_is_shared_alike(objects: list[ApiObject], order: str) -> None:
    young = plan(objects, policy=policy())
    old = plan(objects, policy=reserving(order=order))
    assert shared(old) == shared(young)


@st.composite
def guaranteed(draw: st.DrawFn) -> tuple[list[ApiObject], int, int]:
    """Busy nodes, a queue with a guarantee that is partly met, and old jobs of another queue."""
    sizes = draw(st.lists(st.integers(2, 6), min_size=1, max_size=4))
    due = draw(st.integers(0, sum(sizes)))
    nodes = [make.node(f"n{i}", cpu=size, pods=50) for i, size in enumerate(sizes)]
    busy = [running(f"r{i}", f"n{i}", cpu=draw(st.integers(1, size)), queue="p") for i, size in enumerate(sizes)]
    wants = draw(st.integers(0, 6))
    fresh = make.pods("fresh", wants, queue="safe", cpu=1, created=DAY)
    old = [
        waiting(f"old-{i}", cpu=draw(st.integers(1, 6)), queue="q", created=i) for i in range(draw(st.integers(1, 4)))
    ]
    queues = [make.queue("safe", guarantee={"cpu": due}), make.queue("p"), make.queue("q")]
    return flat([nodes, busy, fresh, old, queues]), due, sum(sizes)


@settings(max_examples=examples(100))
@given(guaranteed(), st.sampled_from((50, 100)))
def test_reservations_leave_other_queues_what_they_are_guaranteed(
    given_: tuple[list[ApiObject], int, int], percent: int
) -> None:
    objects, due, total = given_
    found = plan(objects, policy=reserving(reservedNodePercent=percent))
    standing = {queue.name: queue for queue in found.queues}
    aside = int(standing["q"].reserved["cpu"])
    assert not aside or not due or aside <= total - due  # what allocate places besides is lent, and can be reclaimed
    closed = {entry.node for entry in found.reservations if entry.state == "reserved"}
    left = sum(
        int(node.allocatable["cpu"])
        for node in objects
        if hasattr(node, "allocatable") and node.metadata.name not in closed
    )
    safe = standing["safe"]
    needed = min(due, int(safe.requested["cpu"]))
    assert not closed or left >= needed
