"""What happened on which node and when, for runs small enough to be drawn.

Kept only up to a limit: of a long run the plots over time tell more than ten thousand bars would.
"""

from __future__ import annotations

import msgspec

from fairway.clock import Micros

MAX_BARS = 2_000
MAX_NODES = 48
MAX_RESERVATIONS = 2_000
MAX_OUTAGES = 200


class Bar(msgspec.Struct, rename="camel"):
    """A pod on a node, from its binding until its capacity was free again."""

    node: str
    job: str
    queue: str
    start: Micros
    end: Micros
    evicted: bool = False


class ReservationSpan(msgspec.Struct, rename="camel"):
    """A starving job, from when nodes were reserved for it until they no longer were."""

    job: str
    nodes: int
    start: Micros
    end: Micros


class Outage(msgspec.Struct, rename="camel"):
    """A node that was down."""

    node: str
    start: Micros
    end: Micros


class NodeTimeline:
    """The bars of one run; `complete` is False if there were more than are kept."""

    def __init__(self) -> None:
        self.bars: list[Bar] = []
        self.reservations: list[ReservationSpan] = []
        self.outages: list[Outage] = []
        self.complete = True
        self._open: dict[str, Bar] = {}
        self._nodes: set[str] = set()
        self._open_reservations: dict[str, ReservationSpan] = {}
        self._away: dict[str, Outage] = {}

    def bound(self, at: Micros, pod: str, job: str, queue: str, node: str) -> None:
        if len(self.bars) >= MAX_BARS or (node not in self._nodes and len(self._nodes) >= MAX_NODES):
            self.complete = False
            return
        self._nodes.add(node)
        bar = self._open[pod] = Bar(node, job, queue, at, at)
        self.bars.append(bar)

    def freed(self, at: Micros, pod: str, *, evicted: bool = False) -> None:
        bar = self._open.pop(pod, None)
        if bar is not None:
            bar.end, bar.evicted = at, evicted

    def reserved(self, at: Micros, nodes_by_job: dict[str, int]) -> None:
        """From now on these jobs have this many nodes reserved; all others have none."""
        for job in [job for job in self._open_reservations if job not in nodes_by_job]:
            self._open_reservations.pop(job).end = at
        for job, nodes in nodes_by_job.items():
            if job in self._open_reservations:
                self._open_reservations[job].nodes = max(self._open_reservations[job].nodes, nodes)
            elif len(self.reservations) < MAX_RESERVATIONS:
                self._open_reservations[job] = ReservationSpan(job, nodes, at, at)
                self.reservations.append(self._open_reservations[job])

    def went(self, at: Micros, node: str) -> None:
        if len(self.outages) < MAX_OUTAGES and node not in self._away:
            self._away[node] = Outage(node, at, at)
            self.outages.append(self._away[node])

    def returned(self, at: Micros, node: str) -> None:
        if node in self._away:
            self._away.pop(node).end = at

    def close(self, at: Micros) -> None:
        """Ends open bars at the end of the run."""
        lasting: list[Bar | ReservationSpan | Outage] = [
            *self._open.values(),
            *self._open_reservations.values(),
            *self._away.values(),
        ]
        for bar in lasting:
            bar.end = at
