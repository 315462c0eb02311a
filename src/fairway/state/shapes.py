"""Shapes: a request together with everything that decides where it may go.

Tasks of one shape fit the same nodes and score them alike, so the scheduler works out both once per shape. Equal
shapes are one object. A shape lives while a task has it.
"""

from __future__ import annotations

from typing import NamedTuple

from fairway.api.pods import NodeAffinity, Toleration
from fairway.resources.columns import Vector
from fairway.state.device_requests import DeviceRequests
from fairway.state.volumes import VolumeRequests

MAX_REQUEST = 1 << 50
"""A request above this (a PiB, or a trillion cores) fits nowhere; it counts as this much and no more."""


class Spread(NamedTuple):
    """A topology spread constraint over the pods of a term."""

    term: int
    topology_key: str
    max_skew: int
    hard: bool
    min_domains: int
    honor_affinity: bool
    honor_taints: bool


class Preference(NamedTuple):
    """A preferred pod (anti-)affinity: negative weights repel."""

    term: int
    topology_key: str
    weight: int


class PodRules(NamedTuple):
    """Everything about a shape that looks at other pods. `affinity` and `anti_affinity` hold (term, topology key)."""

    affinity: tuple[tuple[int, str], ...] = ()
    anti_affinity: tuple[tuple[int, str], ...] = ()
    preferred: tuple[Preference, ...] = ()
    spread: tuple[Spread, ...] = ()

    def terms(self) -> list[int]:
        owned = [*self.affinity, *self.anti_affinity]
        return [term for term, _ in owned] + [p.term for p in self.preferred] + [s.term for s in self.spread]


NO_RULES = PodRules()

HostPort = tuple[str, str, int]
"""(address, protocol, port)"""

ANY_ADDRESS = ("", "0.0.0.0")


class ShapeKey(NamedTuple):
    """What makes two shapes equal: everything that decides where a task may go."""

    vector: Vector
    best_effort: bool
    node_selector: tuple[tuple[str, str], ...]
    node_affinity: bytes
    tolerations: tuple[Toleration, ...]
    ports: tuple[HostPort, ...]
    rules: PodRules
    matched: tuple[int, ...]
    volumes: bytes
    devices: DeviceRequests | None


class Shape:
    """What like tasks share. `rules` refer to terms by id; `matched` are the terms that select pods of this shape."""

    __slots__ = (
        "amounts",
        "best_effort",
        "counts_volumes",
        "devices",
        "giant",
        "has_pod_rules",
        "has_volumes",
        "is_counted",
        "key",
        "matched",
        "node_affinity",
        "node_selector",
        "ports",
        "rules",
        "tasks",
        "tolerations",
        "vector",
        "volumes",
    )

    def __init__(self, key: ShapeKey, node_affinity: NodeAffinity | None, volumes: VolumeRequests) -> None:
        self.key = key
        self.vector = key.vector
        self.amounts = dict(key.vector)
        self.best_effort = key.best_effort
        self.node_selector = key.node_selector
        self.node_affinity = node_affinity
        self.tolerations = key.tolerations
        self.ports = key.ports
        self.rules = key.rules
        self.matched = key.matched
        self.volumes = volumes
        self.devices = key.devices
        self.giant = any(amount >= MAX_REQUEST for _, amount in key.vector)
        self.has_pod_rules = bool(key.matched or volumes.exclusive) or key.rules != NO_RULES
        """Whether where other pods are can matter to it, on nodes other than its own too."""
        self.counts_volumes = volumes.is_counted
        self.has_volumes = volumes.is_counted or bool(volumes.unbound)
        """Whether volumes that are in use, or available, decide where it may go."""
        self.is_counted = self.has_pod_rules or bool(key.ports) or volumes.is_counted
        """Whether a pod of it changes what others may do on its node, besides what it takes of its capacity."""
        self.tasks = 0

    @property
    def anti_affinity(self) -> tuple[tuple[int, str], ...]:
        return self.rules.anti_affinity

    def __repr__(self) -> str:
        return f"<Shape {self.vector}>"


def ports_clash(mine: tuple[HostPort, ...], theirs: tuple[HostPort, ...]) -> bool:
    """Two pods cannot have one port of one protocol, unless on different addresses of the host."""
    return any(
        a[1:] == b[1:] and (a[0] == b[0] or a[0] in ANY_ADDRESS or b[0] in ANY_ADDRESS) for a in mine for b in theirs
    )
