"""The actions and plugins that a policy may name: what each is for, and which arguments it takes.

The arguments of the built-in actions and plugins are declared here, and the actions themselves. The entry of a plugin,
built-in or external, comes from its class (`scheduler/framework/plugin_set.py`).
"""

from __future__ import annotations

from collections.abc import Collection, Mapping
from dataclasses import dataclass
from types import MappingProxyType
from typing import Annotated, Literal

import msgspec

from fairway.api.devices import DeviceStrategy
from fairway.api.hooks import HOOKS
from fairway.api.settings import Arguments, Count, Duration, Name, Percent, Seconds, Weight, setting, settings_of
from fairway.api.shape import did_you_mean
from fairway.errors import InputError


class ScaledEstimate(msgspec.Struct, frozen=True, forbid_unknown_fields=True):
    """The real run time multiplied by a factor: simulates how far off users' estimates are."""

    scale: Annotated[float, msgspec.Meta(ge=0.001, le=1000)]


class EnqueueArguments(Arguments, frozen=True):
    overcommit_factor: Annotated[
        Annotated[float, msgspec.Meta(ge=0, le=1000)],
        setting(
            "Groups with `minResources` are admitted while their request, all allocations and the unmet requests of "
            "other admitted groups add up to at most this multiple of the cluster.",
            aliases=["overcommit-factor"],
        ),
    ] = 1.2
    admit_after: Annotated[
        Seconds | None,
        setting(
            "A group that has been pending for longer than this is admitted regardless of `overcommitFactor`. Defaults "
            "to the threshold of the reserve action, or to never without that action."
        ),
    ] = None


class AllocateArguments(Arguments, frozen=True):
    blocked: Annotated[
        Literal["skip", "wait"],
        setting(
            "What happens to jobs behind one that cannot start. With `skip` they may start; with `wait` none of them "
            "starts. That is strict order: first come, first served, if the policy orders by nothing else."
        ),
    ] = "skip"
    per_queue: Annotated[bool, setting("With `blocked: wait`, a job that cannot start delays only its own queue.")] = (
        False
    )
    gang_repair_timeout: Annotated[
        Seconds,
        setting(
            "How long capacity is kept for the missing pods of a broken gang, which has started and has fewer pods "
            "than its minimum. 0 keeps none."
        ),
    ] = 120
    stale_gang_timeout: Annotated[
        Seconds,
        setting("A gang that stays broken for longer than this is evicted as a whole. 0 means never."),
    ] = 0


class BackfillArguments(Arguments, frozen=True):
    mode: Annotated[
        Literal["besteffort", "easy", "conservative"],
        setting(
            "`besteffort` places pods that request nothing. `easy` also lets jobs start before the first pending job, "
            "`conservative` before any, as long as no planned start is delayed. Both need run times."
        ),
    ] = "besteffort"
    order: Annotated[
        Literal["policy", "shortest"],
        setting(
            "Order in which jobs behind the first pending one are tried: that of the policy, or the shortest estimated "
            "run time first."
        ),
    ] = "policy"
    keep_head: Annotated[
        bool,
        setting(
            "With `easy` and an order by share or priority: keep the first pending job first until it starts or a job "
            "of higher priority arrives, so that its planned start is hard. Otherwise it is soft."
        ),
    ] = False
    overrun: Annotated[
        Literal["evict", "allow"],
        setting(
            "What happens to a job that exceeds its expected run time. With `evict` it is evicted as soon as a planned "
            "start needs its resources, so that planned starts are hard. With `allow` it keeps running: its expected "
            "run time doubles, repeatedly, and planned starts that depend on it are soft."
        ),
    ] = "evict"
    estimate: Annotated[
        Literal["requested", "user-history", "clairvoyant"] | ScaledEstimate,
        setting(
            "The run time to plan with. `requested` is the one that the job states. `user-history` is the mean of the "
            "last two run times of the same user (else namespace) and job name, up to the stated one; it is raised "
            "step by step for a run that exceeds it. `clairvoyant` is the true run time and `{scale: x}` that times "
            "x, both for simulations. Planned starts based on an estimate are soft, and marked as estimates."
        ),
    ] = "requested"

    @property
    def needs_run_times(self) -> bool:
        return self.mode != "besteffort"


