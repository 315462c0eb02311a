"""The policy: which actions run, in which order, and which plugins they ask, tier by tier.

The file has the format that Volcano users know (`actions`, `tiers` of `plugins` with `enable...` flags and
`arguments`, `configurations`). Unlike there, a name, flag, argument, type or range that cannot be meant is an
error that says where, and all errors of a file are reported together. What a file leaves out (`actions`,
`tiers`, any argument or flag) is as in the default policy.
"""

from __future__ import annotations

from collections.abc import Collection, Iterator, Mapping
from dataclasses import dataclass, field
from pathlib import Path

from fairway.api.arguments import (
    FLAG_ALIASES,
    FLAGS,
    BackfillArguments,
    Catalog,
    CatalogEntry,
    EvictionArguments,
    ReserveArguments,
)
from fairway.api.hand_written import Marked, read_document, read_text
from fairway.api.peers import ALWAYS_CHECKED, COMPATIBILITY, instead_of, peer_of, volcano_has
from fairway.api.settings import Arguments, describe, read_arguments, shortened
from fairway.api.shape import Finding, did_you_mean
from fairway.api.validation.labels import check_key
from fairway.errors import PolicyError, Problem

DEFAULT_ACTIONS = ("enqueue", "reserve", "allocate", "reclaim", "backfill")
DEFAULT_TIERS = (
    ("priority", "gang", "conformance"),
    ("drf", "predicates", "proportion", "nodeorder", "devices"),
)
BUILT_IN = "built-in policy"
EXCLUDED_TAINTS = (
    "node-role.kubernetes.io/control-plane",
    "node-role.kubernetes.io/master",
    "node.kubernetes.io/*",
    "node.cloudprovider.kubernetes.io/uninitialized",
    "ToBeDeletedByClusterAutoscaler",
)
"""Taints of nodes that ordinary pods cannot use: the capacity of these nodes is not divided among queues."""
EXCLUSIVE = (("proportion", "capacity"),)
"""Pairs of plugins that answer the same question differently."""

_KEYS = ("actions", "tiers", "configurations", "compatibility", "topology", "capacity")

_NO_EFFECT = {
    ("gang", "enablePreemptable"): "a gang is always evicted whole or not at all",
    ("gang", "enableReclaimable"): "a gang is always evicted whole or not at all",
    ("proportion", "enableReclaimable"): "reclaim always takes from queues above what they deserve, and from no others",
    ("capacity", "enableReclaimable"): "reclaim always takes from queues above what they deserve, and from no others",
}
"""Why a flag that is often set has no effect."""


@dataclass(frozen=True, slots=True)
class ActionConfig:
    """An action to run, with its arguments."""

    name: str
    arguments: Arguments
    line: int = field(default=0, compare=False)
    """Where it is named; 0 if it comes from the default policy."""
    lines: Mapping[str, int] = field(default_factory=dict, compare=False)
    """The line of each argument that is given."""


@dataclass(frozen=True, slots=True)
class PluginConfig:
    """A plugin to use, with its arguments and the hooks at which it is disabled."""

    name: str
    arguments: Arguments
    disabled: frozenset[str] = frozenset()
    line: int = field(default=0, compare=False)
    lines: Mapping[str, int] = field(default_factory=dict, compare=False)
    """The line of each argument and flag that is given."""

    def enabled(self, hook: str) -> bool:
        """Whether the policy enables the plugin at this hook."""
        return hook not in self.disabled

    def flag(self, name: str) -> bool:
        """The value of an `enable...` flag."""
        return self.enabled(FLAGS[name])


