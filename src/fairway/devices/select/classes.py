"""Classes, compiled: which devices each selects, and what is wrong with it; and extended resources that DeviceClasses
serve.

A class that includes others is a class of groups: it selects a group device that its own selectors match (any group, if
it has none) and whose members can serve what it includes, each member for one of them. Classes that include each other
in a circle are all refused, so that the order of events does not decide which one is to blame.

A pod may also request `limits: {example.com/gpu: 1}` and be served by devices that a driver publishes. A DeviceClass
names such a resource with `extendedResourceName`, and every DeviceClass has the implicit name
`deviceclass.resource.kubernetes.io/<class>`. A node that lists the resource itself serves it by its device plugin, as
kubelets do; on all others the devices of the class stand for it. Only names that some pod or node uses are considered.
"""

from __future__ import annotations

from collections import deque
from collections.abc import Collection, Iterable, Iterator, Mapping, Sequence
from datetime import UTC, datetime

from fairway.api.devices import DeviceClass, ResourceClass, ResourceClassSpec
from fairway.api.pods import matches
from fairway.devices.model.device import Device
from fairway.devices.model.inventory import Inventory
from fairway.devices.model.values import Value
from fairway.devices.select.flow import can_serve
from fairway.devices.select.selectors import Matcher, compile_selector
from fairway.errors import InputError
from fairway.resources.columns import Axis
from fairway.state.device_requests import DeviceFacts

_REMEMBERED = 65536


class CompiledClass:
    """A class with its matcher. One with `problems` selects nothing."""

    __slots__ = ("matcher", "name", "problems", "spec")

    def __init__(self, resource_class: ResourceClass) -> None:
        self.name = resource_class.metadata.name
        self.spec: ResourceClassSpec = resource_class.spec
        self.matcher: Matcher = compile_selector(self.spec.resource_selector)
        self.problems: tuple[str, ...] = ()
        self.set_circle(None)

    def set_circle(self, circle: Sequence[str] | None) -> None:
        """Whether it includes itself through other classes."""
        problems = [f"spec.{problem}" for problem in self.matcher.problems]
        if circle:
            problems.append(f"spec.includes: {' -> '.join(circle)} goes in a circle, expected classes that do not")
        self.problems = tuple(problems)

    @property
    def nested(self) -> bool:
        return bool(self.spec.includes)

    def selects_alone(self, device: Device) -> bool:
        """Whether its own selectors match; a nested class without any leaves the decision to the members."""
        if self.problems:
            return False
        if self.nested:
            return bool(device.members) and (not self.spec.resource_selector or self.matcher.selects(device))
        return self.matcher.selects(device)

    def admits(self, labels: Mapping[str, str]) -> bool:
        """Whether pods of a namespace with these labels may request it."""
        allowed = self.spec.allowed_namespaces
        return allowed is None or matches(allowed, labels)


