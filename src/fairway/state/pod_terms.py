"""Which pods a selector means: the terms of inter-pod affinity, anti-affinity and topology spread.

A *term* is a label selector over pods of some namespaces. Equal terms are one, with an id. Every task knows the ids
it is matched by, and for each term there is a column: how many matched pods are on each node. So a predicate
over pods becomes a predicate over columns.

Both ways of asking are indexed by label: the terms that may match a new task, and the tasks that may match a new
term. Without this, thousands of gangs that each select themselves would cost thousands of scans.
"""

from __future__ import annotations

from collections.abc import Callable, Iterable, Iterator, Mapping, Sequence
from typing import NamedTuple

import msgspec
import numpy as np
from numpy.typing import NDArray

from fairway.api.meta import LabelSelector, LabelSelectorRequirement
from fairway.api.pods import PodAffinityTerm, TopologySpreadConstraint, matches
from fairway.errors import InputError
from fairway.state.jobs import Task

MAX_WIDE_TERMS = 32
"""That one namespace brings: terms over pods of other namespaces, or over all of its own."""

CountColumn = NDArray[np.int32]
NamespaceLabels = Callable[[str], Mapping[str, str]]


class Selection(NamedTuple):
    """A selector over pods of some namespaces; the namespace selector `among` adds to the named ones."""

    selector: LabelSelector
    namespaces: frozenset[str]
    among: LabelSelector | None

    def matches(self, namespace: str, labels: Mapping[str, str], namespace_labels: NamespaceLabels) -> bool:
        if namespace not in self.namespaces and not (
            self.among is not None and matches(self.among, namespace_labels(namespace))
        ):
            return False
        return matches(self.selector, labels)


class PodTerm:
    """Pods that all of some selections mean; mostly there is one."""

    __slots__ = ("anchor", "id", "key", "origin", "selections", "users")

    def __init__(self, key: bytes, selections: tuple[Selection, ...]) -> None:
        self.id = -1
        self.key = key
        self.selections = selections
        self.users = 0
        self.origin = ""
        """The namespace that brought it, where it is a wide one."""
        self.anchor = next((anchor for part in selections if (anchor := _anchor(part.selector))), ())

    def matches(self, namespace: str, labels: Mapping[str, str], namespace_labels: NamespaceLabels) -> bool:
        return all(part.matches(namespace, labels, namespace_labels) for part in self.selections)

    def is_wide(self, namespace: str) -> bool:
        """Whether a pod of this namespace has it compared with very many pods: those of other namespaces, or all of its
        own.
        """
        own = frozenset({namespace})
        return not self.anchor or any(part.among is not None or part.namespaces != own for part in self.selections)


def affinity_term(term: PodAffinityTerm, namespace: str, labels: Mapping[str, str]) -> PodTerm:
    """A pod's own affinity term: without namespaces it means the pod's own namespace."""
    selector = term.label_selector
    if selector is not None:
        selector = _with_own_values(selector, term.match_label_keys, labels, "In")
        selector = _with_own_values(selector, term.mismatch_label_keys, labels, "NotIn")
    names = frozenset(term.namespaces)
    if not names and term.namespace_selector is None:
        names = frozenset({namespace})
    return _term(selector, names, term.namespace_selector)


def every_term(terms: Sequence[PodTerm]) -> PodTerm:
    """The pods that all of these mean."""
    known = {term.key: term for term in terms}
    if len(known) == 1:
        return terms[0]
    keys = sorted(known)
    parts = tuple(part for key in keys for part in known[key].selections)
    return PodTerm(b"all " + b" ".join(keys), parts)


def spread_term(constraint: TopologySpreadConstraint, namespace: str, labels: Mapping[str, str]) -> PodTerm:
    """A spread constraint counts pods of the pod's own namespace."""
    selector = constraint.label_selector
    if selector is not None:
        selector = _with_own_values(selector, constraint.match_label_keys, labels, "In")
    return _term(selector, frozenset({namespace}), None)


