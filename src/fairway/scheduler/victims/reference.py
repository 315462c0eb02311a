"""The slow, obvious twin of `choice`: the same rules with plain loops, nothing remembered and nothing guessed.

Every node is asked each time what one more task there would cost, by taking units off it one by one and asking whether
the task would fit now. A test holds the two together on random clusters.
"""

from __future__ import annotations

from fairway.scheduler.session import Session
from fairway.scheduler.victims.claim import Claim, Found, Place
from fairway.scheduler.victims.scratch import Scratch
from fairway.scheduler.victims.units import Unit, start_of
from fairway.state.labels import ABSENT
from fairway.state.shapes import Shape, ports_clash
from fairway.state.tasks import Task

Price = tuple[int, int, int, str]
"""The highest priority of those who go, their number, the work that is lost, the node's name."""


def find_victims(claim: Claim) -> Found | None:
    """See `choice.find_victims`."""
    return _Search(claim).find()


class _Search:
    def __init__(self, claim: Claim) -> None:
        self._claim = claim
        self._session: Session = claim.session
        self._taken = claim.nothing_taken()
        self._scratch = Scratch(claim.session)
        eligible = [unit for unit in claim.index.units if unit is not None and claim.eligible[unit.number]]
        self._left = sorted(eligible, key=lambda unit: unit.order)
        """Units that may still be taken, in order."""

    def find(self) -> Found | None:
        places = self._spare() if self._queues_may_hold_it() and self._make_room() else None
        units = sorted(self._taken.units, key=lambda unit: unit.order)
        for unit in units:
            self._give_back(unit)
        return Found(units, places, {}) if units and places is not None else None

    # -- taking -------------------------------------------------------------------------------------------------

    def _queues_may_hold_it(self) -> bool:
        """Take units until the claimant's queues are below their limits with it."""
        for unit in list(self._left):
            over = self._claim.over_limits(self._taken)
            held = self._taken.held_by(unit)
            if any(dimension < len(held) and held[dimension] for dimension in over) and unit in self._left:
                self._take([unit])
        return not self._claim.over_limits(self._taken)

    def _make_room(self) -> bool:
        """While the gang does not place: room for one more task of the shape that is stuck, where it is cheapest."""
        while True:
            placed, stuck = self._place()
            made = stuck is None or self._make_one_room(stuck.shape)
            self._take_back(placed)
            if stuck is None or not made:
                return made

    def _make_one_room(self, shape: Shape) -> bool:
        while True:
            offers = [offer for row in self._rows(shape) if (offer := self._offer(shape, row)) is not None]
            if not offers:
                return False
            _, units = min(offers, key=lambda offer: offer[0])
            if self._take(units):
                return True

    def _take(self, units: list[Unit]) -> bool:
        """Take these and their mates; if one may not be taken nobody is, and it is out."""
        taken: list[Unit] = []
        for unit in units:
            for going in (*unit.mates, unit):
                if going in self._taken or any(task in self._session.evicted for task in going.tasks):
                    continue
                if going not in self._left or not self._claim.allows(going, self._taken):
                    self._left = [other for other in self._left if other not in (going, unit)]
                    for back in taken:
                        self._give_back(back)
                    self._left = sorted([*self._left, *taken], key=lambda unit: unit.order)
                    return False
                self._scratch.evict(going)
                self._taken.add(going)
                self._claim.budgets.spend(going.tasks)
                self._left.remove(going)
                taken.append(going)
        return True

    def _give_back(self, unit: Unit) -> None:
        self._scratch.restore(unit)
        self._taken.remove(unit)
        self._claim.budgets.spend(unit.tasks, -1)

    # -- sparing ------------------------------------------------------------------------------------------------

    def _spare(self) -> list[Place] | None:
        """In reverse order whoever can be spared is, again and again until nobody can."""
        spared = True
        while spared:
            spared = False
            for unit in reversed(list(self._taken.units)):
                if any(unit in gang.mates for gang in self._taken.units):
                    continue
                self._give_back(unit)
                if not self._claim.over_limits(self._taken) and self._places() is not None:
                    spared = True
                else:
                    self._scratch.evict(unit)
                    self._taken.add(unit)
                    self._claim.budgets.spend(unit.tasks)
        return self._places()

    def _places(self) -> list[Place] | None:
        placed, stuck = self._place()
        self._take_back(placed)
        return placed if stuck is None else None

    def _place(self) -> tuple[list[Place], Task | None]:
        """Place one task after the other, all of one shape before the next; returns the first that is stuck."""
        placed: list[Place] = []
        for run in self._claim.runs():
            for task in run.tasks:
                rows = self._session.kernel.choose(task.shape, 1)
                if not rows:
                    return placed, task
                self._session.write(task.shape, [task], rows, 1)
                placed.append((task, rows[0]))
        return placed, None

    def _take_back(self, placed: list[Place]) -> None:
        for task, row in reversed(placed):
            self._session.write(task.shape, [task], [row], -1)

    # -- one node -----------------------------------------------------------------------------------------------

    def _rows(self, shape: Shape) -> list[int]:
        """Where a task of the shape may ever go; reserved nodes are not for it."""
        kernel, names = self._session.kernel, self._session.snapshot.names
        rows = [row for row in range(len(names)) if names[row] and self._session.state.nodes.alive[row]]
        open_ = [row for row in rows if kernel.reserved is None or not kernel.reserved[row]]
        return [row for row in open_ if kernel.may_ever(shape, row)]

    def _offer(self, shape: Shape, row: int) -> tuple[Price, list[Unit]] | None:
        """What one more task on a row costs; None if nothing helps, or nothing has to go."""
        added: list[Unit] = []
        for unit in [unit for unit in self._left if self._helps(unit, shape, row)]:
            if self._fits(shape, row):
                break
            near = self._session.kernel.passes(shape, row)
            self._scratch.evict(unit)
            if near and not self._session.kernel.passes(shape, row):
                self._scratch.restore(unit)
            else:
                added.append(unit)
        fitted = self._fits(shape, row)
        needed: list[Unit] = []
        for unit in reversed(added):
            self._scratch.restore(unit)
            if fitted and not self._fits(shape, row):
                self._scratch.evict(unit)
                needed.insert(0, unit)
        for unit in needed:
            self._scratch.restore(unit)
        return (self._price(needed, row), needed) if needed else None

    def _fits(self, shape: Shape, row: int) -> bool:
        return self._session.kernel.takes(shape, row)

    def _price(self, units: list[Unit], row: int) -> Price:
        going: set[Task] = set()
        for unit in units:
            for each in (*unit.mates, unit):
                if each not in self._taken:
                    going |= {task for task in each.tasks if task not in self._session.evicted}
        work = sum(self._session.now - start_of(task) for task in going)
        return max(unit.priority for unit in units), len(going), work, self._session.snapshot.names[row]

    def _helps(self, unit: Unit, shape: Shape, row: int) -> bool:
        """Whether the unit holds something that the task is short of on the row, or stands in its way."""
        idle = self._session.snapshot.idle
        short = [dimension for dimension, amount in shape.vector if idle[dimension, row] < amount]
        for task in unit.tasks:
            freed = dict(self._session.devices.book.freed(task))
            if task.node == row and any(task.shape.amounts.get(d, 0) + freed.get(d, 0) > 0 for d in short):
                return True
            if self._blocks(task, shape, row):
                return True
        return False

    def _blocks(self, task: Task, shape: Shape, row: int) -> bool:
        if task.node == row and ports_clash(shape.ports, task.shape.ports):
            return True
        if task.node == row and shape.devices is not None and self._session.devices.of(task):
            return True
        mine = [key for term, key in shape.anti_affinity if term in task.matched]
        mine += [spread.topology_key for spread in shape.rules.spread if spread.hard and spread.term in task.matched]
        theirs = [key for term, key in task.shape.anti_affinity if term in shape.matched]
        return any(self._same_domain(task.node, row, key) for key in (*mine, *theirs))

    def _same_domain(self, one: int, other: int, key: str) -> bool:
        codes = self._session.state.nodes.labels.column(key, self._session.snapshot.size)
        return bool(codes[one] == codes[other] != ABSENT)
