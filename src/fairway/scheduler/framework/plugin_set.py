"""The plugins: by name (`Registry`), and those of a policy with their hooks tier by tier (`PluginSet`).

Other packages offer plugins under the entry point group `fairway.plugins`; an entry point names a class with a `name`,
its `Arguments` (which may be left out) and a method for each hook. It is registered in the catalog like a built-in one,
so its arguments are checked, shown and documented the same way. The answers of several plugins become one as the table
of hooks says (`COMBINERS`).

A cycle is explained by the plugins that decided it: no two sessions that are open use the same ones (see
`policy_parts`). Which of them have which hooks is the same in every cycle of a policy, and is determined once
(`Layout`).
"""

from __future__ import annotations

from collections.abc import Callable, Collection, Iterable, Mapping, Sequence
from functools import cached_property, lru_cache
from typing import Any

from fairway.api.arguments import FLAGS, Catalog, catalog_of_actions
from fairway.api.hooks import COLUMN_HOOKS, HOOKS, Combination
from fairway.api.policy import PluginConfig, Policy
from fairway.api.settings import Arguments
from fairway.errors import InputError
from fairway.scheduler.framework.accounts import QueueAccount
from fairway.scheduler.framework.external_plugins import Failures, Stopwatch, guarded, has, shown
from fairway.scheduler.framework.hooks import Key
from fairway.scheduler.verdict import STAGE, YES, Reason, Verdict
from fairway.state.shapes import Shape

Hooks = Sequence[Callable[..., Any]]


def _told(hooks: Hooks) -> Callable[..., None]:
    if len(hooks) == 1:
        return hooks[0]
    if not hooks:
        return lambda *_: None

    def tell(*arguments: Any) -> None:
        for hook in hooks:
            hook(*arguments)

    return tell


def _in_order(hooks: Hooks) -> Callable[..., Sequence[Key]]:
    """Asked after every step: the usual numbers of plugins are spelled out."""
    if not hooks:
        return lambda what: ()
    if len(hooks) == 1:
        only = hooks[0]
        return lambda what: (only(what),)
    if len(hooks) == 2:
        first, second = hooks
        return lambda what: (first(what), second(what))
    if len(hooks) == 3:
        first, second, third = hooks
        return lambda what: (first(what), second(what), third(what))
    return lambda what: [key(what) for key in hooks]


def _any(hooks: Hooks) -> Callable[..., bool]:
    if len(hooks) == 1:
        return hooks[0]
    return lambda *arguments: any(hook(*arguments) for hook in hooks)


def _all(hooks: Hooks) -> Callable[..., bool]:
    if len(hooks) == 1:
        return hooks[0]

    def ask(*arguments: Any) -> bool:
        for hook in hooks:  # noqa: SIM110 - asked several times for every step
            if not hook(*arguments):
                return False
        return True

    return ask


def _least(hooks: Hooks) -> Callable[..., int]:
    """The hook `allocatable`: each plugin is asked for what those before it left. Of one plugin the answer is held
    against the number once more: an external one may give a larger one.
    """
    if len(hooks) == 1:
        only = hooks[0]

        def ask_one(queue: QueueAccount, shape: Shape, count: int, lending: bool) -> int:
            found = only(queue, shape, count, lending)
            return int(found if found < count else count)

        return ask_one

    def ask(queue: QueueAccount, shape: Shape, count: int, lending: bool) -> int:
        for hook in hooks:
            count = min(count, hook(queue, shape, count, lending))
        return int(count)

    return ask


def _each_allows(hooks: Hooks) -> Callable[..., Verdict]:
    """The refusal that stands first in the table of reasons."""
    if len(hooks) == 1:
        return _allows(hooks[0])

    def ask(*arguments: Any) -> Verdict:
        refusals: list[Verdict] = []
        for hook in hooks:
            verdict = hook(*arguments)
            if not verdict.ok:
                refusals.append(verdict)
        return min(refusals, key=lambda verdict: STAGE[verdict.reason or Reason.PLUGIN_FAILED]) if refusals else YES

    return ask


def _allows(hook: Callable[..., Any]) -> Callable[..., Verdict]:
    def ask(*arguments: Any) -> Verdict:
        verdict: Verdict = hook(*arguments)
        return YES if verdict.ok else verdict

    return ask


