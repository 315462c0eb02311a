"""A pod that only got a node, or started there, is counted as one that was read anew: by a state that forgets the pod
before it reads it again.
"""

from __future__ import annotations

from typing import Any

from hypothesis import given, settings
from hypothesis import strategies as st
from msgspec.structs import replace

from fairway.api.meta import Condition
from fairway.api.pods import ContainerStatus, Pod, PodResourceClaim
from fairway.state import invariants
from fairway.state.cluster import ClusterState, Deleted, Upserted
from support import objects as make
from support.effort import examples

NODES = ("n1", "n2", "ghost")


def changed(pod: Pod, change: tuple[str, Any]) -> Pod:
    """Another version of a pod, with parts in common or without."""
    what, to = change
    spec, meta, status = pod.spec, pod.metadata, pod.status
    if what == "node":
        return replace(pod, spec=replace(spec, node_name=to))
    if what == "phase":
        return replace(pod, status=replace(status, phase=to))
    if what == "start":
        return replace(pod, status=replace(status, start_time=meta.creation_timestamp if to else None))
    if what == "nominated":
        return replace(pod, status=replace(status, nominated_node_name=to))
    if what == "condition":
        return replace(pod, status=replace(status, conditions=(Condition(type="PodScheduled", status=to),)))
    if what == "given":
        given = (ContainerStatus(spec.containers[0].name, {"cpu": to}),) if to else ()
        return replace(pod, status=replace(status, container_statuses=given))
    if what == "version":
        return replace(pod, metadata=replace(meta, resource_version=to))
    if what == "labels":
        return replace(pod, metadata=replace(meta, labels=to))
    if what == "annotations":
        return replace(pod, metadata=replace(meta, annotations=to))
    if what == "priority":
        return replace(pod, spec=replace(spec, priority=to))
    if what == "claims":
        return replace(pod, spec=replace(spec, resource_claims=to))
    assert what == "leaves"
    return replace(pod, metadata=replace(meta, deletion_timestamp=meta.creation_timestamp if to else None))


changes = st.one_of(
    st.tuples(st.just("node"), st.sampled_from(("", *NODES))),
    st.tuples(st.just("phase"), st.sampled_from(("Pending", "Running", "Unknown", "Succeeded", "Failed"))),
    st.tuples(st.sampled_from(("start", "leaves")), st.booleans()),
    st.tuples(st.just("nominated"), st.sampled_from(("", *NODES))),
    st.tuples(st.just("condition"), st.sampled_from(("True", "False"))),
    st.tuples(st.just("given"), st.sampled_from(("", "1", "3"))),
    st.tuples(st.just("version"), st.sampled_from(("1", "2"))),
    st.tuples(st.just("labels"), st.sampled_from(({}, {"app": "web"}))),
    st.tuples(st.just("annotations"), st.sampled_from(({}, {"fairway.dev/queue": "other"}))),
    st.tuples(st.just("priority"), st.sampled_from((None, 0, 7))),
    st.tuples(st.just("claims"), st.sampled_from(((), (PodResourceClaim("a", "c"),)))),
)


def facts(state: ClusterState) -> Any:
    """All that is known of pods and of the nodes and queues that they are counted in."""
    invariants.check(state)
    names = state.nodes.names
    pods = {
        key: (
            task.state,
            names[task.node] if task.node >= 0 else "",
            task.started,
            task.priority,
            task.labels,
            task.traits,
            task.shape.key,
            task.job.key,
            task.job.queue,
            task.job.ready,
            task.job.pending,
            task.job in state.waiting,
        )
        for key, task in state.tasks.items()
    }
    rows = {name: (state.nodes.used.at(row), state.nodes.pipelined.at(row)) for name, row in state.nodes.rows.items()}
    return pods, {name: used for name, used in rows.items() if any(used)}, set(state.nominations), set(state.foreign)


def start(gang: bool) -> tuple[list[Any], list[Pod]]:
    others: list[Any] = [make.node(name, cpu=8) for name in NODES[:2]]
    if gang:
        others.append(make.group("g", minimum=2))
    pods = [make.pod(name, cpu=2, group="g" if gang else None, created=5) for name in ("a", "b")]
    return others, [pod for pod in pods if isinstance(pod, Pod)]


@settings(max_examples=examples(60, 3000), deadline=None)
@given(st.booleans(), st.lists(st.tuples(st.integers(0, 1), changes), max_size=8))
def test_a_pod_that_moved_counts_as_one_that_was_read_anew(gang: bool, story: list[tuple[int, Any]]) -> None:
    others, pods = start(gang)
    quick, slow = ClusterState(("fairway",)), ClusterState(("fairway",))
    for state in (quick, slow):
        state.upsert([*others, *pods])
    for place, change in story:
        before = pods[place]
        pods[place] = changed(before, change)
        quick.apply(Upserted(pods[place]))
        slow.apply(Deleted(before))
        slow.apply(Upserted(pods[place]))
        assert facts(quick) == facts(slow)


def test_a_pod_that_only_gets_a_node_stays_the_same_task() -> None:
    others, pods = start(gang=True)
    state = ClusterState(("fairway",))
    state.upsert([*others, *pods])
    before = state.tasks["default/a"]
    state.apply(Upserted(changed(pods[0], ("node", "n1"))))
    assert state.tasks["default/a"] is before
    state.apply(Upserted(changed(changed(pods[0], ("node", "n1")), ("labels", {"app": "web"}))))
    assert state.tasks["default/a"] is not before