class ReserveArguments(Arguments, frozen=True):
    starving_job_time_threshold: Annotated[
        Seconds, setting("A job that has been pending for longer than this is starving and may reserve nodes.")
    ] = 172_800
    reserved_node_percent: Annotated[
        Percent, setting("Maximum percentage of ready nodes that may be reserved, rounded up.")
    ] = 50
    max_reserved_nodes: Annotated[
        Count | None, setting("Maximum number of nodes that may be reserved. Defaults to no limit.")
    ] = None
    reservation_timeout: Annotated[
        Seconds,
        setting(
            "A reservation that is unused for this long is released, and the job may reserve again. 0 means never."
        ),
    ] = 86_400
    min_starving_after: Annotated[
        Seconds | None,
        setting(
            "Minimum threshold that a job may set for itself with the annotation `fairway.dev/starving-after`. If not "
            "set, a job may only raise the threshold."
        ),
    ] = None
    only_if_overtaken: Annotated[
        bool,
        setting(
            "Count a job as starving only if it was overtaken: a job behind it, by priority, creation time and name, "
            "has started since it was submitted and still has pods."
        ),
    ] = False
    order: Annotated[
        Literal["fair", "priority"],
        setting(
            "Which starving job reserves first: `fair` follows the order of queues and namespaces, as allocate does; "
            "`priority` compares the priority of jobs before that."
        ),
    ] = "fair"
    exclude_queues: Annotated[tuple[Name, ...], setting("Queues whose jobs never reserve nodes.")] = ()
    exclude_node_selector: Annotated[
        Mapping[str, str],
        setting("Nodes with all of these labels are never reserved. An empty map excludes none."),
    ] = {}


class EvictionArguments(Arguments, frozen=True):
    """The arguments that preempt and reclaim share."""

    min_runtime: Annotated[
        Seconds,
        setting(
            "A pod that has run for less than this is never a victim. A job that was evicted n times is protected from "
            "its next start for 2^n times this, or 2^n times 60 s if that is longer, up to a day."
        ),
    ] = 0
    preemption_delay: Annotated[
        Seconds, setting("Time for which a job must have been pending before it may evict.")
    ] = 0
    max_evictions_per_cycle: Annotated[
        Count | None,
        setting("Maximum number of pods evicted per cycle. A job that needs more stays pending with that reason."),
    ] = None
    nomination_timeout: Annotated[
        Seconds, setting("How long capacity freed by evictions is kept for the job that caused them.")
    ] = 600


class PreemptArguments(EvictionArguments, frozen=True):
    by_job_share: Annotated[
        bool,
        setting(
            "Whether a job may evict surplus pods of a job of the same priority with a larger share, in its own "
            "namespace or in one with an equal weighted share. A plain Job with `backoffLimit: 0` fails when it loses "
            "a pod; set this to false if you run such jobs."
        ),
    ] = True


class DrfArguments(Arguments, frozen=True):
    priority_first: Annotated[bool, setting("Compare the priority of jobs before the shares of their namespaces.")] = (
        False
    )


class ProportionArguments(Arguments, frozen=True):
    lending: Annotated[
        Literal["default", "none"],
        setting(
            "`default` lends idle capacity of a queue to other queues until it is claimed; with `none` no queue "
            "exceeds what it deserves."
        ),
    ] = "default"


class NodeOrderArguments(Arguments, frozen=True):
    least_allocated: Annotated[
        Weight, setting("Weight of preferring emptier nodes.", aliases=["leastrequested.weight"])
    ] = 1
    most_allocated: Annotated[
        Weight, setting("Weight of preferring fuller nodes.", aliases=["mostrequested.weight"])
    ] = 0
    balanced_allocation: Annotated[
        Weight,
        setting("Weight of preferring nodes whose resources are used evenly.", aliases=["balancedresource.weight"]),
    ] = 1
    node_affinity: Annotated[Weight, setting("Weight of preferred node affinity.", aliases=["nodeaffinity.weight"])] = 2
    pod_affinity: Annotated[
        Weight, setting("Weight of preferred pod affinity and anti-affinity.", aliases=["podaffinity.weight"])
    ] = 2
    taint_toleration: Annotated[
        Weight, setting("Weight of avoiding PreferNoSchedule taints.", aliases=["tainttoleration.weight"])
    ] = 3
    topology_spread: Annotated[
        Weight, setting("Weight of soft topology spread constraints.", aliases=["podtopologyspread.weight"])
    ] = 2


