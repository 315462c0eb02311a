"""From a pod to its shape: equal ones are one object, counted by the tasks that have it."""

from __future__ import annotations

from collections.abc import Iterable, Mapping

import msgspec

from fairway.api.affinity import Affinity, PodAffinity
from fairway.api.pods import Pod
from fairway.resources.algebra import Resource
from fairway.resources.columns import Axis, Vector
from fairway.state.asks import device_asks
from fairway.state.facts import DeviceFacts
from fairway.state.podterms import PodTerm, PodTerms, affinity_term, every_term, spread_term
from fairway.state.reader import Requests
from fairway.state.shapes import (
    NO_RULES,
    PodRules,
    Preference,
    Shape,
    ShapeKey,
    Spread,
)
from fairway.state.tasks import Task
from fairway.state.volumes import NO_VOLUMES, VolumeBook

Told = list[tuple[int, Task]]
"""Tasks that a new term matches, which they do not know yet."""


class Shaper:
    """The shapes in use."""

    def __init__(self, axis: Axis, terms: PodTerms, volumes: VolumeBook, devices: DeviceFacts) -> None:
        self._axis = axis
        self._terms = terms
        self._volumes = volumes
        self._devices = devices
        self._requests = Requests(axis)
        self._shapes: dict[ShapeKey, Shape] = {}
        nothing = ShapeKey((), True, (), b"", (), (), NO_RULES, (), b"", None)
        self.blank = Shape(nothing, None, NO_VOLUMES)

    def __len__(self) -> int:
        return len(self._shapes)

    def shapes(self) -> Iterable[Shape]:
        return self._shapes.values()

    def vector(self, quantities: Mapping[str, str]) -> Vector:
        return self._axis.vector(Resource.parse(quantities))

    def shape(self, pod: Pod) -> tuple[Shape, Told]:
        """The shape of a pod, held once for it; and who must be told of new terms."""
        spec = pod.spec
        vector, best_effort = self._requests.of(spec)
        told: Told = []
        rules = NO_RULES
        if spec.affinity is not None or spec.topology_spread_constraints:
            rules = self._rules(pod, told)
        volumes = self._volumes.needs(pod) if spec.volumes else NO_VOLUMES
        affinity = spec.affinity.node_affinity if spec.affinity else None
        key = ShapeKey(
            vector,
            best_effort and not spec.resource_claims,
            tuple(sorted(spec.node_selector.items())) if spec.node_selector else (),
            msgspec.json.encode(affinity) if affinity else b"",
            spec.tolerations,
            tuple(sorted(set(spec.host_ports))),
            rules,
            self._terms.matching(pod.metadata.namespace, pod.metadata.labels),
            volumes.key,
            device_asks(pod, self._devices.is_allocated),
        )
        shape = self._shapes.get(key)
        if shape is None:
            shape = self._shapes[key] = Shape(key, affinity, volumes)
            self._terms.repel(rules.anti_affinity, 1)
        else:
            self._release_terms(rules)
        shape.tasks += 1
        return shape, told

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

    def _release_terms(self, rules: PodRules) -> None:
        for term in rules.terms():
            self._terms.release(term)

    def _rules(self, pod: Pod, told: Told) -> PodRules:
        affinity = pod.spec.affinity or Affinity()
        together, apart = affinity.pod_affinity, affinity.pod_anti_affinity
        rules = PodRules(
            affinity=self._together(together, pod, told),
            anti_affinity=self._apart(apart, pod, told),
            preferred=(*self._preferred(together, pod, 1, told), *self._preferred(apart, pod, -1, told)),
            spread=self._spread(pod, told),
        )
        return NO_RULES if rules == NO_RULES else rules

    def _together(self, rule: PodAffinity | None, pod: Pod, told: Told) -> tuple[tuple[int, str], ...]:
        """Several affinities are about the same pods: those that all of them mean."""
        required = _required(rule, pod)
        if not required:
            return ()
        every = every_term([term for term, _ in required])
        return tuple((self._intern(every, told), key) for key in dict.fromkeys(key for _, key in required))

    def _apart(self, rule: PodAffinity | None, pod: Pod, told: Told) -> tuple[tuple[int, str], ...]:
        return tuple((self._intern(term, told), key) for term, key in _required(rule, pod))

    def _preferred(self, rule: PodAffinity | None, pod: Pod, sign: int, told: Told) -> tuple[Preference, ...]:
        if rule is None:
            return ()
        meta = pod.metadata
        return tuple(
            Preference(
                self._intern(affinity_term(wish.pod_affinity_term, meta.namespace, meta.labels), told),
                wish.pod_affinity_term.topology_key,
                sign * wish.weight,
            )
            for wish in rule.preferred_during_scheduling_ignored_during_execution
        )

    def _spread(self, pod: Pod, told: Told) -> tuple[Spread, ...]:
        meta = pod.metadata
        return tuple(
            Spread(
                term=self._intern(spread_term(constraint, meta.namespace, meta.labels), told),
                topology_key=constraint.topology_key,
                max_skew=constraint.max_skew,
                hard=constraint.when_unsatisfiable == "DoNotSchedule",
                min_domains=constraint.min_domains or 1,
                honor_affinity=constraint.node_affinity_policy == "Honor",
                honor_taints=constraint.node_taints_policy == "Honor",
            )
            for constraint in pod.spec.topology_spread_constraints
        )

    def _intern(self, term: PodTerm, told: Told) -> int:
        term_id, tasks = self._terms.intern(term)
        told.extend((term_id, task) for task in tasks)
        return term_id


def _required(rule: PodAffinity | None, pod: Pod) -> list[tuple[PodTerm, str]]:
    """The terms of a rule that must hold, with their topology keys."""
    if rule is None:
        return []
    meta = pod.metadata
    return [
        (affinity_term(term, meta.namespace, meta.labels), term.topology_key)
        for term in rule.required_during_scheduling_ignored_during_execution
    ]
