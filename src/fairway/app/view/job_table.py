"""`JobTable`: all jobs at one moment as rows and columns, so that a page of any filter and order takes milliseconds."""

from __future__ import annotations

from collections.abc import Callable, Iterable, Mapping, Sequence
from functools import cached_property
from operator import attrgetter
from typing import Any

import msgspec
import numpy as np
from numpy.typing import NDArray

from fairway.app.view.models.jobs import FacetCount, JobFacets, JobGroupCount, JobsPage, JobSummary
from fairway.errors import InputError

STATES = ("waiting", "starting", "running", "finished")
SORTS = (
    "order", "job", "namespace", "queue", "state", "pods", "priority", "position", "created", "started", "ended",
    "waiting", "running", "reason", "estimatedStart",
)  # fmt: skip
GROUPS = ("queue", "namespace", "state", "reason", "kind")
MAX_ROWS = 1_000
MAX_GROUPS = 1_000
MAX_LABEL_KEYS = 50
LABEL = "label:"
_LEAST_PRIORITY = 1 << 32
NO_LABEL = ""

Codes = NDArray[np.int32]
Mask = NDArray[np.bool_]


class JobQuery(msgspec.Struct, frozen=True):
    """Filters and order. Values of one filter are alternatives."""

    queue: tuple[str, ...] = ()
    namespace: tuple[str, ...] = ()
    state: tuple[str, ...] = ()
    reason: tuple[str, ...] = ()
    label: tuple[str, ...] = ()
    """`key=value`, or `key` for any value; all must match."""
    search: str = ""
    """Text that `namespace/name` contains."""
    sort: str = "order"
    """A leading - means descending."""
    group: str = ""
    facets: bool = False
    offset: int = 0
    limit: int = 100
    visible: frozenset[str] | None = None
    """Namespaces that the user may see; None for all."""


class _Coded:
    """A column of texts, encoded as numbers."""

    def __init__(self, values: Sequence[str]) -> None:
        self.names = sorted(set(values))
        places = {name: place for place, name in enumerate(self.names)}
        self.codes: Codes = np.array([places[value] for value in values], dtype=np.int32)

    def mask(self, wanted: Sequence[str]) -> Mask:
        sought = set(wanted)
        chosen = np.array([name in sought for name in self.names], dtype=np.bool_)
        return chosen[self.codes] if len(self.names) else np.zeros(0, dtype=np.bool_)

    def counts(self, mask: Mask) -> list[FacetCount]:
        numbers = np.bincount(self.codes[mask], minlength=len(self.names)).tolist()
        found = [FacetCount(name, number) for name, number in zip(self.names, numbers, strict=True) if number]
        return sorted(found, key=lambda one: (-one.count, one.value))


