"""Plugins by name: our own, and those that other packages offer under the entry point group `fairway.plugins`.

An entry point names a class:

    class Spicy:
        name = "spicy"
        Arguments = SpicyArguments      # a fairway.api.settings.Arguments; may be left out
        def __init__(self, arguments): ...
        def score(self, shape, nodes): ...

It is registered in the catalog like our own, so its arguments are checked, shown and documented the same way.
"""

from __future__ import annotations

from collections.abc import Iterable, Mapping
from typing import Any

from fairway.api.catalog import FLAGS, Catalog, catalog_of_actions
from fairway.api.hooks import HOOKS
from fairway.api.policy import PluginConfig
from fairway.api.settings import Arguments
from fairway.errors import InputError
from fairway.scheduler.framework.guard import Failures, Stopwatch, has


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

    def build(self, config: PluginConfig, failures: Failures) -> Any:
        """A fresh plugin for one cycle. The class stands in for one that cannot be made: it still has the hooks."""
        plugin = self._classes[config.name]
        if config.name in self._built_in:
            return plugin(config.arguments)
        made: list[Any] = []
        failures.attempt(config.name, lambda: made.append(plugin(config.arguments)))
        return made[0] if made else plugin


def _meaning(plugin: type[Any]) -> str:
    return (plugin.__doc__ or "").strip().split("\n")[0] or "No description."
