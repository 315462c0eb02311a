"""A made-up cluster and backlog of a given size, the same for the same numbers."""

from __future__ import annotations

from collections.abc import Iterator
from dataclasses import dataclass
from datetime import UTC, datetime, timedelta

import numpy as np
from numpy.typing import NDArray

from fairway.api.core import Node, NodeStatus
from fairway.api.kinds import ApiObject
from fairway.api.meta import ObjectMeta
from fairway.api.pods import Container, Pod, PodSpec, PodStatus, ResourceRequirements
from fairway.api.scheduling import PodGroup, PodGroupSpec, Queue, QueueSpec

START = datetime(2026, 1, 1, tzinfo=UTC)
GROUP = "scheduling.k8s.io/group-name"
QUEUE = "scheduling.volcano.sh/queue-name"


@dataclass(frozen=True)
class Size:
    """`min_member` 0 means the whole gang; `namespaces` is the number per queue."""

    nodes: int = 10_000
    pods: int = 100_000
    gang: int = 10
    min_member: int = 0
    queues: int = 100
    namespaces: int = 10
    shapes: int = 50

    @property
    def jobs(self) -> int:
        return self.pods // self.gang

    @property
    def minimum(self) -> int:
        """Pods that a job needs at once."""
        return self.min_member or self.gang


class Workload:
    """Objects of a size. Demand fits the cluster, so that every pod is placed."""

    def __init__(self, size: Size, seed: int = 1) -> None:
        self.size = size
        random = np.random.default_rng(seed)
        self.shapes = [
            (int(cpu) * 100, int(memory) << 26, int(gpu))
            for cpu, memory, gpu in zip(
                random.integers(1, 21, size.shapes),
                random.integers(1, 65, size.shapes),
                random.integers(0, 2, size.shapes) * (random.random(size.shapes) < 0.2),
                strict=True,
            )
        ]
        self.shape_of_job = random.integers(0, size.shapes, max(size.jobs, 1))
        per_node = -(-size.pods // size.nodes) + 2
        self.node = (2000 * per_node, (64 << 26) * per_node, 2 * per_node)

    def cluster(self) -> Iterator[ApiObject]:
        cpu, memory, gpu = self.node
        status = NodeStatus(
            capacity={"cpu": f"{cpu}m", "memory": str(memory), "example.com/gpu": str(gpu), "pods": "250"}
        )
        for index in range(self.size.nodes):
            yield Node(metadata=ObjectMeta(name=f"node-{index:05}"), status=status)
        for index in range(self.size.queues):
            yield Queue(metadata=ObjectMeta(name=f"queue-{index:03}"), spec=QueueSpec(weight=1 + index % 3))

    def backlog(self, *, prefix: str = "job", jobs: int | None = None, node_of: bool = False) -> Iterator[ApiObject]:
        """Pending jobs, or with `node_of` running ones spread over the nodes."""
        size = self.size
        for job in range(size.jobs if jobs is None else jobs):
            shape = int(self.shape_of_job[job % len(self.shape_of_job)])
            queue = f"queue-{job % size.queues:03}"
            namespace = f"team-{job // size.queues % size.namespaces:02}-{job % size.queues:03}"
            created = START + timedelta(seconds=job)
            name = f"{prefix}-{job:06}"
            if size.gang > 1:
                yield PodGroup(
                    metadata=ObjectMeta(name=name, namespace=namespace, creation_timestamp=created),
                    spec=PodGroupSpec(min_member=size.minimum, queue=queue),
                )
            for member in range(size.gang):
                index = job * size.gang + member
                yield self._pod(name, member, namespace, queue, shape, created, index if node_of else None)

    def requests(self) -> NDArray[np.int64]:
        """The same backlog as rows of (cpu, memory, gpu) for the baseline kernel."""
        table = np.array(self.shapes, dtype=np.int64)
        return np.repeat(table[self.shape_of_job], self.size.gang, axis=0)

    def idle(self) -> NDArray[np.int64]:
        return np.repeat(np.array(self.node, dtype=np.int64)[:, None], self.size.nodes, axis=1)

    def _pod(
        self, name: str, member: int, namespace: str, queue: str, shape: int, created: datetime, index: int | None
    ) -> Pod:
        cpu, memory, gpu = self.shapes[shape]
        requests = {"cpu": f"{cpu}m", "memory": str(memory)}
        if gpu:
            requests["example.com/gpu"] = str(gpu)
        grouped = self.size.gang > 1
        return Pod(
            metadata=ObjectMeta(
                name=f"{name}-{member:03}" if grouped else name,
                namespace=namespace,
                creation_timestamp=created,
                annotations={GROUP: name} if grouped else {QUEUE: queue},
            ),
            spec=PodSpec(
                containers=(Container(name="main", resources=ResourceRequirements(requests=requests)),),
                node_name="" if index is None else f"node-{index % self.size.nodes:05}",
            ),
            status=PodStatus(phase="Pending") if index is None else PodStatus(phase="Running", start_time=created),
        )
