"""What jobs ask of the network between their pods, and the HyperNodes that describe it."""

from __future__ import annotations

from collections.abc import Iterable
from typing import NamedTuple

from fairway.api.meta import ObjectMeta
from fairway.api.scheduling import HyperNode, NetworkTopology, PodGroupSpec
from fairway.resources.quantity import INT64_MAX

REQUIRED = "kueue.x-k8s.io/podset-required-topology"
PREFERRED = "kueue.x-k8s.io/podset-preferred-topology"
NOT_HONOURED = (
    "kueue.x-k8s.io/podset-slice-required-topology",
    "kueue.x-k8s.io/podset-slice-size",
    "kueue.x-k8s.io/podset-group-name",
)
"""What a job asks for by one of these cannot be given yet: it waits rather than be placed anywhere."""


class TopologyRequest(NamedTuple):
    """A gang in one domain (`hard`), or in as few as possible.

    Domains are the nodes with one value of the label `key` (with several keys, of each of them), or, where no key is
    given, the HyperNodes up to a tier (0: of any tier).
    """

    hard: bool
    keys: tuple[str, ...] = ()
    tier: int = 0
    tier_name: str = ""
    not_honoured: str = ""
    """The field or annotation that cannot be honoured: the job waits."""
    whole: bool = False
    """Whether the job has sub-groups: they are honoured only where it starts with all of its pods."""


def of_group(spec: PodGroupSpec) -> TopologyRequest | None:
    """What a group asks for: constraints of Kubernetes are hard, Volcano says which it means."""
    own = _own(spec)
    if not spec.sub_group_policy:
        return own
    if not all(_implies(spec.network_topology, policy.network_topology) for policy in spec.sub_group_policy):
        return TopologyRequest(True, not_honoured="spec.subGroupPolicy of its PodGroup")
    return (own or TopologyRequest(False))._replace(whole=True)


def _implies(group: NetworkTopology | None, part: NetworkTopology | None) -> bool:
    """Whether every part of a group is within what the part asks for once the group is within what it asks for."""
    if part is None:
        return True
    if group is None or part.mode != "hard" or group.mode != "hard":
        return False
    if group.highest_tier_name or part.highest_tier_name:
        return group == part
    return part.highest_tier_allowed is None or (group.highest_tier_allowed or INT64_MAX) <= part.highest_tier_allowed


def _own(spec: PodGroupSpec) -> TopologyRequest | None:
    if spec.topology:
        return TopologyRequest(True, tuple(sorted({constraint.key for constraint in spec.topology})))
    network = spec.network_topology
    if network is None:
        return None
    return TopologyRequest(network.mode == "hard", (), network.highest_tier_allowed or 0, network.highest_tier_name)


def of_object(meta: ObjectMeta) -> TopologyRequest | None:
    """What Kueue's annotations on a pod or group ask for; required comes before preferred."""
    if not meta.annotations:
        return None
    for name in NOT_HONOURED:
        if meta.annotations.get(name):
            return TopologyRequest(True, not_honoured=f"the annotation {name}")
    for name, hard in ((REQUIRED, True), (PREFERRED, False)):
        key = meta.annotations.get(name)
        if key:
            return TopologyRequest(hard, (key,))
    return None


def strictest(requests: Iterable[TopologyRequest | None]) -> TopologyRequest | None:
    """Of what several pods ask for their job: what cannot be honoured first, then what is hard, then by name."""
    found = [request for request in requests if request is not None]
    return min(found, key=lambda request: (not request.not_honoured, not request.hard, request), default=None)


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

    def tier_named(self, name: str) -> int | None:
        """The tier that HyperNodes give this name; of several the highest."""
        tiers = [thing.spec.tier for thing in self._objects.values() if thing.spec.tier_name == name]
        return max(tiers, default=None)

    def by_name(self) -> dict[str, HyperNode]:
        return dict(sorted(self._objects.items()))
