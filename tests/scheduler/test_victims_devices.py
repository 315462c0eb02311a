"""The choice of victims and its slow twin agree where devices are what is short."""

from typing import Any
from unittest.mock import patch

from hypothesis import HealthCheck, given, note, settings
from hypothesis import strategies as st
from msgspec.structs import replace

from fairway.api.kinds import ApiObject
from fairway.scheduler.victims import choice, reference
from support import objects as make
from support.contention import acting, cycle
from support.devices import asking, device_node, gpu, kind_class, memory_class, resource_class, term
from support.engine import policy, state_of

CLASSES = [
    kind_class("any", "nvidia-gpu"),
    memory_class("high", "30G"),
    kind_class("pairs", "nvlink-pair"),
    resource_class("either", term(("Kind", "In", ["nvlink-pair"])), term(("memory", "Lt", ["16G"]))),
]
NAMES = ("any", "any", "high", "either", "pairs")
QUEUES = ("q0", "q1")

actions = st.sampled_from((("preempt",), ("reclaim",), ("reclaim", "preempt")))
policies = st.builds(
    lambda evicting, first: acting("enqueue", "allocate", *evicting, drf={"priorityFirst": first}, devices={}),
    actions,
    st.booleans(),
)


@st.composite
def nodes(draw: st.DrawFn, name: str) -> ApiObject:
    plain = draw(st.booleans())
    devices = []
    for i in range(draw(st.integers(1, 3))):
        more = {"shareable": True} if not plain and draw(st.booleans()) else {}
        devices.append(gpu(f"g{i}", memory=draw(st.sampled_from(("8G", "32G"))), **more))
    if len(devices) > 1 and not plain and draw(st.booleans()):
        devices.append(gpu("pair", kind="nvlink-pair", members=["g0", "g1"]))
    return device_node(name, *devices, cpu=draw(st.integers(3, 8)))


@st.composite
def pods(draw: st.DrawFn, name: str, created: int, *, above: int, groups: list[ApiObject]) -> list[ApiObject]:
    """A lone pod or a gang. Most ask for devices."""
    namespace, queue = draw(st.sampled_from("ab")), draw(st.sampled_from(QUEUES))
    classes = {draw(st.sampled_from(NAMES)): draw(st.sampled_from(("1", "1", "2", "500m")))}
    each: dict[str, Any] = {
        "classes": classes if draw(st.integers(0, 3)) else {},
        "cpu": draw(st.integers(1, 2)),
        "created": created,
        "spec": {"priority": draw(st.integers(0, 2)) + above},
    }
    members = draw(st.sampled_from((1, 1, 2, 3)))
    if members == 1:
        return [asking(name, namespace, queue=queue, **each)]
    groups.append(make.group(name, namespace, minimum=draw(st.integers(1, members)), queue=queue, created=created))
    return [asking(f"{name}-{i}", namespace, group=name, **each) for i in range(members)]


@st.composite
def full(draw: st.DrawFn) -> list[ApiObject]:
    """What a first cycle has placed runs; then others come."""
    fixed = [*CLASSES, *(draw(nodes(f"n{i}")) for i in range(draw(st.integers(1, 3))))]
    fixed += [make.queue(name, draw(st.integers(1, 3))) for name in QUEUES]
    first: list[ApiObject] = []
    for i in range(draw(st.integers(2, 9))):
        first += draw(pods(f"r{i}", i, above=0, groups=fixed))
    placed = {binding.pod: binding for binding in cycle(state_of(fixed, first), policy(devices={})).bindings}
    there = [_running(pod, placed.get(f"{pod.metadata.namespace}/{pod.metadata.name}")) for pod in first]
    for i in range(draw(st.integers(1, 3))):
        there += draw(pods(f"w{i}", 20 + i, above=draw(st.integers(0, 2)), groups=fixed))
    return [*fixed, *there]


def _running(pod: Any, binding: Any) -> ApiObject:
    if binding is None:
        return pod  # type: ignore[no-any-return]
    annotations = {**pod.metadata.annotations, **binding.annotations}
    return replace(  # type: ignore[no-any-return]
        pod,
        metadata=replace(pod.metadata, annotations=annotations),
        spec=replace(pod.spec, node_name=binding.node),
        status=replace(pod.status, phase="Running", start_time=pod.metadata.creation_timestamp),
    )


@settings(max_examples=80, deadline=None, suppress_health_check=[HealthCheck.too_slow])
@given(full(), policies)
def test_where_devices_are_short_they_choose_the_same_victims(objects, policy):
    fast = cycle(state_of(objects), policy)
    with patch.object(choice, "find_victims", reference.find_victims):
        slow = cycle(state_of(objects), policy)
    note(f"fast: {fast.evictions} {fast.nominations}")
    note(f"slow: {slow.evictions} {slow.nominations}")
    assert fast.document() == slow.document()
