"""Pods that are bound when their volumes are: who waits for which claims, and when that is over.

What a scheduler writes only begins the binding of a volume: a controller completes it, or a provisioner makes the
volume first, in seconds or minutes, or gives up by taking the selected node off the claim. Watches show all of that, so
nothing is polled, and no other pod waits meanwhile. The pods of a gang wait for the volumes of all of them: a volume
that cannot be had would leave the gang half bound.

Nothing of this is kept elsewhere. After a restart claims say which nodes were selected, and volumes for which claims
they are kept; the pods wait again, and are placed by that.
"""

from __future__ import annotations

from collections.abc import Callable, Iterable
from typing import NamedTuple

from fairway.api.core import SELECTED_NODE, PersistentVolume, PersistentVolumeClaim
from fairway.api.kinds import ObjectKey
from fairway.api.pods import Pod
from fairway.drive import Bind, ObjectStore
from fairway.kube.writing.world import Versions
from fairway.scheduler.plan import VolumeChoice
from fairway.state.cluster import ClusterState
from fairway.state.volumes import is_bound, reaches


class _WaitingBind(NamedTuple):
    bind: Bind
    versions: Versions
    """Of what was written for its claims: what was seen before that says nothing."""
    answer: Callable[[str], None]


class _WaitingPods:
    """Pods that are bound together, or not at all: those of a gang that one plan binds, or a single one."""

    def __init__(self, size: int) -> None:
        self.size = size
        self.arrived = 0
        """Pods that wait, or that were refused before they did."""
        self.waiting: list[_WaitingBind] = []
        self.failure = ""
        self.keys: set[ObjectKey] = set()


class VolumeWaits:
    """Used on the loop's thread."""

    def __init__(self, state: ClusterState, store: ObjectStore) -> None:
        self._state = state
        self._store = store
        self._units: dict[str, _WaitingPods] = {}
        self._concerned: dict[ObjectKey, set[str]] = {}
        """By pod, claim and volume: who waits for news of it. So that news cost what they concern."""

    @property
    def is_empty(self) -> bool:
        return not self._units

    def ask(self, bind: Bind, versions: Versions, answer: Callable[[str], None]) -> None:
        """Answer with "" when the pod may be bound, or with why it may not."""
        name, unit = self._unit(bind)
        unit.arrived += 1
        unit.waiting.append(_WaitingBind(bind, versions, answer))
        for key in (bind.key, *map(_claim_key, bind.binding.volumes), *map(_volume_key, bind.binding.volumes)):
            self._concern(key, name)
        self._look(name)

    def refused(self, bind: Bind, why: str) -> None:
        """A pod will not be bound, whether it waits already or not: nor will those that are bound with it."""
        name, unit = self._unit(bind)
        here = [waiting for waiting in unit.waiting if waiting.bind is bind]
        if here:
            unit.waiting.remove(here[0])
        else:
            unit.arrived += 1
        unit.failure = unit.failure or f"pod {bind.binding.pod} of its gang was not bound: {why}"
        self._look(name)

    def look(self, keys: Iterable[ObjectKey]) -> None:
        """These objects were seen."""
        for name in sorted({name for key in keys for name in self._concerned.get(key, ())}):
            self._look(name)

    def look_at_all(self) -> None:
        for name in list(self._units):
            self._look(name)

    def _look(self, name: str) -> None:
        unit = self._units[name]
        if not unit.failure:
            verdicts = [self._verdict(waiting, name) for waiting in unit.waiting]
            unit.failure = next((why for why in verdicts if why), "")
            if not unit.failure and (unit.arrived < unit.size or None in verdicts):
                return
        answered, unit.waiting = unit.waiting, []
        if unit.arrived >= unit.size:
            del self._units[name]
            for key in unit.keys:
                self._concerned[key].discard(name)
                if not self._concerned[key]:
                    del self._concerned[key]
        for waiting in answered:
            waiting.answer(unit.failure)

    def _concern(self, key: ObjectKey, name: str) -> None:
        self._concerned.setdefault(key, set()).add(name)
        self._units[name].keys.add(key)

    def _unit(self, bind: Bind) -> tuple[str, _WaitingPods]:
        task = self._state.tasks.get(bind.binding.pod)
        is_gang = task is not None and not task.job.alone and task.job.minimum > 1
        name = f"job {bind.binding.job} {bind.at}" if is_gang else f"pod {bind.binding.pod} {bind.uid}"
        return name, self._units.setdefault(name, _WaitingPods(bind.awaits_volumes if is_gang else 1))

    def _verdict(self, waiting: _WaitingBind, unit: str) -> str | None:
        """ "" if all claims of a pod are bound; None while some are not; else what is wrong."""
        bind = waiting.bind
        if not isinstance(self._store.get(bind.key), Pod):
            return "the pod is gone"
        if not all(self._store.has_shown(key, version) for key, version in waiting.versions.items()):
            return None
        found = [self._claim(choice, bind, unit) for choice in bind.binding.volumes]
        return next((why for why in found if why), None if None in found else "")

    def _claim(self, choice: VolumeChoice, bind: Bind, unit: str) -> str | None:
        key = _claim_key(choice)
        claim, name = self._store.get(key), key[2]
        if not isinstance(claim, PersistentVolumeClaim):
            return f'persistentvolumeclaim "{name}" is gone'
        node = bind.binding.node
        if claim.spec.volume_name:
            volume = self._store.get(("PersistentVolume", "", claim.spec.volume_name))
            if not isinstance(volume, PersistentVolume):
                # Not shown yet; if it is gone, the claim will be lost.
                self._concern(("PersistentVolume", "", claim.spec.volume_name), unit)
                return None
            row = self._state.nodes.rows.get(node)
            if row is None or not reaches(volume, node, self._state.nodes.labels.at(row)):
                return f'node affinity of persistentvolume "{claim.spec.volume_name}" does not match node {node}'
            return "" if is_bound(claim) else None
        if choice.volume:
            volume = self._store.get(_volume_key(choice))
            named = volume.spec.claim_ref if isinstance(volume, PersistentVolume) else None
            if named is None or named.uid != claim.metadata.uid:
                return f'persistentvolume "{choice.volume}" is no longer kept for claim "{name}"'
        elif claim.metadata.annotations.get(SELECTED_NODE) != node:
            return f'provisioning failed for PVC "{name}"'
        return None


def _claim_key(choice: VolumeChoice) -> ObjectKey:
    namespace, _, name = choice.claim.partition("/")
    return "PersistentVolumeClaim", namespace, name


def _volume_key(choice: VolumeChoice) -> ObjectKey:
    return "PersistentVolume", "", choice.volume