class PodTerms:
    """All terms in use, the pods that they match and where those are."""

    def __init__(self, namespace_labels: NamespaceLabels, all_tasks: Callable[[], Iterable[Task]]) -> None:
        self._namespace_labels = namespace_labels
        self._all_tasks = all_tasks
        self._by_key: dict[bytes, PodTerm] = {}
        self._terms: dict[int, PodTerm] = {}
        self._anchored: dict[tuple[str, str], set[int]] = {}
        self._unanchored: set[int] = set()
        self._postings: dict[str, dict[str, set[Task]]] = {}
        self._next_id = 0
        self._wide: dict[str, int] = {}
        """Wide terms in use, by the namespace that brought them."""
        self.present: dict[int, CountColumn] = {}
        self.owners: dict[tuple[int, str], CountColumn] = {}
        self.generation = 0
        self.repelling: dict[int, dict[str, int]] = {}
        """How many shapes have an anti-affinity against a term, by topology key."""

    def __len__(self) -> int:
        return len(self._terms)

    def check(self, terms: Iterable[PodTerm], namespace: str) -> None:
        """InputError where a namespace would bring too many wide terms: each is compared with all pods when it comes
        and when it goes, and all later pods of the cluster are compared with it.
        """
        new = {term.key: term for term in terms if term.key not in self._by_key and term.is_wide(namespace)}
        for term in new.values():
            term.origin = namespace
        if new and self._wide.get(namespace, 0) + len(new) > MAX_WIDE_TERMS:
            raise InputError(
                f"namespace {namespace} has more than {MAX_WIDE_TERMS} different terms of affinity, anti-affinity or "
                "spread over pods of other namespaces, or over all of its own"
            )

    def intern(self, term: PodTerm) -> tuple[int, list[Task]]:
        """The id of a term, and the tasks that a new one matches: they must be told."""
        known = self._by_key.get(term.key)
        if known is not None:
            known.users += 1
            return known.id, []
        term.id = self._next_id
        term.users = 1
        if term.origin:
            self._wide[term.origin] = self._wide.get(term.origin, 0) + 1
        self._next_id += 1
        self.generation += 1
        self._by_key[term.key] = self._terms[term.id] = term
        self.present[term.id] = np.zeros(0, dtype=np.int32)
        for anchor in term.anchor:
            self._anchored.setdefault(anchor, set()).add(term.id)
        if not term.anchor:
            self._unanchored.add(term.id)
        return term.id, [task for task in self._candidates(term) if self._is_match(term, task)]

    def release(self, term_id: int) -> None:
        """One user less; the last one takes the term with it."""
        term = self._terms[term_id]
        term.users -= 1
        if term.users:
            return
        if term.origin:
            self._wide[term.origin] -= 1
            if not self._wide[term.origin]:
                del self._wide[term.origin]
        self.generation += 1
        for task in self._candidates(term):
            if term_id in task.matched:
                task.matched = tuple(id for id in task.matched if id != term_id)
        for anchor in term.anchor:
            self._anchored[anchor].discard(term_id)
            if not self._anchored[anchor]:
                del self._anchored[anchor]
        self._unanchored.discard(term_id)
        del self._terms[term_id], self._by_key[term.key], self.present[term_id]

    def hold(self, term_id: int) -> None:
        """One user more of a term that is in use."""
        self._terms[term_id].users += 1

    def enter(self, task: Task) -> None:
        """Index a new task by its labels."""
        for key, values in self._postings.items():
            if key in task.labels:
                values.setdefault(task.labels[key], set()).add(task)

    def leave(self, task: Task) -> None:
        for key, values in self._postings.items():
            if key in task.labels:
                held = values.get(task.labels[key], set())
                held.discard(task)
                if not held:
                    values.pop(task.labels[key], None)

    def compact(self) -> None:
        """Forget by which labels tasks are looked up that no term asks for any more."""
        asked = {key for key, _ in self._anchored}
        self._postings = {key: values for key, values in self._postings.items() if key in asked}

    def matching(self, namespace: str, labels: Mapping[str, str]) -> tuple[int, ...]:
        if not self._terms:
            return ()
        candidates = set(self._unanchored)
        for label in labels.items():
            candidates |= self._anchored.get(label, set())
        return tuple(
            sorted(id for id in candidates if self._terms[id].matches(namespace, labels, self._namespace_labels))
        )

    def repel(self, anti_affinity: tuple[tuple[int, str], ...], by: int) -> None:
        """A shape with these anti-affinities came (by 1) or went (by -1)."""
        for term_id, topology_key in anti_affinity:
            keys = self.repelling.setdefault(term_id, {})
            if topology_key not in keys:
                self.generation += 1
            keys[topology_key] = keys.get(topology_key, 0) + by
            if not keys[topology_key]:
                self.generation += 1
                del keys[topology_key]
                self.owners.pop((term_id, topology_key), None)
            if not keys:
                del self.repelling[term_id]

    def place(self, task: Task, by: int) -> None:
        """A task came to (by 1) or went from (by -1) its node."""
        for term_id in task.matched:
            self.count(term_id, task.node, by)
        for owned in task.shape.anti_affinity:
            column = self.owners.get(owned, _NONE)
            self.owners[owned] = counted(column, task.node, by)

    def count(self, term_id: int, row: int, by: int) -> None:
        if term_id in self.present:
            self.present[term_id] = counted(self.present[term_id], row, by)

    def _is_match(self, term: PodTerm, task: Task) -> bool:
        return term.matches(task.job.namespace, task.labels, self._namespace_labels)

    def _candidates(self, term: PodTerm) -> Iterator[Task]:
        if not term.anchor:
            yield from list(self._all_tasks())
            return
        for key, value in term.anchor:
            if key not in self._postings:
                self._index(key)
            yield from list(self._postings[key].get(value, ()))

    def _index(self, key: str) -> None:
        values: dict[str, set[Task]] = {}
        for task in self._all_tasks():
            if key in task.labels:
                values.setdefault(task.labels[key], set()).add(task)
        self._postings[key] = values


