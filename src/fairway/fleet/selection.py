"""Selectors over labels and claims: as a column over all clusters, and in words for one of them."""

from __future__ import annotations

from collections.abc import Iterable, Mapping

import numpy as np

from fairway.api.meta import LabelSelectorRequirement
from fairway.fleet.scores import BoolColumn
from fairway.fleet.table import ABSENT, ClusterTable, Source


def selector_mask(
    table: ClusterTable,
    source: Source,
    labels: Mapping[str, str],
    requirements: Iterable[LabelSelectorRequirement],
) -> BoolColumn:
    """Clusters that have all the labels and meet all the requirements."""
    mask = np.ones(table.size, np.bool_)
    for key, value in labels.items():
        mask &= _is_in(table, source, key, (value,))
    for requirement in requirements:
        mask &= _holds(table, source, requirement)
    return mask


def _holds(table: ClusterTable, source: Source, requirement: LabelSelectorRequirement) -> BoolColumn:
    match requirement.operator:
        case "In":
            return _is_in(table, source, requirement.key, requirement.values)
        case "NotIn":
            return ~_is_in(table, source, requirement.key, requirement.values)
        case "Exists":
            return ~_is_absent(table, source, requirement.key)
        case "DoesNotExist":
            return _is_absent(table, source, requirement.key)


def _is_absent(table: ClusterTable, source: Source, key: str) -> BoolColumn:
    absent: BoolColumn = table.codes(source, key).column == ABSENT
    return absent


def _is_in(table: ClusterTable, source: Source, key: str, values: Iterable[str]) -> BoolColumn:
    codes = table.codes(source, key)
    wanted = [codes.values[value] for value in values if value in codes.values]
    if len(wanted) != 1:
        return np.isin(codes.column, wanted)
    same: BoolColumn = codes.column == wanted[0]
    return same


def unmet(
    source: Source,
    labels: Mapping[str, str],
    requirements: Iterable[LabelSelectorRequirement],
    reserved: Mapping[str, str],
) -> str:
    """What the first requirement that does not hold asks for, and what is there; "" where all hold."""
    for key, value in labels.items():
        if reserved.get(key) != value:
            return f"{source} {key} {_there(reserved, key)}, {value!r} is required"
    for requirement in requirements:
        key, values, there = requirement.key, ", ".join(requirement.values), reserved.get(requirement.key)
        if requirement.operator == "In" and there not in requirement.values:
            return f"{source} {key} {_there(reserved, key)}, one of [{values}] is required"
        if requirement.operator == "NotIn" and there in requirement.values:
            return f"{source} {key} {_there(reserved, key)}, none of [{values}] is allowed"
        if requirement.operator == "Exists" and there is None:
            return f"{source} {key} is not there, it is required"
        if requirement.operator == "DoesNotExist" and there is not None:
            return f"{source} {key} is there, it is not allowed"
    return ""


def _there(reserved: Mapping[str, str], key: str) -> str:
    return f"is {reserved[key]!r}" if key in reserved else "is not there"
