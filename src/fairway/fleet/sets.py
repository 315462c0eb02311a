"""Which clusters a namespace may choose from: ManagedClusterSets and the bindings that open them to it."""

from __future__ import annotations

from collections.abc import Iterable

import numpy as np

from fairway.api.fleet import ManagedClusterSet, ManagedClusterSetBinding
from fairway.api.pods import matches
from fairway.fleet.facts import ClusterFacts
from fairway.fleet.names import SET_LABEL
from fairway.fleet.scores import BoolColumn
from fairway.fleet.selection import selector_mask
from fairway.fleet.table import ClusterTable


class ClusterSets:
    """`stamp` counts the changes that can alter which clusters are in which set, or which namespaces see it."""

    def __init__(self) -> None:
        self.sets: dict[str, ManagedClusterSet] = {}
        self.stamp = 0
        self._by_selector: set[str] = set()
        self._bindings: dict[str, dict[str, str]] = {}
        self._namespaces: dict[str, set[str]] = {}

    def put(self, cluster_set: ManagedClusterSet) -> bool:
        """Whether anything changed."""
        name = cluster_set.metadata.name
        before = self.sets.get(name)
        self.sets[name] = cluster_set
        if before is not None and before.spec == cluster_set.spec:
            return False
        self.stamp += 1
        self._by_selector.discard(name)
        if cluster_set.spec.cluster_selector.selector_type == "LabelSelector":
            self._by_selector.add(name)
        return True

    def remove(self, name: str) -> bool:
        self.stamp += 1
        self._by_selector.discard(name)
        return self.sets.pop(name, None) is not None

    def bind(self, binding: ManagedClusterSetBinding) -> bool:
        bound = self._bindings.setdefault(binding.metadata.namespace, {})
        if bound.get(binding.metadata.name) == binding.spec.cluster_set:
            return False
        bound[binding.metadata.name] = binding.spec.cluster_set
        self._rebind()
        return True

    def unbind(self, namespace: str, name: str) -> bool:
        bound = self._bindings.get(namespace, {})
        known = bound.pop(name, None) is not None
        if not bound:
            self._bindings.pop(namespace, None)
        self._rebind()
        return known

    def bound(self, namespace: str) -> tuple[str, ...]:
        """The existing sets that are bound to the namespace, in order of name."""
        return tuple(sorted({name for name in self._bindings.get(namespace, {}).values() if name in self.sets}))

    def namespaces(self, sets: Iterable[str]) -> set[str]:
        """Those to which any of the sets is bound."""
        return set().union(*(self._namespaces.get(name, ()) for name in sets))

    def of_cluster(self, facts: ClusterFacts) -> set[str]:
        """The sets the cluster belongs to."""
        found = {
            name
            for name in self._by_selector
            if matches(self.sets[name].spec.cluster_selector.label_selector, facts.labels)
        }
        exclusive = facts.labels.get(SET_LABEL)
        if exclusive in self.sets and exclusive not in self._by_selector:
            found.add(exclusive)
        return found

    def members(self, table: ClusterTable, sets: Iterable[str]) -> BoolColumn:
        """Clusters in any of the sets."""
        mask = np.zeros(table.size, np.bool_)
        for name in sets:
            if name in self._by_selector:
                selector = self.sets[name].spec.cluster_selector.label_selector
                if selector is not None:
                    mask |= selector_mask(table, "label", selector.match_labels, selector.match_expressions)
            else:
                mask |= selector_mask(table, "label", {SET_LABEL: name}, ())
        mask &= table.exists
        return mask

    def _rebind(self) -> None:
        self.stamp += 1
        self._namespaces = {}
        for namespace, bound in self._bindings.items():
            for name in bound.values():
                self._namespaces.setdefault(name, set()).add(namespace)
