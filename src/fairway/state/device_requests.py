"""What a pod asks of devices, read from its spec: classes by name, claims by reference. Nothing is looked up here.

Init containers run before the others and leave their devices to them, so the pod needs what is asked for at any one
time, not the sum: for each class as many whole units as the hungriest moment, and such fractions as do not fit into
units that are there anyway. Two fractions stay two: halves for two containers may be halves of different devices.
"""

from __future__ import annotations

from collections.abc import Callable, Iterator, Mapping
from typing import Any, NamedTuple, get_args

from fairway.api.devices import (
    DeviceClass,
    DeviceStrategy,
    DeviceTaintRule,
    ResourceClaim,
    ResourceClaimTemplate,
    ResourceClass,
    ResourceSlice,
)
from fairway.api.pods import Container, Pod
from fairway.resources.quantity import parse_amount
from fairway.state.derived import Log

DeviceFact = ResourceSlice | DeviceTaintRule | ResourceClass | DeviceClass | ResourceClaim | ResourceClaimTemplate


class Changed(NamedTuple):
    """An object of this kind and key (`name`, or `namespace/name`) was added, modified or deleted."""

    kind: type[Any]
    key: str


class DeviceFacts:
    """The objects by kind and key. A class is immutable: another spec under its name is refused, and said so."""

    def __init__(self) -> None:
        self.slices: dict[str, ResourceSlice] = {}
        self.taint_rules: dict[str, DeviceTaintRule] = {}
        self.classes: dict[str, ResourceClass] = {}
        self.device_classes: dict[str, DeviceClass] = {}
        self.claims: dict[str, ResourceClaim] = {}
        self.templates: dict[str, ResourceClaimTemplate] = {}
        self._ledgers: dict[type[Any], dict[str, Any]] = {
            ResourceSlice: self.slices,
            DeviceTaintRule: self.taint_rules,
            ResourceClass: self.classes,
            DeviceClass: self.device_classes,
            ResourceClaim: self.claims,
            ResourceClaimTemplate: self.templates,
        }
        self._refused: dict[str, str] = {}
        self._log: Log[Changed] = Log()
        self.device_class_changes = 0
        """Rises when a DeviceClass changes, or whether their extended resources are served."""
        self.serves_extended = True

    def upsert(self, thing: DeviceFact) -> bool:
        """Take an object in; False if it was refused or tells nothing new."""
        key = fact_key(thing)
        book = self._ledgers[type(thing)]
        known = book.get(key)
        if isinstance(thing, ResourceClass):
            if known is not None and known.spec != thing.spec:
                self._refused[key] = f"resourceclass {key}: its spec is immutable: the change is ignored"
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

    def serve_extended(self, serves: bool) -> None:
        """Whether pods that ask for the extended resource of a DeviceClass are given its devices: kubelets must know
        the claim that says so.
        """
        if serves != self.serves_extended:
            self.serves_extended = serves
            self.device_class_changes += 1

    def asks_for_itself(self, claim: str, template: str) -> bool:
        """Whether a claim has to be asked about what it requests: it is allocated, or the template that it was made
        from is gone or says something else by now, or it was made for all pods of a group.
        """
        known, made_from = self.claims.get(claim), self.templates.get(template)
        if known is None:
            return False
        is_shared = any(owner.kind == "PodGroup" for owner in known.metadata.owner_references)
        is_allocated = known.status.allocation is not None
        return is_shared or is_allocated or made_from is None or made_from.spec.spec != known.spec

    @property
    def end(self) -> int:
        return self._log.end

    def since(self, position: int) -> list[Changed] | None:
        """What changed since a position; None if the log no longer reaches back that far."""
        return self._log.since(position)

    def warnings(self) -> list[str]:
        return [self._refused[name] for name in sorted(self._refused)]

    def _note(self, kind: type[Any], key: str) -> None:
        self.device_class_changes += kind is DeviceClass
        self._log.add(Changed(kind, key))


def fact_key(thing: DeviceFact) -> str:
    meta = thing.metadata
    return f"{meta.namespace}/{meta.name}" if isinstance(thing, ResourceClaim | ResourceClaimTemplate) else meta.name


CLASS_PREFIX = "resourceclass.fairway.dev/"
RECORD_PREFIX = "scheduler.alpha.kubernetes.io/resClass_"
"""Annotations of a pod that begin so say which devices it was given."""
SPECIAL_CLAIM = "resource.kubernetes.io/extended-resource-claim"
"""On a claim that was made for the limits of a pod: Kubernetes knows such claims by it."""
STRATEGY = "fairway.dev/device-strategy"
"""On a pod: how its devices are chosen, as a list with commas; it goes before the class's and the policy's."""

