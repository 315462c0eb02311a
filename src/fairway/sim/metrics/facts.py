"""What the metrics know of a job and of a queue: as reported, and as kept while the job is alive."""

from __future__ import annotations

from collections.abc import Mapping

import msgspec

from fairway.clock import Micros
from fairway.sim.metrics.planned import PlannedStartResult
from fairway.sim.metrics.tenants import QueueTenant, Tenant, Vector

GPU = "nvidia.com/gpu"


class JobFacts(msgspec.Struct, frozen=True):
    """What the metrics must know of a job when it comes."""

    key: str
    """namespace/name."""
    queue: str
    namespace: str
    tasks: int
    minimum: int
    """Tasks that must be placed for the job to count as started."""
    demand: Mapping[str, int]
    """What all its tasks ask for together."""
    first_step: Mapping[str, int]
    """What its minimum asks for."""
    next_step: Mapping[str, int]
    """What one more task asks for."""
    limit: Micros | None = None
    """The run time that its user asked for."""

    @property
    def processors(self) -> int:
        """CPUs that it asks for, in thousandths; of a job that asks for none, GPUs; else one for each task."""
        return self.demand.get("cpu") or self.demand.get(GPU) or self.tasks * 1000


class QueueFacts(msgspec.Struct, frozen=True):
    name: str
    weight: int = 1
    guarantee: Mapping[str, int] = {}


class AliveJob:
    """A job that has not finished."""

    __slots__ = (
        "allocated",
        "demand",
        "facts",
        "left",
        "namespace",
        "placed",
        "planned",
        "queue",
        "size",
        "start",
        "step",
        "stops",
        "submit",
    )

    def __init__(self, facts: JobFacts, submit: Micros, queue: QueueTenant, namespace: Tenant, size: str) -> None:
        self.facts = facts
        self.submit = submit
        self.queue = queue
        self.namespace = namespace
        self.size = size
        self.start: Micros | None = None
        self.left = facts.tasks
        """Tasks that have not ended by themselves."""
        self.placed = 0
        self.stops = 0
        """How often evictions took it below its minimum."""
        self.planned: PlannedStartResult | None = None
        """What became of its planned start, the last time that it started."""
        self.allocated = [0] * len(queue.allocated)
        self.demand = [0] * len(queue.allocated)
        self.step: Vector | None = None

    @property
    def ready(self) -> int:
        """Tasks that count towards its minimum: those that have a place, and those that have ended."""
        return self.placed + self.facts.tasks - self.left
