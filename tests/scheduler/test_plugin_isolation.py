"""What an external plugin may not do: change the engine, end the program, pass for a built-in one, hold cycles up."""

import sys
from typing import Any, NamedTuple

import numpy as np
import pytest

from fairway.scheduler.decide import decide_and_explain
from fairway.scheduler.framework.external_plugins import Stopwatch, shown
from fairway.scheduler.framework.hooks import Check
from fairway.scheduler.framework.plugin_set import Registry
from fairway.scheduler.plan import ExplainedPlan
from fairway.scheduler.plugins import BUILT_IN
from fairway.scheduler.verdict import YES
from support import objects as make
from support.engine import bound, plan, policy, state_of

CLUSTER = [make.node("n1", cpu=2), make.node("n2", cpu=2), make.pods("p", 7, cpu=1), make.gang("g", members=2, cpu=1)]
FULL = [make.node("n1", cpu=2), make.pods("low", 2, cpu=1, node="n1"), make.pod("high", cpu=1, spec={"priority": 5})]
WITHOUT = plan(CLUSTER)

HOOKS = {
    "open": None, "queue_key": 0, "namespace_key": 0, "job_key": 0, "task_key": 0, "overused": False,
    "allocatable": 99, "enqueueable": YES, "job_valid": YES, "job_ready": True, "job_pipelined": True,
    "feasible": (), "feasible_static": (), "limit": None, "looks_around": False, "score_static": None,
    "on_allocate": None,
}  # fmt: skip


def made(calls: dict[str, Any], **attributes: Any) -> type[Any]:
    """A plugin class with these hooks, each a function of the hook's own arguments."""
    methods = {name: lambda _self, *args, call=call: call(*args) for name, call in calls.items()}
    return type("Odd", (), {"name": "odd", "__init__": lambda self, arguments: None, **methods, **attributes})


def run(*objects: Any, actions: str = "enqueue, allocate, preempt, backfill", **calls: Any) -> ExplainedPlan:
    registry = Registry(BUILT_IN, [made(calls)])
    return plan(*objects, registry=registry, policy=policy(actions=actions, odd={}, registry=registry))


def tamper(value: Any, depth: int = 0, seen: set[int] | None = None) -> None:
    """Write to all that can be reached, in every way that Python has; each attempt may fail, none may succeed."""
    seen = set() if seen is None else seen
    if depth > 3 or id(value) in seen or isinstance(value, str | int | float | bool | type | None):
        return
    seen.add(id(value))
    attempts = [lambda: value.clear(), lambda: value.append(0), lambda: value.update(x=0), lambda: value.pop()]
    if isinstance(value, np.ndarray):
        attempts += [lambda: value.fill(10**9), lambda: value.setflags(write=True), lambda: value.fill(10**9)]
        attempts += [lambda: value.base.fill(10**9), lambda: np.copyto(value, 10**9)]
    for attempt in attempts:
        try:
            attempt()
        except Exception:
            continue
    for name in _names(value):
        try:
            inner = getattr(value, name)
        except Exception:
            continue
        for wrong in (10**9, None):
            try:
                setattr(value, name, wrong)
            except Exception:
                break
        if not callable(inner):
            tamper(inner, depth + 1, seen)
    for inner in list(value)[:4] if isinstance(value, tuple | list | frozenset) else ():
        tamper(inner, depth + 1, seen)
    for name in ("charge", "hold", "count_ready", "charge_more", "order_tasks"):
        for arguments in ((), (1,), (((0, 10**9),), -1)):
            try:
                getattr(value, name)(*arguments)
            except Exception:
                continue


def _names(value: Any) -> list[str]:
    own = [name for kind in type(value).__mro__ for name in getattr(kind, "__slots__", ())]
    known = ["idle", "allocatable", "rows", "held", "ready", "minimum", "priority", "queue", "job", "tasks", "runs",
             "account", "deserved", "capability", "weight", "vector", "amounts", "state", "snapshot", "total", "info",
             "labels", "shape", "node", "queues", "kernel", "nodes", "line", "data", "role_ready"]  # fmt: skip
    return [name for name in dict.fromkeys([*known, *own]) if not name.startswith("__")]


