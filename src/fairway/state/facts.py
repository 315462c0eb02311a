"""What is known of devices besides nodes and pods: slices, classes and claims, as they were given.

The state only keeps them and says what changed. Which classes select what is worked out above, in `devices`, which
reads the log from where it last stopped.
"""

from __future__ import annotations

from typing import Any, NamedTuple

from fairway.api.classes import ResourceClass
from fairway.api.devices import DeviceClass, ResourceClaim, ResourceClaimTemplate, ResourceSlice
from fairway.state.log import Log

DeviceFact = ResourceSlice | ResourceClass | DeviceClass | ResourceClaim | ResourceClaimTemplate


class Changed(NamedTuple):
    """An object of this kind and key (`name`, or `namespace/name`) was added, modified or deleted."""

    kind: type[Any]
    key: str


class DeviceFacts:
    """The objects by kind and key. A class is immutable: another spec under its name is refused, and said so."""

    def __init__(self) -> None:
        self.slices: dict[str, ResourceSlice] = {}
        self.classes: dict[str, ResourceClass] = {}
        self.device_classes: dict[str, DeviceClass] = {}
        self.claims: dict[str, ResourceClaim] = {}
        self.templates: dict[str, ResourceClaimTemplate] = {}
        self._ledgers: dict[type[Any], dict[str, Any]] = {
            ResourceSlice: self.slices,
            ResourceClass: self.classes,
            DeviceClass: self.device_classes,
            ResourceClaim: self.claims,
            ResourceClaimTemplate: self.templates,
        }
        self._refused: dict[str, str] = {}
        self._log: Log[Changed] = Log()

    def upsert(self, thing: DeviceFact) -> bool:
        """Take an object in; False if it was refused or tells nothing new."""
        key = fact_key(thing)
        book = self._ledgers[type(thing)]
        known = book.get(key)
        if isinstance(thing, ResourceClass):
            if known is not None and known.spec != thing.spec:
                self._refused[key] = (
                    f"resourceclass {key}: its spec was changed, which is refused: the old one stays in force"
                )
                return False
            self._refused.pop(key, None)
        if known == thing:
            return False
        book[key] = thing
        self._note(type(thing), key)
        return True

    def delete(self, thing: DeviceFact) -> bool:
        key = fact_key(thing)
        if self._ledgers[type(thing)].pop(key, None) is None:
            return False
        self._refused.pop(key, None)
        self._note(type(thing), key)
        return True

    def is_allocated(self, claim: str) -> bool:
        known = self.claims.get(claim)
        return known is not None and known.status.allocation is not None

    @property
    def end(self) -> int:
        return self._log.end

    def since(self, position: int) -> list[Changed] | None:
        """What changed since a position; None if the log no longer reaches back that far."""
        return self._log.since(position)

    def warnings(self) -> list[str]:
        return [self._refused[name] for name in sorted(self._refused)]

    def _note(self, kind: type[Any], key: str) -> None:
        self._log.add(Changed(kind, key))


def fact_key(thing: DeviceFact) -> str:
    meta = thing.metadata
    return f"{meta.namespace}/{meta.name}" if isinstance(thing, ResourceClaim | ResourceClaimTemplate) else meta.name
