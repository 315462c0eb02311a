"""All plugins that a policy can name: the built-in ones, and those that installed packages offer."""

from __future__ import annotations

from functools import lru_cache
from importlib.metadata import EntryPoint, entry_points
from time import monotonic_ns

from fairway.errors import InputError
from fairway.scheduler.framework.external_plugins import Stopwatch, describe
from fairway.scheduler.framework.plugin_set import Registry
from fairway.scheduler.plugins import BUILT_IN

GROUP = "fairway.plugins"
"""The group of entry points."""


@lru_cache(maxsize=1)
def default_registry() -> Registry:
    """Our own plugins and all that are installed; the time that those take is measured."""
    registry = Registry(BUILT_IN, stopwatch=Stopwatch(monotonic_ns))
    for point in sorted(entry_points(group=GROUP)):
        install(registry, point)
    return registry


def install(registry: Registry, point: EntryPoint) -> None:
    """Add what an entry point offers. One that cannot be used is an error only to a policy that names it."""
    try:
        plugin = point.load()
        if not isinstance(plugin, type):
            raise InputError("it is not a class")
        registry.add(plugin)
    except KeyboardInterrupt:
        raise
    except BaseException as error:  # importing it runs external code, which may raise anything
        said = str(error) if isinstance(error, InputError) else describe(error)
        registry.catalog.register_broken(point.name, f"plugin {point.name} ({point.value}) cannot be used: {said}")
