"""What one more task on a node costs: the units that would have to go.

On a node, units are added in order (least important first) until the task fits, then spared in reverse while it still
does. Nodes are compared by the highest priority among those who go, then by the number of pods, then by the work that
is lost, then by name.
"""

from __future__ import annotations

from typing import NamedTuple

import numpy as np
from numpy.typing import NDArray

from fairway.clock import Micros
from fairway.resources.columns import BoolColumn, IntColumn
from fairway.scheduler.session import Session
from fairway.scheduler.victims.index import VictimIndex
from fairway.scheduler.victims.units import Taken, Unit, start_of, with_mates
from fairway.state.shapes import Shape

Amounts = NDArray[np.int64]


class Cost(NamedTuple):
    """Small first."""

    priority: int
    pods: int
    work: Micros
    rank: int
    row: int


def cost_of(session: Session, units: list[Unit], taken: Taken, row: int) -> Cost:
    """What it costs that these go, and those who go along."""
    going = [unit for unit in with_mates(units) if unit not in taken]
    tasks = [task for unit in going for task in unit.tasks if task not in session.evicted]
    return Cost(
        max(unit.priority for unit in units),
        len(tasks),
        sum(session.now - start_of(task) for task in tasks),
        int(session.snapshot.rank[row]),
        row,
    )


def least_costs(
    session: Session, index: VictimIndex, entries: IntColumn, shape: Shape, open_: BoolColumn
) -> list[Cost]:
    """For all nodes at once what room for a task costs at least, cheapest first: mates are not counted here.

    `entries` are those of eligible units, by node and in order. A node without enough of them is not listed.
    """
    idle, rows = session.snapshot.idle, index.entry_row[entries]
    request = np.array([amount for _, amount in shape.vector], dtype=np.int64)
    dimensions = [dimension for dimension, _ in shape.vector]
    room = idle[dimensions]
    short = room < request[:, None]
    given = index.entry_amounts[dimensions][:, entries]
    useful = (short[:, rows] & (given > 0)).any(axis=0) & open_[rows]
    rows, entries, given = rows[useful], entries[useful], given[:, useful]
    if not len(rows):
        return []
    given = np.where(short[:, rows], given, 0)
    running = given.cumsum(axis=1)
    first = np.flatnonzero(np.r_[True, rows[1:] != rows[:-1]])
    start = np.repeat(first, np.diff(np.r_[first, len(rows)]))
    so_far = running - np.where(start > 0, running[:, start - 1], 0)
    enough = (so_far + room[:, rows] >= request[:, None]).all(axis=0)
    ends = np.flatnonzero(enough)
    nodes, where = np.unique(rows[ends], return_index=True)
    ends = ends[where]
    over = so_far[:, ends] + room[:, nodes] - request[:, None]
    return _ranked(session, index, nodes, start[ends], ends, index.entry_unit[entries], given, over)


def _ranked(
    session: Session,
    index: VictimIndex,
    nodes: IntColumn,
    starts: IntColumn,
    ends: IntColumn,
    units: IntColumn,
    given: Amounts,
    over: Amounts,
) -> list[Cost]:
    """Spare in reverse on all nodes in step, then sort. `over` is what is freed beyond the need."""
    pods = np.zeros(len(nodes), dtype=np.int64)
    work = np.zeros(len(nodes), dtype=np.int64)
    for back in range(int((ends - starts).max(initial=-1)) + 1):
        at = np.maximum(ends - back, starts)
        there = ends - back >= starts
        gives = given[:, at]
        spare = there & (over >= gives).all(axis=0)
        over = over - np.where(spare, gives, 0)
        kept = there & ~spare
        unit = units[at]
        pods += np.where(kept, index.pods[unit], 0)
        work += np.where(kept, session.now * index.pods[unit] - index.begun[unit], 0)
    priority, rank = index.priority[units[ends]], session.snapshot.rank[nodes]
    order = np.lexsort((rank, work, pods, priority))
    return [Cost(*map(int, (priority[i], pods[i], work[i], rank[i], nodes[i]))) for i in order]
