"""Budgets that the server says are used up, until they change.

What a PodDisruptionBudget allows is counted by a controller and may be out of date. When an eviction is refused because
of one, all budgets over that pod count as used up in our view, as an overlay that is never written: the next plan takes
another victim, and the budget counts again as soon as its object is another version.
"""

from __future__ import annotations

from dataclasses import dataclass

from msgspec.structs import replace

from fairway.api.kinds import ApiObject
from fairway.api.pods import Pod
from fairway.api.scheduling import PodDisruptionBudget
from fairway.api.selectors import matches
from fairway.drive.change import Change, Evict
from fairway.drive.store import ObjectStore


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
