"""Which placements an event can concern, found by index and not by asking each of them."""

from __future__ import annotations

from collections.abc import Iterable
from typing import TypeVar

from fairway.fleet.rules import Key, Rules
from fairway.fleet.table import ClusterUpdate

T = TypeVar("T")


class Interest:
    """Placements by namespace and by what they watch."""

    def __init__(self) -> None:
        self._by_namespace: dict[str, set[Key]] = {}
        self._watchers: dict[tuple[str, str], dict[str, set[Key]]] = {}
        self._by_selection: dict[object, set[Key]] = {}

    def add(self, rules: Rules) -> None:
        """Those that keep their decisions anyway are interested in nothing."""
        if rules.kept:
            return
        self._by_namespace.setdefault(rules.key[0], set()).add(rules.key)
        for watched in rules.watched:
            self._watchers.setdefault(watched, {}).setdefault(rules.key[0], set()).add(rules.key)
        if rules.balance or rules.requires:
            self._by_selection.setdefault(rules.selection_key, set()).add(rules.key)

    def remove(self, rules: Rules) -> None:
        if rules.kept:
            return
        _drop(self._by_namespace, rules.key[0], rules.key)
        for watched in rules.watched:
            by_namespace = self._watchers.get(watched, {})
            _drop(by_namespace, rules.key[0], rules.key)
            if not by_namespace:
                self._watchers.pop(watched, None)
        _drop(self._by_selection, rules.selection_key, rules.key)

    def by_selection(self) -> Iterable[set[Key]]:
        """Placements that the decisions of others can concern, grouped by what they choose from."""
        return self._by_selection.values()

    def watching(self, *watched: tuple[str, str]) -> set[Key]:
        return set().union(*(keys for item in watched for keys in self._watchers.get(item, {}).values()))

    def within(self, namespaces: Iterable[str]) -> set[Key]:
        return set().union(*(self._by_namespace.get(namespace, ()) for namespace in namespaces))

    def concerned(self, change: ClusterUpdate, namespaces: set[str]) -> set[Key]:
        """By a change of a cluster that these namespaces can see."""
        if change.standing:
            return self.within(namespaces)
        watched = [("label", key) for key in change.labels]
        watched += [("claim", name) for name in change.claims]
        watched += [("resource", name) for name in change.resources]
        watched += [("usage", "")] if change.usage else []
        return self._watching_in(watched, namespaces)

    def evaluating(self, namespaces: set[str]) -> set[Key]:
        """Placements with expressions, which may look at anything, in these namespaces."""
        return self._watching_in([("cel", "")], namespaces)

    def _watching_in(self, watched: Iterable[tuple[str, str]], namespaces: set[str]) -> set[Key]:
        found: set[Key] = set()
        for by_namespace in [self._watchers[item] for item in watched if item in self._watchers]:
            for namespace in by_namespace.keys() & namespaces:
                found |= by_namespace[namespace]
        return found


def _drop(index: dict[T, set[Key]], entry: T, key: Key) -> None:
    """An entry that nothing is under any more goes too."""
    keys = index.get(entry, set())
    keys.discard(key)
    if not keys:
        index.pop(entry, None)
