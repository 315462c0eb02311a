"""Policies as data: written out whole, and changed setting by setting."""

from __future__ import annotations

from dataclasses import replace
from itertools import product
from typing import Any

import msgspec

from fairway.api.arguments import FLAGS, Catalog
from fairway.api.hand_written import read_document
from fairway.api.policy import ActionConfig, PluginConfig, Policy, parse_policy
from fairway.errors import InputError, Problem
from fairway.sim.limits import MAX_RUNS


def policy_text(policy: Policy) -> str:
    """An equivalent policy file, with every default written out."""
    return msgspec.json.format(msgspec.json.encode(_data(policy)), indent=1).decode() + "\n"


def parse_settings(given: list[str]) -> dict[str, list[Any]]:
    """`reserve.reservedNodePercent=10,30,50`: which values to try for which setting."""
    found: dict[str, list[Any]] = {}
    for text in given:
        path, sign, values = text.partition("=")
        if not sign or path.count(".") != 1 or not values:
            raise InputError(f"--set {text!r}: expected action-or-plugin.argument=value,value,...")
        if path in found:
            raise InputError(f"--set {path}: given twice")
        found[path] = [_value(path, value) for value in values.split(",")]
    return found


def _value(path: str, text: str) -> Any:
    problems: list[Problem] = []
    document = read_document(text, "", problems)
    if document is None:
        raise InputError(f"--set {path}: {text!r} is not a value, expected for example 30 or true")
    return document.data


def combinations(settings: dict[str, list[Any]], seeds: int = 1) -> list[dict[str, Any]]:
    """Every combination of one value for each setting, in the given order; each is run with `seeds` seeds."""
    size = seeds
    for values in settings.values():
        size *= len(values)
    if size > MAX_RUNS:
        raise InputError(f"{size} runs, expected at most {MAX_RUNS}")
    return [dict(zip(settings, chosen, strict=True)) for chosen in product(*settings.values())]


def with_settings(policy: Policy, chosen: dict[str, Any], catalog: Catalog) -> Policy:
    """The policy with these arguments changed; PolicyError names invalid ones."""
    data = _data(policy)
    entries = {entry["name"]: entry for entry in data["actions"]}
    entries |= {entry["name"]: entry for tier in data["tiers"] for entry in tier["plugins"]}
    for path, value in chosen.items():
        name, argument = path.split(".")
        if name not in entries:
            raise InputError(f"--set {path}: the policy has no action or plugin {name!r}, it has {', '.join(entries)}")
        entries[name]["arguments"][argument] = value
    source = ", ".join(f"{path}={value}" for path, value in chosen.items()) or policy.source
    return parse_policy(msgspec.json.encode(data).decode(), source, catalog)


def with_estimate(policy: Policy, estimate: Any) -> Policy:
    """The policy with another `estimate` for backfill; InputError if backfill does not accept it."""
    changed = [_estimating(action, estimate) if action.name == "backfill" else action for action in policy.actions]
    return replace(policy, actions=tuple(changed))


def _estimating(action: ActionConfig, estimate: Any) -> ActionConfig:
    data = {**msgspec.to_builtins(action.arguments), "estimate": estimate}
    try:
        return replace(action, arguments=msgspec.convert(data, type(action.arguments)))
    except msgspec.ValidationError:
        raise InputError(f"estimate: {estimate!r} is not one that backfill takes") from None


def _data(policy: Policy) -> dict[str, Any]:
    topology = {"topology": {"levels": list(policy.topology_levels)}} if policy.topology_levels else {}
    compatibility = {"compatibility": "volcano"} if policy.compatible else {}
    return {
        **compatibility,
        **topology,
        "capacity": {"excludedTaints": list(policy.excluded_taints)},
        "actions": [_entry(action) for action in policy.actions],
        "tiers": [{"plugins": [_plugin(plugin) for plugin in tier]} for tier in policy.tiers],
    }


def _entry(config: ActionConfig | PluginConfig) -> dict[str, Any]:
    return {"name": config.name, "arguments": msgspec.to_builtins(config.arguments)}


def _plugin(plugin: PluginConfig) -> dict[str, Any]:
    return _entry(plugin) | {flag: False for flag, hook in FLAGS.items() if hook in plugin.disabled}
