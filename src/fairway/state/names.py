"""Resource names that tenants bring: each is a dimension of every table, so one namespace may bring only so many."""

from __future__ import annotations

from collections.abc import Callable, Iterable
from datetime import UTC, datetime

from fairway.api.kinds import ApiObject
from fairway.api.pods import Pod
from fairway.api.scheduling import PodGroup
from fairway.errors import InputError
from fairway.resources.algebra import Resource
from fairway.resources.columns import Axis, Vector

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
    one = f"requests {min(new)}, a resource name that nothing else here has"
    several = f"requests {len(new)} resource names that nothing else here has ({min(new)} and others)"
    return (
        f"{one if len(new) == 1 else several}; namespace {namespace} has brought {brought} such names, expected at "
        f"most {MAX_NAMES} in all"
    )


def _without(resource: Resource, names: set[str]) -> Resource:
    return Resource.of({name: amount for name, amount in resource.amounts.items() if name not in names})
