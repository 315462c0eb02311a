"""The state forgets: what only objects that are gone have brought is dropped, so that churn costs nothing for good.

Resource names, label columns, queues that no object has made and the like are kept while something uses them, and for a
while after: to drop each at once would cost more than to keep it. What was deleted leaves a suspicion here; where there
is one, every so many cycles and deletions all that nothing uses is dropped together. All that is worked out from the
state
(`derived`) is worked out again after that, as for a state that is new: that is why it is not done more often,
whatever
comes and goes.
"""

from __future__ import annotations

from collections.abc import Callable, Iterable

from fairway.resources.columns import Vector
from fairway.state.device_requests import CLASS_PREFIX
from fairway.state.shapes import Shape
from fairway.state.tables import ClusterTables

_NATIVE = 3
"""cpu, memory and pods are dimensions whether or not anything has them."""

CYCLES = 16
"""It is done at most once in so many cycles, so that what it costs is spread over them;"""
MUCH = 64
"""unless this much more is left over than the state has dimensions."""
SMALL = 32
"""So many small things that are left over count as one large one: a name, a queue."""
PART = 8
"""What is left over is looked for once it may be this part of the state: looking goes through all of it."""
DERIVED = (CLASS_PREFIX, "devices.fairway.dev/")
"""How the names of dimensions begin that are written where devices are counted, and written again after this."""


class Compaction:
    """When it is due, and what is done. `refresh` brings the tables up to date; `shapes` lists the shapes that tasks
    have; `forget_intake` drops what reading objects leaves behind.
    """

    def __init__(
        self,
        state: ClusterTables,
        refresh: Callable[[], None],
        shapes: Callable[[], Iterable[Shape]],
        forget_intake: Callable[[], None],
    ) -> None:
        self._state = state
        self._refresh = refresh
        self._shapes = shapes
        self._forget_intake = forget_intake
        self._left_over = 0
        self._cycles = 0
        self.shapes_gone = 0
        """For caches that keep something for each shape."""

    def suspect(self, *, small: bool = False) -> None:
        """Something that is gone has probably left something behind."""
        self._left_over += 1 if small else SMALL

    def shape_gone(self, shape: Shape) -> None:
        """Its resource names and label keys are of no use any more, unless nodes have them."""
        self.shapes_gone += 1
        nodes = self._state.nodes
        if any(row >= _NATIVE and not nodes.has_dimension(row) for row, _ in shape.vector) or any(
            nodes.labels.is_odd(key) for key in label_keys(shape)
        ):
            self.suspect()

    def node_gone(self, before: Vector) -> None:
        """Its resource names are of no use any more, unless others have them."""
        if any(row >= _NATIVE and not self._state.nodes.has_dimension(row) for row, _ in before):
            self.suspect()

    def run_if_due(self) -> None:
        """A cycle begins."""
        self._cycles += 1
        state = self._state
        much = self._left_over >= SMALL * (MUCH + len(state.axis))
        enough = max(SMALL, (len(state.tasks) + len(state.nodes)) // PART)
        if much or (self._left_over >= enough and self._cycles >= CYCLES):
            self.run()

    def run(self) -> None:
        """Drop all that nothing in the state uses any more."""
        state = self._state
        self._refresh()
        state.derived.forget()
        state.queues.drop_unused({job.queue for job in state.jobs()})
        state.terms.compact()
        state.nodes.compact([name.startswith(DERIVED) for name in state.axis.names])
        self._drop_names()
        self._forget_intake()
        self._left_over = self._cycles = 0

    def _drop_names(self) -> None:
        """Resource names that no request, node, queue or group has any more; their rows are free for others."""
        state = self._state
        axis = state.axis
        used = state.nodes.dimensions_in_use() | state.queues.dimensions_in_use() | set(range(_NATIVE))
        for shape in self._shapes():
            used |= _rows(shape.vector)
        for job in state.groups.values():
            used |= _rows(job.minimum_resources or ())
        axis.free(row for row in range(len(axis)) if row not in used and axis.names[row])
        state.nodes.fit_axis()
        state.queues.fit(len(axis))


def label_keys(shape: Shape) -> list[str]:
    """The keys of node labels that a shape asks for."""
    keys = [key for key, _ in shape.node_selector]
    rules, affinity = shape.rules, shape.node_affinity
    keys += [key for _, key in (*rules.affinity, *rules.anti_affinity)]
    keys += [wish.topology_key for wish in rules.preferred] + [spread.topology_key for spread in rules.spread]
    if affinity is not None:
        required = affinity.required_during_scheduling_ignored_during_execution
        terms = [wish.preference for wish in affinity.preferred_during_scheduling_ignored_during_execution]
        terms += required.node_selector_terms if required is not None else ()
        keys += [requirement.key for term in terms for requirement in term.match_expressions]
    return keys


def _rows(vector: Vector) -> set[int]:
    return {row for row, _ in vector}
