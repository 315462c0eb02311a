"""Which clusters a namespace may choose from: ManagedClusterSets, the bindings that open them to it, and selectors over
labels and claims, as a column over all clusters and in words for one of them.
"""

from __future__ import annotations

from collections.abc import Iterable, Mapping

import numpy as np

from fairway.api.fleet import ManagedClusterSet, ManagedClusterSetBinding
from fairway.api.meta import LabelSelectorRequirement
from fairway.api.pods import matches
from fairway.fleet.facts import ClusterFacts
from fairway.fleet.names import SET_LABEL
from fairway.fleet.scores import BoolColumn
from fairway.fleet.table import ABSENT, ClusterTable, Source


def selector_mask(
    table: ClusterTable,
    source: Source,
    labels: Mapping[str, str],
    requirements: Iterable[LabelSelectorRequirement],
) -> BoolColumn:
    """Clusters that have all the labels and meet all the requirements."""
    mask = np.ones(table.size, np.bool_)
    for key, value in labels.items():
        mask &= _is_in(table, source, key, (value,))
    for requirement in requirements:
        mask &= _holds(table, source, requirement)
    return mask


def _holds(table: ClusterTable, source: Source, requirement: LabelSelectorRequirement) -> BoolColumn:
    match requirement.operator:
        case "In":
            return _is_in(table, source, requirement.key, requirement.values)
        case "NotIn":
            return ~_is_in(table, source, requirement.key, requirement.values)
        case "Exists":
            return ~_is_absent(table, source, requirement.key)
        case "DoesNotExist":
            return _is_absent(table, source, requirement.key)


def _is_absent(table: ClusterTable, source: Source, key: str) -> BoolColumn:
    absent: BoolColumn = table.codes(source, key).column == ABSENT
    return absent


def _is_in(table: ClusterTable, source: Source, key: str, values: Iterable[str]) -> BoolColumn:
    codes = table.codes(source, key)
    wanted = [codes.values[value] for value in values if value in codes.values]
    if len(wanted) != 1:
        return np.isin(codes.column, wanted)
    same: BoolColumn = codes.column == wanted[0]
    return same


def unmet(
    source: Source,
    labels: Mapping[str, str],
    requirements: Iterable[LabelSelectorRequirement],
    reserved: Mapping[str, str],
) -> str:
    """What the first unmet requirement requires, and the actual value; "" if all are met."""
    for key, value in labels.items():
        if reserved.get(key) != value:
            return f"{source} {key} {_there(reserved, key)}, {value!r} is required"
    for requirement in requirements:
        key, values, there = requirement.key, ", ".join(requirement.values), reserved.get(requirement.key)
        if requirement.operator == "In" and there not in requirement.values:
            return f"{source} {key} {_there(reserved, key)}, one of [{values}] is required"
        if requirement.operator == "NotIn" and there in requirement.values:
            return f"{source} {key} {_there(reserved, key)}, none of [{values}] is allowed"
        if requirement.operator == "Exists" and there is None:
            return f"{source} {key} is missing, but required"
        if requirement.operator == "DoesNotExist" and there is not None:
            return f"{source} {key} is set, but not allowed"
    return ""


def _there(reserved: Mapping[str, str], key: str) -> str:
    return f"is {reserved[key]!r}" if key in reserved else "is missing"


class ClusterSets:
    """`stamp` counts the changes that can alter which clusters are in which set, or which namespaces see it."""

    def __init__(self) -> None:
        self.sets: dict[str, ManagedClusterSet] = {}
        self.stamp = 0
        self._by_selector: set[str] = set()
        self._bindings: dict[str, dict[str, str]] = {}
        self._namespaces: dict[str, set[str]] = {}

    def put(self, cluster_set: ManagedClusterSet) -> bool:
        """Returns whether anything changed."""
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
        """The namespaces to which any of the sets is bound."""
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
