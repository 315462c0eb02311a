"""The state forgets: after any churn it is as large, and a cycle does as much, as if none had been."""

from __future__ import annotations

import gc
import sys
from collections.abc import Callable, Iterable
from itertools import permutations
from typing import Any

import pytest
from hypothesis import HealthCheck, given, settings
from hypothesis import strategies as st

from fairway.api.kinds import ApiObject
from fairway.api.policy import Policy
from fairway.scheduler.decide import decide_and_explain
from fairway.state.cluster import MIN_LOGGED_JOBS, ClusterState, Deleted, Upserted
from fairway.state.compaction import CYCLES
from fairway.state.invariants import check
from fairway.state.jobs import Job
from fairway.state.reader import MAX_NAMES, arrival_order
from support import every_action
from support import objects as make
from support.clusters import clusters, policies
from support.devices import asking, kind_class, published, resource_slice
from support.effort import examples
from support.engine import flat, reasons, state_of
from support.engine import policy as make_policy
from support.sizes import sizes

POLICY = make_policy(actions="enqueue, reserve, allocate, preempt, reclaim, backfill", devices={})
Make = Callable[[int], list[ApiObject]]


def claimed(name: str, namespace: str, device_class: str) -> list[ApiObject]:
    request = {"name": "r", "exactly": {"deviceClassName": device_class}}
    spec = {"resourceClaims": [{"name": "c", "resourceClaimName": name}]}
    return [
        make.made("ResourceClaim", name, namespace, spec={"devices": {"requests": [request]}}),
        make.pod(name, namespace, cpu=1, spec=spec),
    ]


def lasting() -> list[ApiObject]:
    return flat(
        [
            [make.node(f"n{i}", labels={"zone": f"z{i % 2}"}, cpu=8, memory="8Gi", gpu=2) for i in range(8)],
            make.queue("q"),
            make.pods("p", 12, cpu=1, queue="q"),
            make.pod("big", cpu=100),
            make.pod("runs", node="n1", cpu=1),
            make.made("DeviceClass", "gpu", spec={}),
            resource_slice("s", "n1", published("a"), published("b")),
            kind_class("c", "nvidia.com/gpu"),
            claimed("c", "default", "gpu"),
            asking("cc", classes={"c": 1}),
        ]
    )


def missing_queue(i: int) -> list[ApiObject]:
    return [make.pod("a", f"ns-{i}", queue=f"nowhere-{i}", cpu=1)]


def odd_resource(i: int) -> list[ApiObject]:
    return [make.pod("a", f"ns-{i}", cpu=1, **{f"odd.example.com/r{i}": 1})]


def odd_labels(i: int) -> list[ApiObject]:
    app = {"matchLabels": {"app": f"a{i}"}}
    apart = [{"topologyKey": f"topology-{i}", "labelSelector": app}]
    spread = {"maxSkew": 1, "topologyKey": f"spread-{i}", "whenUnsatisfiable": "DoNotSchedule", "labelSelector": app}
    spec = {
        "nodeSelector": {f"key-{i}": "v"},
        "priorityClassName": f"class-{i}",
        "affinity": {"podAntiAffinity": {"requiredDuringSchedulingIgnoredDuringExecution": apart}},
        "topologySpreadConstraints": [spread],
        "tolerations": [{"key": f"t{i}", "operator": "Exists"}],
    }
    notes = {"fairway.dev/expected-runtime": str(i + 1)}
    return [make.pod("a", f"ns-{i}", cpu=f"{i + 1}m", labels={"app": f"a{i}"}, annotations=notes, spec=spec)]


def groups(i: int) -> list[ApiObject]:
    gang = make.gang(f"g{i}", f"ns-{i}", members=2, queue=f"lost-{i}", cpu=1, priority_class=f"class-{i}")
    return [*gang, make.group("h", f"ns-{i}", resources={f"least.example.com/r{i}": 1})]


def nodes(i: int) -> list[ApiObject]:
    labels = {f"k{i}": "v", "zone": f"t{i}"}
    odd = {f"node.example.com/r{i}": 1}
    node = make.node(f"tmp-{i}", labels=labels, taints=[f"t{i}=x:NoSchedule"], cpu=4, **odd)
    return [node, make.pod("d", f"ns-{i}", node=f"gone-{i}", cpu=1)]


def namespaces(i: int) -> list[ApiObject]:
    name = f"ns-{i}"
    return [
        make.made("Namespace", name, metadata={"labels": {f"l{i}": "x"}}),
        make.made("ResourceQuota", "w", name, spec={"hard": {"volcano.sh/namespace.weight": "2"}}),
        make.queue(f"queue-{i}", capability={"cpu": i + 1, f"limit.example.com/r{i}": 1}),
        make.made(
            "PodDisruptionBudget", "b", name, spec={"selector": {"matchLabels": {"a": "b"}}, "maxUnavailable": 1}
        ),
        make.made("PriorityClass", f"class-{i}", value=3),
    ]