@dataclass(frozen=True, slots=True)
class Policy:
    """A whole policy. Two are equal if they mean the same, wherever they were written."""

    actions: tuple[ActionConfig, ...]
    tiers: tuple[tuple[PluginConfig, ...], ...]
    source: str = field(default=BUILT_IN, compare=False)
    topology_levels: tuple[str, ...] = ()
    """Node labels that divide the cluster into domains, widest first."""
    excluded_taints: tuple[str, ...] = EXCLUDED_TAINTS
    """Keys of taints of nodes that do not count towards the cluster's total; a trailing `*` matches any rest."""
    warnings: tuple[str, ...] = field(default=(), compare=False)
    """Settings of the file that have no effect, each with its place."""
    compatible: bool = False
    """`compatibility: volcano`: groups are admitted as in Volcano, and nothing is evicted for pods above the minimum.
    """
    no_reservations: str = ""
    """Why a driver cannot write Reservations; none is made then. Not part of a policy file."""

    def action(self, name: str) -> ActionConfig | None:
        return next((action for action in self.actions if action.name == name), None)

    def arguments(self, action: str) -> Arguments:
        """The arguments of an action; default arguments if the policy does not have the action."""
        config = self.action(action)
        return Arguments() if config is None else config.arguments

    @property
    def reserve(self) -> ReserveArguments | None:
        """How the policy reserves; None if it does not."""
        arguments = self.arguments("reserve")
        return arguments if isinstance(arguments, ReserveArguments) else None

    @property
    def backfill(self) -> BackfillArguments | None:
        """How the policy backfills; None if it does not."""
        arguments = self.arguments("backfill")
        return arguments if isinstance(arguments, BackfillArguments) else None

    @property
    def nomination_timeout(self) -> int:
        """In seconds: the longest that an evicting action of the policy allows."""
        evicting = [self.arguments(name) for name in ("preempt", "reclaim")]
        timeouts = [each.nomination_timeout for each in evicting if isinstance(each, EvictionArguments)]
        return max(timeouts, default=EvictionArguments().nomination_timeout)

    def plugin(self, name: str) -> PluginConfig | None:
        return next((plugin for plugin in self.plugins() if plugin.name == name), None)

    def plugins(self) -> Iterator[PluginConfig]:
        """All plugins, tier by tier."""
        for tier in self.tiers:
            yield from tier

    def origin(self, line: int) -> str:
        """Where something came from: `file:line`, or `default`."""
        return f"{self.source}:{line}" if line else "default"


def default_policy(catalog: Catalog) -> Policy:
    """A fair default: gangs start whole, starving jobs are served, idle shares are lent and reclaimed."""
    actions = tuple(ActionConfig(name, catalog.actions[name].arguments()) for name in DEFAULT_ACTIONS)
    tiers = tuple(
        tuple(PluginConfig(name, catalog.plugins[name].arguments()) for name in tier) for tier in DEFAULT_TIERS
    )
    return Policy(actions, tiers)


def parse_policy(text: str, source: str, catalog: Catalog) -> Policy:
    """The policy that `text` describes; PolicyError has every problem in it, in the order of lines."""
    reader = _PolicyReader(source, catalog)
    policy = reader.policy(text)
    if reader.problems:
        raise PolicyError(sorted(reader.problems, key=lambda problem: problem.line))
    return policy


def load_policy(path: str, catalog: Catalog) -> Policy:
    """The policy in a file."""
    return parse_policy(read_text(Path(path), "a policy"), path, catalog)


@dataclass(frozen=True, slots=True)
class _Named:
    """An action or plugin as the file names it, its arguments not yet read."""

    name: str
    path: str
    line: int
    arguments: Mapping[str, Marked]


