"""Which actions and plugins a policy may name, what each is for, and which arguments it takes.

The actions are declared here. A plugin's class says all that is in its entry, built in or external: see `Registry`.
"""

from __future__ import annotations

from collections.abc import Collection, Mapping
from dataclasses import dataclass
from types import MappingProxyType

from fairway.api import arguments as args
from fairway.api.hooks import HOOKS
from fairway.api.settings import Arguments, did_you_mean, settings_of
from fairway.errors import InputError

FLAGS: Mapping[str, str] = MappingProxyType({hook.flag: hook.name for hook in HOOKS.values() if hook.flag})
"""The flag that switches a hook of a plugin off, and the hook. A flag that is not given is true."""

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
    settings_of(entry.arguments)  # a declaration with an error fails here, not when a policy is read
    entries[entry.name] = entry


def catalog_of_actions() -> Catalog:
    """The actions; a new catalog each time, to which the registry adds the plugins."""
    catalog = Catalog()
    for name, arguments, meaning in _ACTIONS:
        catalog.register_action(name, arguments, meaning)
    return catalog


_ACTIONS: tuple[tuple[str, type[Arguments], str], ...] = (
    ("enqueue", args.EnqueueArguments, "Admit a job when its queue and the cluster can take its minimum."),
    ("reserve", args.ReserveArguments, "Reserve nodes for jobs that have waited too long and fit nowhere."),
    ("allocate", args.AllocateArguments, "Place pending jobs: fair between queues, then namespaces, then jobs."),
    ("preempt", args.PreemptArguments, "Evict inside a queue for jobs that are entitled to the capacity."),
    (
        "reclaim",
        args.EvictionArguments,
        "Evict in queues that have more allocated than they deserve, for queues that have less.",
    ),
    ("backfill", args.BackfillArguments, "Fill gaps with pods that request nothing, and with short jobs."),
)
