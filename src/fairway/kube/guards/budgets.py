"""What follows when an eviction is refused: budgets that are used up, and nominations that lead nowhere.

What a PodDisruptionBudget allows is counted by a controller and may be out of date. When an eviction is refused because
of one, all budgets over that pod count as used up in our view, as an overlay that is never written: the next plan takes
another victim, and the budget counts again as soon as its object is another version.

A pod that was to get the victim's place is nominated to its node. If the victim stays, the nomination is taken back:
the pod would wait there for capacity that is not being freed.
"""

from __future__ import annotations

from dataclasses import dataclass

from msgspec.structs import replace

from fairway.api.kinds import ApiObject
from fairway.api.pods import Pod, matches
from fairway.api.scheduling import PodDisruptionBudget
from fairway.clock import Micros
from fairway.drive import Change, Evict, Nominate, ObjectStore, pod_key
from fairway.state.cluster import ClusterState


@dataclass(frozen=True, slots=True)
class UsedUpBudget(Change):
    """An overlay: of the version of a budget that was known, no eviction is left."""

    version: str

    def onto(self, thing: ApiObject | None) -> ApiObject | None:
        if not isinstance(thing, PodDisruptionBudget):
            return thing
        return replace(thing, status=replace(thing.status, disruptions_allowed=0))

    def shown_by(self, thing: ApiObject) -> bool:
        return thing.metadata.resource_version != self.version


def hold_budgets(store: ObjectStore, eviction: Evict) -> int:
    """Count the budgets over a pod as used up; how many there are that were not so already."""
    pod = store.get(eviction.key)
    if not isinstance(pod, Pod):
        return 0
    held = [
        UsedUpBudget(key, thing.metadata.uid, thing.metadata.resource_version)
        for key, thing in store.of_kind("PodDisruptionBudget")
        if isinstance(thing, PodDisruptionBudget)
        and key[1] == eviction.key[1]
        and thing.status.disruptions_allowed != 0
        and matches(thing.spec.selector, pod.metadata.labels)
    ]
    store.sent(held)
    return len(held)


def withdrawals(state: ClusterState, store: ObjectStore, eviction: Evict, now: Micros) -> list[Change]:
    """The nominations to take back, where the victim is still on its node and was not told to leave."""
    victim, job_key, node = store.get(eviction.key), eviction.eviction.for_, eviction.eviction.node
    if not isinstance(victim, Pod) or victim.metadata.deletion_timestamp is not None:
        return []
    lone, group = state.tasks.get(job_key), state.groups.get(job_key)
    names = [task.key for task in group.tasks] if group is not None else [] if lone is None else [job_key]
    return [
        Nominate(pod_key(name), pod.metadata.uid, "", now)
        for name in names
        if isinstance(pod := store.get(pod_key(name)), Pod)
        and pod.status.nominated_node_name == node
        and not pod.spec.node_name
    ]
