"""Volcano's scheduler configuration as the text of a policy: found in its ConfigMap, or given bare."""

from __future__ import annotations

import yaml

from fairway.api.marked_yaml import MAX_CHARACTERS
from fairway.errors import InputError

SUFFIX = ".conf"
_COMPATIBLE = "compatibility: volcano\n"


def volcano_configuration(text: str, source: str) -> str:
    """The configuration in a text, made a policy that leaves out what has no counterpart instead of refusing it."""
    if len(text) > MAX_CHARACTERS:
        raise InputError(f"{source}: {len(text)} characters, expected at most {MAX_CHARACTERS}")
    found = _unwrapped(text, source)
    return found if "compatibility:" in found else _COMPATIBLE + found


def _unwrapped(text: str, source: str) -> str:
    try:
        data = yaml.safe_load(text)
    except (yaml.YAMLError, ValueError, RecursionError):
        return text  # reading it as a policy says what is wrong, and where
    if not isinstance(data, dict) or data.get("kind") != "ConfigMap":
        return text
    entries = data.get("data")
    if not isinstance(entries, dict) or not all(isinstance(value, str) for value in entries.values()):
        raise InputError(f"{source}: data: expected a map of texts, one of them named volcano-scheduler{SUFFIX}")
    names = [name for name in entries if str(name).endswith(SUFFIX)]
    if len(names) != 1:
        listed = ", ".join(sorted(map(str, entries))) or "nothing"
        raise InputError(f"{source}: data: expected exactly one entry that ends in {SUFFIX}, there is {listed}")
    return str(entries[names[0]])
