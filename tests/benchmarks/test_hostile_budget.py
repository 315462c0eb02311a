"""One tenant cannot slow the others: whatever shapes it writes, work in a cycle is bounded, counted and not timed.

The shapes are those of the benchmark row `hostile`. What the others are given is the same with and without them.
"""

from __future__ import annotations

from collections.abc import Iterator
from typing import Any

import pytest
from benchmarks.hostile_shapes import DEVICE_CLASS, KINDS, NAMESPACE, claim, nested, objects, read
from benchmarks.hostile_shapes import pod as hostile_pod

from fairway.api.kinds import ApiObject
from fairway.devices.select.cel_selectors import SelectorAnswers
from fairway.scheduler.decide import decide, decide_and_explain
from fairway.scheduler.plan import ExplainedPlan
from fairway.state.cluster import ClusterState, Deleted, Upserted
from fairway.state.namespaces import NamespaceBudgets
from fairway.state.pod_terms import MAX_WIDE_TERMS
from support import objects as make
from support.devices import device_node, published, resource_slice
from support.engine import flat
from support.engine import policy as make_policy

POLICY = make_policy(actions="enqueue, reserve, allocate, reclaim, backfill", devices={})
BUDGET = 10_000
FEW = {"requests": 300, "too large": 300, "gangs": 300, "pod anti-affinity": 100, "pod affinity": 200, "ports": 100}
GOOD = "good"


def device(name: str, uuid: str) -> dict[str, Any]:
    return published(name, attributes={"uuid": {"string": uuid}})


def cluster() -> list[ApiObject]:
    slices = [
        resource_slice(
            f"s{index}",
            f"n{index}",
            *(device(f"d{number}", f"{index}-{number}") for number in range(4)),
            driver=DEVICE_CLASS,
        )
        for index in range(10)
    ]
    nodes = [device_node(f"n{index}") for index in range(10)]
    return flat([nodes, slices, make.made("DeviceClass", DEVICE_CLASS, spec={}), make.queue("default", 1)])


def innocents() -> list[ApiObject]:
    """Pods that start, a gang, one with a device, and some that wait, each for a reason of its own."""
    expression = f'device.attributes["{DEVICE_CLASS}"].uuid == "3-1"'
    request = {
        "name": "r",
        "exactly": {"deviceClassName": DEVICE_CLASS, "selectors": [{"cel": {"expression": expression}}]},
    }
    gang = {"annotations": {"scheduling.k8s.io/group-name": "gang"}}
    return flat(
        [
            [make.pod(f"p{index}", GOOD, cpu=1, created=0) for index in range(5)],
            make.group("gang", GOOD, minimum=2, created=0),
            [make.pod(f"gang-{index}", GOOD, cpu=1, created=0, **gang) for index in range(2)],
            make.pod("nowhere", GOOD, cpu=1, created=0, spec={"nodeSelector": {"a": "b"}}),
            make.pod("large", GOOD, cpu=100_000, created=0),
            make.made("ResourceClaim", "c", GOOD, spec={"devices": {"requests": [request]}}),
            make.pod(
                "device", GOOD, cpu=1, created=0, spec={"resourceClaims": [{"name": "c", "resourceClaimName": "c"}]}
            ),
        ]
    )


def state_with(*more: ApiObject, budget: int | None = BUDGET) -> ClusterState:
    state = ClusterState(budget=budget)
    state.upsert([*cluster(), *more])
    return state


def said(plan: ExplainedPlan) -> dict[str, Any]:
    """What a plan does for the innocent, and says of them."""
    return {
        "bound": sorted(binding.pod for binding in plan.bindings if binding.pod.startswith(f"{GOOD}/")),
        "devices": [str(b.devices) for b in plan.bindings if b.pod == f"{GOOD}/device"],
        "waiting": sorted((row.job, row.reason) for row in plan.pending if row.job.startswith(f"{GOOD}/")),
    }


def cycles(state: ClusterState, number: int) -> Iterator[ExplainedPlan]:
    for index in range(number):
        yield decide_and_explain(state, POLICY, make.NOW + 50_000 * index)


