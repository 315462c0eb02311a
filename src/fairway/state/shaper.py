"""From a pod to its shape: equal ones are one object, counted by the tasks that have it."""

from __future__ import annotations

from collections.abc import Callable, Iterable, Iterator, Mapping
from typing import NamedTuple

import msgspec

from fairway.api.pods import Affinity, NodeAffinity, Pod, PodAffinity, PodSpec, occupied
from fairway.resources.algebra import Resource
from fairway.resources.columns import Vector
from fairway.state.device_requests import DeviceFacts, device_requests_of
from fairway.state.jobs import Task
from fairway.state.pod_terms import PodTerm, PodTerms, affinity_term, every_term, spread_term
from fairway.state.reader import RequestReader, ResourceNames
from fairway.state.shapes import (
    NO_RULES,
    PodRules,
    Preference,
    Shape,
    ShapeKey,
    Spread,
)
from fairway.state.volumes import NO_VOLUMES, VolumeRequests, Volumes

NewMatches = list[tuple[int, Task]]
"""Tasks that a new term matches, which they do not know yet."""


_Likeness = tuple[int, int, int, int, int, int, bool]

MAX_DRAFTS = 1024
"""Specs whose drafts are remembered."""

NO_TERM = -1
"""Where a rule's term has no number yet."""


class RulesDraft(NamedTuple):
    """Rules about other pods, with the terms themselves."""

    affinity: list[tuple[PodTerm, str]]
    anti_affinity: list[tuple[PodTerm, str]]
    preferred: list[tuple[PodTerm, Preference]]
    spread: list[tuple[PodTerm, Spread]]

    def terms(self) -> Iterator[PodTerm]:
        return (term for part in self for term, _ in part)


class ShapeDraft(NamedTuple):
    """What a pod says of its shape. `key` lacks what depends on other pods: rules by number, and matching terms."""

    key: ShapeKey
    rules: RulesDraft | None
    affinity: NodeAffinity | None
    volumes: VolumeRequests


class Shaper:
    """The shapes in use."""

    def __init__(
        self,
        names: ResourceNames,
        terms: PodTerms,
        volumes: Volumes,
        devices: DeviceFacts,
        gone: Callable[[Shape], None],
    ) -> None:
        """`gone` learns of every shape that no task has any more."""
        self._terms = terms
        self._volumes = volumes
        self._devices = devices
        self._gone = gone
        self._names = names
        self.requests = RequestReader(names)
        self._shapes: dict[ShapeKey, Shape] = {}
        self._drafts: dict[_Likeness, tuple[PodSpec, ShapeDraft]] = {}
        """Of specs that were read. Each is held, so that no other object can take the identity of one of its parts."""
        nothing = ShapeKey((), True, (), b"", (), (), NO_RULES, (), b"", None)
        self.blank = Shape(nothing, None, NO_VOLUMES)

    def __len__(self) -> int:
        return len(self._shapes)

    def shapes(self) -> Iterable[Shape]:
        return self._shapes.values()

    def vector(self, namespace: str, quantities: Mapping[str, str]) -> Vector:
        return self._names.vector(namespace, Resource.parse(quantities))

    def draft(self, pod: Pod) -> ShapeDraft:
        """All that a pod says of its shape, read and not yet counted anywhere. What a pod can make fail fails here."""
        spec = pod.spec
        asked = occupied(pod)
        likeness = _likeness(spec) if asked is spec else None
        if likeness is not None:
            known = self._drafts.get(likeness)
            if known is not None:
                return known[1]
        vector, best_effort, is_whole = self.requests.of(pod.metadata.namespace, asked)
        rules = None
        if spec.affinity is not None or spec.topology_spread_constraints:
            rules = _rules(pod)
            if not spec.node_name:  # what runs counts, whatever its namespace brings
                self._terms.check(rules.terms(), pod.metadata.namespace)
        volumes = self._volumes.requests(pod) if spec.volumes else NO_VOLUMES
        affinity = spec.affinity.node_affinity if spec.affinity else None
        key = ShapeKey(
            vector,
            best_effort and not spec.resource_claims,
            tuple(sorted(spec.node_selector.items())) if spec.node_selector else (),
            msgspec.json.encode(affinity) if affinity else b"",
            spec.tolerations,
            tuple(sorted(set(spec.host_ports))),
            NO_RULES,
            (),
            volumes.key,
            device_requests_of(pod, self._devices.asks_for_itself),
        )
        draft = ShapeDraft(key, rules, affinity, volumes)
        if likeness is not None and is_whole and key.devices is None:
            if len(self._drafts) >= MAX_DRAFTS:
                self._drafts.clear()
            self._drafts[likeness] = (spec, draft)
        return draft

    def forget(self) -> None:
        """Forget what was read of specs: dimensions may have been freed."""
        self.requests.clear()
        self._drafts.clear()

    def shape(self, draft: ShapeDraft, namespace: str, labels: Mapping[str, str]) -> tuple[Shape, NewMatches]:
        """The shape of a pod, held once for it; and which tasks must be told of new terms."""
        new_matches: NewMatches = []
        rules = NO_RULES if draft.rules is None else self._interned(draft.rules, new_matches)
        matched, key = self._terms.matching(namespace, labels), draft.key
        if matched or rules is not NO_RULES:
            key = key._replace(rules=rules, matched=matched)
        shape = self._shapes.get(key)
        if shape is None:
            shape = self._shapes[key] = Shape(key, draft.affinity, draft.volumes)
            self._terms.repel(rules.anti_affinity, 1)
        elif rules is not NO_RULES:
            self._release_terms(rules)
        shape.tasks += 1
        return shape, new_matches

    def rematched(self, shape: Shape, matched: tuple[int, ...]) -> Shape:
        """The same shape for a task that other terms match now."""
        key = shape.key._replace(matched=tuple(sorted(matched)))
        other = self._shapes.get(key)
        if other is None:
            other = self._shapes[key] = Shape(key, shape.node_affinity, shape.volumes)
            for term in key.rules.terms():
                self._terms.hold(term)
            self._terms.repel(key.rules.anti_affinity, 1)
        other.tasks += 1
        self.release(shape)
        return other

    def release(self, shape: Shape) -> None:
        """One task less has it; the last one takes it along."""
        shape.tasks -= 1
        if not shape.tasks:
            del self._shapes[shape.key]
            self._terms.repel(shape.rules.anti_affinity, -1)
            self._release_terms(shape.rules)
            self._gone(shape)

    def _release_terms(self, rules: PodRules) -> None:
        for term in rules.terms():
            self._terms.release(term)

    def _interned(self, draft: RulesDraft, new_matches: NewMatches) -> PodRules:
        """The rules, with each term by its number."""
        rules = PodRules(
            affinity=tuple((self._intern(term, new_matches), key) for term, key in draft.affinity),
            anti_affinity=tuple((self._intern(term, new_matches), key) for term, key in draft.anti_affinity),
            preferred=tuple(wish._replace(term=self._intern(term, new_matches)) for term, wish in draft.preferred),
            spread=tuple(spread._replace(term=self._intern(term, new_matches)) for term, spread in draft.spread),
        )
        return NO_RULES if rules == NO_RULES else rules

    def _intern(self, term: PodTerm, new_matches: NewMatches) -> int:
        term_id, tasks = self._terms.intern(term)
        new_matches.extend((term_id, task) for task in tasks)
        return term_id


