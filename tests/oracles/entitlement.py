"""Which job may take from which: spec S7.1 and S7.2 with fractions, every sum made when it is needed."""

from __future__ import annotations

from collections.abc import Iterable
from dataclasses import dataclass
from fractions import Fraction

from fairway.api.arguments import DrfArguments, PreemptArguments
from fairway.api.policy import Policy
from oracles.cluster import Amounts, Cluster, Job, QueueRecord, Task, add_up
from oracles.queues import Queues
from oracles.units import Unit


def less(held: Amounts, lost: Amounts) -> Amounts:
    return {name: held.get(name, 0) - lost.get(name, 0) for name in {*held, *lost}}


def lost_by(units: Iterable[Unit]) -> Amounts:
    return add_up(unit.held() for unit in units)


@dataclass
class World:
    cluster: Cluster
    policy: Policy
    queues: Queues

    def share(self, held: Amounts) -> Fraction:
        totals = {name: total for name, total in self.queues.total.items() if total and name != "pods"}
        return max((Fraction(held.get(name, 0), total) for name, total in totals.items()), default=Fraction(0))

    def namespace(self, queue: str, name: str) -> Amounts:
        jobs = [job for job in self.cluster.jobs.values() if (job.queue, job.namespace) == (queue, name)]
        return add_up(job.held() for job in jobs)

    def weighted(self, queue: str, name: str, more: Amounts, lost: Amounts) -> Fraction:
        held = less(add_up([self.namespace(queue, name), more]), lost)
        return self.share(held) / self.cluster.weights.get(name, 1)