class BinPackArguments(Arguments, frozen=True):
    weight: Annotated[Weight, setting("Weight of the whole score.", aliases=["binpack.weight"])] = 1
    cpu: Annotated[Weight, setting("Weight of cpu within it.", aliases=["binpack.cpu"])] = 1
    memory: Annotated[Weight, setting("Weight of memory within it.", aliases=["binpack.memory"])] = 1
    resources: Annotated[
        Mapping[str, Weight],
        setting("Weights of further resources within it, by resource name.", aliases=["binpack.resources"], each=1),
    ] = {}


class SlaArguments(Arguments, frozen=True):
    waiting_time: Annotated[
        Duration | None,
        setting(
            "Maximum pending time of a job (such as `1h30m`) whose PodGroup has no annotation `sla-waiting-time`. If "
            "not set, such a job has no deadline.",
            aliases=["sla-waiting-time"],
        ),
    ] = None


class DevicesArguments(Arguments, frozen=True):
    strategy: Annotated[
        tuple[DeviceStrategy, ...],
        setting("How devices are chosen on a node: the first strategy decides, and the next ones break ties."),
    ] = ("first-fit",)


class FgdArguments(Arguments, frozen=True):
    weight: Annotated[Weight, setting("Weight of the score.")] = 1


FLAGS: Mapping[str, str] = MappingProxyType({hook.flag: hook.name for hook in HOOKS.values() if hook.flag})
"""The flag that disables a hook of a plugin, and the hook. A flag that is not given is true."""

FLAG_ALIASES: Mapping[str, str] = MappingProxyType(
    {alias: hook.flag for hook in HOOKS.values() for alias in hook.aliases}
)


@dataclass(frozen=True, slots=True)
class CatalogEntry:
    """An action or a plugin as a policy author sees it."""

    name: str
    arguments: type[Arguments]
    meaning: str
    hooks: tuple[str, ...] = ()

    @property
    def flags(self) -> tuple[str, ...]:
        """The flags that have an effect on it."""
        return tuple(flag for flag, hook in FLAGS.items() if hook in self.hooks)


class Catalog:
    """All actions and plugins that can be named."""

    def __init__(self) -> None:
        self._actions: dict[str, CatalogEntry] = {}
        self._plugins: dict[str, CatalogEntry] = {}
        self.broken: dict[str, str] = {}
        """Plugins that are installed and cannot be used, with the reason."""

    @property
    def actions(self) -> Mapping[str, CatalogEntry]:
        return MappingProxyType(self._actions)

    @property
    def plugins(self) -> Mapping[str, CatalogEntry]:
        return MappingProxyType(self._plugins)

    def register_action(self, name: str, arguments: type[Arguments], meaning: str) -> None:
        _register(self._actions, "action", CatalogEntry(name, arguments, meaning))

    def register_plugin(self, name: str, arguments: type[Arguments], meaning: str, hooks: Collection[str] = ()) -> None:
        """`hooks` are the extension points that it implements and that have a flag."""
        for hook in hooks:
            if hook not in FLAGS.values():
                raise InputError(f"plugin {name!r}: unknown hook {hook!r}{did_you_mean(hook, FLAGS.values())}")
        _register(self._plugins, "plugin", CatalogEntry(name, arguments, meaning, tuple(hooks)))

    def register_broken(self, name: str, why: str) -> None:
        """A plugin that is installed but cannot be used, and the error for a policy that names it."""
        self.broken.setdefault(name, why)


def _register(entries: dict[str, CatalogEntry], kind: str, entry: CatalogEntry) -> None:
    if entry.name in entries:
        raise InputError(f"the {kind} {entry.name!r} is registered twice")
    settings_of(entry.arguments)  # a declaration with an error fails here, not when a policy is read
    entries[entry.name] = entry


def catalog_of_actions() -> Catalog:
    """A new catalog with the actions; the registry adds the plugins."""
    catalog = Catalog()
    for name, arguments, meaning in _ACTIONS:
        catalog.register_action(name, arguments, meaning)
    return catalog


_ACTIONS: tuple[tuple[str, type[Arguments], str], ...] = (
    ("enqueue", EnqueueArguments, "Admit a job when its queue and the cluster can take its minimum."),
    ("reserve", ReserveArguments, "Reserve nodes for jobs that have waited too long and fit nowhere."),
    ("allocate", AllocateArguments, "Place pending jobs: fair between queues, then namespaces, then jobs."),
    ("preempt", PreemptArguments, "Evict inside a queue for jobs that are entitled to the capacity."),
    (
        "reclaim",
        EvictionArguments,
        "Evict in queues that have more allocated than they deserve, for queues that have less.",
    ),
    ("backfill", BackfillArguments, "Fill gaps with pods that request nothing, and with short jobs."),
)