def _first(hooks: Hooks) -> Callable[..., Any]:
    """None where no plugin has the hook."""
    return hooks[0] if hooks else lambda *_: None


def _each(hooks: Hooks) -> Callable[..., list[Any]]:
    return lambda *arguments: [hook(*arguments) for hook in hooks]


COMBINERS: dict[Combination, Callable[[Hooks], Callable[..., Any]]] = {
    Combination.TOLD: _told,
    Combination.IN_ORDER: _in_order,
    Combination.ANY: _any,
    Combination.ALL: _all,
    Combination.LEAST: _least,
    Combination.EACH_ALLOWS: _each_allows,
    Combination.FIRST: _first,
    Combination.EACH: _each,
}


class Registry:
    """Which class stands behind a plugin's name, and the catalog that a policy is checked against.

    `built_in` classes are trusted, whatever names they have; all that are added later are external.
    """

    def __init__(
        self,
        built_in: Mapping[str, type[Any]],
        external: Iterable[type[Any]] = (),
        stopwatch: Stopwatch | None = None,
    ) -> None:
        self.catalog: Catalog = catalog_of_actions()
        self.stopwatch = stopwatch
        self._built_in = frozenset(built_in)
        self._classes = dict(built_in)
        for name, plugin in built_in.items():
            self._describe(name, plugin)
        for plugin in external:
            self.add(plugin)

    def add(self, plugin: type[Any]) -> None:
        """Register an external plugin's class."""
        name = getattr(plugin, "name", None)
        if not isinstance(name, str) or not name:
            raise InputError(f"plugin {plugin!r} has no name, expected a class attribute `name`")
        self._describe(name, plugin)
        self._classes[name] = plugin

    def _describe(self, name: str, plugin: type[Any]) -> None:
        switches = {hook.switch for hook in HOOKS.values() if has(plugin, hook.name)}
        hooks = [hook for hook in FLAGS.values() if hook in switches]
        arguments = getattr(plugin, "Arguments", Arguments)
        self.catalog.register_plugin(name, arguments, _meaning(plugin), hooks)

    def is_built_in(self, name: str) -> bool:
        return name in self._built_in

    def plugin_class(self, name: str) -> type[Any]:
        return self._classes[name]


def _meaning(plugin: type[Any]) -> str:
    return (plugin.__doc__ or "").strip().split("\n")[0] or "No description."


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


@lru_cache(maxsize=256)
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
        self._stopwatch = registry.stopwatch
        self._dropped = dropped
        self._layout = layout_of(_Key(policy), registry)
        self._plugins = [self._build(config, registry) for config in self._layout.configs]
        self.has_external = not self._layout.only_built_in
        self._as_they_are = not dropped and not self.has_external
        self.only_built_in_have = self._layout.only_built_in_have
        self.identity = (policy.tiers, dropped, self._layout.external_classes)
        """What tells apart two sets whose answers may differ."""
        self.keeps_columns = self._keeps_columns()
        """Whether all that has a say on nodes tells what its answers rest on: then columns can be kept. A built-in
        plugin that does not tell rests on shape and node alone.
        """

    def _build(self, config: PluginConfig, registry: Registry) -> Any:
        """A fresh plugin for one cycle. The class stands in for one that cannot be made: it still has the hooks."""
        plugin = registry.plugin_class(config.name)
        if registry.is_built_in(config.name):
            return plugin(config.arguments)
        made: list[Any] = []
        self.failures.attempt(config.name, lambda: made.append(plugin(config.arguments)))
        return made[0] if made else plugin

    @cached_property
    def failures(self) -> Failures:
        """Of external plugins: an error of a built-in one is not caught."""
        return Failures(self._stopwatch, self._dropped)

    def failed(self) -> Collection[object]:
        """What has failed so far; it fills as the cycle goes on."""
        return self.failures.texts if self.has_external else ()

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

    def rests_on_amounts(self) -> bool:
        """Whether scores, and what is feasible, rest on nothing of a node but its labels, size and what is free there,
        for shapes without rules about pods, ports and devices.
        """
        scoring = (self._plugins[place] for place in self._asked("score"))
        ours = self.only_built_in_have("feasible_static", "score_static", "feasible", "score", "limit")
        return ours and all(getattr(plugin, "rests_on_amounts", False) for plugin in scoring)

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

    def _keeps_columns(self) -> bool:
        if not self.has_external:
            return True
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