class Preempt:
    """Inside a queue: one comparison, in allocate's order, over a whole move.

    Units are offered one by one (`allows`), and the move is judged when all are known (`allows_move`). `mode` says how
    single units are judged: "wide" as if all victims in the claimant's own namespace went, "own first" the same with
    those before all others, "strict" as if none did. But for "wide", every unit must lower the share that it counts in.
    """

    action = "preempt"

    def __init__(self, world: World, job: Job, tasks: list[Task], mode: str = "wide") -> None:
        self._world = world
        self._job = job
        self._tasks = tasks
        self._mode = mode
        self._gang = add_up(task.request for task in tasks)
        drf = world.policy.plugin("drf")
        self._shares = drf is not None
        self._first = drf is not None and isinstance(drf.arguments, DrfArguments) and drf.arguments.priority_first
        self._priorities = world.policy.plugin("priority") is not None
        preempt = next(action.arguments for action in world.policy.actions if action.name == "preempt")
        self._by_jobs = self._shares and isinstance(preempt, PreemptArguments) and preempt.by_job_share
        self.own: list[Unit] = []
        """Those of the claimant's own namespace that may go; the search says so."""
        self.no_idle: set[str] = set()
        """Of what the search may not use free capacity."""

    def may_act(self) -> bool:
        return True

    def may_ever(self, unit: Unit) -> bool:
        """Whether a unit of the claimant's own namespace may go at all."""
        own = unit.job.queue == self._job.queue and unit.job.namespace == self._job.namespace
        if not own or unit.job is self._job:
            return False
        if self._priorities and unit.job.priority != self._job.priority:
            return unit.job.priority < self._job.priority
        return self._by_jobs and unit.surplus

    def allows(self, unit: Unit, taken: list[Unit]) -> bool:
        if unit.job is self._job or unit.job.queue != self._job.queue:
            return False
        own = [] if self._mode == "strict" else self.own
        return self._judge(unit, [*taken, unit], own, [unit] if self._mode != "wide" else None)

    def allows_move(self, units: list[Unit]) -> bool:
        mine = [unit for unit in units if unit.job.namespace == self._job.namespace]
        return all(self._judge(unit, units, mine, units) for unit in units) and not self.raises(units)

    def stricter(self, units: list[Unit]) -> list[Preempt]:
        """What to search with where a move is not allowed."""
        found = []
        if {unit.job.namespace for unit in units} > {self._job.namespace}:
            found.append(Preempt(self._world, self._job, self._tasks, "own first"))
        strict = Preempt(self._world, self._job, self._tasks, "strict")
        if self.raises(units):
            before = self._mine([], [])
            for name, amount in self._gang.items():
                after = less(add_up([self._held(), self._gang]), lost_by(self._own(units)))
                alone = self._world.share({name: after[name]}) / self._weight(self._job.namespace)
                if amount and alone > before:
                    strict.no_idle.add(name)
        return [*found, strict]

    def lead(self, unit: Unit, taken: list[Unit]) -> int:
        return int(self._mode == "own first" and unit.job.namespace != self._job.namespace)

    lead_adds = False

    def raises(self, units: list[Unit]) -> bool:
        """A priority step inside the namespace may not raise its share above that of every other."""
        if self._first or not self._shares or not self._priorities:
            return False
        if not any(unit.job.priority < self._job.priority for unit in self._own(units)):
            return False
        names = {job.namespace for job in self._world.cluster.jobs.values() if job.queue == self._job.queue}
        others = [self._theirs(name, units) for name in names - {self._job.namespace}]
        after = self._mine([self._gang], self._own(units))
        return after > self._mine([], []) and 0 < max(others, default=Fraction(0)) < after

    def _judge(self, unit: Unit, going: list[Unit], own: list[Unit], falling: list[Unit] | None) -> bool:
        """`own` leave the claimant's namespace; with `falling`, their going must lower the share they count in."""
        priority = unit.job.priority - self._job.priority if self._priorities else 0
        if self._first and priority:
            return priority < 0
        name = unit.job.namespace
        if self._shares and name != self._job.namespace:
            if self._mine([self._gang], own) > self._theirs(name, going):
                return False
            if self._mine([], []) != self._theirs(name, []):
                return falling is None or self._theirs(name, falling) < self._theirs(name, [])
        if priority:
            return priority < 0
        return self._by_job(unit, going, falling)

    def _by_job(self, unit: Unit, going: list[Unit], falling: list[Unit] | None) -> bool:
        if not self._by_jobs or not unit.surplus:
            return False
        share, job = self._world.share, unit.job
        left = less(job.held(), lost_by(other for other in going if other.job is job))
        if not left.get("pods") or share(add_up([self._job.held(), self._gang])) > share(left):
            return False
        if falling is None:
            return True
        return share(less(job.held(), lost_by(other for other in falling if other.job is job))) < share(job.held())

    def _own(self, units: list[Unit]) -> list[Unit]:
        return [unit for unit in units if unit.job.namespace == self._job.namespace]

    def _weight(self, name: str) -> int:
        return self._world.cluster.weights.get(name, 1)

    def _held(self) -> Amounts:
        return self._world.namespace(self._job.queue, self._job.namespace)

    def _mine(self, more: list[Amounts], gone: list[Unit]) -> Fraction:
        return self._world.weighted(self._job.queue, self._job.namespace, add_up(more), lost_by(gone))

    def _theirs(self, name: str, gone: list[Unit]) -> Fraction:
        lost = lost_by(unit for unit in gone if unit.job.namespace == name)
        return self._world.weighted(self._job.queue, name, {}, lost)


