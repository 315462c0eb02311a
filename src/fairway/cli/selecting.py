"""Which rows of a list are meant, and in which order: label selectors and `--sort-by` as kubectl takes them."""

from __future__ import annotations

import re
from collections.abc import Callable, Mapping, Sequence
from typing import TYPE_CHECKING, Any

if TYPE_CHECKING:
    from fairway.cli.listing import ListedObject

_SET = re.compile(r"(\S+)\s+(in|notin)\s*\(([^()]*)\)")
_EQUAL = re.compile(r"([^\s=!,()]+)\s*(==|=|!=)\s*([^\s=!,()]*)")
_PRESENT = re.compile(r"(!?)\s*([^\s=!,()]+)")
_PARTS = re.compile(r",(?![^()]*\))")


def label_selector(text: str) -> Callable[[Mapping[str, str]], bool]:
    """`app=web,tier!=cache,zone in (a, b),gpu,!spot`: whether labels have all of that."""
    from fairway.api.meta import LabelSelectorRequirement
    from fairway.api.pods import satisfies
    from fairway.errors import InputError

    requirements = []
    for part in (piece.strip() for piece in _PARTS.split(text)):
        if found := _SET.fullmatch(part):
            values = tuple(value.strip() for value in found[3].split(","))
            requirements.append(LabelSelectorRequirement(found[1], "In" if found[2] == "in" else "NotIn", values))
        elif found := _EQUAL.fullmatch(part):
            requirements.append(LabelSelectorRequirement(found[1], "NotIn" if found[2] == "!=" else "In", (found[3],)))
        elif found := _PRESENT.fullmatch(part):
            requirements.append(LabelSelectorRequirement(found[2], "DoesNotExist" if found[1] else "Exists"))
        else:
            raise InputError(f"-l {text!r}: {part!r} is no requirement, expected for example app=web,tier!=cache")
    return lambda labels: satisfies(requirements, labels)


def ordered(entries: Sequence[ListedObject], by: str) -> list[ListedObject]:
    """By a column of the table, or by a field of the data such as `.metadata.name`; entries without it come last."""
    from fairway.errors import InputError

    if not entries:
        return []
    column = by.lower()
    if column in entries[0].cells:
        texts = {id(entry): entry.created if column == "age" else entry.cells[column] for entry in entries}
        values: dict[int, Any] = texts
    else:
        path = by.strip("{}").lstrip(".").split(".")
        values = {id(entry): _field(entry.data, path) for entry in entries}
        if all(value is None for value in values.values()):
            columns = ", ".join(entries[0].cells)
            raise InputError(
                f"--sort-by {by}: no such column or field, expected one of {columns}, or a field as .metadata.name"
            )
    return sorted(entries, key=lambda entry: _comparable(values[id(entry)]))


def _field(data: Any, path: Sequence[str]) -> Any:
    for name in path:
        if not isinstance(data, Mapping) or name not in data:
            return None
        data = data[name]
    return data


def _comparable(value: Any) -> tuple[int, float, tuple[tuple[str, int], ...]]:
    """Numbers by size, texts with the numbers in them by size (`n2` before `n10`), what is missing last."""
    if value is None or value == "":
        return 2, 0.0, ()
    if isinstance(value, int | float):
        return 0, float(value), ()
    pieces = re.findall(r"(\D*)(\d*)", str(value))
    return 1, 0.0, tuple((text, int(number or 0)) for text, number in pieces if text or number)
