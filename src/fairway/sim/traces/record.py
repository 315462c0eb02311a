"""What every trace reader gives: one `TraceJob` per job, one `TraceNode` per machine.

Amounts are kept amounts (see `resources.quantity`), times are whole microseconds on the trace's own clock:
only their differences mean something.
"""

from __future__ import annotations

import msgspec

from fairway.clock import Micros

GPU = "nvidia.com/gpu"
GPU_MODEL_LABEL = "nvidia.com/gpu.product"
"""The node label that carries the GPU model, as GPU feature discovery writes it."""


class TraceJob(msgspec.Struct, frozen=True, gc=False):
    """A job as its trace tells it: `tasks` like tasks that start together."""

    name: str
    submit: Micros
    run: Micros
    """How long it ran, from its start to its end."""
    request: dict[str, int]
    """What one task asks for; a part of one GPU counts as that part of `nvidia.com/gpu`."""
    namespace: str = "default"
    queue: str = "default"
    tasks: int = 1
    minimum: int | None = None
    """Tasks that must start together; all of them where this is not given."""
    limit: Micros | None = None
    """The run time its user asked for, where the trace has one."""
    priority: int = 0
    gpus: int = 0
    """Distinct GPUs of one task."""
    gpu_milli: int = 0
    """What it needs of each of them, in thousandths."""
    gpu_models: tuple[str, ...] = ()
    """The models it may run on; empty is any."""
    node_selector: dict[str, str] = {}

    @property
    def duration(self) -> Micros:
        """How long it holds its room: a job is ended when the time it asked for is over."""
        return self.run if self.limit is None else min(self.run, self.limit)

    @property
    def key(self) -> str:
        return f"{self.namespace}/{self.name}"


class TraceNode(msgspec.Struct, frozen=True, gc=False):
    """A machine as its trace tells it."""

    name: str
    allocatable: dict[str, int]
    labels: dict[str, str] = {}
    gpus: int = 0