class Reclaim:
    """Across queues. `floors` say what queues must keep; with `small`, small units go first."""

    action = "reclaim"

    def __init__(
        self,
        world: World,
        job: Job,
        tasks: list[Task],
        floors: dict[str, Amounts] | None = None,
        *,
        small: bool = False,
    ) -> None:
        self._world = world
        self._job = job
        self._tasks = tasks
        self._gang = add_up(task.request for task in tasks)
        self._asked = sorted(name for name, amount in self._gang.items() if amount and name != "pods")
        self._floors = floors
        self._small = small
        self.lead_adds = small

    def may_act(self) -> bool:
        held, deserved = self._held(self._job.queue, []), self._deserved(self._job.queue)
        return all(held.get(name, 0) + self._gang[name] <= deserved.get(name, 0) for name in self._asked)

    def allows(self, unit: Unit, taken: list[Unit]) -> bool:
        queue = unit.job.queue
        if not self._gives(queue, []) or not (self._small or self._gives(queue, taken)):
            return False
        left = less(self._held(queue, taken), unit.held())
        floor = None if self._floors is None else self._floors.get(queue, self._held(queue, []))
        if floor is not None and any(left.get(name, 0) < least for name, least in floor.items() if name != "pods"):
            return False
        return self._keeps_guarantees(unit, taken)

    def lead(self, unit: Unit, taken: list[Unit]) -> int:
        if self._small:
            held, total = unit.held(), self._world.queues.total
            return max(held.get(name, 0) * 1_000_000 // max(1, total.get(name, 0)) for name in self._asked)
        giving = [queue for queue in self._world.cluster.queues.values() if self._gives(queue.name, taken)]
        places = sorted({self._place(queue, taken) for queue in giving})
        queue = self._world.cluster.queues[unit.job.queue]
        return places.index(self._place(queue, taken)) if queue in giving else len(places)

    def below(self, units: list[Unit]) -> Fraction:
        """How far these would take queues below what they deserve."""
        total, short = self._world.queues.total, Fraction(0)
        for queue in {unit.job.queue for unit in units}:
            left = self._held(queue, units)
            for name, least in self.floor(queue).items():
                if name != "pods" and left.get(name, 0) < least:
                    short += Fraction(least - left.get(name, 0), max(1, total.get(name, 0)))
        return short

    def allows_set(self, units: list[Unit]) -> bool:
        """Only from queues above what they deserve, no queue below its guarantee, the claimant within its limits."""
        if any(not self._gives(unit.job.queue, []) or not self._keeps_guarantees(unit, units) for unit in units):
            return False
        queues = self._world.queues
        for queue in queues.line(self._job.queue):
            below = [unit for unit in units if queue in queues.line(unit.job.queue)]
            held = less(add_up([queues.held(queue), self._gang]), lost_by(below))
            limits = [queue.capability, *([] if queues.lends() else [queues.deserved(queue.name)])]
            if any(amount and held[n] > limit.get(n, held[n]) for n, amount in self._gang.items() for limit in limits):
                return False
        return True

    def amount(self, units: list[Unit]) -> Fraction:
        """How much these hold of what the claimant asks for."""
        lost, total = lost_by(units), self._world.queues.total
        return sum((Fraction(lost.get(name, 0), max(1, total.get(name, 0))) for name in self._asked), Fraction(0))

    def narrowed(self, units: list[Unit]) -> list[Reclaim]:
        strict = {name: self.floor(name) for name in self._world.cluster.queues}
        kept = {unit.job.queue: self._held(unit.job.queue, units) for unit in units}
        first = Reclaim(self._world, self._job, self._tasks, strict)
        return [first, Reclaim(self._world, self._job, self._tasks, kept, small=True)]

    def floor(self, queue: str) -> Amounts:
        held = self._held(queue, [])
        return {name: amount for name, amount in self._deserved(queue).items() if held.get(name, 0) >= amount}

    def _place(self, queue: QueueRecord, taken: list[Unit]) -> tuple[int, Fraction]:
        left, deserved, total = self._held(queue.name, taken), self._deserved(queue.name), self._world.queues.total
        above = [
            Fraction(left.get(name, 0) - deserved.get(name, 0), max(1, total.get(name, 0)) * queue.weight)
            for name in self._asked
        ]
        return queue.priority, -max(above)

    def _gives(self, queue: str, taken: list[Unit]) -> bool:
        left, deserved = self._held(queue, taken), self._deserved(queue)
        above = any(left.get(name, 0) > deserved.get(name, 0) for name in self._asked)
        return queue != self._job.queue and above

    def _held(self, queue: str, taken: list[Unit]) -> Amounts:
        lost = lost_by(unit for unit in taken if unit.job.queue == queue)
        return less(self._world.queues.held(self._world.cluster.queues[queue]), lost)

    def _deserved(self, queue: str) -> Amounts:
        return self._world.queues.deserved(queue)

    def _keeps_guarantees(self, unit: Unit, taken: list[Unit]) -> bool:
        queues = self._world.queues
        for queue in queues.line(unit.job.queue):
            below = [other for other in {*taken, unit} if queue in queues.line(other.job.queue)]
            gained = self._gang if queue in queues.line(self._job.queue) else {}
            lost = lost_by(below)
            left = add_up([less(queues.held(queue), lost), gained])
            for name, least in queue.guarantee.items():
                if lost.get(name) and left.get(name, 0) < least:
                    return False
        return True
