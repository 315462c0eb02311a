"""Reading a pod: which job it belongs to, what it asks for, how it may be treated."""

from __future__ import annotations

from collections.abc import Callable, Iterable
from datetime import UTC, datetime
from typing import NamedTuple

from fairway.api.kinds import ApiObject
from fairway.api.pods import Pod, PodSpec, pod_request
from fairway.api.scheduling import PodGroup, PriorityClass
from fairway.clock import SECOND, Micros
from fairway.errors import InputError
from fairway.resources.algebra import Resource
from fairway.resources.columns import Axis, Vector
from fairway.state import annotations as names
from fairway.state.jobs import TaskState, Traits
from fairway.state.membership import belonging, group_name, pod_hints, queue_named
from fairway.state.queues import DEFAULT_QUEUE
from fairway.state.shapes import MAX_REQUEST

MAX_NAMES = 64
"""Names that pods and groups of one namespace were the first to use, and that are in use."""

_LAST = datetime.max.replace(tzinfo=UTC)


def arrival_order(objects: Iterable[ApiObject]) -> list[ApiObject]:
    """Objects that are there together, in the order in which a state takes them in: what nodes and queues name first,
    then pods and groups by creation and name. So which names a namespace has brought does not depend on the order of
    files.
    """
    first: list[ApiObject] = []
    tenants: list[ApiObject] = []
    for thing in objects:
        (tenants if isinstance(thing, Pod | PodGroup) else first).append(thing)
    return first + sorted(tenants, key=_age)


def _age(thing: ApiObject) -> tuple[datetime, str, str, str]:
    meta = thing.metadata
    return meta.creation_timestamp or _LAST, meta.namespace, meta.name, type(thing).__name__


class ResourceNames:
    """The axis, as far as namespaces may add to it. `compact` frees the names that nothing uses any more."""

    def __init__(self, axis: Axis, compact: Callable[[], None]) -> None:
        self._axis = axis
        self._compact = compact
        self._brought: dict[str, set[str]] = {}

    def vector(self, namespace: str, resource: Resource, *, on_node: bool = False) -> Vector:
        """A request on the axis; InputError where the namespace would bring too many names.

        A pod that is `on_node` counts there whatever it names: names that are too many are left out, as a kubelet
        leaves out resources that its node does not have.
        """
        new = self._new(resource)
        if new:
            if len(self._brought.get(namespace, ())) + len(new) > MAX_NAMES:
                self._compact()
                new = self._new(resource)
            brought = self._brought.get(namespace, set())
            if len(brought) + len(new) > MAX_NAMES:
                if not on_node:
                    raise InputError(_too_many(namespace, new, len(brought)))
                return self._axis.vector(_without(resource, new))
            self._brought[namespace] = brought | new
        return self._axis.vector(resource)

    def forget(self) -> None:
        """Names were freed."""
        kept = {
            ns: {name for name in names if self._axis.find(name) is not None} for ns, names in self._brought.items()
        }
        self._brought = {namespace: names for namespace, names in kept.items() if names}

    def _new(self, resource: Resource) -> set[str]:
        return {name for name, amount in resource.amounts.items() if amount and self._axis.find(name) is None}


def _too_many(namespace: str, new: set[str], brought: int) -> str:
    """Why an object is refused; the sum is more than what is allowed."""
    one = f"requests {min(new)}, a resource name that no other object uses"
    several = f"requests {len(new)} resource names that no other object uses ({min(new)} and others)"
    return (
        f"{one if len(new) == 1 else several}; namespace {namespace} already uses {brought} such names, expected at "
        f"most {MAX_NAMES} in all"
    )


def _without(resource: Resource, names: set[str]) -> Resource:
    return Resource.of({name: amount for name, amount in resource.amounts.items() if name not in names})


_PHASES = {
    "Pending": TaskState.BOUND,
    "Running": TaskState.RUNNING,
    "Unknown": TaskState.UNKNOWN,
    "Succeeded": TaskState.SUCCEEDED,
    "Failed": TaskState.FAILED,
}
_PLAIN = Traits()
_WITH_PRIORITY = Traits(explicit_priority=True)
"""Of most pods of a server: it writes their priority on them."""


def key_of(pod: Pod) -> str:
    return f"{pod.metadata.namespace}/{pod.metadata.name}"


def group_of(pod: Pod) -> str:
    """The key of the group the pod names, always in its own namespace; "" if it names none."""
    name = group_name(pod)
    return f"{pod.metadata.namespace}/{name}" if name else ""


def job_of(pod: Pod) -> str:
    """The key of the pod's job: a group, the implicit job of its controller, or the pod alone."""
    return belonging(pod)[0]


def queue_of(pod: Pod) -> str:
    """The queue that the pod itself names."""
    return queue_named(pod.metadata) or DEFAULT_QUEUE


def minimum_of(pods: Iterable[Pod]) -> int:
    """The gang size that pods without a group say for their job."""
    return max((pod_hints(pod).minimum for pod in pods), default=1)


def observed_state(pod: Pod) -> TaskState | None:
    """What the pod's own object says it is; None if the scheduler has nothing to do with it."""
    phase = _PHASES[pod.status.phase]
    if phase in (TaskState.SUCCEEDED, TaskState.FAILED):
        return phase
    leaving = pod.metadata.deletion_timestamp is not None
    if pod.spec.node_name:
        return TaskState.RELEASING if leaving else phase
    if leaving:
        return None
    return TaskState.GATED if pod.spec.scheduling_gates or names.is_held(pod.metadata) else TaskState.PENDING