def volumes(i: int) -> list[ApiObject]:
    volume = {"name": "v", "persistentVolumeClaim": {"claimName": "c"}}
    return [
        make.pod("e", f"ns-{i}", cpu=1, spec={"volumes": [volume]}),
        make.made("PersistentVolumeClaim", "c", f"ns-{i}", spec={"storageClassName": f"sc{i}"}),
        make.made("StorageClass", f"sc{i}", volumeBindingMode="WaitForFirstConsumer", provisioner="x"),
    ]


def devices(i: int) -> list[ApiObject]:
    driver = f"d{i}.example.com"
    return flat(
        [
            make.node(f"dev-{i}", cpu=4),
            make.made("DeviceClass", f"dc{i}", spec={}),
            resource_slice(f"s{i}", f"dev-{i}", published("a"), driver=driver),
            kind_class(f"rc{i}", driver),
            claimed("c", f"ns-{i}", f"dc{i}"),
            asking("f", f"ns-{i}", classes={f"rc{i}": 1}),
        ]
    )


SHORT_LIVED = [missing_queue, odd_resource, odd_labels, groups, nodes, namespaces, volumes, devices]


def cycles(state: ClusterState, count: int = CYCLES + 1) -> ClusterState:
    for _ in range(count):
        decide_and_explain(state, POLICY, make.NOW).document()
    return state


def churn(state: ClusterState, makes: Iterable[Make], count: int, together: int) -> ClusterState:
    """Short-lived objects come, are looked at, and go: so many at a time."""
    for start in range(0, count, together):
        things = [thing for make_ in makes for i in range(start, start + together) for thing in make_(i)]
        state.upsert(things)
        decide_and_explain(state, POLICY, make.NOW).document()
        for thing in things:
            state.apply(Deleted(thing))
    return cycles(state)


def operations(state: ClusterState) -> int:
    """Calls that one cycle makes."""
    calls = 0

    def count(frame: Any, event: str, argument: Any) -> None:
        nonlocal calls
        calls += event in ("call", "c_call")

    before = sys.getprofile()
    sys.setprofile(count)
    try:
        decide_and_explain(state, POLICY, make.NOW).document()
    finally:
        sys.setprofile(before)
    return calls


@pytest.mark.parametrize(
    "makes", [[make_] for make_ in SHORT_LIVED] + [SHORT_LIVED], ids=lambda m: "+".join(f.__name__ for f in m)
)
@pytest.mark.parametrize("together", [1, 40])
def test_after_churn_the_state_is_as_large_as_a_fresh_one(makes: list[Make], together: int) -> None:
    fresh, used = cycles(state_of(lasting())), churn(cycles(state_of(lasting()), 1), makes, 40, together)
    expected, found = sizes(fresh), sizes(used)
    grown = {path: (expected[path], size) for path, size in found.items() if size > expected[path]}
    assert found.total() <= 1.1 * expected.total(), grown
    assert operations(used) <= 1.1 * operations(fresh)
    assert (
        decide_and_explain(used, POLICY, make.NOW).document() == decide_and_explain(fresh, POLICY, make.NOW).document()
    )


@settings(max_examples=examples(40), suppress_health_check=[HealthCheck.too_slow, HealthCheck.data_too_large])
@given(clusters(), policies(("enqueue, reserve, allocate, reclaim, backfill",)), st.data())
def test_forgetting_changes_no_plan(objects: list[ApiObject], policy: Policy, data: st.DataObject) -> None:
    kept, compact = ClusterState(), ClusterState()
    for round in range(3):
        for thing in data.draw(st.lists(st.sampled_from(objects), max_size=12)) if round else objects:
            event = data.draw(st.sampled_from([Upserted, Deleted])) if round else Upserted
            kept.apply(event(thing))
            compact.apply(event(thing))
        compact.compaction.run()
        assert (
            decide_and_explain(compact, policy, make.NOW).document()
            == decide_and_explain(kept, policy, make.NOW).document()
        )


def test_jobs_that_are_gone_do_not_stay_in_memory() -> None:
    state = state_of(lasting())
    most = 2 * MIN_LOGGED_JOBS + 64
    for i in range(most // 20):
        gang = make.gang("g", f"ns-{i}", members=2, cpu=1)
        singles = [make.pod(f"p{n}", f"ns-{i}", node="n1" if n % 2 else None, cpu=1) for n in range(20)]
        state.upsert([*gang, *singles])
        decide_and_explain(state, POLICY, make.NOW)
        for thing in (*gang, *singles):
            state.apply(Deleted(thing))
        decide_and_explain(state, POLICY, make.NOW)
    gc.collect()
    gone = [thing for thing in gc.get_objects() if isinstance(thing, Job) and thing.namespace.startswith("ns-")]
    assert len({job.namespace for job in gone}) <= most // 40 + 1, (
        "each job was logged twice: as it came and as it went"
    )


