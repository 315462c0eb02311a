"""System pods are never victims: those of kube-system and those of a system-critical priority.

Which units hold such pods is a column of the victim index, so that it is not asked pod by pod for every claimant.
"""

from __future__ import annotations

from fairway.api.settings import Arguments
from fairway.resources.columns import BoolColumn
from fairway.scheduler.framework.hooks import ProtectsUnits, ProtectsUnitsAcrossQueues, Victims


class Conformance(ProtectsUnits, ProtectsUnitsAcrossQueues):
    """System pods are never evicted."""

    name = "conformance"

    def __init__(self, arguments: Arguments) -> None: ...

    def preemptable_units(self, index: Victims) -> BoolColumn:
        return ~index.system[: len(index.units)]

    def reclaimable_units(self, index: Victims) -> BoolColumn:
        return self.preemptable_units(index)
