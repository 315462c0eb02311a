"""The plugins of a policy, and their hooks tier by tier.

Plugins are made again for every cycle, so that a plan that is read late still asks the plugins it was made with. Which
of them have which hooks is the same in every cycle of a policy, and is found out once (`Layout`).
"""

from __future__ import annotations

from collections.abc import Callable
from functools import lru_cache
from typing import Any

from fairway.api.hooks import COLUMN_HOOKS, HOOKS
from fairway.api.policy import PluginConfig, Policy
from fairway.scheduler.framework.combining import COMBINERS
from fairway.scheduler.framework.guard import Failures, guarded, has
from fairway.scheduler.framework.read_only import shown
from fairway.scheduler.framework.registry import Registry

Dropped = frozenset[tuple[str, str]]
"""(plugin, hook) pairs that are left out of a cycle, for they have failed in it."""


class Layout:
    """What is the same in every cycle: the plugins' classes in the order of the tiers, and which has which hook."""

    def __init__(self, configs: tuple[PluginConfig, ...], registry: Registry) -> None:
        self.configs = configs
        self._classes = tuple(registry.plugin_class(config.name) for config in configs)
        self.built_in = tuple(registry.is_built_in(config.name) for config in configs)
        self.only_built_in = all(self.built_in)
        self.external_classes = tuple(c for c, ours in zip(self._classes, self.built_in, strict=True) if not ours)
        self._hooks: dict[str, tuple[int, ...]] = {}

    def having(self, hook: str) -> tuple[int, ...]:
        """The places of the plugins that have a hook and may use it."""
        found = self._hooks.get(hook)
        if found is None:
            switch = HOOKS[hook].switch
            found = self._hooks[hook] = tuple(
                place
                for place, (config, plugin) in enumerate(zip(self.configs, self._classes, strict=True))
                if config.enabled(switch) and has(plugin, hook)
            )
        return found

    def only_built_in_have(self, *hooks: str) -> bool:
        return self.only_built_in or all(
            ours or not any(has(plugin, hook) for hook in hooks)
            for ours, plugin in zip(self.built_in, self._classes, strict=True)
        )


@lru_cache(maxsize=16)
def layout_of(policy: _Key, registry: Registry) -> Layout:
    return Layout(tuple(policy.policy.plugins()), registry)


class _Key:
    """A policy by identity: policies are immutable, and comparing two costs more than a look-up should."""

    __slots__ = ("policy",)

    def __init__(self, policy: Policy) -> None:
        self.policy = policy

    def __eq__(self, other: object) -> bool:
        return isinstance(other, _Key) and other.policy is self.policy

    def __hash__(self) -> int:
        return id(self.policy)


class PluginSet:
    """The plugins of one cycle."""

    def __init__(self, policy: Policy, registry: Registry, dropped: Dropped) -> None:
        self.failures = Failures(registry.stopwatch, dropped)
        self._dropped = dropped
        self._layout = layout_of(_Key(policy), registry)
        self._plugins = [registry.build(config, self.failures) for config in self._layout.configs]
        self.has_external = not self._layout.only_built_in
        self._as_they_are = not dropped and not self.has_external
        self.only_built_in_have = self._layout.only_built_in_have
        self.identity = (policy.tiers, dropped, self._layout.external_classes)
        """What tells apart two sets whose answers may differ."""

    def open(self, session: Any) -> None:
        """A cycle begins."""
        for place in self._layout.having("open"):
            plugin, name = self._plugins[place], self._layout.configs[place].name
            if self._layout.built_in[place]:
                plugin.open(session)
            else:
                self.failures.attempt(name, lambda plugin=plugin: plugin.open(shown(session)))  # type: ignore[misc]

    def hooks(self, name: str) -> list[Callable[..., Any]]:
        """The implementations of a hook, those switched off or dropped left out."""
        if self._as_they_are:
            plugins = self._plugins
            return [getattr(plugins[place], name) for place in self._layout.having(name)]
        return [self._call(place, name) for place in self._asked(name)]

    def combined(self, name: str) -> Callable[..., Any]:
        """The hook of all plugins as one, their answers combined as the table of hooks says."""
        return COMBINERS[HOOKS[name].combination](self.hooks(name))

    def external(self, name: str) -> list[Callable[..., Any]]:
        """What plugins of others have to say at a hook."""
        return [self._call(place, name) for place in self._asked(name) if not self._layout.built_in[place]]

    def by_plugin(self, hook: str) -> dict[str, Callable[..., Any]]:
        """The implementations of a hook by the names of the plugins that have a say at it."""
        return {self._layout.configs[place].name: self._call(place, hook) for place in self._asked(hook)}

    def external_names(self, *hooks: str) -> list[str]:
        """The plugins of others that have a say at one of these hooks."""
        places = sorted({place for hook in hooks for place in self._asked(hook) if not self._layout.built_in[place]})
        return [self._layout.configs[place].name for place in places]

    def trend(self) -> int | None:
        """How the sum of the scores of a node moves as the node fills, if all agree (see `hooks.Scores`)."""
        if not self.only_built_in_have("feasible"):
            return None  # whether a node is feasible may change with every task on it
        trends = {self._trend(place) for place in self._asked("score")} - {0}
        return trends.pop() if len(trends) == 1 else None

    def _trend(self, place: int) -> int | None:
        plugin = self._plugins[place]
        found = getattr(plugin, "trend", None) if self._layout.built_in[place] or has(plugin, "trend") else None
        return found if type(found) is int and found in (-1, 0, 1) else None

    def keeps_columns(self) -> bool:
        """Whether all that has a say on nodes tells what its answers rest on: then columns can be kept. A built-in
        plugin that does not tell rests on shape and node alone.
        """
        told = set(self._asked("basis"))
        ours = self._layout.built_in
        return all(ours[place] or place in told for hook in COLUMN_HOOKS for place in self._asked(hook))

    def _asked(self, hook: str) -> tuple[int, ...]:
        places = self._layout.having(hook)
        if not self._dropped:
            return places
        return tuple(place for place in places if (self._layout.configs[place].name, hook) not in self._dropped)

    def _call(self, place: int, hook: str) -> Callable[..., Any]:
        if self._layout.built_in[place]:
            call: Callable[..., Any] = getattr(self._plugins[place], hook)
            return call
        return guarded(self._layout.configs[place].name, hook, self._plugins[place], self.failures)
