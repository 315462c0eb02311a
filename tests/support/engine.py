"""Runs the engine on objects as `fairway plan` does, and checks after every run that the state is sound."""

import json
from collections.abc import Iterable, Mapping, Sequence
from functools import lru_cache
from typing import Any

from fairway.api.kinds import ApiObject
from fairway.api.pods import Pod
from fairway.api.policy import Policy, parse_policy
from fairway.drive.change import bound as bound_pod
from fairway.scheduler.decide import decide_and_explain
from fairway.scheduler.framework.plugin_set import Registry
from fairway.scheduler.paranoid import check, check_plan
from fairway.scheduler.plan import ExplainedPlan, Pending, Plan
from fairway.scheduler.plugins.installed import default_registry
from fairway.state.cluster import ClusterState, Upserted
from support.objects import NOW

Objects = Iterable[Any]
"""Objects, or iterables of them, as deep as it reads well."""

PLUGINS = ("priority", "gang", "conformance", "drf", "predicates", "proportion", "nodeorder")


def policy(
    *,
    actions: str | Sequence[Mapping[str, Any]] = "enqueue, allocate, backfill",
    plugins: Iterable[str] = PLUGINS,
    registry: Registry | None = None,
    **arguments: Mapping[str, Any],
) -> Policy:
    """A policy of one tier; keywords give plugins their arguments (flags among them) and name further ones."""
    names = list(dict.fromkeys([*plugins, *arguments]))
    listed = []
    for name in names:
        given = dict(arguments.get(name, {}))
        flags = {key: given.pop(key) for key in list(given) if key.startswith("enable")}
        listed.append({"name": name, "arguments": given, **flags})
    text = json.dumps({"actions": actions, "tiers": [{"plugins": listed}]})
    return _parsed(text) if registry is None else parse_policy(text, "policy", registry.catalog)


@lru_cache(maxsize=1000)
def _parsed(text: str) -> Policy:
    """Random policies are few, and are drawn again and again."""
    return parse_policy(text, "policy", default_registry().catalog)


def flat(objects: Objects) -> list[ApiObject]:
    found: list[ApiObject] = []
    for thing in objects:
        if isinstance(thing, list | tuple):
            found.extend(flat(thing))
        else:
            found.append(thing)
    return found


def state_of(*objects: Any, scheduler_names: Iterable[str] | None = None) -> ClusterState:
    state = ClusterState(scheduler_names)
    state.upsert(flat(objects))
    return state


def decided(state: ClusterState, with_policy: Policy | None = None, registry: Registry | None = None) -> ExplainedPlan:
    """One cycle; after it everything kept must be true. What events broke before it is still broken then."""
    chosen = with_policy or policy(registry=registry)
    plan = decide_and_explain(state, chosen, NOW, registry=registry)
    if registry is None:
        check_plan(plan, state, chosen, NOW)
    check(state, chosen, NOW, registry=registry)
    return plan


def plan(*objects: Any, policy: Policy | None = None, registry: Registry | None = None) -> ExplainedPlan:
    return decided(state_of(*objects), policy, registry)


def bound(plan: Plan) -> dict[str, str]:
    """Node by pod, the namespace left out where it is `default`."""
    return {_short(binding.pod): binding.node for binding in plan.bindings}


def order(plan: Plan) -> list[str]:
    return list(bound(plan))


def waiting(plan: ExplainedPlan) -> dict[str, Pending]:
    return {_short(pending.job): pending for pending in plan.pending}


def reasons(plan: ExplainedPlan) -> dict[str, str]:
    return {job: pending.reason for job, pending in waiting(plan).items()}


def _short(key: str) -> str:
    return key.removeprefix("default/")


def carry_out_bindings(state: ClusterState, objects: Objects, plan: Plan) -> None:
    """The pods of a plan have their nodes now, and what else their bindings say."""
    pods = {
        f"{thing.metadata.namespace}/{thing.metadata.name}": thing for thing in flat(objects) if isinstance(thing, Pod)
    }
    for binding in plan.bindings:
        state.apply(Upserted(bound_pod(pods[binding.pod], binding.node, NOW, binding.annotations)))