@pytest.mark.parametrize("hook", HOOKS)
def test_nothing_that_a_hook_is_given_can_be_used_to_change_the_plan(hook: str) -> None:
    calls: list[int] = []

    def vandal(*arguments: Any) -> Any:
        calls.append(1)
        if len(calls) < 20:
            for argument in arguments:
                tamper(argument)
        return HOOKS[hook]

    innocent = run(CLUSTER, **{hook: lambda *_: HOOKS[hook]})
    calls.clear()
    harmed = run(CLUSTER, **{hook: vandal})
    assert calls or hook == "job_pipelined"
    assert harmed.document() == innocent.document()


@pytest.mark.parametrize("hook", ["preemptable", "reclaimable"])
def test_candidates_cannot_be_changed_either(hook: str) -> None:
    def vandal(claimant: Any, candidates: Any) -> Any:
        tamper(claimant)
        tamper(candidates)
        return candidates

    actions = "allocate, preempt" if hook == "preemptable" else "allocate, reclaim"
    assert run(FULL, actions=actions, **{hook: vandal}).document() == run(FULL, actions=actions).document()


def test_what_the_issue_saw_is_refused() -> None:
    """Three pods too many were placed by a plugin that made nodes larger."""

    def score(_: Any, nodes: Any) -> Any:
        nodes.allocatable[:] = 10**9
        return np.zeros(nodes.size)

    made = run(CLUSTER, score=score)
    assert bound(made) == bound(WITHOUT)
    assert any("plugin odd: score: ValueError" in warning for warning in made.warnings)


def test_an_answer_that_is_changed_later_changes_nothing() -> None:
    kept: list[Any] = []

    def score(_: Any, nodes: Any) -> Any:
        for column in kept:
            column[:] = -1e6
        kept.append(np.arange(nodes.size, dtype=np.float64))
        return kept[-1]

    def constant(_: Any, nodes: Any) -> Any:
        return np.arange(nodes.size, dtype=np.float64)

    assert run(CLUSTER, score=score).document() == run(CLUSTER, score=constant).document()


def leave(*_: Any) -> Any:
    sys.exit()


class Odd(BaseException):
    def __str__(self) -> str:
        raise RuntimeError("no text either")


def odd(*_: Any) -> Any:
    raise Odd


@pytest.mark.parametrize("ends", [leave, odd])
@pytest.mark.parametrize("hook", [*HOOKS, "score"])
def test_leaving_the_program_is_a_failed_hook(hook: str, ends: Any) -> None:
    made = run(CLUSTER, **{hook: ends})
    said = [warning for warning in made.warnings if "odd" in warning]
    if hook not in ("open", "job_pipelined"):
        assert any("SystemExit" in warning or "Odd" in warning for warning in said), made.warnings
    assert len(bound(made)) in (0, 4)


def test_making_it_may_fail_in_any_way() -> None:
    odd = made({"feasible": lambda *_: ()}, __init__=leave)
    registry = Registry(BUILT_IN, [odd])
    found = plan(CLUSTER, registry=registry, policy=policy(odd={}, registry=registry))
    assert bound(found) == {}


def test_ctrl_c_is_not_a_failure() -> None:
    def stop(*_: Any) -> Any:
        raise KeyboardInterrupt

    with pytest.raises(KeyboardInterrupt):
        run(CLUSTER, score=stop)


def test_a_flag_on_the_class_does_not_switch_the_guard_off() -> None:
    odd = made({"feasible": leave}, built_in=True, ours=True)
    registry = Registry(BUILT_IN, [odd])
    found = plan(CLUSTER, registry=registry, policy=policy(odd={}, registry=registry))
    assert bound(found) == {}
    assert any("SystemExit" in warning for warning in found.warnings)


