"""What every trace reader gives: one `TraceJob` per job, one `TraceNode` per machine.

Amounts are kept amounts (see `resources.quantity`), times are whole microseconds on the trace's own clock:
only their differences mean something.

`TraceProblems` counts wrong rows: the first are kept to be shown, or refused where the user is strict.
"""

from __future__ import annotations

import msgspec

from fairway.clock import Micros
from fairway.errors import InputError, Problem, ProblemsError

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
        """How long it has its capacity: a job is ended when the time it requested is over."""
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


EXAMPLES = 5


class TraceProblems:
    """What was wrong in one trace file. A wrong row is left out; it never stops the rest."""

    def __init__(self, source: str, *, strict: bool = False) -> None:
        self.source = source
        self.strict = strict
        self.count = 0
        self.examples: list[Problem] = []
        self._note = ""

    def note(self, text: str) -> None:
        """Something that the user should know and that leaves nothing out; the first one is kept."""
        self._note = self._note or f"{self.source}: {text}"

    def add(self, line: int, message: str, path: str = "") -> None:
        """Note a row that is left out; where the user is strict it is an error instead."""
        problem = Problem(self.source, line, path, message)
        if self.strict:
            raise ProblemsError([problem])
        self.count += 1
        if len(self.examples) < EXAMPLES:
            self.examples.append(problem)

    def summary(self) -> list[str]:
        """What was noted; a line that counts, then the examples; nothing where nothing was wrong."""
        noted = [self._note] if self._note else []
        if not self.count:
            return noted
        rows = "row was" if self.count == 1 else "rows were"
        shown = "" if self.count == len(self.examples) else f"; the first {len(self.examples)}"
        return [*noted, f"{self.source}: {self.count} invalid {rows} left out{shown}:", *map(str, self.examples)]

    def nothing_left(self, format: str) -> InputError:
        """A file of which no row can be used is another file than it is said to be: a run of it would say nothing."""
        lines = "\n".join(map(str, self.examples))
        return InputError(f"{self.source}: no row could be read, expected a trace of format {format}:\n{lines}")