def spent(state: ClusterState, namespace: str = NAMESPACE) -> int:
    return state.namespace_budgets._spent.get(namespace, 0)


@pytest.fixture(name="alone", scope="module")
def what_they_get_alone() -> dict[str, Any]:
    found = said(decide_and_explain(state_with(*innocents()), POLICY, make.NOW))
    assert len(found["bound"]) == 8
    assert len(found["waiting"]) == 2
    return found


@pytest.mark.parametrize("kind", KINDS)
def test_what_others_are_given_is_the_same_beside_hostile_shapes(kind: str, alone: dict[str, Any]) -> None:
    """In the very first cycle, and in a later one too; each cycle costs the hostile namespace what it may, and what one
    look or one step of an expression can be more.
    """
    state = state_with(*objects(kind, FEW.get(kind, 20)))
    for plan in cycles(state, 3):
        assert spent(state) <= 3 * BUDGET
        del plan
    state.upsert(innocents())
    plan = decide_and_explain(state, POLICY, make.NOW + 10**6)
    assert spent(state) <= 3 * BUDGET
    assert said(plan) == alone
    state = state_with(*innocents(), *objects(kind, FEW.get(kind, 20)))
    assert said(decide_and_explain(state, POLICY, make.NOW)) == alone


def test_an_expression_is_evaluated_once_for_devices_that_agree_in_what_it_reads() -> None:
    texts = [nested("device.driver != 'x'", 1), f'device.attributes["{DEVICE_CLASS}"].uuid != "x"']
    state = state_with(*(thing for n, text in enumerate(texts) for thing in read(claim(f"c{n}", text))), budget=None)
    answers = state.derived.get(SelectorAnswers)
    decide_and_explain(state, POLICY, make.NOW)
    first = answers.evaluations
    assert first == 2 + 1 + 40, "each on nothing; one driver; forty devices of different names"
    for cycle in range(1, 5):
        decide_and_explain(state, POLICY, make.NOW + cycle)
    assert answers.evaluations == first
    state.apply(Upserted(resource_slice("s0", "n0", device("d0", "new"), driver=DEVICE_CLASS, generation=2)))
    decide_and_explain(state, POLICY, make.NOW + 9)
    assert answers.evaluations == first + 1, "a device that changed"


def test_an_expression_that_does_not_compile_is_compiled_once(monkeypatch: pytest.MonkeyPatch) -> None:
    from fairway.devices.select import cel_selectors

    compiled: list[str] = []
    program = cel_selectors.ENVIRONMENT.program

    def counted(text: str, **more: Any) -> Any:
        compiled.append(text)
        return program(text, **more)

    monkeypatch.setattr(cel_selectors.ENVIRONMENT, "program", counted)
    state = state_with(*(thing for n in range(3) for thing in read(claim(f"c{n}", "this is (no expression 4711"))))
    for plan in cycles(state, 4):
        assert {row.reason for row in plan.pending} == {"ClassNotFound"}
    assert len(compiled) == 1


def test_what_exceeds_the_budget_waits_with_a_reason_and_is_decided_in_a_later_cycle() -> None:
    """Evaluations that a cycle has not finished go on in the next: claims of which each takes several cycles."""
    state = state_with(*(thing for n in range(2) for thing in read(claim(f"c{n}", nested(f"device.driver != 'x{n}'")))))
    plan = decide_and_explain(state, POLICY, make.NOW)
    assert {row.reason for row in plan.pending} == {"SchedulingBudget"}
    assert "has used its scheduling budget" in plan.pending[0].message
    assert plan.recheck_at == make.NOW + 50_000
    bound: set[str] = set()
    for cycle in range(1, 60):
        later = decide(state, POLICY, make.NOW + 50_000 * cycle)
        bound |= {binding.pod for binding in later.bindings}
        if bound:
            break
    assert bound, "it makes progress"
    assert later.recheck_at is None or later.recheck_at > make.NOW