@pytest.mark.parametrize(
    "hook", ["deserved", "lends", "basis", "device_strategies", "choose_device", "ordered_by", "entitled_by", "owed"]
)
def test_hooks_that_only_built_in_plugins_have_today_may_fail_too(hook: str) -> None:
    assert bound(run(CLUSTER, **{hook: leave})) == bound(WITHOUT)


class Contrary(int):
    def __lt__(self, other: object) -> bool:
        raise RuntimeError("not now")

    __gt__ = __le__ = __ge__ = __lt__
    __eq__ = __lt__
    __hash__ = int.__hash__


@pytest.mark.parametrize("hook", ["queue_key", "namespace_key", "job_key", "task_key"])
def test_a_key_with_a_comparison_of_its_own_is_taken_as_the_number_it_is(hook: str) -> None:
    assert run(CLUSTER, **{hook: lambda *_: Contrary(0)}).document() == run(CLUSTER, **{hook: lambda *_: 0}).document()


def test_a_filter_without_an_end_is_cut_off() -> None:
    def feasible(_: Any, nodes: Any) -> Any:
        while True:
            yield Check(np.ones(nodes.size, dtype=bool), "x")

    assert bound(run(CLUSTER, feasible=feasible)) == {}


# -- time ------------------------------------------------------------------------------------------------------------


class FakeClock:
    """Time passes only where a hook says so."""

    def __init__(self) -> None:
        self.now = 0

    def __call__(self) -> int:
        return self.now


def cycles(hook: str, answer: Any, *, takes: int, count: int = 6) -> tuple[list[ExplainedPlan], list[int]]:
    """Plans of several cycles, and how often the hook was asked in each."""
    clock, asked = FakeClock(), [0]

    def slow(*_: Any) -> Any:
        clock.now += takes
        asked[0] += 1
        return answer

    registry = Registry(BUILT_IN, [made({hook: slow})], Stopwatch(clock, limit=1_000))
    with_policy = policy(odd={}, registry=registry)
    plans, calls = [], []
    for _ in range(count):
        asked[0] = 0
        plans.append(
            decide_and_explain(
                state_of([make.node("n1", cpu=2), make.pod("p", cpu=1)]), with_policy, make.NOW, registry=registry
            )
        )
        plans[-1].document()
        calls.append(asked[0])
    return plans, calls


def test_a_hook_that_is_slow_once_is_reported_and_dropped_when_it_keeps_to_it() -> None:
    plans, calls = cycles("looks_around", False, takes=2_000)
    said = [[warning for warning in plan.warnings if "odd" in warning] for plan in plans]
    assert all("plugin odd took more than 1e-06 s in one cycle in looks_around" in texts for texts in said[:3])
    assert [bool(call) for call in calls] == [True, True, True, False, False, False]
    assert "3 times, and is disabled" in said[-1][0]
    assert [len(plan.bindings) for plan in plans] == [1] * 6


def test_a_slow_verdict_is_fail_closed_once_it_is_dropped() -> None:
    plans, _ = cycles("job_valid", YES, takes=2_000)
    assert [len(plan.bindings) for plan in plans] == [1, 1, 1, 0, 0, 0]
    assert plans[-1].pending[0].reason == "PluginFailed"


def test_a_hook_that_never_comes_to_an_end_of_its_calls_is_stopped_in_the_cycle() -> None:
    plans, _ = cycles("job_key", 0, takes=20_000, count=1)
    assert any("more than ten times that" in warning for warning in plans[0].warnings)
    assert len(plans[0].bindings) == 1


def test_a_fast_hook_is_never_reported() -> None:
    plans, calls = cycles("job_valid", YES, takes=10)
    assert all(not plan.warnings for plan in plans)
    assert all(calls)


def test_named_tuples_stay_named_and_what_is_in_them_cannot_be_written_to():
    class Pair(NamedTuple):
        left: list[int]
        right: int

    seen = shown(Pair([1, 2], 3))
    assert (type(seen), seen.left, seen.right) == (Pair, (1, 2), 3)
    plain = (1, "a", (2.0, None))
    assert shown(plain) is plain, "where nothing can be changed nothing is copied"
    assert shown(([1], 2)) == ((1,), 2)
