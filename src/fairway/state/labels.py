"""Node labels as columns of codes, so that a selector is answered for all nodes at once.

For each label key in use there is one int32 column with the code of the node's value, 0 where the node does not have
the label. A requirement is decided once per *distinct value* and looked up for all nodes.
"""

from __future__ import annotations

import re
from collections.abc import Callable, Mapping

import numpy as np
from numpy.typing import NDArray

from fairway.api.pods import NodeSelectorRequirement, NodeSelectorTerm
from fairway.resources.columns import BoolColumn

CodeColumn = NDArray[np.int32]
ABSENT = 0

NAME_FIELD = "metadata.name"

_INTEGER = re.compile(r"[+-]?[0-9]{1,19}")


class LabelColumns:
    """Columns of the label keys in use; rows are node rows."""

    def __init__(self) -> None:
        self._labels: list[Mapping[str, str]] = []
        self._columns: dict[str, CodeColumn] = {}
        self._codes: dict[str, dict[str, int]] = {}
        self._generation = 0
        self._unique: dict[str, tuple[int, int, bool]] = {}
        self._keys: dict[str, int] = {}
        """How many rows have a label of each key. No column is made of a key that a pod has made up."""
        self._absent: CodeColumn = np.zeros(0, dtype=np.int32)

    def set(self, row: int, labels: Mapping[str, str]) -> None:
        self._generation += 1
        while len(self._labels) <= row:
            self._labels.append({})
        self._count(self._labels[row], -1)
        self._labels[row] = labels
        self._count(labels, 1)
        for key, column in self._columns.items():
            if row >= len(column):
                column = self._columns[key] = _grown(column, row + 1)
            column[row] = self._code(key, labels.get(key))

    def _count(self, labels: Mapping[str, str], by: int) -> None:
        keys = self._keys
        for key in labels:
            keys[key] = keys.get(key, 0) + by
            if not keys[key]:
                del keys[key]

    def is_odd(self, key: str) -> bool:
        """Whether there is a column of a key that no node has."""
        column = self._columns.get(key)
        return column is not None and not column.any()

    def compact(self, size: int) -> None:
        """Keep labels of these rows only. Columns are made again when they are asked for."""
        for labels in self._labels[size:]:
            self._count(labels, -1)
        del self._labels[size:]
        self._columns.clear()
        self._codes.clear()
        self._unique.clear()
        self._generation += 1

    def at(self, row: int) -> Mapping[str, str]:
        return self._labels[row] if row < len(self._labels) else {}

    def column(self, key: str, nodes: int) -> CodeColumn:
        """The codes of this key for rows 0 to nodes-1; made on first use, kept true from then on."""
        column = self._columns.get(key)
        if column is None:
            if key not in self._keys:
                if len(self._absent) < nodes:
                    self._absent = np.zeros(2 * nodes, dtype=np.int32)
                return self._absent[:nodes]
            codes = [self._code(key, labels.get(key)) for labels in self._labels]
            column = self._columns[key] = np.array(codes, dtype=np.int32)
        if len(column) < nodes:
            column = self._columns[key] = _grown(column, nodes)
        return column[:nodes]

    def has(self, key: str) -> bool:
        """Whether some node has a label of this key."""
        return key in self._keys

    def values(self, key: str) -> list[str]:
        """The values seen, by code - 1."""
        return list(self._codes.get(key, ()))

    def where(self, key: str, nodes: int, holds: Callable[[str | None], bool]) -> BoolColumn:
        """Where a condition on the value of a key holds; it is asked once per distinct value."""
        if key not in self._keys:
            return np.full(nodes, holds(None), dtype=np.bool_)
        column = self.column(key, nodes)
        answers = np.array([holds(None), *map(holds, self.values(key))], dtype=np.bool_)
        return answers[column]

    def is_unique(self, key: str, nodes: int) -> bool:
        """Whether no two nodes share a value of this key, as with host names: then a domain is a node."""
        known = self._unique.get(key)
        if known is None or known[:2] != (self._generation, nodes):
            codes = self.column(key, nodes)
            present = codes[codes != ABSENT]
            unique = len(np.unique(present)) == len(present)
            known = self._unique[key] = (self._generation, nodes, unique)
        return known[2]

    def _code(self, key: str, value: str | None) -> int:
        if value is None:
            return ABSENT
        codes = self._codes.setdefault(key, {})
        return codes.setdefault(value, len(codes) + 1)


def requirement_holds(requirement: NodeSelectorRequirement, value: str | None) -> bool:
    """One expression of a node selector, as Kubernetes reads it."""
    match requirement.operator:
        case "In":
            return value is not None and value in requirement.values
        case "NotIn":
            return value is None or value not in requirement.values
        case "Exists":
            return value is not None
        case "DoesNotExist":
            return value is None
        case "Gt" | "Lt":
            return _number_holds(requirement, value)


def term_holds(term: NodeSelectorTerm, name: str, labels: Mapping[str, str]) -> bool:
    """A whole term on one node: the slow twin of the columns, and the answer for a single node."""
    if not term.match_expressions and not term.match_fields:
        return False
    return all(requirement_holds(r, labels.get(r.key)) for r in term.match_expressions) and all(
        requirement_holds(r, name if r.key == NAME_FIELD else None) for r in term.match_fields
    )


def _number_holds(requirement: NodeSelectorRequirement, value: str | None) -> bool:
    bounds = requirement.values
    if value is None or not _INTEGER.fullmatch(value) or len(bounds) != 1 or not _INTEGER.fullmatch(bounds[0]):
        return False
    have, bound = int(value), int(bounds[0])
    return have > bound if requirement.operator == "Gt" else have < bound


def _grown(column: CodeColumn, nodes: int) -> CodeColumn:
    grown = np.zeros(max(nodes, 2 * len(column)), dtype=np.int32)
    grown[: len(column)] = column
    return grown
