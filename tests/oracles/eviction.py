"""The slow, obvious twin of preempt and reclaim: spec S7 read literally, from the objects.

    plan_evictions(objects, policy, now) -> Evicted(evictions, nominations)

Allocation is done by `oracles.allocation`. Then every claimant in turn: every node is asked what one more task there
would cost, by taking units off it one by one; the cheapest pays, until the whole gang places; what can be spared is.
Nothing is remembered and nothing is guessed, and no code is shared with the engine. It knows resources, ports, rules
between pods, gangs, budgets, queues and shares; not devices, reservations, and nominations of earlier cycles.
"""

from __future__ import annotations

from collections.abc import Callable, Iterable
from dataclasses import dataclass, field
from fractions import Fraction
from typing import Any, NamedTuple

from fairway.api.arguments import EvictionArguments
from fairway.api.core import Node
from fairway.api.kinds import ApiObject
from fairway.api.policy import Policy
from oracles.allocation import Allocation, has_started
from oracles.cluster import Amounts, Cluster, Job, Task, add_up
from oracles.entitlement import Preempt, Reclaim, World
from oracles.places import Places
from oracles.units import Order, Protections, Unit
from oracles.victim_search import Place, Search, place, place_together

FEW_UNITS = 10
"""Of so few units all sets are looked at; the engine says the same of itself."""


class Evicted(NamedTuple):
    """(pod, for which job, by which action), in the order decided; (pod, node) of nominations, by pod."""

    evictions: list[tuple[str, str, str]]
    nominations: list[tuple[str, str]]


def plan_evictions(objects: Iterable[ApiObject], policy: Policy, now: int) -> Evicted:
    return Evicting(list(objects), policy, now).run()


class _After(Places):
    """Nodes as they will be when terminating pods are gone: their room counts; to rules they are still there."""

    def __init__(self, cluster: Cluster, policy: Policy) -> None:
        super().__init__(cluster, policy)
        self._hidden: dict[str, Amounts] = {}

    def hide(self, names: set[str]) -> None:
        """What is free of these now is not, until it is shown again."""
        self._hidden = {}
        for name, node in self._cluster.nodes.items():
            free = self.free(node)
            self._hidden[name] = {each: max(0, free.get(each, 0)) for each in names}

    def free(self, node: Node) -> Amounts:
        free = self.allocatable(node)
        for name, amount in add_up(task.request for task in self._on(node) if not task.leaving).items():
            free[name] = free.get(name, 0) - amount
        for name, amount in self._hidden.get(node.metadata.name, {}).items():
            free[name] = free.get(name, 0) - amount
        return free


@dataclass(eq=False)
class Made:
    """What was decided for one claimant."""

    job: Job
    action: str
    tasks: list[Task]
    units: list[Unit]
    at: dict[Task, str] = field(default_factory=dict)


