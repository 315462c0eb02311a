"""Where pods that a term matches are, as a session sees it: the state's columns with the session's placements on top.

Columns are copied when a session first writes to one; most sessions write to none.
"""

from __future__ import annotations

from collections.abc import Iterator

import numpy as np

from fairway.resources.columns import IntColumn
from fairway.state.podterms import CountColumn, PodTerms
from fairway.state.shapes import HostPort, Shape

_NONE = np.zeros(0, dtype=np.int32)


class PodCounts:
    """Counts by node of pods that match a term, and of pods that own an anti-affinity term."""

    def __init__(self, terms: PodTerms) -> None:
        self._terms = terms
        self._present: dict[int, CountColumn] = {}
        self._owners: dict[tuple[int, str], CountColumn] = {}
        self._ports: dict[int, list[HostPort]] = {}
        self.changes = 0

    def __bool__(self) -> bool:
        """Whether there are any terms to mind."""
        return len(self._terms) > 0

    def present(self, term: int, size: int) -> CountColumn:
        column = self._present.get(term)
        return _sized(self._terms.present.get(term, _NONE) if column is None else column, size)

    def owners(self, owned: tuple[int, str], size: int) -> CountColumn:
        column = self._owners.get(owned)
        return _sized(self._terms.owners.get(owned, _NONE) if column is None else column, size)

    def owned_terms(self, term: int) -> list[tuple[int, str]]:
        """The anti-affinities, by topology key, that pods may have against pods of this term."""
        return [(term, key) for key in sorted(self._terms.repelling.get(term, ()))]

    def ports(self, known: dict[int, list[HostPort]]) -> Iterator[tuple[int, list[HostPort]]]:
        """Host ports taken, by row: the state's and the session's."""
        for row in known.keys() | self._ports.keys():
            yield row, [*known.get(row, ()), *self._ports.get(row, ())]

    def place(self, shape: Shape, rows: IntColumn, size: int, by: int) -> None:
        """Tasks of a shape were put on these rows (by 1) or taken off (by -1)."""
        for row in rows if shape.ports else ():
            taken = self._ports.setdefault(int(row), [])
            for port in shape.ports:
                if by > 0:
                    taken.append(port)
                else:
                    taken.remove(port)
        if not shape.matched and not shape.rules.anti_affinity:
            return
        self.changes += 1
        for term in shape.matched:
            column = self._present.get(term)
            if column is None:
                column = self._present[term] = self.present(term, size).copy()
            np.add.at(column, rows, by)
        for owned in shape.rules.anti_affinity:
            column = self._owners.get(owned)
            if column is None:
                column = self._owners[owned] = self.owners(owned, size).copy()
            np.add.at(column, rows, by)


def _sized(column: CountColumn, size: int) -> CountColumn:
    if len(column) >= size:
        return column[:size]
    grown = np.zeros(size, dtype=np.int32)
    grown[: len(column)] = column
    return grown
