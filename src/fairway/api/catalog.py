"""Which actions and plugins a policy may name, what each is for, and which arguments it takes.

Fairway's own are declared here; those of others are registered the same way, by whoever loads them.
"""

from __future__ import annotations

from collections.abc import Collection, Mapping
from dataclasses import dataclass
from types import MappingProxyType

from fairway.api import arguments as args
from fairway.api.settings import Arguments, did_you_mean, settings_of
from fairway.errors import InputError

FLAGS: Mapping[str, str] = MappingProxyType(
    {
        "enableQueueOrder": "queue_key",
        "enableNamespaceOrder": "namespace_key",
        "enableJobOrder": "job_key",
        "enableTaskOrder": "task_key",
        "enableOverused": "overused",
        "enableAllocatable": "allocatable",
        "enableJobEnqueued": "enqueueable",
        "enableJobValid": "job_valid",
        "enableJobReady": "job_ready",
        "enableJobPipelined": "job_pipelined",
        "enablePredicate": "feasible",
        "enableNodeOrder": "score",
        "enableReserveScore": "reserve_score",
        "enablePreemptable": "preemptable",
        "enableReclaimable": "reclaimable",
    }
)
"""The flag that switches a hook of a plugin off, and the hook. A flag that is not given is true."""

FLAG_ALIASES: Mapping[str, str] = MappingProxyType(
    {
        "enabledOverused": "enableOverused",
        "enabledAllocatable": "enableAllocatable",
        "enabledJobEnqueued": "enableJobEnqueued",
        "enableResourceNodeOrder": "enableReserveScore",
    }
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
        """`hooks` are the extension points it implements, those without a flag left out."""
        for hook in hooks:
            if hook not in FLAGS.values():
                raise InputError(f"plugin {name!r}: unknown hook {hook!r}{did_you_mean(hook, FLAGS.values())}")
        _register(self._plugins, "plugin", CatalogEntry(name, arguments, meaning, tuple(hooks)))

    def register_broken(self, name: str, why: str) -> None:
        """A plugin that a policy must not name, and what to say to one that does."""
        self.broken.setdefault(name, why)


def _register(entries: dict[str, CatalogEntry], kind: str, entry: CatalogEntry) -> None:
    if entry.name in entries:
        raise InputError(f"the {kind} {entry.name!r} is registered twice")
    settings_of(entry.arguments)  # a declaration with a fault fails here, not when a policy is read
    entries[entry.name] = entry


def builtin_catalog() -> Catalog:
    """Fairway's own actions and plugins; a new catalog each time, for the caller to add to."""
    catalog = Catalog()
    for name, arguments, meaning in _ACTIONS:
        catalog.register_action(name, arguments, meaning)
    for name, arguments, hooks, meaning in _PLUGINS:
        catalog.register_plugin(name, arguments, meaning, hooks)
    return catalog


_ACTIONS: tuple[tuple[str, type[Arguments], str], ...] = (
    ("enqueue", Arguments, "Admit a job when its queue can take its minimum."),
    ("reserve", args.ReserveArguments, "Reserve nodes for jobs that have waited too long and fit nowhere."),
    ("allocate", args.AllocateArguments, "Place pending jobs: fair between queues, then namespaces, then jobs."),
    ("preempt", args.EvictionArguments, "Evict inside a queue for jobs that are entitled to the capacity."),
    (
        "reclaim",
        args.EvictionArguments,
        "Evict in queues that have more allocated than they deserve, for queues that have less.",
    ),
    ("backfill", args.BackfillArguments, "Fill gaps with pods that request nothing, and with short jobs."),
)

_QUEUE_HOOKS = ("queue_key", "overused", "allocatable", "enqueueable")

_PLUGINS: tuple[tuple[str, type[Arguments], tuple[str, ...], str], ...] = (
    ("priority", Arguments, ("job_key", "task_key", "preemptable"), "Jobs and tasks of higher priority go first."),
    (
        "gang",
        Arguments,
        ("job_key", "job_valid", "job_ready"),
        "A job is placed with its whole minimum or not at all, and never loses a part of it.",
    ),
    ("conformance", Arguments, ("preemptable", "reclaimable"), "System pods are never evicted."),
    (
        "drf",
        args.DrfArguments,
        ("namespace_key", "job_key", "preemptable"),
        "Dominant resource fairness: the namespace, then the job, with the least share goes first.",
    ),
    ("predicates", Arguments, ("feasible",), "Where a pod may run, by the rules of Kubernetes."),
    (
        "proportion",
        args.ProportionArguments,
        _QUEUE_HOOKS,
        "Queues share the cluster by weight, between guarantee and capability.",
    ),
    ("capacity", Arguments, _QUEUE_HOOKS, "Queues deserve what is written on them."),
    (
        "nodeorder",
        args.NodeOrderArguments,
        ("score", "reserve_score"),
        "Which node is best, by several views.",
    ),
    (
        "binpack",
        args.BinPackArguments,
        ("score",),
        "Prefer the fullest node that fits, to keep others whole.",
    ),
    ("devices", args.DevicesArguments, ("feasible", "job_valid"), "Choose devices by class, and nodes that have them."),
    ("fgd", args.FgdArguments, ("score",), "Place GPU pods where they fragment the GPUs least."),
)
