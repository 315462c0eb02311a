"""Which job comes next: the one order of queues, namespaces and jobs, for every action.

    cluster -> queue -> (child queue ->) namespace -> job

Each level is a heap by key. A step changes what one job, its namespace, its queue and that queue's ancestors have, and
no other key: so only the tops on that path are pushed back with fresh keys.

A broken gang goes before the jobs of its queue, of the same or a lower priority, that have not started: whatever the
order of namespaces says, for its namespace had that capacity already (spec S5.5). It does so by taking the turn of
such a job (`broken_before`, `put_first`); keys stay what they are.
"""

from __future__ import annotations

from collections.abc import Callable
from heapq import heapify, heappop, heappush, heapreplace
from typing import Any, Protocol

from fairway.scheduler.framework.accounts import NamespaceAccount, QueueAccount
from fairway.scheduler.framework.hooks import Key
from fairway.scheduler.framework.job_run import JobRun, is_repaired_by, missing_of
from fairway.scheduler.framework.plugin_set import PluginSet


class PolicyOrder:
    """The keys that the policy's plugins give, with ties broken as the same in every cycle."""

    def __init__(self, plugins: PluginSet) -> None:
        self._queue_keys = plugins.combined("queue_key")
        self._namespace_keys = plugins.combined("namespace_key")
        self._job_keys = plugins.combined("job_key")
        self._task_keys = plugins.combined("task_key")
        self.can_group_equivalent_jobs = plugins.only_built_in_have("job_key", "task_key", "job_valid", "enqueueable")
        """Whether jobs that are alike to the built-in plugins are alike to all."""
        self.keys_only_order = plugins.only_built_in_have("queue_key", "namespace_key", "job_key")
        """Whether a key that is compared with nothing need not be asked for: an external plugin may fail at it, and
        then says so.
        """

    def queue_key(self, queue: QueueAccount) -> Key:
        return (*self._queue_keys(queue), queue.info.created, queue.name)

    def namespace_key(self, account: NamespaceAccount) -> Key:
        """Ties: the larger weight, then the older job at the head, then the name (spec S3.2)."""
        ties = (-account.weight, account.top_created, account.namespace)
        return (*self._namespace_keys(account), *ties)

    def job_key(self, job: JobRun) -> Key:
        return (*self._job_keys(job), job.job.order)

    def order_tasks(self, job: JobRun) -> None:
        """Put the waiting tasks in order; the default one needs nothing."""
        if not self.can_group_equivalent_jobs:
            tasks = sorted(job.waiting, key=lambda task: (self._task_keys(task), task.key))
            job.order_tasks(tasks)


class Keys(Protocol):
    """Where the keys come from: `PolicyOrder`, or an action's own."""

    def queue_key(self, queue: QueueAccount) -> Key: ...
    def namespace_key(self, account: NamespaceAccount) -> Key: ...
    def job_key(self, job: JobRun) -> Key: ...


class _Node:
    """A heap of children, each with the key it was pushed with."""

    __slots__ = ("heap",)

    def __init__(self) -> None:
        self.heap: list[tuple[Key, Any]] = []


class _NamespaceNode(_Node):
    __slots__ = ("account",)

    def __init__(self, account: NamespaceAccount) -> None:
        super().__init__()
        self.account = account


class _QueueNode(_Node):
    __slots__ = ("account",)

    def __init__(self, account: QueueAccount | None) -> None:
        super().__init__()
        self.account = account


