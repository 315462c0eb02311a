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

from collections.abc import Iterable
from functools import lru_cache
from importlib.metadata import EntryPoint, entry_points
from typing import Any

from fairway.api.catalog import FLAGS, Catalog, builtin_catalog
from fairway.api.policy import PluginConfig
from fairway.api.settings import Arguments
from fairway.errors import InputError
from fairway.scheduler.guard import Failures

GROUP = "fairway.plugins"


class Registry:
    """Which class stands behind a plugin's name, and the catalog that a policy is checked against."""

    def __init__(self, classes: dict[str, type[Any]], strangers: Iterable[type[Any]] = ()) -> None:
        self.catalog: Catalog = builtin_catalog()
        self._classes = dict(classes)
        for stranger in strangers:
            self.add(stranger)

    def add(self, plugin: type[Any]) -> None:
        """Register a plugin class of somebody else."""
        name = getattr(plugin, "name", None)
        if not isinstance(name, str) or not name:
            raise InputError(f"plugin {plugin!r} has no name, expected a class attribute `name`")
        hooks = [hook for hook in FLAGS.values() if hasattr(plugin, hook)]
        arguments = getattr(plugin, "Arguments", Arguments)
        self.catalog.register_plugin(name, arguments, _meaning(plugin), hooks)
        self._classes[name] = plugin

    def plugin_class(self, name: str) -> type[Any]:
        return self._classes[name]

    def build(self, config: PluginConfig, failures: Failures) -> Any:
        """A fresh plugin for one cycle. The class stands in for one that cannot be made: it still has the hooks."""
        plugin = self._classes[config.name]
        if getattr(plugin, "built_in", False):
            return plugin(config.arguments)
        made: list[Any] = []
        failures.attempt(config.name, lambda: made.append(plugin(config.arguments)))
        return made[0] if made else plugin


@lru_cache(maxsize=1)
def default_registry() -> Registry:
    """Our own plugins and all that are installed."""
    from fairway.scheduler.plugins import BUILT_IN

    return Registry(BUILT_IN, [_load(point) for point in sorted(entry_points(group=GROUP))])


def _load(point: EntryPoint) -> type[Any]:
    try:
        plugin = point.load()
    except Exception as error:  # somebody else's import may raise anything
        raise InputError(f"plugin {point.name} ({point.value}) cannot be loaded: {error}") from error
    if not isinstance(plugin, type):
        raise InputError(f"plugin {point.name} ({point.value}) is not a class")
    return plugin


def _meaning(plugin: type[Any]) -> str:
    return (plugin.__doc__ or "").strip().split("\n")[0] or "No description."