@pytest.mark.parametrize("kind", ["nested loops", "pod affinity", "requests", "too large"])
def test_a_moment_that_is_decided_again_is_decided_the_same(kind: str) -> None:
    state = state_with(*innocents(), *objects(kind, FEW.get(kind, 20)))
    for cycle in range(4):
        now = make.NOW + 50_000 * cycle
        plans = [decide_and_explain(state, POLICY, now) for _ in range(3)]
        documents = [
            (
                [(b.pod, b.node) for b in plan.bindings],
                [(row.job, row.reason, row.message) for row in plan.pending],
                plan.recheck_at,
            )
            for plan in plans
        ]
        assert documents[0] == documents[1] == documents[2]


def test_all_that_was_put_off_has_its_turn() -> None:
    """A hundred pods, each of a kind of its own, with a budget for a few of them in each cycle."""
    rule = "requiredDuringSchedulingIgnoredDuringExecution"
    manifests = []
    for number in range(100):
        term = {"topologyKey": "zone", "labelSelector": {"matchLabels": {"a": f"v{number}"}}}
        manifests.append(hostile_pod(f"p{number}", f"{100 + number}m", affinity={"podAntiAffinity": {rule: [term]}}))
    pods = read(manifests)
    state = state_with(*pods, budget=1_000)
    bound: set[str] = set()
    per_cycle: list[int] = []
    for cycle in range(200):
        plan = decide_and_explain(state, POLICY, make.NOW + 50_000 * cycle)
        per_cycle.append(len(plan.bindings))
        for binding in plan.bindings:
            bound.add(binding.pod)
            name = binding.pod.partition("/")[2]
            state.apply(Deleted(next(each for each in pods if each.metadata.name == name)))
        if len(bound) == 100:
            break
    assert len(bound) == 100
    assert max(per_cycle) < 50


def test_what_costs_more_than_the_budget_of_a_cycle_is_placed_all_the_same() -> None:
    """A look at a pod with a claim costs something for each node with devices and each option: more than two budgets
    for one option and 800 nodes, or as here for ten options and ten nodes.
    """
    options = [{"name": f"o{number}", "deviceClassName": DEVICE_CLASS} for number in range(10)]
    requests = [{"name": "r", "firstAvailable": options}]
    claimed = make.made("ResourceClaim", "c", GOOD, spec={"devices": {"requests": requests}})
    uses = {"resourceClaims": [{"name": "c", "resourceClaimName": "c"}]}
    state = state_with(claimed, make.pod("device", GOOD, cpu=1, created=0, spec=uses), budget=500)
    assert any(plan.bindings for plan in cycles(state, 60))


def test_many_namespaces_share_the_budget() -> None:
    budgets = NamespaceBudgets(10_000)
    first = budgets.open(1)
    assert first is not None
    for name in ("a", "b", "c", "d"):
        first.purse(name).spend(10_000)
        first.put_off(name, name)
    second = budgets.open(2)
    assert second is not None
    assert second.purse("a").left == 2_500
    assert list(second.waited) == ["a", "b", "c", "d"]
    second.purse("a").spend(4_000)
    again = budgets.open(2)
    assert again is not None
    assert again.purse("a").left == 2_500, "the same moment begins with the same accounts"
    third = budgets.open(3)
    assert third is not None
    assert third.purse("a").left == 10_000 - 1_500, "what was spent too much is taken off; no namespace waits any more"


def test_a_namespace_brings_so_many_terms_over_other_namespaces_and_no_more() -> None:
    many = objects("pod anti-affinity", MAX_WIDE_TERMS + 5)
    state = state_with(*many)
    warnings = decide_and_explain(state, POLICY, make.NOW).warnings
    assert sum("is set aside: namespace hostile has more than 32" in warning for warning in warnings) == 5
    state.apply(Deleted(many[0]))
    state.apply(Upserted(many[-1]))
    warnings = decide_and_explain(state, POLICY, make.NOW + 1).warnings
    assert sum("is set aside" in warning for warning in warnings) == 4


def test_labels_that_no_node_has_make_no_columns() -> None:
    state = state_with(*objects("made-up labels", 50))
    decide_and_explain(state, POLICY, make.NOW)
    assert len(state.nodes.labels._columns) < 10
