"""What it costs the other classes that a device is used, for the strategy least-loss.

The loss of a device is the sum, over the classes that could take it, of what is asked of the class over what is free
of it. With nothing asked of any of them it is the number of those classes. Asked and free are those of the beginning of
the cycle, so that the order of choices does not change what they cost.
"""

from __future__ import annotations

from fractions import Fraction
from functools import cached_property

from fairway.devices.match.strategies import Loss
from fairway.devices.model.device import WHOLE
from fairway.devices.track.ledger import DeviceLedger
from fairway.devices.track.node import NodeDevices
from fairway.state.cluster import ClusterState


class Losses:
    """Worked out when it is needed: most policies never need it."""

    def __init__(self, ledger: DeviceLedger, state: ClusterState) -> None:
        self._ledger = ledger
        self._state = state
        self._known: dict[frozenset[str], tuple[Fraction, int]] = {}

    def on(self, node: NodeDevices) -> Loss:
        return lambda slot: self._loss(node.selectable_by[slot])

    def _loss(self, names: frozenset[str]) -> tuple[Fraction, int]:
        found = self._known.get(names)
        if found is None:
            cost = sum((self._per_class.get(name, Fraction(0)) for name in names), Fraction(0))
            found = self._known[names] = (cost, 0 if cost else len(names))
        return found

    @cached_property
    def _per_class(self) -> dict[str, Fraction]:
        asked: dict[str, int] = {}
        for template in self._state.waiting.templates():
            jobs = sum(len(job_class.jobs) for job_class in template.classes.values())
            for run in template.runs:
                requests = self._ledger.resolve(run.shape.devices).requests if run.shape.devices else ()
                for option in (request.options[0] for request in requests):
                    known = self._ledger.class_of(option.selector)
                    if known is not None and not option.admin:
                        amount = option.milli or option.units * WHOLE
                        asked[known.name] = asked.get(known.name, 0) + jobs * run.size * amount
        standings = ((name, self._ledger.standing(name)) for name in asked)
        return {
            name: Fraction(asked[name], max(WHOLE, standing.allocatable - standing.requested))
            for name, standing in standings
        }
