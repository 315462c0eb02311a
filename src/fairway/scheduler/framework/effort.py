"""What looking at a template costs its namespaces, and which templates have to wait for a later cycle.

Costs are estimates in units of about a microsecond (`state.budgets`), by what the template says and by the number of
nodes. What a template costs for good (its expressions) is charged once; what it costs in every cycle is charged in
every cycle.
"""

from __future__ import annotations

from collections.abc import Iterable, Iterator
from typing import TYPE_CHECKING

from fairway.scheduler.verdict import Reason, Verdict
from fairway.state.namespaces import CycleBudget, NamespacePurse
from fairway.state.shapes import Shape
from fairway.state.waiting import GangTemplate

if TYPE_CHECKING:
    from fairway.scheduler.framework.job_run import JobRun
    from fairway.scheduler.framework.working_nodes import WorkingNodes

RETRY = 50_000
"""Microseconds after which what was put off is looked at again, if nothing else starts a cycle."""
PLAIN = 10
"""A look at a shape that asks for nothing but resources."""
RESERVING = 5
SEARCHING = 30
"""Looks at all nodes that a reservation, or a search for victims, takes."""
SINGLE = 50
"""The same for a shape that only one pod has: nothing that was computed before can be used for it."""
EXPLAINING = 5
"""Times that explaining a template costs a look at it."""


def out_of_budget(namespace: str) -> Verdict:
    return Verdict(
        False,
        Reason.SCHEDULING_BUDGET,
        detail=f"namespace {namespace} has used its scheduling budget for this cycle; a later cycle considers the job",
    )


class Effort:
    """Charges the namespaces of one session."""

    def __init__(self, budget: CycleBudget, nodes: WorkingNodes) -> None:
        self._budget = budget
        self._nodes = nodes
        self._costs: dict[Shape, int] = {}
        self._admitted: set[GangTemplate] = set()
        self._stepped: set[tuple[str, int]] = set()
        """Namespaces that had a step in this cycle, by what such a step costs."""
        self.verdicts: dict[GangTemplate, Verdict] = {}
        """Templates that wait for a later cycle, and what is said of them."""

    def in_turn(self, templates: Iterable[GangTemplate]) -> Iterator[GangTemplate]:
        """What was put off the last time comes first."""
        waited = self._budget.waited
        if not waited:
            return iter(templates)
        known = dict.fromkeys(templates)
        return iter([*(t for t in waited if t in known), *(t for t in known if t not in waited)])

    def admits(self, template: GangTemplate) -> bool:
        """Charge looking at a template, once in a cycle; False if it has to wait for a later cycle."""
        if template in self._admitted:
            return True
        if template in self.verdicts:
            return False
        purse, namespace = self._purse_of(template)
        if purse.left > 0:
            before = purse.spent
            if all(self._nodes.devices.prepare(shape, purse) for shape in _shapes(template)):
                purse.spend(sum(map(self.cost, _shapes(template))))
                self._admitted.add(template)
                return True
            if purse.spent == before:
                purse.spend(PLAIN)
            self.put_off(template, namespace, last=True)  # others of its namespace have their turn before it goes on
            return False
        self.put_off(template, namespace)
        return False

    def prepares(self, job: JobRun, shape: Shape) -> bool:
        """Have the expressions of a shape evaluated; False if that has to go on in a later cycle."""
        if self._nodes.devices.prepare(shape, self._budget.purse(job.namespace)):
            return True
        self._budget.put_off(job.template, job.namespace, last=True)
        return False

    def put_off(self, template: GangTemplate, namespace: str, *, last: bool = False) -> None:
        self._budget.put_off(template, namespace, last=last)
        self._admitted.discard(template)
        self.verdicts[template] = out_of_budget(namespace)

    def affords(self, job: JobRun, times: int = 1) -> bool:
        """Charge one more step of a job, as so many looks; False if it has to wait for a later cycle. Whatever was
        looked at is to be placed too, so steps may take as much again. The first step of each kind is always taken: one
        that costs more than that would otherwise never be.
        """
        purse, kind = self._budget.purse(job.namespace), (job.namespace, times)
        if purse.left <= -self._budget.part and kind in self._stepped:
            self.put_off(job.template, job.namespace)
            return False
        self._stepped.add(kind)
        purse.spend(times * (self.cost(job.runs[0].shape) if job.runs else PLAIN))
        return True

    def explains(self, template: GangTemplate) -> bool:
        """Charge the reasons of a template; False where they have to be those of an earlier cycle."""
        purse, _ = self._purse_of(template)
        if purse.left <= 0:
            return False
        purse.spend(EXPLAINING * sum(map(self.cost, _shapes(template))))
        return True

    def cost(self, shape: Shape) -> int:
        known = self._costs.get(shape)
        if known is None:
            known = self._costs[shape] = self._cost(shape)
        return known

    def _cost(self, shape: Shape) -> int:
        nodes = self._nodes.snapshot.size
        cost = PLAIN if shape.tasks > 1 else SINGLE + nodes // 20
        if shape.has_pod_rules:
            rules = shape.rules
            terms = len(rules.affinity) + len(rules.anti_affinity) + len(rules.preferred) + 2 * len(rules.spread)
            cost += (100 + terms * (40 + nodes // 10)) if terms else 0  # not for terms of others that match it
        if shape.ports:
            cost += len(shape.ports) * (10 + nodes // 10)
        if shape.node_selector or shape.node_affinity is not None or shape.tolerations:
            cost += 3 * len(shape.node_selector) + len(shape.tolerations) + len(shape.key.node_affinity) // 30
        if shape.devices is not None:
            cost += self._nodes.devices.look_cost(shape)
        return cost

    def _purse_of(self, template: GangTemplate) -> tuple[NamespacePurse, str]:
        """That of the namespace with most left, of those whose jobs have the template."""
        names = {key.namespace for key in template.classes} | {job.namespace for job in template.started}
        if len(names) == 1:
            (name,) = names
            return self._budget.purse(name), name
        name = min(names, key=lambda each: (-self._budget.purse(each).left, each))
        return self._budget.purse(name), name

    @property
    def has_put_off(self) -> bool:
        return bool(self._budget.deferred)


def _shapes(template: GangTemplate) -> Iterable[Shape]:
    return dict.fromkeys(run.shape for run in template.runs)