class Forgetful(ClusterState):
    """Its log of changed jobs reaches back to the last change only."""

    def refresh(self) -> None:
        super().refresh()
        self.changed_jobs.keep_last(1)


@settings(max_examples=examples(60), suppress_health_check=[HealthCheck.too_slow, HealthCheck.data_too_large])
@given(every_action.clusters(), every_action.policies(), st.data())
def test_a_reader_that_has_missed_changes_of_jobs_decides_the_same(
    objects: list[ApiObject], policy: Policy, data: st.DataObject
) -> None:
    kept, forgetful = ClusterState(), Forgetful()
    for round in range(4):
        for thing in data.draw(st.lists(st.sampled_from(objects), max_size=12)) if round else objects:
            event = data.draw(st.sampled_from([Upserted, Deleted])) if round else Upserted
            kept.apply(event(thing))
            forgetful.apply(event(thing))
        assert (
            decide_and_explain(forgetful, policy, make.NOW).document()
            == decide_and_explain(kept, policy, make.NOW).document()
        )


def test_a_namespace_brings_only_so_many_resource_names() -> None:
    odd = [make.pod(f"p{i:03d}", "evil", cpu=1, **{f"odd.example.com/r{i}": 1}) for i in range(MAX_NAMES + 10)]
    state = state_of(make.node("n", cpu=8), odd, make.pod("good", cpu=1))
    plan = decide_and_explain(state, POLICY, make.NOW)
    assert len(state.axis) <= MAX_NAMES + 4
    assert [binding.pod for binding in plan.bindings] == ["default/good"]
    assert len(plan.pending) == MAX_NAMES
    [warning] = [text for text in plan.warnings if "evil/p064" in text]
    assert f"namespace evil already uses {MAX_NAMES} such names, expected at most {MAX_NAMES} in all" in warning


@pytest.mark.parametrize("scheduler", ["fairway", "other"])
def test_a_pod_on_a_node_counts_there_whatever_resources_it_names(scheduler: str) -> None:
    odd = {f"odd.example.com/r{i}": 1 for i in range(MAX_NAMES + 1)}
    runs = make.pod("runs", "evil", node="n", cpu=8, spec={"schedulerName": scheduler}, **odd)
    state = ClusterState(["fairway"])
    state.upsert([make.node("n", cpu=8), runs, make.pod("good", cpu=8), make.pod("waits", "evil", cpu=8, **odd)])
    plan = decide_and_explain(state, POLICY, make.NOW)
    assert not plan.bindings
    assert reasons(plan)["good"] == "InsufficientResources"
    [warning] = plan.warnings
    assert "evil/waits is set aside: requests 65 resource names that no other object uses" in warning
    check(state)


def test_which_names_a_namespace_has_brought_does_not_depend_on_the_order_of_files() -> None:
    odd = [
        make.pod(f"p{i}", "evil", cpu=1, **{f"odd.example.com/r{i}-{j}": 1 for j in range(MAX_NAMES - 10)})
        for i in range(3)
    ]
    whole = [make.node("n", cpu=8, **{f"odd.example.com/r1-{j}": 1 for j in range(MAX_NAMES - 10)}), *odd]
    found = set()
    for objects in permutations(whole):
        state = ClusterState()
        state.upsert(arrival_order(objects))
        plan = decide_and_explain(state, POLICY, make.NOW)
        found.add((tuple(plan.warnings), tuple(b.pod for b in plan.bindings), tuple(reasons(plan).items())))
    [(warnings, bindings, waiting)] = found
    assert bindings == ("evil/p1",)
    assert waiting == (("evil/p0", "NeverFits"),)
    assert "pod evil/p2 is set aside" in warnings[0]


def test_names_that_are_gone_do_not_count() -> None:
    state = state_of(make.node("n", cpu=8))
    for i in range(3 * MAX_NAMES):
        pod = make.pod("p", "team", cpu=1, **{f"odd.example.com/r{i}": 1})
        state.apply(Upserted(pod))
        assert "team/p" in state.tasks
        state.apply(Deleted(pod))


def test_a_queue_that_no_object_has_made_is_not_made_by_jobs_that_name_it() -> None:
    state = state_of(make.node("n", cpu=8), make.pods("p", 3, queue="nowhere", cpu=1))
    plan = decide_and_explain(state, POLICY, make.NOW)
    assert set(reasons(plan).values()) == {"QueueNotFound"}
    assert [queue.name for queue in plan.queues] == ["default"]