class JobTable:
    """The table of jobs. `labels` are those of the jobs, in row order."""

    def __init__(self, revision: int, now: str, rows: list[JobSummary], labels: Sequence[Mapping[str, str]]) -> None:
        self.revision = revision
        self.now = now
        self.rows = rows
        self._labels = labels
        self._coded: dict[str, _Coded] = {}
        self._orders: dict[str, NDArray[np.intp]] = {}

    def page(self, query: JobQuery) -> JobsPage:
        """Raises InputError for an unknown column or value."""
        _check(query)
        mask = self._mask(query, "")
        order = self._order(query.sort)
        chosen = order[mask[order]]
        rows = [self.rows[place] for place in chosen[query.offset : query.offset + query.limit].tolist()]
        groups = self._groups(query.group, mask) if query.group else None
        facets = self._facets(query) if query.facets else None
        return JobsPage(self.revision, self.now, len(chosen), query.offset, query.limit, rows, groups, facets)

    @cached_property
    def by_name(self) -> dict[str, JobSummary]:
        return {row.job: row for row in self.rows}

    def totals(self, visible: frozenset[str]) -> tuple[dict[str, int], int, int]:
        """Number of jobs by state, and of pending and running pods, in these namespaces."""
        mask = self._column("namespace").mask(tuple(visible))
        counts, waiting, running = dict.fromkeys(STATES, 0), 0, 0
        for place in np.flatnonzero(mask).tolist():
            row = self.rows[place]
            counts[row.state] += 1
            waiting += row.pods - row.placed if row.state == "waiting" else 0
            running += row.placed if row.state == "running" else 0
        return counts, waiting, running

    # -- filters -----------------------------------------------------------------------------------------------

    def _column(self, name: str) -> _Coded:
        found = self._coded.get(name)
        if found is None:
            if name.startswith(LABEL):
                key = name.removeprefix(LABEL)
                values = [labels.get(key, NO_LABEL) for labels in self._labels]
            else:
                values = list(map(attrgetter(name), self.rows))
            found = self._coded[name] = _Coded(values)
        return found

    def _mask(self, query: JobQuery, without: str) -> Mask:
        mask = np.ones(len(self.rows), dtype=np.bool_)
        if query.visible is not None:
            mask &= self._column("namespace").mask(tuple(query.visible))
        for name in ("queue", "namespace", "state", "reason"):
            wanted = getattr(query, name)
            if wanted and name != without:
                mask &= self._column(name).mask(wanted)
        for text in query.label:
            key, sign, value = text.partition("=")
            column = self._column(LABEL + key)
            mask &= column.mask([value] if sign else [name for name in column.names if name != NO_LABEL])
        if query.search:
            part = query.search.lower()
            mask &= np.array([part in name for name in self._names], dtype=np.bool_)
        return mask

    # -- groups ------------------------------------------------------------------------------------------------

    def _groups(self, group: str, mask: Mask) -> list[JobGroupCount]:
        column, states = self._column(group), self._column("state")
        size = len(column.names)
        pods = np.bincount(column.codes[mask], weights=self._pods[mask], minlength=size)
        counts = {}
        for place, state in enumerate(states.names):
            counts[state] = np.bincount(column.codes[mask & (states.codes == place)], minlength=size)
        nothing = np.zeros(size, dtype=np.int64)
        by_state = [counts.get(state, nothing) for state in STATES]
        total = sum(by_state, nothing)
        order = sorted(range(size), key=lambda place: (-int(total[place]), column.names[place]))
        return [
            JobGroupCount(
                column.names[place], int(total[place]), int(pods[place]), *(int(one[place]) for one in by_state)
            )
            for place in order[:MAX_GROUPS]
            if total[place]
        ]

    @cached_property
    def _names(self) -> list[str]:
        return [row.job for row in self.rows]

    def prepare(self) -> None:
        """Computes in advance what nearly every request needs."""
        for name in ("state", "queue", "namespace", "reason"):
            self._column(name)
        assert self._label_keys is not None
        assert self._names is not None

    @cached_property
    def _pods(self) -> NDArray[np.int64]:
        return np.fromiter((row.pods for row in self.rows), dtype=np.int64, count=len(self.rows))

    def _facets(self, query: JobQuery) -> JobFacets:
        found = {}
        for name in ("state", "queue", "namespace", "reason"):
            counts = self._column(name).counts(self._mask(query, name))
            found[name] = [one for one in counts if one.value] if name == "reason" else counts
        return JobFacets(**found, labels=self._label_keys if query.visible is None else self._own_keys(query.visible))

    @cached_property
    def _label_keys(self) -> list[str]:
        return _most_used(self._labels)

    def _own_keys(self, visible: frozenset[str]) -> list[str]:
        places = np.flatnonzero(self._column("namespace").mask(tuple(visible))).tolist()
        return _most_used([self._labels[place] for place in places])

    # -- order -------------------------------------------------------------------------------------------------

    def _order(self, sort: str) -> NDArray[np.intp]:
        found = self._orders.get(sort)
        if found is None:
            found = self._orders[sort] = self._sorted(sort)
        return found

    def _sorted(self, sort: str) -> NDArray[np.intp]:
        """Stable; rows without a value come last in both directions."""
        name, down = sort.removeprefix("-"), sort.startswith("-")
        if name == "order":
            places = np.arange(len(self.rows))
            return places[::-1] if down else places
        values: list[Any] = list(map(_KEYS[name], self.rows))
        have = [place for place, value in enumerate(values) if value]
        without = [place for place, value in enumerate(values) if not value] if len(have) < len(values) else []
        have.sort(key=values.__getitem__, reverse=down)
        return np.array([*have, *without], dtype=np.intp)


_KEYS: dict[str, Callable[[JobSummary], str | int | None]] = {
    **{
        name: attrgetter(name)
        for name in ("job", "namespace", "queue", "reason", "created", "started", "ended", "pods", "position")
    },
    "state": lambda row: STATES.index(row.state) + 1,
    "priority": lambda row: row.priority + _LEAST_PRIORITY,
    "estimatedStart": lambda row: row.planned_start or row.estimated_start,
    # The one that waits or runs longest has the earliest time.
    "waiting": lambda row: row.created if row.state in ("waiting", "starting") else None,
    "running": lambda row: row.started if row.state == "running" else None,
}
"""Sort keys; rows whose value is missing, empty or zero come last."""


def _most_used(labels: Iterable[Mapping[str, str]]) -> list[str]:
    counts: dict[str, int] = {}
    for some in labels:
        for key in some:
            counts[key] = counts.get(key, 0) + 1
    return sorted(counts, key=lambda key: (-counts[key], key))[:MAX_LABEL_KEYS]


def _check(query: JobQuery) -> None:
    if query.sort.removeprefix("-") not in SORTS:
        raise InputError(f"sort={query.sort}: expected one of {', '.join(SORTS)}, with a leading - for descending")
    if query.group and query.group not in GROUPS and not query.group.startswith(LABEL):
        raise InputError(f"group={query.group}: expected one of {', '.join(GROUPS)} or label:KEY")
    unknown = [state for state in query.state if state not in STATES]
    if unknown:
        raise InputError(f"state={unknown[0]}: expected one of {', '.join(STATES)}")
