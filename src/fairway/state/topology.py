"""What jobs ask of the network between their pods, and the HyperNodes that describe it."""

from __future__ import annotations

from collections.abc import Iterable
from typing import NamedTuple

from fairway.api.meta import ObjectMeta
from fairway.api.scheduling import PodGroupSpec
from fairway.api.topology import HyperNode

REQUIRED = "kueue.x-k8s.io/podset-required-topology"
PREFERRED = "kueue.x-k8s.io/podset-preferred-topology"


class TopologyRequest(NamedTuple):
    """A gang in one domain (`hard`), or in as few as possible.

    Domains are the nodes with one value of the label `key` (with several keys, of each of them), or, where no key is
    given, the HyperNodes up to a tier (0: of any tier).
    """

    hard: bool
    keys: tuple[str, ...] = ()
    tier: int = 0


def of_group(spec: PodGroupSpec) -> TopologyRequest | None:
    """What a group asks for: constraints of Kubernetes are hard, Volcano says which it means."""
    if spec.topology:
        return TopologyRequest(True, tuple(sorted({constraint.key for constraint in spec.topology})))
    network = spec.network_topology
    if network is None:
        return None
    return TopologyRequest(network.mode == "hard", (), network.highest_tier_allowed or 0)


def of_object(meta: ObjectMeta) -> TopologyRequest | None:
    """What Kueue's annotations on a pod or group ask for; required comes before preferred."""
    if not meta.annotations:
        return None
    for name, hard in ((REQUIRED, True), (PREFERRED, False)):
        key = meta.annotations.get(name)
        if key:
            return TopologyRequest(hard, (key,))
    return None


def strictest(requests: Iterable[TopologyRequest | None]) -> TopologyRequest | None:
    """Of what several pods ask for their job: what is hard first, then by name."""
    found = [request for request in requests if request is not None]
    return min(found, key=lambda request: (not request.hard, request), default=None)


class HyperNodes:
    """The HyperNodes known."""

    def __init__(self) -> None:
        self._objects: dict[str, HyperNode] = {}
        self.generation = 0

    def __bool__(self) -> bool:
        return bool(self._objects)

    def upsert(self, thing: HyperNode) -> None:
        self.generation += 1
        self._objects[thing.metadata.name] = thing

    def delete(self, thing: HyperNode) -> None:
        self.generation += 1
        self._objects.pop(thing.metadata.name, None)

    def by_name(self) -> dict[str, HyperNode]:
        return dict(sorted(self._objects.items()))