_STRATEGIES: tuple[str, ...] = get_args(DeviceStrategy)
_UNIT = 1000


class ClassRequest(NamedTuple):
    """Whole units, and fractions in thousandths, the largest first."""

    class_name: str
    units: int
    fractions: tuple[int, ...] = ()


class ClaimRequest(NamedTuple):
    """The pod's entry, and the claim it names, or the template from which one is made for it (`namespace/name`)."""

    entry: str
    claim: str
    template: str


class DeviceRequests(NamedTuple):
    """Equal for pods that the same devices would serve."""

    classes: tuple[ClassRequest, ...] = ()
    claims: tuple[ClaimRequest, ...] = ()
    strategy: tuple[str, ...] = ()


def device_requests_of(pod: Pod, asks_for_itself: Callable[[str, str], bool]) -> DeviceRequests | None:
    """None for the pod that asks for no device. `asks_for_itself` says of a claim and the template that it was made
    from (`namespace/name`) whether the claim counts.
    """
    spec = pod.spec
    found: set[str] = set()
    for container in (*spec.containers, *spec.init_containers):
        resources = container.resources
        for named in (resources.limits, resources.requests):
            found.update([name for name in named if name.startswith(CLASS_PREFIX)])
    if not found and not spec.resource_claims:
        return None
    names = sorted(found)
    classes = (_class_request(pod, name) for name in names)
    return DeviceRequests(
        tuple(request for request in classes if request.units or request.fractions),
        tuple(_claim_requests(pod, asks_for_itself)),
        _strategy(pod.metadata.annotations.get(STRATEGY)),
    )


def device_record(annotations: Mapping[str, str]) -> tuple[tuple[str, str], ...]:
    """Those of a pod's annotations that say which devices it was given."""
    if not annotations:
        return ()
    return tuple(sorted([item for item in annotations.items() if item[0].startswith(RECORD_PREFIX)]))


def _amount(container: Container, name: str) -> int:
    resources = container.resources
    text = resources.requests.get(name, resources.limits.get(name))
    return 0 if text is None else parse_amount(name, text)


def _class_request(pod: Pod, name: str) -> ClassRequest:
    moments = [[_amount(container, name) for container in moment] for moment in _moments(pod)]
    units = max(sum(amount // _UNIT for amount in moment) for moment in moments)
    fractions: list[int] = []
    for moment in moments:
        spare = units - sum(amount // _UNIT for amount in moment)
        parts = sorted((amount % _UNIT for amount in moment if amount % _UNIT), reverse=True)
        left = _not_in_units(parts, spare)
        for place, part in enumerate(left):
            if place == len(fractions):
                fractions.append(part)
            fractions[place] = max(fractions[place], part)
    return ClassRequest(name.removeprefix(CLASS_PREFIX), units, tuple(sorted(fractions, reverse=True)))


def _moments(pod: Pod) -> Iterator[list[Container]]:
    """Containers that run together: all with the sidecars, and before that each init container with those started."""
    sidecars: list[Container] = []
    for container in pod.spec.init_containers:
        if container.is_sidecar:
            sidecars.append(container)
        else:
            yield [*sidecars, container]
    yield [*pod.spec.containers, *sidecars]


def _not_in_units(parts: list[int], spare: int) -> list[int]:
    """The fractions that are left when others fill `spare` units, the largest first."""
    free, left = [_UNIT] * spare, []
    for part in parts:
        place = next((place for place, room in enumerate(free) if room >= part), None)
        if place is None:
            left.append(part)
        else:
            free[place] -= part
    return left


def _claim_requests(pod: Pod, asks_for_itself: Callable[[str, str], bool]) -> Iterator[ClaimRequest]:
    """Pods that wait for a claim made for them from one template are alike: they ask by the template."""
    namespace = pod.metadata.namespace
    made = {status.name: status.resource_claim_name for status in pod.status.resource_claim_statuses}
    for entry in pod.spec.resource_claims:
        name, template = entry.resource_claim_name, entry.resource_claim_template_name
        if name is None and (own := made.get(entry.name)):
            itself = pod.spec.node_name or asks_for_itself(f"{namespace}/{own}", f"{namespace}/{template}")
            name = own if itself else None
        yield ClaimRequest(
            entry.name,
            f"{namespace}/{name}" if name else "",
            f"{namespace}/{template}" if template and not name else "",
        )


def _strategy(text: str | None) -> tuple[str, ...]:
    """One that names what there is not is none."""
    names = tuple(name.strip() for name in (text or "").split(",") if name.strip())
    return names if all(name in _STRATEGIES for name in names) else ()