class Evicting:
    def __init__(self, objects: list[ApiObject], policy: Policy, now: int) -> None:
        self.cluster = Cluster(objects)
        self.policy = policy
        self.now = now
        drf = policy.plugin("drf")
        self._priority_first = drf is not None and getattr(drf.arguments, "priority_first", False)
        self.allocation = Allocation(self.cluster, policy, objects)
        self.queues = self.allocation.queues
        self.places = _After(self.cluster, policy)
        self.world = World(self.cluster, policy, self.queues)
        self.protections = Protections(objects, self.cluster)
        self.order = Order(now, self.queues.total)
        self.made: list[Made] = []
        self.bound: set[Task] = set()
        self.gone: set[Task] = set()

    def run(self) -> Evicted:
        before = {task for task in self.cluster.tasks() if task.node}
        for action in self.policy.actions:
            if action.name in ("preempt", "reclaim"):
                assert isinstance(action.arguments, EvictionArguments)
                self.queues.divide()
                self.bound = {task for task in self.cluster.tasks() if task.node} - before - self._nominated()
                self._act(action.name, action.arguments)
            else:
                self.allocation.act(action)
        self._spare_needless()
        evictions = [
            (task.key, made.job.key, made.action)
            for made in self.made
            for unit in made.units
            for task in sorted(unit.tasks, key=lambda task: task.key)
        ]
        return Evicted(evictions, sorted((task.key, node) for made in self.made for task, node in made.at.items()))

    # -- claimants ------------------------------------------------------------------------------------------------

    def _act(self, action: str, arguments: EvictionArguments) -> None:
        nominated = {made.job for made in self.made}
        waiting = [job for job in self.allocation.admission.candidates(backfill=False) if job not in nominated]
        if action == "reclaim":
            waiting = [job for job in waiting if self._is_below(job.queue)]
        while waiting:
            job = min(waiting, key=self.allocation.keys(waiting).__getitem__)
            if not has_started(job):
                job = self.allocation.broken_before(job, waiting) or job
            if not self._serve(job, action, arguments) or not (job.waiting() and self._is_ready(job)):
                waiting.remove(job)

    def _is_below(self, queue: str) -> bool:
        """Whether a queue has less than it deserves of anything, as the action begins."""
        held = self.queues.held(self.cluster.queues[queue])
        return any(held.get(name, 0) < amount for name, amount in self.queues.deserved(queue).items() if name != "pods")

    def _is_ready(self, job: Job) -> bool:
        """Nominated pods are not there yet."""
        nominated = self._nominated() & set(job.tasks)
        return sum(task.ready for task in job.tasks) - len(nominated) >= job.minimum

    def _nominated(self) -> set[Task]:
        return {task for made in self.made for task in made.at}

    def _serve(self, job: Job, action: str, arguments: EvictionArguments) -> bool:
        if any(task in self.gone for task in job.tasks):
            return False
        missing = job.minimum - job.ready_tasks()
        tasks = job.waiting()[:1] if job.is_ready() else job.waiting()[:missing]
        if not tasks or len(tasks) < missing:
            return False
        entitlement = (Preempt if action == "preempt" else Reclaim)(self.world, job, tasks)
        if not entitlement.may_act():
            return False
        found = self._find(job, tasks, entitlement, arguments)
        if found is None:
            return False
        units, places = found
        most = arguments.max_evictions_per_cycle
        going = sum(len(unit.tasks) for unit in units)
        if most is not None and len(self.gone) + going > most:
            return False
        if not self.allocation.may_borrow(job, tasks, together=not job.is_ready()) and self._borrows(job, tasks, units):
            return False
        self.made.append(Made(job, action, tasks, units, dict(places)))
        for unit in units:
            self.protections.spend(unit.tasks)
            for task in unit.tasks:
                task.leaving = True
                self.gone.add(task)
        for task, node in places:
            task.node = node
        return True

    def _borrows(self, job: Job, tasks: list[Task], units: list[Unit]) -> bool:
        """Whether a queue has more than it deserves, in what the tasks request, with them and without the units."""
        gained = add_up(task.request for task in tasks)
        for queue in self.queues.line(job.queue) if self.queues.shares_out() else ():
            held, deserved = self.queues.held(queue), self.queues.deserved(queue.name)
            lost = add_up(unit.held() for unit in units if queue in self.queues.line(unit.job.queue))
            for name, amount in gained.items():
                most = deserved.get(name, 1 << 100 if name == "pods" else 0)
                if amount and held.get(name, 0) - lost.get(name, 0) + amount > most:
                    return True
        return False

    def _find(
        self, job: Job, tasks: list[Task], entitlement: Preempt | Reclaim, arguments: EvictionArguments
    ) -> tuple[list[Unit], list[Place]] | None:
        search = Search(self, job, tasks, entitlement, arguments)
        units = list(search.left)
        found = search.find()
        if found is None:
            return None
        if isinstance(entitlement, Preempt):
            return self._allowed(job, tasks, entitlement, arguments, found)
        below = entitlement.below(found[0])  # nothing is away any more
        if below and len(units) <= FEW_UNITS:
            return self._least(units, tasks, entitlement, below) or found
        for narrower in entitlement.narrowed(found[0]) if below else []:
            other = Search(self, job, tasks, narrower, arguments).find()
            if other is not None and entitlement.below(other[0]) < below:
                return other
        return found

    def _allowed(
        self,
        job: Job,
        tasks: list[Task],
        entitlement: Preempt,
        arguments: EvictionArguments,
        found: tuple[list[Unit], list[Place]],
    ) -> tuple[list[Unit], list[Place]] | None:
        """The move, if it is allowed as a whole; else the first of the stricter searches that finds one that is."""
        if entitlement.allows_move(found[0]):
            return found
        for stricter in entitlement.stricter(found[0]):
            other = Search(self, job, tasks, stricter, arguments).find()
            if other is not None and stricter.allows_move(other[0]):
                return other
        return None

    def _least(
        self, units: list[Unit], tasks: list[Task], entitlement: Reclaim, most: Fraction
    ) -> tuple[list[Unit], list[Place]] | None:
        """Of all sets that serve, the one that takes queues the least below what they deserve; then the smallest."""
        best: tuple[tuple[Any, ...], list[Unit], list[Place]] | None = None
        for number in range(1, 1 << len(units)):
            chosen = sorted((u for i, u in enumerate(units) if number >> i & 1), key=self.order)
            pods = [task for unit in chosen for task in unit.tasks]
            whole = all(set(along.tasks) <= {*pods, *self.gone} for unit in chosen for along in unit.along)
            below = entitlement.below(chosen)
            if not whole or below >= most or not entitlement.allows_set(chosen) or not self.protections.allow(pods):
                continue
            rank = below, entitlement.amount(chosen), len(pods), [self.order(unit) for unit in chosen]
            if best is None or rank < best[0]:
                nodes = {task: task.node for task in pods}
                for task in nodes:
                    task.node = ""
                places = place(self.places, tasks)
                for task, node in nodes.items():
                    task.node = node
                if places is not None:
                    best = rank, chosen, places
        return None if best is None else best[1:]

    # -- the whole plan -------------------------------------------------------------------------------------------

    def _spare_needless(self) -> None:
        """Unit by unit, the last one first, until none can stay any more."""
        spared = True
        while spared:
            spared = False
            for made in reversed(self.made):
                for unit in reversed(list(made.units)):
                    along = unit.surplus and any(
                        u.job is unit.job and not u.surplus for m in self.made for u in m.units
                    )
                    if not along and self._may_stay(made, unit) and self._is_needless(made, unit):
                        made.units.remove(unit)
                        spared = True

    def _is_needless(self, made: Made, unit: Unit) -> bool:
        """Whether all claimants find places with the unit back, the rest of the plan as it is. Then they have them."""
        away = {task: task.node for each in self.made for u in each.units if u is not unit for task in u.tasks}
        for task in away:
            task.node = ""
        for task in unit.tasks:
            task.leaving = False
        stays = self._finds_places([made], place) or self._finds_places(self.made, place_together)
        if stays:
            self.gone -= set(unit.tasks)
        for task in unit.tasks:
            task.leaving = not stays
        for task, node in away.items():
            task.node = node
        return stays

    def _finds_places(self, moving: list[Made], how: Callable[[Places, list[Task]], list[Place] | None]) -> bool:
        """Whether the pods of these claimants find places beside all others; then they have them."""
        pods = [task for each in moving for task in each.at]
        for task in pods:
            task.node = ""
        room = [amount for node in self.cluster.nodes.values() for amount in self.places.free(node).values()]
        places = how(self.places, pods) if min(room) >= 0 else None
        for task, node in places or []:
            task.node = node
        others = [task for each in self.made if each not in moving for task in each.at]
        if places is None or not all(self._may_be_there(task) for task in others):
            for each in moving:
                for task, node in each.at.items():
                    task.node = node
            return False
        for each in moving:
            each.at = {task: task.node for task in each.at}
        return True

    def _may_be_there(self, task: Task) -> bool:
        node, task.node = task.node, ""
        fits = self.places.fits(task, self.cluster.nodes[node])
        task.node = node
        return fits

    def _may_stay(self, made: Made, unit: Unit) -> bool:
        """Whether no queue exceeds, with the unit, what the claims of the plan rest on."""
        held = unit.held()
        for queue in self.queues.line(unit.job.queue):
            claims = [each for each in self.made if queue in self.queues.line(each.job.queue)]
            limits = [queue.capability]
            reclaims = any(each.action == "reclaim" and each.job.queue == queue.name for each in claims)
            if self.queues.shares_out() and (not self.queues.lends() or reclaims):
                limits.append(self.queues.deserved(queue.name))
            have = self.queues.held(queue)
            for limit in limits if claims else []:
                if any(have.get(n, 0) + a > limit.get(n, 1 << 100) for n, a in held.items() if a):
                    return False
        for other in self.made:
            same = (other.job.queue, other.job.namespace) == (unit.job.queue, unit.job.namespace)
            by_share = [u for u in other.units if u.job.namespace != other.job.namespace]
            if self._priority_first:  # shares decide nothing about victims of lower priority
                by_share = [u for u in by_share if u.job.priority >= other.job.priority]
            if other is not made and same and by_share:
                return False
        return True
