"""One claimant's search for victims, node by node: a part of `oracles.eviction`.

Every node is asked what one more task there would cost, by taking units off it one by one; the cheapest pays, until the
whole gang places; what can be spared is.
"""

from __future__ import annotations

from collections import Counter
from collections.abc import Hashable, Iterator
from contextlib import contextmanager
from typing import TYPE_CHECKING, Any

from fairway.api.arguments import EvictionArguments
from fairway.api.core import Node
from fairway.clock import SECOND
from oracles.cluster import Job, Task, add_up
from oracles.entitlement import Preempt, Reclaim, lost_by
from oracles.places import Places
from oracles.units import Unit, start, units_of

if TYPE_CHECKING:
    from oracles.eviction import Evicting

Place = tuple[Task, str]


class Search:
    """Victims for one claimant."""

    def __init__(
        self,
        plan: Evicting,
        job: Job,
        tasks: list[Task],
        entitlement: Preempt | Reclaim,
        arguments: EvictionArguments,
    ) -> None:
        self._plan = plan
        self._job = job
        self._tasks = tasks
        self._entitlement = entitlement
        self._taken: list[Unit] = []
        self._away: dict[Task, str] = {}
        oldest = plan.now - arguments.min_runtime * SECOND
        nominated = {made.job for made in plan.made}
        possible = [
            unit
            for job in plan.cluster.jobs.values()
            if job not in nominated
            for unit in units_of(job, plan.bound)
            if not plan.protections.spare(unit)
            and not any(task in plan.gone for task in unit.tasks)
            and not (arguments.min_runtime and any(start(t) > oldest for u in (unit, *unit.along) for t in u.tasks))
        ]
        if isinstance(entitlement, Preempt):
            entitlement.own = [unit for unit in possible if entitlement.may_ever(unit)]
        self.left = [unit for unit in possible if entitlement.allows(unit, [])]

    def find(self) -> tuple[list[Unit], list[Place]] | None:
        if isinstance(self._entitlement, Preempt):
            self._plan.places.hide(self._entitlement.no_idle)
        enough = self._queues_may_hold_it() and self._make_room()
        self._plan.places.hide(set())
        places = self._spare() if enough else None
        units = sorted(self._taken, key=self._plan.order)
        for unit in units:
            self._give_back(unit)
        return (units, places) if units and places is not None else None

    # -- taking ---------------------------------------------------------------------------------------------------

    @contextmanager
    def _as_before(self) -> Iterator[None]:
        """What is taken counts as held, and what is tried out for the claimant does not: entitlement and limits reckon
        both by themselves.
        """
        tried = {task: task.node for task in self._tasks}
        for task, node in (*self._away.items(), *((task, "") for task in tried)):
            task.node = node
        yield
        for task, node in (*((task, "") for task in self._away), *tried.items()):
            task.node = node

    def _order(self, unit: Unit) -> tuple[Any, ...]:
        return self._lead(unit), self._plan.order(unit)

    def _lead(self, unit: Unit) -> int:
        with self._as_before():
            return self._entitlement.lead(unit, self._taken)

    def _allows(self, unit: Unit) -> bool:
        with self._as_before():
            return self._entitlement.allows(unit, self._taken)

    def _over_limits(self) -> set[str]:
        with self._as_before():
            return self._over()

    def _over(self) -> set[str]:
        queues, gang = self._plan.queues, add_up(task.request for task in self._tasks)
        over = set()
        for queue in queues.line(self._job.queue) if queues.shares_out() else []:
            lost = lost_by(unit for unit in self._taken if queue in queues.line(unit.job.queue))
            held = queues.held(queue)
            limits = [queue.capability, *([] if queues.lends() else [queues.deserved(queue.name)])]
            for name, amount in gang.items():
                after = held.get(name, 0) - lost.get(name, 0) + amount
                if amount and any(after > limit.get(name, after) for limit in limits):
                    over.add(name)
        return over

    def _queues_may_hold_it(self) -> bool:
        for unit in sorted(self.left, key=self._order):
            if unit in self.left and any(unit.held().get(name) for name in self._over_limits()):
                self._take([unit])
        return not self._over_limits()

    def _make_room(self) -> bool:
        while True:
            places, stuck = try_to_place(self._plan.places, self._tasks)
            made = stuck is None or self._make_room_for(stuck)
            for task, _ in places:
                task.node = ""
            if stuck is None or not made:
                return made

    def _make_room_for(self, task: Task) -> bool:
        while True:
            offers = [offer for name in self._plan.cluster.nodes if (offer := self._offer(task, name)) is not None]
            if not offers:
                return False
            _, units = min(offers, key=lambda offer: offer[0])
            if self._take(units):
                return True

    def _take(self, units: list[Unit]) -> bool:
        """These and those that go along; if one may not be taken none is, and it is out, with all that may not either
        after what is taken.
        """
        taken: list[Unit] = []
        for unit in units:
            for going in (*unit.along, unit):
                if going in self._taken or any(task in self._plan.gone for task in going.tasks):
                    continue
                known = going in self.left and self._allows(going)
                if not known or not self._plan.protections.allow(going.tasks):
                    for back in taken:
                        self._give_back(back)
                    left = [other for other in (*self.left, *taken) if other not in (going, unit)]
                    self.left = [other for other in left if self._allows(other)]
                    return False
                self._remove(going)
                self.left.remove(going)
                taken.append(going)
        return True

    def _remove(self, unit: Unit) -> None:
        self._taken.append(unit)
        self._plan.protections.spend(unit.tasks)
        for task in unit.tasks:
            self._away[task], task.node = task.node, ""

    def _give_back(self, unit: Unit) -> None:
        self._taken.remove(unit)
        self._plan.protections.spend(unit.tasks, -1)
        for task in unit.tasks:
            task.node = self._away.pop(task)

    # -- sparing --------------------------------------------------------------------------------------------------

    def _spare(self) -> list[Place] | None:
        spared = True
        while spared:
            spared = False
            for unit in reversed(list(self._taken)):
                if any(unit in gang.along for gang in self._taken):
                    continue
                place_in_order = self._taken.index(unit)
                self._give_back(unit)
                if not self._over_limits() and place(self._plan.places, self._tasks) is not None:
                    spared = True
                else:
                    self._remove(unit)
                    self._taken.insert(place_in_order, self._taken.pop())
        return place(self._plan.places, self._tasks)

    # -- one node -------------------------------------------------------------------------------------------------

    def _offer(self, task: Task, name: str) -> tuple[tuple[Any, ...], list[Unit]] | None:
        """What one more task on a node costs; None if nothing helps, or nothing has to go."""
        node, places = self._plan.cluster.nodes[name], self._plan.places
        if not places.fits_when_empty(task, node):
            return None
        short = [n for n, amount in task.request.items() if amount and places.free(node).get(n, 0) < amount]
        helpful = [unit for unit in self.left if self._helps(unit, task, node, short)]
        added: list[Unit] = []
        for unit in sorted(helpful, key=self._order):
            if places.fits(task, node):
                break
            near = places.rules_hold(task, node)
            self._lift(unit)
            if near and not places.rules_hold(task, node):
                self._put_back(unit)
            else:
                added.append(unit)
        fitted, needed = places.fits(task, node), list[Unit]()
        for unit in reversed(added):
            self._put_back(unit)
            if fitted and not places.fits(task, node):
                self._lift(unit)
                needed.insert(0, unit)
        for unit in needed:
            self._put_back(unit)
        return (self._price(needed, name), needed) if needed else None

    def _lift(self, unit: Unit) -> None:
        for task in unit.tasks:
            self._away[task], task.node = task.node, ""

    def _put_back(self, unit: Unit) -> None:
        for task in unit.tasks:
            task.node = self._away.pop(task)

    def _price(self, units: list[Unit], name: str) -> tuple[Any, ...]:
        going = {unit for each in units for unit in (each, *each.along) if unit not in self._taken}
        pods = [task for unit in going for task in unit.tasks if task not in self._plan.gone]
        leads = [self._lead(unit) for unit in units]
        lead = sum(leads) if self._entitlement.lead_adds else max(leads)
        return lead, max(unit.grade for unit in units), self._plan.order.work(pods), len(pods), name

    def _helps(self, unit: Unit, task: Task, node: Node, short: list[str]) -> bool:
        """Whether it has something that the task is short of on the node, or is in its way."""
        here = [other for other in unit.tasks if other.node == node.metadata.name]
        if any(other.request.get(name) for other in here for name in short):
            return True
        return any(self._plan.places.blocks(other, task, node) for other in unit.tasks)