def _likeness(spec: PodSpec) -> _Likeness | None:
    """Equal for specs that have all parts of a shape in common, the very same objects: pods of one template, wherever
    they are. None where a shape has parts that are not in the spec alone.
    """
    if spec.volumes or spec.resource_claims or spec.affinity is not None or spec.topology_spread_constraints:
        return None
    return (
        id(spec.containers),
        id(spec.init_containers),
        id(spec.tolerations),
        id(spec.node_selector),
        id(spec.overhead),
        id(spec.resources),
        spec.host_network,
    )


def _rules(pod: Pod) -> RulesDraft:
    affinity = pod.spec.affinity or Affinity()
    together, apart = affinity.pod_affinity, affinity.pod_anti_affinity
    return RulesDraft(
        affinity=_together(together, pod),
        anti_affinity=_required(apart, pod),
        preferred=[*_preferred(together, pod, 1), *_preferred(apart, pod, -1)],
        spread=_spread(pod),
    )


def _together(rule: PodAffinity | None, pod: Pod) -> list[tuple[PodTerm, str]]:
    """Several affinities are about the same pods: those that all of them mean."""
    required = _required(rule, pod)
    if not required:
        return []
    every = every_term([term for term, _ in required])
    return [(every, key) for key in dict.fromkeys(key for _, key in required)]


def _preferred(rule: PodAffinity | None, pod: Pod, sign: int) -> list[tuple[PodTerm, Preference]]:
    if rule is None:
        return []
    meta = pod.metadata
    return [
        (
            affinity_term(wish.pod_affinity_term, meta.namespace, meta.labels),
            Preference(NO_TERM, wish.pod_affinity_term.topology_key, sign * wish.weight),
        )
        for wish in rule.preferred_during_scheduling_ignored_during_execution
    ]


def _spread(pod: Pod) -> list[tuple[PodTerm, Spread]]:
    meta = pod.metadata
    return [
        (
            spread_term(constraint, meta.namespace, meta.labels),
            Spread(
                term=NO_TERM,
                topology_key=constraint.topology_key,
                max_skew=constraint.max_skew,
                hard=constraint.when_unsatisfiable == "DoNotSchedule",
                min_domains=constraint.min_domains or 1,
                honor_affinity=constraint.node_affinity_policy == "Honor",
                honor_taints=constraint.node_taints_policy == "Honor",
            ),
        )
        for constraint in pod.spec.topology_spread_constraints
    ]


def _required(rule: PodAffinity | None, pod: Pod) -> list[tuple[PodTerm, str]]:
    """The terms of a rule that must hold, with their topology keys."""
    if rule is None:
        return []
    meta = pod.metadata
    return [
        (affinity_term(term, meta.namespace, meta.labels), term.topology_key)
        for term in rule.required_during_scheduling_ignored_during_execution
    ]