class _PolicyReader:
    """Reads one file; it records every problem and continues."""

    def __init__(self, source: str, catalog: Catalog) -> None:
        self.problems: list[Problem] = []
        self.warnings: list[Problem] = []
        self._compatible = False
        """Whether Volcano's names without a counterpart are omitted instead of refused."""
        self._source = source
        self._catalog = catalog
        self._overcommit: _Named | None = None
        """Volcano's plugin of that name, whose argument the enqueue action takes over."""

    def policy(self, text: str) -> Policy:
        default = default_policy(self._catalog)
        document = read_document(text, self._source, self.problems)
        if document is None:
            return default
        root = document.marked()
        self._read_compatibility(root)
        keys = self._map(root, "", _KEYS, "key")
        levels = self._levels(keys["topology"]) if "topology" in keys else ()
        excluded = self._excluded_taints(keys["capacity"]) if "capacity" in keys else EXCLUDED_TAINTS
        configurations = self._configurations(keys)
        tiers = self._tiers(keys["tiers"]) if "tiers" in keys else default.tiers
        if "actions" in keys:
            named = self._named_actions(keys["actions"])
        else:
            named = [_Named(action.name, "actions", 0, {}) for action in default.actions]
        actions = tuple(self._action(item, configurations.pop(item.name, None)) for item in named)
        for left in configurations.values():
            self._problem(left.line, left.path, f"{left.name!r} is not among the actions of this policy")
            self._action(left, None)
        warnings = tuple(str(problem) for problem in sorted(self.warnings, key=lambda problem: problem.line))
        return Policy(actions, tiers, self._source, levels, excluded, warnings, compatible=self._compatible)

    def _read_compatibility(self, root: Marked) -> None:
        given = root.value.get("compatibility") if isinstance(root.value, dict) else None
        if given is None:
            return
        self._compatible = given.value == "volcano"
        if not self._compatible:
            self._problem(given.line, "compatibility", f"{describe(given)} is not allowed, expected the text 'volcano'")

    def _levels(self, given: Marked) -> tuple[str, ...]:
        keys = self._map(given, "topology", ("levels",), "key")
        levels: list[str] = []
        for path, item in self._items(keys.get("levels"), "topology.levels"):
            findings: list[Finding] = []
            if isinstance(item.value, str):
                check_key(item.value, (), findings)
            if findings or not isinstance(item.value, str):
                self._problem(item.line, path, f"{describe(item)} is not allowed, expected the key of a node label")
            elif item.value in levels:
                self._problem(item.line, path, f"{item.value!r} is listed twice")
            else:
                levels.append(item.value)
        return tuple(levels)

    def _excluded_taints(self, given: Marked) -> tuple[str, ...]:
        keys = self._map(given, "capacity", ("excludedTaints",), "key")
        if "excludedTaints" not in keys:
            return EXCLUDED_TAINTS
        found: list[str] = []
        for path, item in self._items(keys["excludedTaints"], "capacity.excludedTaints"):
            findings: list[Finding] = []
            if isinstance(item.value, str):
                check_key(item.value.removesuffix("*") + "x" * item.value.endswith("*"), (), findings)
            if findings or not isinstance(item.value, str):
                expected = "the key of a taint, or the beginning of one followed by *"
                self._problem(item.line, path, f"{describe(item)} is not allowed, expected {expected}")
            elif item.value in found:
                self._problem(item.line, path, f"{item.value!r} is listed twice")
            else:
                found.append(item.value)
        return tuple(found)

    def _configurations(self, keys: Mapping[str, Marked]) -> dict[str, _Named]:
        """Arguments of actions that are given apart from the list of actions, by action."""
        found: dict[str, _Named] = {}
        for path, item in self._items(keys.get("configurations"), "configurations"):
            named = self._named(item, path, "action")
            if named is not None and self._first(named, found, "action"):
                found[named.name] = named
        return found

    def _named_actions(self, given: Marked) -> list[_Named]:
        if isinstance(given.value, str):
            parts = [part.strip() for part in given.value.split(",")]
            items = [("actions", Marked(given.line, part)) for part in parts]
        else:
            items = list(self._items(given, "actions"))
        found: dict[str, _Named] = {}
        for path, item in items:
            if isinstance(item.value, str):
                known = self._known(item.value, "action", item.line, path)
                named = _Named(item.value, path, item.line, {}) if known else None
            else:
                named = self._named(item, path, "action")
            if named is not None and self._first(named, found, "action"):
                found[named.name] = named
        if given.value == ():
            self._problem(given.line, "actions", "no action is named, expected at least one")
        return list(found.values())

    def _action(self, named: _Named, configured: _Named | None) -> ActionConfig:
        sources = [named] if configured is None else [named, configured]
        if named.name == "enqueue" and self._overcommit is not None:
            sources.append(self._overcommit)
        arguments, lines = self._arguments(self._catalog.actions[named.name], sources)
        return ActionConfig(named.name, arguments, named.line, lines)

    def _tiers(self, given: Marked) -> tuple[tuple[PluginConfig, ...], ...]:
        found: dict[str, _Named] = {}
        tiers = tuple(
            tuple(self._plugins(self._map(tier, path, ("plugins",), "key"), tier, path, found))
            for path, tier in self._items(given, "tiers")
        )
        for one, other in EXCLUSIVE:
            if one in found and other in found:
                first, second = sorted((found[one], found[other]), key=lambda named: named.line)
                message = f"{second.name} cannot be used together with {first.name} (line {first.line})"
                self._problem(second.line, second.path, message)
        return tiers

    def _plugins(
        self, keys: Mapping[str, Marked], tier: Marked, path: str, found: dict[str, _Named]
    ) -> Iterator[PluginConfig]:
        if "plugins" not in keys and isinstance(tier.value, dict):
            self._problem(tier.line, path, "a tier without plugins, expected a list of them")
        for place, item in self._items(keys.get("plugins"), f"{path}.plugins"):
            if self._compatible and self._take_overcommit(item, place):
                continue
            named = self._named(item, place, "plugin", flags=True)
            if named is not None and self._first(named, found, "plugin"):
                found[named.name] = named
                assert isinstance(item.value, dict)
                yield self._plugin(named, item.value)

    def _take_overcommit(self, item: Marked, path: str) -> bool:
        """Volcano's plugin overcommit is part of enqueue here; its factor becomes enqueue's."""
        given = item.value if isinstance(item.value, dict) else {}
        name, arguments = given.get("name"), given.get("arguments")
        if name is None or name.value != "overcommit":
            return False
        values = arguments.value if arguments is not None and isinstance(arguments.value, dict) else {}
        factors = {key: _number(value) for key, value in values.items() if key == "overcommit-factor"}
        self._overcommit = _Named("overcommit", path, name.line, factors)
        if factors:
            said = "is read as the argument overcommitFactor of the enqueue action"
        else:
            said = "is a part of the enqueue action here: see its argument overcommitFactor"
        self._warn(name.line, f"{path}.name", f"overcommit is a Volcano plugin; it {said}")
        return True

    def _plugin(self, named: _Named, keys: Mapping[str, Marked]) -> PluginConfig:
        arguments, lines = self._arguments(self._catalog.plugins[named.name], [named])
        disabled = set()
        for key, entry in keys.items():
            flag = FLAG_ALIASES.get(key, key)
            if flag not in FLAGS:
                continue
            if flag in lines:
                self._problem(entry.line, f"{named.path}.{key}", f"given twice, first in line {lines[flag]}")
            lines[flag] = entry.line
            if flag not in self._catalog.plugins[named.name].flags:
                why = _NO_EFFECT.get((named.name, flag), f"{named.name} has no such hook")
                self._warn(entry.line, f"{named.path}.{key}", f"has no effect: {why}")
            if entry.value is False:
                disabled.add(FLAGS[flag])
            elif entry.value is not True:
                message = f"{describe(entry)} is not allowed, expected true or false"
                self._problem(entry.line, f"{named.path}.{key}", message)
        return PluginConfig(named.name, arguments, frozenset(disabled), named.line, lines)

    def _arguments(self, entry: CatalogEntry, sources: list[_Named]) -> tuple[Arguments, dict[str, int]]:
        """The arguments from every place in the file that gives some; an argument may be given once."""
        given: dict[str, Marked] = {}
        places: dict[str, str] = {}
        for source in sources:
            for key, value in source.arguments.items():
                place = f"{source.path}.arguments.{key}"
                if entry.name == "predicates" and key in ALWAYS_CHECKED:
                    if value.value is False or value.value == "false":
                        self._warn(value.line, place, "has no effect: predicates always makes this check")
                elif key in given:
                    self._problem(value.line, place, f"given twice, first in line {given[key].line}")
                else:
                    given[key], places[key] = value, place
        return read_arguments(
            entry.arguments,
            given,
            lambda line, key, message: self._unknown("argument", key, line, places[key], message),
        )

    def _named(self, item: Marked, path: str, kind: str, *, flags: bool = False) -> _Named | None:
        """`{name, arguments}` and, for plugins, flags; None if the name is unknown."""
        known = ("name", "arguments", *FLAGS, *FLAG_ALIASES) if flags else ("name", "arguments")
        keys = self._map(item, path, known, "flag" if flags else "key")
        name = keys.get("name")
        if name is None or not isinstance(name.value, str):
            if isinstance(item.value, dict):
                wrong = "no name" if name is None else f"{describe(name)} is not a name"
                self._problem(item.line, path, f"{wrong}, expected the {kind}'s name")
            return None
        if not self._known(name.value, kind, name.line, f"{path}.name"):
            return None
        arguments = keys.get("arguments")
        given: Mapping[str, Marked] = {}
        if arguments is not None and arguments.value is not None:
            given = self._map(arguments, f"{path}.arguments", None, "argument")
        return _Named(name.value, path, name.line, given)

    def _known(self, name: str, kind: str, line: int, path: str) -> bool:
        entries = self._catalog.actions if kind == "action" else self._catalog.plugins
        if name in entries:
            return True
        if kind == "plugin" and name in self._catalog.broken:
            self._problem(line, path, self._catalog.broken[name])
            return False
        unknown = f"unknown {kind} {shortened(name)!r}{did_you_mean(name, entries)}"
        self._unknown(kind, name, line, path, peer_of(kind, name) or unknown if name else "a name is missing")
        return False

    def _first(self, named: _Named, found: Mapping[str, _Named], kind: str) -> bool:
        if named.name not in found:
            return True
        message = f"the {kind} {named.name!r} is named twice, first in line {found[named.name].line}"
        self._problem(named.line, named.path, message)
        return False

    def _map(self, given: Marked, path: str, known: Collection[str] | None, kind: str) -> dict[str, Marked]:
        """The entries of a map; unknown keys are reported and omitted."""
        if not isinstance(given.value, dict):
            expected = f"a map with {' and '.join(known)}" if known and len(known) < 4 else "a map"
            self._problem(given.line, path, f"{describe(given)} is not allowed, expected {expected}")
            return {}
        if known is None:
            return given.value
        for key, entry in given.value.items():
            if key not in known:
                message = peer_of(kind, key) or f"unknown {kind} {shortened(key)!r}{did_you_mean(key, known)}"
                self._unknown(kind, key, entry.line, path, message)
        return {key: entry for key, entry in given.value.items() if key in known}

    def _items(self, given: Marked | None, path: str) -> Iterator[tuple[str, Marked]]:
        """The items of a list, each with its path."""
        if given is None:
            return
        if not isinstance(given.value, tuple):
            self._problem(given.line, path, f"{describe(given)} is not allowed, expected a list")
            return
        for index, item in enumerate(given.value):
            yield f"{path}[{index}]", item

    def _unknown(self, kind: str, name: str, line: int, path: str, message: str) -> None:
        """An error, unless the policy asks for compatibility and the name is one of Volcano's."""
        if not volcano_has(kind, name) or message != peer_of(kind, name):
            self._problem(line, path, message)
        elif self._compatible:
            self._warn(line, path, instead_of(kind, name))
        else:
            self._problem(line, path, f"{message}; {COMPATIBILITY}")

    def _warn(self, line: int, path: str, message: str) -> None:
        self.warnings.append(Problem(self._source, line, path, message))

    def _problem(self, line: int, path: str, message: str) -> None:
        self.problems.append(Problem(self._source, line, path, message))


def _number(given: Marked) -> Marked:
    """Volcano accepts numbers that are written as text."""
    try:
        return Marked(given.line, float(given.value)) if isinstance(given.value, str) else given
    except ValueError:
        return given
