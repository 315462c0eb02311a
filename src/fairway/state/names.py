"""Resource names that tenants bring: each is a dimension of every table, so one namespace may bring only so many."""

from __future__ import annotations

from collections.abc import Callable

from fairway.errors import InputError
from fairway.resources.algebra import Resource
from fairway.resources.columns import Axis, Vector

MAX_NAMES = 64
"""Names that pods and groups of one namespace were the first to use, and that are in use."""


class ResourceNames:
    """The axis, as far as namespaces may add to it. `compact` frees the names that nothing uses any more."""

    def __init__(self, axis: Axis, compact: Callable[[], None]) -> None:
        self._axis = axis
        self._compact = compact
        self._brought: dict[str, set[str]] = {}

    def vector(self, namespace: str, resource: Resource) -> Vector:
        """A request on the axis; InputError where the namespace would bring too many names."""
        new = self._new(resource)
        if new:
            if len(self._brought.get(namespace, ())) + len(new) > MAX_NAMES:
                self._compact()
                new = self._new(resource)
            brought = self._brought.get(namespace, set())
            if len(brought) + len(new) > MAX_NAMES:
                raise InputError(
                    f"requests {min(new)}; namespace {namespace} already uses {len(brought)} resource names that "
                    f"no other has, expected at most {MAX_NAMES}"
                )
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