class ClassTable:
    """All classes, in order of name, so that nothing depends on the order of events."""

    def __init__(self, classes: Iterable[ResourceClass] = ()) -> None:
        self._classes: dict[str, CompiledClass] = {}
        for resource_class in classes:
            self.put(resource_class)
        self.settle()

    def __iter__(self) -> Iterator[CompiledClass]:
        return (self._classes[name] for name in sorted(self._classes))

    def __len__(self) -> int:
        return len(self._classes)

    def get(self, name: str) -> CompiledClass | None:
        return self._classes.get(name)

    def put(self, resource_class: ResourceClass) -> None:
        """Adds a class; call `settle` after the last one."""
        self._classes[resource_class.metadata.name] = CompiledClass(resource_class)

    def drop(self, resource_class: ResourceClass) -> None:
        """Removes a class; call `settle` afterwards."""
        self._classes.pop(resource_class.metadata.name, None)

    def add(self, resource_class: ResourceClass) -> None:
        self.put(resource_class)
        self.settle()

    def remove(self, name: str) -> None:
        self._classes.pop(name, None)
        self.settle()

    def nested(self) -> list[CompiledClass]:
        """Classes of groups, each after those it includes."""
        return [self._classes[name] for name in self._order if self._classes[name].nested]

    def problems(self) -> list[str]:
        return [f"resourceclass {found.name}: {problem}" for found in self for problem in found.problems]

    def warnings(self) -> list[str]:
        return [f"resourceclass {found.name}: spec.{warning}" for found in self for warning in found.matcher.warnings]

    def selecting(self, device: Device) -> frozenset[str]:
        """The classes whose own selectors match a device, without nested ones. Equal devices are evaluated once."""
        alike = tuple(map(device.lookup, self._keys))
        found = self._known.get(alike)
        if found is None:
            if len(self._known) >= _REMEMBERED:
                self._known.clear()
            plain = (known for known in self._classes.values() if not known.nested)
            found = self._known[alike] = frozenset(known.name for known in plain if known.selects_alone(device))
        return found

    def selections(self, inventory: Inventory) -> list[frozenset[str]]:
        """For each slot the names of the classes that select its device."""
        found = [self.selecting(slot.device) if slot.device.reachable else frozenset() for slot in inventory.slots]
        if any(slot.group for slot in inventory.slots):
            for nested in self.nested():
                for index in groups_served(nested, inventory, found):
                    found[index] = found[index] | {nested.name}
        return found

    def settle(self) -> None:
        """Recomputes, after a change, the caches, the order of nested classes, and which classes form a circle."""
        keys = (key for known in self._classes.values() for key in known.matcher.keys)
        self._keys: tuple[str, ...] = tuple(sorted(set(keys)))
        self._known: dict[tuple[Value | None, ...], frozenset[str]] = {}
        self._order: list[str] = []
        for name in sorted(self._classes):
            known = self._classes[name]
            circle = self._way_back(name) if known.nested else None
            known.set_circle(circle)
            self._put_in_order(name, set())

    def _way_back(self, name: str) -> list[str] | None:
        """The shortest path from a class through those it includes back to itself."""
        paths = deque([[name]])
        seen = set[str]()
        while paths:
            path = paths.popleft()
            known = self._classes.get(path[-1])
            for included in known.spec.includes if known else ():
                if included.class_name == name:
                    return [*path, name]
                if included.class_name not in seen:
                    seen.add(included.class_name)
                    paths.append([*path, included.class_name])
        return None

    def _put_in_order(self, name: str, above: set[str]) -> None:
        if name in self._order or name in above or name not in self._classes:
            return
        for included in self._classes[name].spec.includes:
            self._put_in_order(included.class_name, above | {name})
        self._order.append(name)


def groups_served(nested: CompiledClass, inventory: Inventory, selected: Sequence[Collection[str]]) -> list[int]:
    """The group slots that a nested class selects, given the classes that select each slot so far."""
    return [
        index
        for index, slot in enumerate(inventory.slots)
        if slot.group
        and slot.device.reachable
        and nested.selects_alone(slot.device)
        and _members_serve(nested, inventory, index, selected)
    ]


def _members_serve(
    nested: CompiledClass, inventory: Inventory, group: int, selected: Sequence[Collection[str]]
) -> bool:
    device = inventory.slots[group].device
    buckets: dict[int, int] = {}
    for index, slot in enumerate(inventory.slots):
        other = slot.device
        if other.name in device.members and (other.driver, other.pool) == (device.driver, device.pool):
            mask = sum(
                1 << place
                for place, included in enumerate(nested.spec.includes)
                if included.class_name in selected[index]
            )
            buckets[mask] = buckets.get(mask, 0) + slot.quantity
    return can_serve([included.count for included in nested.spec.includes], buckets)


def check_classes(classes: Iterable[ResourceClass]) -> None:
    """Refuses classes that could not be created: the first problems, each with its place."""
    problems = ClassTable(classes).problems()
    if problems:
        raise InputError("\n".join(problems))


IMPLICIT = "deviceclass.resource.kubernetes.io/"
_BEGINNING = datetime.min.replace(tzinfo=UTC)


def class_names(device_classes: Mapping[str, DeviceClass]) -> dict[str, str]:
    """The class of each name. Of several classes with one name the newest serves it; of equally old ones, the first."""
    found: dict[str, str] = {}
    ages: dict[str, datetime] = {}
    for name, known in sorted(device_classes.items()):
        resource, created = known.spec.extended_resource_name, known.metadata.creation_timestamp or _BEGINNING
        if resource and (resource not in ages or created > ages[resource]):
            found[resource], ages[resource] = name, created
    return found


class ExtendedResources:
    """`served` has the names in use, with their classes. Free of cost while nothing changes."""

    def __init__(self, facts: DeviceFacts, axis: Axis) -> None:
        self._facts = facts
        self._axis = axis
        self._seen = (-1, -1)
        self.served: dict[str, str] = {}
        self.places: frozenset[int] = frozenset()
        """Their dimensions."""

    def refresh(self) -> bool:
        """Updates; returns whether other classes serve, or other names."""
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
