"""What the sessions of one policy share: its plugins, and their hooks put together.

To make the plugins and to combine their hooks takes longer than to place a pod, and all of it but what `open` sets is
the same in every cycle. So a state keeps the parts of the policy that decided last. One session at a time uses them:
it takes them out, and gives them back when its cycle is decided and, if anyone asks, explained (`Session.close`). A
session that begins meanwhile makes its own. External plugins are made again for every cycle, and so are those of a
cycle that drops some of their hooks.
"""

from __future__ import annotations

from collections.abc import Callable, Hashable, Iterable, Mapping
from typing import Any

import numpy as np

from fairway.api.policy import Policy
from fairway.devices.match.solving import DEFAULT_CHAIN
from fairway.scheduler.framework.accounts import QueueAccount
from fairway.scheduler.framework.hooks import Check
from fairway.scheduler.framework.job_run import JobRun
from fairway.scheduler.framework.order import PolicyOrder
from fairway.scheduler.framework.plugin_set import Dropped, PluginSet, Registry
from fairway.scheduler.placement.kernel import NodeHooks
from fairway.scheduler.placement.node_view import NodeView
from fairway.scheduler.verdict import YES, Reason, Verdict
from fairway.state.cluster import ClusterState
from fairway.state.derived import DerivedValue
from fairway.state.queues import Amounts
from fairway.state.shapes import Shape


class PolicyRules:
    """What the policy allows: the verdicts of its plugins, combined as the table of hooks says."""

    def __init__(self, plugins: PluginSet) -> None:
        combined = plugins.combined
        self._plugins = plugins
        self._external_overused = plugins.external("overused")
        self._allocatable = combined("allocatable")
        self.allocatable: Callable[[QueueAccount, Shape, int, bool], int] = (
            self._unless_overused if self._external_overused else self._allocatable
        )
        """How many of some like tasks the queue may take; the last argument is `Placing.lending`."""
        self._not_allowed = combined("not_allowed")
        self.overused: Callable[[QueueAccount], bool] = combined("overused")
        self.enqueueable: Callable[[JobRun], Verdict] = combined("enqueueable")
        self.job_valid: Callable[[JobRun], Verdict] = combined("job_valid")
        self.job_ready: Callable[[JobRun], bool] = combined("job_ready")
        self.job_pipelined: Callable[[JobRun], bool] = combined("job_pipelined")
        self.lends: Callable[[], bool] = combined("lends")
        """Whether idle capacity goes to other queues than those that deserve it."""
        self.on_allocate: Callable[[JobRun, Shape, int], None] = combined("on_allocate")

    def _unless_overused(self, queue: QueueAccount, shape: Shape, count: int, lending: bool) -> int:
        if not lending and any(overused(queue) for overused in self._external_overused):
            return 0
        return int(self._allocatable(queue, shape, count, lending))

    def not_allowed(self, job: JobRun) -> Verdict:
        """Why the queue may not take the job's next step, as things stand; `YES` if by now it may."""
        verdict: Verdict = self._not_allowed(job)
        if not verdict.ok:
            return verdict
        failures = self._plugins.failures
        if failures.texts:
            return Verdict(False, Reason.PLUGIN_FAILED, detail="; ".join(failures.texts.values()))
        names = " or ".join(self._plugins.external_names("overused", "allocatable"))
        if not names:
            return YES
        detail = f"plugin {names} does not let queue {job.queue.name} take more"
        return Verdict(False, Reason.QUEUE_OVERUSED, names, detail)


class PolicyParts:
    """The plugins of a policy, and what was made of their hooks."""

    def __init__(self, policy: Policy, registry: Registry, dropped: Dropped) -> None:
        self.policy = policy
        self.registry = registry
        self.plugins = plugins = PluginSet(policy, registry, dropped)
        self.shareable = not dropped and not plugins.has_external
        self.order = PolicyOrder(plugins)
        self.rules = PolicyRules(plugins)
        self.node_hooks = _node_hooks(plugins)
        self.deserved: Callable[[], Mapping[str, Amounts] | None] = plugins.combined("deserved")
        self._basis: Callable[[ClusterState], Hashable] = plugins.combined("basis")
        self._device_strategies = plugins.combined("device_strategies")
        choosing = plugins.hooks("choose_device")
        self.choose_device: Callable[..., Any] | None = plugins.combined("choose_device") if choosing else None

    def basis(self, state: ClusterState) -> Hashable:
        """What kept columns rest on; None if nothing can be kept."""
        basis = (self.plugins.identity, self._basis(state))
        return basis if self.plugins.keeps_columns else None

    def device_strategies(self) -> tuple[str, ...]:
        found: tuple[str, ...] = self._device_strategies() or DEFAULT_CHAIN
        return found


KEPT = 2
"""A session that tries something out on another one needs two at a time."""


class SpareParts(
    DerivedValue,
    name="plugins",
    holds="plugin instances of the policy and their combined hooks",
    inputs=("policy", "plugin registry"),
    saves="creating the plugins and combining their hooks",
):
    """The parts that a state keeps: those of one policy, while no session has them."""

    def __init__(self) -> None:
        super().__init__()
        self._spare: list[PolicyParts] = []

    def take(self, policy: Policy, registry: Registry, dropped: Dropped) -> PolicyParts:
        spare = self._spare
        if dropped or not spare or spare[-1].policy is not policy or spare[-1].registry is not registry:
            return PolicyParts(policy, registry, dropped)
        return spare.pop()

    def give_back(self, parts: PolicyParts) -> None:
        if parts.shareable:
            fitting = [one for one in self._spare if one.policy is parts.policy and one.registry is parts.registry]
            self._spare = [*fitting, parts][:KEPT]


def spare_parts(state: ClusterState) -> SpareParts:
    return state.derived.get(SpareParts)


def _node_hooks(plugins: PluginSet) -> NodeHooks:
    hooks = plugins.hooks
    return NodeHooks(
        feasible_static=[*hooks("feasible_static"), *([] if hooks("device_strategies") else [no_devices])],
        feasible=hooks("feasible"),
        limit=hooks("limit"),
        score_static=hooks("score_static"),
        score=hooks("score"),
        looks_around=hooks("looks_around"),
        trend=plugins.trend(),
        shares_static=plugins.only_built_in_have("feasible_static", "score_static"),
        rests_on_amounts=plugins.rests_on_amounts(),
    )


def no_devices(shape: Shape, nodes: NodeView) -> Iterable[Check]:
    """Where the policy lacks the plugin devices no pod is given any."""
    if shape.devices is None:
        return ()
    text = "the policy has no plugin devices"
    return (Check(np.zeros(nodes.size, dtype=np.bool_), text, Reason.DEVICE_UNAVAILABLE),)
