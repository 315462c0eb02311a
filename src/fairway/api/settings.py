"""How an argument of an action or a plugin is declared, and how it is read from a policy file.

    class ReserveArguments(Arguments, frozen=True):
        reserved_node_percent: Annotated[Percent, setting("Maximum share of nodes that may carry a reservation.")] = 50

In a policy file the field is written `reservedNodePercent`. From the declaration come the validation of policy files,
what `fairway policy show` prints, and the reference page; nothing else describes an argument. `read_arguments` collects
every problem instead of stopping at the first.
"""

from __future__ import annotations

from collections.abc import Callable, Collection, Mapping
from dataclasses import dataclass
from functools import lru_cache
from typing import Annotated, Any

import msgspec
from msgspec import NODEFAULT, inspect

from fairway.api.hand_written import Marked
from fairway.api.peers import peer_of
from fairway.api.shape import did_you_mean
from fairway.api.text import LongNumber

MAX_SECONDS = 100 * 365 * 86_400
MAX_WEIGHT = 1_000
"""Small enough for sums of scores to be compared exactly."""


class Arguments(msgspec.Struct, frozen=True, forbid_unknown_fields=True, rename="camel"):
    """The arguments of one action or plugin; the class itself is for those without any."""


def setting(meaning: str, *, unit: str = "", aliases: Collection[str] = (), each: int | None = None) -> msgspec.Meta:
    """Declares what a field means to a user.

    `aliases` are other names for it. For a map, `<alias>.<key>` is one of its entries, and a text of names separated by
    commas gives `each` to every name.
    """
    extra: dict[str, Any] = {"aliases": tuple(aliases), "each": each}
    return msgspec.Meta(description=meaning, extra=extra | ({"unit": unit} if unit else {}))


Seconds = Annotated[int, msgspec.Meta(ge=0, le=MAX_SECONDS, extra={"unit": "s"})]
Percent = Annotated[int, msgspec.Meta(ge=1, le=100, extra={"unit": "%"})]
Weight = Annotated[int, msgspec.Meta(ge=0, le=MAX_WEIGHT)]
Count = Annotated[int, msgspec.Meta(ge=1, le=1_000_000)]
Duration = Annotated[str, msgspec.Meta(pattern=r"^([0-9]+(\.[0-9]+)?[smhd])+$", max_length=64)]
Name = Annotated[str, msgspec.Meta(min_length=1, max_length=253)]


@dataclass(frozen=True, slots=True)
class Setting:
    """A declared argument, for the reader, `policy show` and the reference page."""

    name: str
    field: str
    meaning: str
    unit: str
    default: object
    expected: str
    entry_expected: str
    """For a map: what the value of an entry may be."""
    aliases: tuple[str, ...]
    each: int | None
    type: Any
    is_map: bool
    is_list: bool

    @property
    def names(self) -> tuple[str, ...]:
        """All its names, its own first."""
        return (self.name, *self.aliases)


@lru_cache(maxsize=256)
def settings_of(arguments: type[Arguments]) -> Mapping[str, Setting]:
    """The settings of an arguments type by name, in the order of declaration."""
    return {field.encode_name: _setting(arguments, field) for field in msgspec.structs.fields(arguments)}


def _setting(arguments: type[Arguments], field: msgspec.structs.FieldInfo) -> Setting:
    info = inspect.type_info(field.type)
    meaning = str((getattr(info, "extra_json_schema", None) or {}).get("description", ""))
    if not meaning:
        raise TypeError(f"{arguments.__name__}.{field.name} has no meaning, declare it with setting(...)")
    extra = getattr(info, "extra", None) or {}
    kind = _bare(info)
    return Setting(
        name=field.encode_name,
        field=field.name,
        meaning=meaning,
        unit=extra.get("unit", _unit(kind)),
        default=_default(arguments, field),
        expected=_expected(kind),
        entry_expected=_expected(kind.value_type) if isinstance(kind, inspect.DictType) else "",
        aliases=extra.get("aliases", ()),
        each=extra.get("each"),
        type=field.type,
        is_map=isinstance(kind, inspect.DictType),
        is_list=isinstance(kind, inspect.VarTupleType),
    )


def _default(arguments: type[Arguments], field: msgspec.structs.FieldInfo) -> object:
    if field.default is not NODEFAULT:
        return field.default
    if field.default_factory is not NODEFAULT:
        return field.default_factory()
    raise TypeError(f"{arguments.__name__}.{field.name} has no default, every setting needs one")


def _bare(info: inspect.Type) -> inspect.Type:
    return info.type if isinstance(info, inspect.Metadata) else info


def _unit(kind: inspect.Type) -> str:
    """An optional setting has the unit of its value."""
    if isinstance(kind, inspect.UnionType):
        return next((str(t.extra["unit"]) for t in kind.types if isinstance(t, inspect.Metadata) and t.extra), "")
    return ""


def _expected(kind: inspect.Type) -> str:
    """What a value may be, in words."""
    kind = _bare(kind)
    match kind:
        case inspect.BoolType():
            return "true or false"
        case inspect.IntType():
            return "a whole number" + _range(kind.ge, kind.le)
        case inspect.FloatType():
            return "a number" + _range(kind.ge, kind.le)
        case inspect.LiteralType():
            return " or ".join(filter(None, (", ".join(map(str, kind.values[:-1])), str(kind.values[-1]))))
        case inspect.VarTupleType():
            return f"a list of {_expected(kind.item_type).removeprefix('a ')}"
        case inspect.DictType():
            return f"a map from name to {_expected(kind.value_type).removeprefix('a ')}"
        case inspect.UnionType():
            return " or ".join(map(_expected, kind.types))
        case inspect.NoneType():
            return "null"
        case inspect.StrType():
            return "a text"
        case inspect.StructType():
            return "a map with " + " and ".join(field.encode_name for field in kind.fields)
    raise TypeError(f"a setting cannot be of type {kind}")


def _range(least: float | None, most: float | None) -> str:
    if least is not None and most is not None:
        return f" from {least:g} to {most:g}" if most < 1e6 else f" from {least} to {most}"
    if least is not None:
        return f", at least {least}"
    return f", at most {most}" if most is not None else ""


Complain = Callable[[int, str, str], None]
"""Called with the line, the argument's name as written, and the problem."""

NO_VALUE = object()


def read_arguments(
    kind: type[Arguments], given: Mapping[str, Marked], complain: Complain
) -> tuple[Arguments, dict[str, int]]:
    """The arguments with defaults filled in, and the line of each setting that is given."""
    reader = _ArgumentReader(kind, complain)
    for key, entry in given.items():
        reader.take(key, entry)
    return reader.arguments(), reader.lines


class _ArgumentReader:
    """Reads the arguments of one action or plugin."""

    def __init__(self, kind: type[Arguments], complain: Complain) -> None:
        self.lines: dict[str, int] = {}
        self._kind = kind
        self._settings = settings_of(kind)
        self._complain = complain
        self._values: dict[str, Any] = {}
        self._entries: dict[tuple[str, str], int] = {}
        """The line of each map entry that is given with a value."""

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
        """Maps are collected entry by entry; a name with a value takes precedence over one listed without."""
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
    if isinstance(value, LongNumber):
        return f"a number of {len(value)} characters"
    if isinstance(value, str):
        return f"the text {shortened(value)!r}"
    return shortened(str(value)) if isinstance(value, float) else shortened(msgspec.json.encode(value).decode())


def shortened(text: str) -> str:
    return text if len(text) <= 40 else f"{text[:37]}..."