def gates_of_pod(pod: Pod) -> tuple[str, ...]:
    """What keeps a pod from being placed: its scheduling gates, and the annotation that has the same effect."""
    gates = tuple(gate.name for gate in pod.spec.scheduling_gates)
    return (*gates, names.HOLD) if names.is_held(pod.metadata) else gates


class ReadRequest(NamedTuple):
    vector: Vector
    best_effort: bool
    """Whether the pod asks for nothing but its slot."""
    is_whole: bool
    """Whether nothing that it names was left out."""


class RequestReader:
    """Request vectors, with one `pods` each. Pods of like requests share one vector."""

    def __init__(self, names: ResourceNames) -> None:
        self._names = names
        self._known: dict[Resource, ReadRequest] = {}

    def clear(self) -> None:
        """Forget the vectors: dimensions may have been freed."""
        self._known.clear()

    def of(self, namespace: str, spec: PodSpec) -> ReadRequest:
        request = pod_request(spec)
        known = self._known.get(request)
        if known is None:
            amounts = {name: min(amount, MAX_REQUEST) for name, amount in request.amounts.items()}
            vector = self._names.vector(namespace, Resource.of({**amounts, "pods": 1}), on_node=bool(spec.node_name))
            whole = len(vector) == 1 + sum(amount > 0 for name, amount in amounts.items() if name != "pods")
            known = ReadRequest(vector, request.is_empty(), whole)
            if whole:
                self._known[request] = known  # not where names were left out: a pod that waits may not do without
        return known


class TraitReader:
    """Traits, shared between tasks that have the same."""

    def __init__(self) -> None:
        self._known: dict[Traits, Traits] = {}

    def clear(self) -> None:
        self._known.clear()

    def of(self, pod: Pod) -> Traits:
        notes, spec = names.notes(pod.metadata), pod.spec
        if _is_plain(spec) and (not notes or notes.keys().isdisjoint(_TRAIT_NOTES)):
            return _PLAIN if spec.priority is None else _WITH_PRIORITY
        cooldown = notes.get(names.COOLDOWN)
        runtime = _runtime(notes.get(names.EXPECTED_RUNTIME), spec.active_deadline_seconds)
        traits = Traits(
            role=notes.get(names.TASK_ROLE, ""),
            preemptable=not names.is_never_evicted(notes),
            preempts=spec.preemption_policy != "Never",
            priority_class=spec.priority_class_name,
            explicit_priority=spec.priority is not None,
            runtime=runtime.span,
            deadline=runtime.deadline,
            cooldown=0 if cooldown is None else names.parse_span(cooldown) or 0,
        )
        if traits == _PLAIN:
            return _PLAIN
        if traits == _WITH_PRIORITY:
            return _WITH_PRIORITY
        return self._known.setdefault(traits, traits)


_TRAIT_NOTES = frozenset(
    {names.COOLDOWN, names.EXPECTED_RUNTIME, names.TASK_ROLE, names.NEVER_EVICT, names.PREEMPTABLE}
)
"""What traits are read from, besides the spec."""


def _is_plain(spec: PodSpec) -> bool:
    """Whether the spec says nothing of how the pod may be treated but its priority, as most."""
    return not spec.priority_class_name and spec.active_deadline_seconds is None and spec.preemption_policy != "Never"


class StatedRuntime(NamedTuple):
    """How long a run is expected to take, and when it is ended for sure."""

    span: Micros | None
    deadline: Micros | None


def _runtime(expected: str | None, deadline: int | None) -> StatedRuntime:
    span = names.parse_runtime(expected) if expected is not None else None
    return StatedRuntime(span, None if deadline is None else deadline * SECOND)


class Priorities:
    """Priority classes: what a pod or group that names one, or none, is worth."""

    def __init__(self) -> None:
        self._classes: dict[str, PriorityClass] = {}
        self._default = 0
        """What is named nowhere is worth."""
        self.named: dict[str, int] = {}
        """How many pods and groups name each class, known or not."""
        self.generation = 0
        """Counts changes of classes."""

    def name(self, name: str, by: int) -> None:
        """A pod or group that names a class came (by 1) or went (by -1)."""
        if name:
            self.named[name] = self.named.get(name, 0) + by
            if not self.named[name]:
                del self.named[name]

    def upsert(self, priority_class: PriorityClass) -> None:
        self.generation += 1
        self._classes[priority_class.metadata.name] = priority_class
        self._choose_default()

    def delete(self, name: str) -> None:
        self.generation += 1
        self._classes.pop(name, None)
        self._choose_default()

    def _choose_default(self) -> None:
        defaults = sorted((c.value, c.metadata.name) for c in self._classes.values() if c.global_default)
        self._default = defaults[-1][0] if defaults else 0

    def known(self, name: str) -> bool:
        return not name or name in self._classes or name in SYSTEM_CLASSES

    def value(self, name: str) -> int:
        """The class's value; without one, or with an unknown one, the global default's, else 0."""
        if name in self._classes:
            return self._classes[name].value
        return SYSTEM_CLASSES.get(name, self._default)

    def never_preempts(self, name: str) -> bool:
        return name in self._classes and self._classes[name].preemption_policy == "Never"


SYSTEM_CLASSES = {"system-cluster-critical": 2_000_000_000, "system-node-critical": 2_000_001_000}
