"""What CEL expressions say of clusters: kept until the cluster changes, and worked out in parts where that is wanted.

An expression may cost thousands of steps for a cluster, and there may be a thousand of each. A hub works them out in
turns (`work_out`), so that a placement of one namespace does not make those of all others wait.
"""

from __future__ import annotations

from collections.abc import Callable, Collection, Iterable, Iterator, Mapping

import numpy as np
import numpy.typing as npt

from fairway.api.fleet import ManagedCluster
from fairway.fleet.scores import BoolColumn, ScoreOf
from fairway.fleet.table import ClusterTable

_UNKNOWN, _SATISFIED = -1, 0
MAX_REASONS = 100
"""Maximum distinct reasons of an expression: most often it just gives false, and an error may quote a value."""
ONE_CLUSTER = 20
"""The cost of building the document of a cluster, in steps."""

AnswerOf = Callable[[str, int], str | None]
"""Why the cluster in a slot does not satisfy an expression, "" if it does; None if that is not known."""
Question = tuple[str, int]
"""An expression, and the slot of the cluster on which it is evaluated."""


class ExpressionAnswers:
    """A column for each expression: 0 where a cluster satisfies it, else the number of the reason why it does not."""

    def __init__(self, table: ClusterTable, clusters: Mapping[str, ManagedCluster], scores: ScoreOf) -> None:
        self._table = table
        self._clusters = clusters
        self._scores = scores
        self._columns: dict[str, npt.NDArray[np.int8]] = {}
        self._reasons: dict[str, list[str]] = {}

    def cluster_changed(self, slot: int) -> None:
        """Called for any change: an expression may read any field."""
        for column in self._columns.values():
            if slot < column.size:
                column[slot] = _UNKNOWN

    def keep(self, expressions: Collection[str]) -> None:
        """Drops all other expressions."""
        self._columns = {text: column for text, column in self._columns.items() if text in expressions}
        self._reasons = {text: reasons for text, reasons in self._reasons.items() if text in expressions}

    def known(self, expression: str, slot: int) -> str | None:
        """The cached answer, as in `AnswerOf`."""
        column = self._columns.get(expression)
        answer = _UNKNOWN if column is None or slot >= column.size else int(column[slot])
        if answer == _UNKNOWN:
            return None
        return "" if answer == _SATISFIED else self._reasons[expression][answer - 1]

    def unknown(self, expression: str, among: BoolColumn) -> Iterator[Question]:
        for slot in np.flatnonzero(among & (self._column(expression) < 0)).tolist():
            yield expression, slot

    def satisfying(self, expression: str, among: BoolColumn) -> BoolColumn:
        """Evaluates everything that is not known first."""
        self.work_out(self.unknown(expression, among))
        return self.satisfied(expression, among)

    def satisfied(self, expression: str, among: BoolColumn) -> BoolColumn:
        """As far as it is known."""
        found: BoolColumn = among & (self._column(expression) == _SATISFIED)
        return found

    def work_out(self, questions: Iterable[Question], most: int | None = None) -> int:
        """Evaluates until about this many steps are spent; returns how many were. Fewer than `most` means that nothing
        is left.
        """
        from fairway.fleet import cel

        spent = 0
        for expression, slot in questions:
            document = cel.document(self._clusters[self._table.names[slot]], self._scores)
            answer = cel.evaluate(expression, document)
            self._column(expression)[slot] = self._number_of(expression, cel.why_unmet(expression, answer))
            spent += ONE_CLUSTER + answer.steps
            if most is not None and spent >= most:
                break
        return spent

    def _number_of(self, expression: str, reason: str) -> int:
        if not reason:
            return _SATISFIED
        known = self._reasons.setdefault(expression, [])
        if reason not in known and len(known) >= MAX_REASONS:
            reason = "a CEL expression is not satisfied"
        if reason not in known:
            known.append(reason)
        return known.index(reason) + 1

    def _column(self, expression: str) -> npt.NDArray[np.int8]:
        """Extended to the length of the table."""
        column, size = self._columns.get(expression), self._table.size
        if column is None or column.size != size:
            longer = np.full(size, _UNKNOWN, np.int8)
            if column is not None:
                longer[: column.size] = column
            column = self._columns[expression] = longer
        return column