_NONE = np.zeros(0, dtype=np.int32)


def counted(column: CountColumn, row: int, by: int) -> CountColumn:
    """The column with one entry changed, grown where the row is new."""
    if row >= len(column):
        grown = np.zeros(max(row + 1, 2 * len(column)), dtype=np.int32)
        grown[: len(column)] = column
        column = grown
    column[row] += by
    return column


def _anchor(selector: LabelSelector) -> tuple[tuple[str, str], ...]:
    """Labels of which a matching pod must have one; empty if the selector names none."""
    for label in sorted(selector.match_labels.items()):
        return (label,)
    for requirement in selector.match_expressions:
        if requirement.operator == "In":
            return tuple((requirement.key, value) for value in requirement.values)
    return ()


def _with_own_values(
    selector: LabelSelector, keys: tuple[str, ...], labels: Mapping[str, str], operator: str
) -> LabelSelector:
    own = tuple(
        LabelSelectorRequirement(key=key, operator="In" if operator == "In" else "NotIn", values=(labels[key],))
        for key in keys
        if key in labels
    )
    if not own:
        return selector
    return msgspec.structs.replace(selector, match_expressions=selector.match_expressions + own)


_NOTHING = LabelSelector(match_expressions=(LabelSelectorRequirement(key="", operator="In", values=()),))
"""A term without a selector matches no pod."""


def _term(selector: LabelSelector | None, names: frozenset[str], among: LabelSelector | None) -> PodTerm:
    chosen = _NOTHING if selector is None else selector
    key = msgspec.json.encode((chosen, sorted(names), among), order="deterministic")
    return PodTerm(key, (Selection(chosen, names, among),))