class Order:
    """All jobs that may take a step, smallest key first."""

    def __init__(self, keys: Keys, jobs: list[JobRun]) -> None:
        self._keys = keys
        self._root = _QueueNode(None)
        self._queues: dict[QueueAccount, _QueueNode] = {}
        self._namespaces: dict[NamespaceAccount, _NamespaceNode] = {}
        self._path: list[_Node] = []
        self._broken: dict[QueueAccount, dict[JobRun, None]] = {}
        """Broken gangs that have not had their turn."""
        if len(jobs) == 1 and isinstance(keys, PolicyOrder) and keys.keys_only_order:
            self._enter_alone(jobs[0])
            return
        for job in jobs:
            self._namespace(job.account).heap.append((keys.job_key(job), job))
            if job.started and job.job.broken and not job.is_whole and is_repaired_by(job.job, missing_of(job)):
                self._broken.setdefault(job.queue, {})[job] = None
        self._settle(self._root)

    def __bool__(self) -> bool:
        return bool(self._root.heap)

    def top(self) -> JobRun:
        """The job whose turn it is."""
        node: _Node = self._root
        self._path = path = [node]
        while True:
            child = node.heap[0][1]
            if type(child) is JobRun:
                return child
            node = child
            path.append(node)

    def broken_before(self, job: JobRun) -> JobRun | None:
        """The broken gang that goes before a job whose turn it is: of the same queue, and of no lower priority."""
        if not self._broken or job.started or job.ready:
            return None
        before = [gang for gang in self._broken.get(job.queue, ()) if gang.priority >= job.priority]
        return min(before, key=self._among_broken, default=None)

    def put_first(self, gang: JobRun) -> JobRun:
        """A broken gang takes the turn of the last `top`."""
        namespace = self._namespaces[gang.account]
        _lift(namespace.heap, gang)
        _lift(self._queues[gang.queue].heap, namespace)
        return self.top()

    def turn(self) -> JobRun:
        """`top`, or the broken gang that goes before it."""
        job = self.top()
        gang = self.broken_before(job) if self._broken else None
        return job if gang is None else self.put_first(gang)

    def _among_broken(self, job: JobRun) -> Key:
        job.account.top_priority, job.account.top_created = job.priority, job.job.order[0]
        return -job.priority, self._keys.namespace_key(job.account), self._keys.job_key(job)

    def replace_top(self, *jobs: JobRun) -> None:
        """The turn of the last `top` is over; these (itself, its successor, or none) are in the order now."""
        path = self._path
        heap = path[-1].heap
        if self._broken:
            done: JobRun = heap[0][1]
            self._broken.get(done.queue, {}).pop(done, None)
        if jobs:
            heapreplace(heap, (self._keys.job_key(jobs[0]), jobs[0]))
            for job in jobs[1:]:
                heappush(heap, (self._keys.job_key(job), job))
        else:
            heappop(heap)
        for depth in range(len(path) - 1, 0, -1):
            node, above = path[depth], path[depth - 1].heap
            if not node.heap:
                heappop(above)
            elif len(above) > 1:  # the only child of its parent is compared with nothing
                heapreplace(above, (self._key(node), node))

    def jobs(self) -> list[JobRun]:
        """All that are left, in no order."""
        return [job for node in self._namespaces.values() for _, job in node.heap]

    def leave_out(self, is_hopeless: Callable[[JobRun], bool]) -> None:
        """Jobs that cannot take a step are not tried at all. Only among jobs of one namespace: elsewhere the job at the
        head of a namespace counts where others are compared.
        """
        if len(self._namespaces) != 1:
            return
        (node,) = self._namespaces.values()
        left = [entry for entry in node.heap if not is_hopeless(entry[1])]
        if self._broken and len(left) < len(node.heap):
            kept = {job for _, job in left}
            self._broken = {queue: {g: None for g in gangs if g in kept} for queue, gangs in self._broken.items()}
        node.heap = left
        heapify(node.heap)
        if not node.heap:
            self._root.heap.clear()

    def refresh(self) -> None:
        """What queues and namespaces have changed beside the last step, too: their keys are made again."""
        self._settle(self._root)

    def _enter_alone(self, job: JobRun) -> None:
        """The only job goes in without keys: there is nothing to compare them with before others follow, which get
        theirs then. What its namespace says of the job at its head is as ever.
        """
        self._namespace(job.account).heap.append((None, job))
        job.account.top_priority, job.account.top_created = job.priority, job.job.order[0]

    def _namespace(self, account: NamespaceAccount) -> _NamespaceNode:
        node = self._namespaces.get(account)
        if node is None:
            node = self._namespaces[account] = _NamespaceNode(account)
            self._queue(account.queue).heap.append((None, node))
        return node

    def _queue(self, account: QueueAccount) -> _QueueNode:
        node = self._queues.get(account)
        if node is None:
            node = self._queues[account] = _QueueNode(account)
            above = self._root if account.parent is None else self._queue(account.parent)
            above.heap.append((None, node))
        return node

    def _settle(self, node: _Node) -> None:
        """Give every child its key and make the heap; children first, for a key may depend on the job on top."""
        if not isinstance(node, _NamespaceNode):
            for _, child in node.heap:
                self._settle(child)
            node.heap = [(self._key(child), child) for _, child in node.heap]
        heapify(node.heap)

    def _key(self, node: _Node) -> Key:
        if type(node) is _NamespaceNode:
            head, account = node.heap[0][1], node.account
            account.top_priority, account.top_created = head.priority, head.job.order[0]
            return self._keys.namespace_key(account)
        assert type(node) is _QueueNode
        assert node.account is not None
        return self._keys.queue_key(node.account)


def _lift(heap: list[tuple[Key, Any]], child: object) -> None:
    """Put a child before all others, whatever its key."""
    place = next(place for place, (_, other) in enumerate(heap) if other is child)
    heap[place] = ((), child)
    heapify(heap)
