"""What a task means to the rest of the state: its node, queue, namespace, job and the terms that match it.

`enter` and `leave` are each other's inverse. Whatever happens to a task is a `leave` and an `enter`.
"""

from __future__ import annotations

from collections.abc import Iterator

from fairway.state.jobs import ACCOUNTED, NOWHERE, ON_NODE, READY, WAITING, Job, Task, TaskState
from fairway.state.nodes import NodeTable
from fairway.state.pod_terms import PodTerms
from fairway.state.queues import QueueTree
from fairway.state.volumes import VolumeUse


class TaskLedger:
    """Counts tasks in and out, and marks the jobs that this concerns."""

    def __init__(self, nodes: NodeTable, queues: QueueTree, terms: PodTerms, volumes: VolumeUse) -> None:
        self._nodes = nodes
        self._volumes = volumes
        self._queues = queues
        self._terms = terms
        self._marked: dict[Job, None] = {}

    def enter(self, task: Task, state: TaskState, node: int) -> None:
        """Count a task in, in a state and on a node. A state that cannot follow its last one raises: this is the one
        place at which tasks change state.
        """
        task.become(state)
        task.node = node
        self._count(task, 1)

    def leave(self, task: Task) -> None:
        """Count a task out: exactly what `enter` counted in."""
        self._count(task, -1)
        task.node = NOWHERE

    def mark(self, job: Job) -> None:
        """Something about the job changed."""
        self._marked[job] = None

    @property
    def has_marked(self) -> bool:
        """Whether a job changed since they were last taken."""
        return bool(self._marked)

    def take_marked(self) -> Iterator[Job]:
        """The jobs that changed since the last time."""
        while self._marked:
            marked, self._marked = self._marked, {}
            yield from marked

    def settle(self, task: Task, by: int) -> None:
        """What a task means to its node."""
        nodes, row, vector = self._nodes, task.node, task.shape.vector
        nodes.reach()
        if task.state in ON_NODE:
            nodes.used.add(row, vector, by)
            self._terms.place(task, by)
            if task.shape.ports:
                self._open_ports(task, by)
            if task.shape.volumes.is_counted:
                self._volumes.place(task.shape.volumes, row, by)
        if task.state is TaskState.RELEASING:
            nodes.releasing.add(row, vector, by)
        elif task.state is TaskState.PIPELINED:
            nodes.pipelined.add(row, vector, by)
        elif task.state is TaskState.RESERVED:
            nodes.reserved.add(row, vector, by)
        if by > 0:
            nodes.tasks[row].append(task)
        else:
            nodes.tasks[row].remove(task)
            nodes.collect(row)
        nodes.touch(row)

    def _count(self, task: Task, by: int) -> None:
        job, state = task.job, task.state
        job.ready += by * (state in READY)
        job.pending += by * (state in WAITING)
        job.gated += by * (state is TaskState.GATED)
        if state in ACCOUNTED:
            self._queues.get(job.queue).charge(job.namespace, task.shape.vector, by)
        if task.node != NOWHERE:
            self.settle(task, by)
        self.mark(job)

    def _open_ports(self, task: Task, by: int) -> None:
        taken = self._nodes.ports.setdefault(task.node, [])
        for port in task.shape.ports:
            if by > 0:
                taken.append(port)
            else:
                taken.remove(port)
        if not taken:
            del self._nodes.ports[task.node]