def try_to_place(places: Places, tasks: list[Task]) -> tuple[list[Place], Task | None]:
    """All like tasks before the next ones; where each went, and the first that found no node."""
    first = [next(i for i, other in enumerate(tasks) if other.alike(task)) for task in tasks]
    placed: list[Place] = []
    for _, task in sorted(zip(first, tasks, strict=True), key=lambda pair: pair[0]):
        node = places.best(task)
        if node is None:
            return placed, task
        task.node = node
        placed.append((task, node))
    return placed, None


def place(places: Places, tasks: list[Task]) -> list[Place] | None:
    """Where all of them would go; None if not all can. Nothing of it remains."""
    placed, stuck = try_to_place(places, tasks)
    for task, _ in placed:
        task.node = ""
    return placed if stuck is None else None


def place_together(places: Places, tasks: list[Task]) -> list[Place] | None:
    """In order, each on the best node that leaves places for all that follow. Nothing of it remains."""
    placed: list[Place] = []
    failed: set[Hashable] = set()
    kind = {task: next(i for i, other in enumerate(tasks) if other.alike(task)) for task in tasks}

    def rest() -> bool:
        if len(placed) == len(tasks):
            return True
        known = frozenset(Counter((kind[task], node) for task, node in placed).items())
        task = tasks[len(placed)]
        for node in places.in_order(task) if known not in failed else []:
            task.node = node
            placed.append((task, node))
            if rest():
                return True
            placed.pop()
            task.node = ""
        failed.add(known)
        return False

    found = rest()
    for task, _ in placed:
        task.node = ""
    return placed if found else None
