"""Extended resources that DeviceClasses serve: `limits: {example.com/gpu: 1}` by devices that a driver publishes.

A DeviceClass names one with `extendedResourceName`, and every DeviceClass has the implicit name
`deviceclass.resource.kubernetes.io/<class>`. A node that lists the resource itself serves it by its device plugin, as
kubelets do; on all others the devices of the class stand for it. Only names that some pod or node uses are looked at.
"""

from __future__ import annotations

from collections.abc import Mapping
from datetime import UTC, datetime

from fairway.api.devices import DeviceClass
from fairway.resources.columns import Axis
from fairway.state.device_requests import DeviceFacts

IMPLICIT = "deviceclass.resource.kubernetes.io/"
_BEGINNING = datetime.min.replace(tzinfo=UTC)


def class_names(device_classes: Mapping[str, DeviceClass]) -> dict[str, str]:
    """The class of each name. Of several classes with one name the newest serves it, of equally old ones the first."""
    found: dict[str, str] = {}
    ages: dict[str, datetime] = {}
    for name, known in sorted(device_classes.items()):
        resource, created = known.spec.extended_resource_name, known.metadata.creation_timestamp or _BEGINNING
        if resource and (resource not in ages or created > ages[resource]):
            found[resource], ages[resource] = name, created
    return found


class ExtendedResources:
    """`served` has the names that are in use, with their classes. It costs nothing while nothing changes."""

    def __init__(self, facts: DeviceFacts, axis: Axis) -> None:
        self._facts = facts
        self._axis = axis
        self._seen = (-1, -1)
        self.served: dict[str, str] = {}
        self.places: frozenset[int] = frozenset()
        """Their dimensions."""

    def refresh(self) -> bool:
        """Look again; whether other classes serve, or other names."""
        seen = (self._facts.device_class_changes, self._axis.changes)
        if seen == self._seen:
            return False
        self._seen, before = seen, self.served
        classes = self._facts.device_classes if self._facts.serves_extended else {}
        named = class_names(classes)
        self.served, places = {}, set()
        for place, name in enumerate(self._axis.names) if classes else ():
            serving = named.get(name)
            if serving is None and name.startswith(IMPLICIT) and name.removeprefix(IMPLICIT) in classes:
                serving = name.removeprefix(IMPLICIT)
            if serving is not None:
                self.served[name] = serving
                places.add(place)
        self.places = frozenset(places)
        return self.served != before
