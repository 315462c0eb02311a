"""Reads the `arguments` of a policy file into the typed struct that declares them, collecting every problem."""

from __future__ import annotations

from collections.abc import Callable, Mapping
from typing import Any

import msgspec

from fairway.api.marked_yaml import Marked
from fairway.api.peers import peer_of
from fairway.api.settings import Arguments, Setting, did_you_mean, settings_of

Complain = Callable[[int, str, str], None]
"""Takes the line, the argument's name as it was written, and what is wrong with it."""

NO_VALUE = object()


def read_arguments(
    kind: type[Arguments], given: Mapping[str, Marked], complain: Complain
) -> tuple[Arguments, dict[str, int]]:
    """The arguments with defaults filled in, and the line of each setting that was given."""
    reader = _ArgumentReader(kind, complain)
    for key, entry in given.items():
        reader.take(key, entry)
    return reader.arguments(), reader.lines


class _ArgumentReader:
    """What has been read so far of one action's or plugin's arguments."""

    def __init__(self, kind: type[Arguments], complain: Complain) -> None:
        self.lines: dict[str, int] = {}
        self._kind = kind
        self._settings = settings_of(kind)
        self._complain = complain
        self._values: dict[str, Any] = {}
        self._entries: dict[tuple[str, str], int] = {}
        """Line of each map entry that was given with a value."""

    def arguments(self) -> Arguments:
        return self._kind(**self._values)

    def take(self, key: str, entry: Marked) -> None:
        setting, entry_key = self._find(key)
        if setting is None:
            names = [name for known in self._settings.values() for name in known.names]
            unknown = peer_of("argument", key) or f"unknown argument{did_you_mean(key, names)}"
            self._complain(entry.line, key, unknown)
        elif setting.is_map:
            self._take_entries(setting, key, entry if entry_key is None else Marked(entry.line, {entry_key: entry}))
        elif setting.name in self.lines:
            self._complain(entry.line, key, f"given twice, first in line {self.lines[setting.name]}")
        else:
            self.lines[setting.name] = entry.line
            if (value := self._convert(setting, key, entry)) is not NO_VALUE:
                self._values[setting.field] = value

    def _find(self, key: str) -> tuple[Setting | None, str | None]:
        """The setting that `key` names and, for one entry of a map, the entry's own key."""
        for setting in self._settings.values():
            if key in setting.names:
                return setting, None
        for setting in self._settings.values():
            for alias in setting.aliases:
                if setting.is_map and key.startswith(f"{alias}.") and len(key) > len(alias) + 1:
                    return setting, key[len(alias) + 1 :]
        return None, None

    def _take_entries(self, setting: Setting, key: str, given: Marked) -> None:
        """Maps are gathered entry by entry; a name listed without a value yields to one with a value."""
        self.lines.setdefault(setting.name, given.line)
        entries = self._values.setdefault(setting.field, {})
        if isinstance(given.value, str) and setting.each is not None:
            for name in _names(given.value):
                entries.setdefault(name, setting.each)
            return
        if not isinstance(given.value, dict):
            self._complain(given.line, key, _refusal(setting, given))
            return
        for name, entry in given.value.items():
            if first := self._entries.get((setting.name, name)):
                self._complain(entry.line, key, f"{name} is given twice, first in line {first}")
                continue
            self._entries[setting.name, name] = entry.line
            try:
                entries |= msgspec.convert({name: entry.plain()}, setting.type)
            except msgspec.ValidationError:
                message = f"{name}: {describe(entry)} is not allowed, expected {setting.entry_expected}"
                self._complain(entry.line, key, message)

    def _convert(self, setting: Setting, key: str, entry: Marked) -> object:
        value = entry.plain()
        if setting.is_list and isinstance(value, str):
            value = _names(value)
        try:
            return msgspec.convert(value, setting.type)
        except msgspec.ValidationError:
            self._complain(entry.line, key, _refusal(setting, entry))
            return NO_VALUE


def _names(text: str) -> list[str]:
    """`a, b` as a list."""
    return [name.strip() for name in text.split(",") if name.strip()]


def _refusal(setting: Setting, entry: Marked) -> str:
    unit = f" ({setting.unit})" if setting.unit else ""
    return f"{describe(entry)} is not allowed, expected {setting.expected}{unit}"


def describe(entry: Marked) -> str:
    """A value as an error message shows it: short, and a text in quotes."""
    value = entry.plain()
    if isinstance(value, dict):
        return "a map" if value else "an empty map"
    if isinstance(value, list):
        return f"the list {shortened(', '.join(map(str, value)))}" if value else "an empty list"
    if isinstance(value, str):
        return f"the text {shortened(value)!r}"
    return shortened(str(value)) if isinstance(value, float) else shortened(msgspec.json.encode(value).decode())


def shortened(text: str) -> str:
    return text if len(text) <= 40 else f"{text[:37]}..."
