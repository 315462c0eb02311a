"""From what a pod requests (`state.device_requests`) to resolved requests, all to be served together on one node.

A request names its devices by class, by the name of a plain resource, or by a claim's selectors.
"""

from __future__ import annotations

from collections.abc import Callable, Iterable, Iterator, Mapping
from typing import NamedTuple

from fairway.api.devices import (
    DeviceClaim,
    DeviceClass,
    DeviceRequest,
    DeviceSubRequest,
    DeviceTaint,
    DeviceToleration,
    ExactDeviceRequest,
    ResourceClaim,
    ResourceClaimTemplate,
)
from fairway.api.pods import NodeSelector
from fairway.cel import shown
from fairway.devices.model.device import BLOCKING, Device
from fairway.devices.select.cel_selectors import Purse, SelectorAnswers
from fairway.devices.select.classes import ClassTable
from fairway.errors import InputError
from fairway.resources.quantity import parse_quantity
from fairway.state.device_requests import ClaimRequest, DeviceRequests


class ByClass(NamedTuple):
    """Devices that a ResourceClass selects."""

    class_name: str


class ByKind(NamedTuple):
    """Units of a plain resource (`nvidia.com/gpu`), whatever their attributes."""

    resource: str
    devices: bool = True
    """Whether published devices may serve them; not if a claim could not list so many."""


class ByClaim(NamedTuple):
    """Devices of a DeviceClass that match all selectors of the request and whose taints it tolerates."""

    device_class: str
    expressions: tuple[str, ...] = ()
    tolerations: tuple[DeviceToleration, ...] = ()


DeviceSelector = ByClass | ByKind | ByClaim
_KEPT = 4096


def label(selector: DeviceSelector) -> str:
    """Its name in a binding: the class, or the plain resource."""
    match selector:
        case ByClass(name) | ByKind(name):
            return name
    return selector.device_class


class ClaimMatcher:
    """Which devices a claim selects. Where there is no DeviceClass of its name, the ResourceClass is meant."""

    def __init__(
        self,
        device_classes: Mapping[str, DeviceClass],
        classes: ClassTable,
        answers: SelectorAnswers | None = None,
        *,
        waits: bool = False,
    ) -> None:
        """With `waits`, expressions are evaluated only by `prepare`, which has a budget: until then, what uses them
        selects nothing.
        """
        self._device_classes = device_classes
        self._classes = classes
        self.answers = SelectorAnswers() if answers is None else answers
        self._waits = waits
        self._prepared: dict[tuple[str, ...], int] = {}
        """Expressions that were evaluated on all devices, and the generation of the devices then."""
        self._asked_early: set[tuple[str, ...]] = set()
        self.early_answers = 0
        """Increases when answers arrive for questions that were asked too early: results derived from those are
        invalid.
        """

    def knows(self, device_class: str) -> bool:
        return device_class in self._device_classes or self._classes.get(device_class) is not None

    def prepare(self, selector: ByClaim, devices: Iterable[Device], generation: int, purse: Purse) -> bool:
        """Evaluates the expressions of a selector on these devices; False if that has to continue later."""
        texts = self._expressions(selector)
        if self._prepared.get(texts) == generation:
            return True
        if not self.answers.prepare(texts, devices, purse):
            return False
        if len(self._prepared) >= _KEPT:
            self._prepared.clear()
        self._prepared[texts] = generation
        if texts in self._asked_early:
            self._asked_early.discard(texts)
            self.early_answers += 1
        return True

    def may_ask(self, selector: ByClaim) -> bool:
        """`is_prepared`, for callers that derive results from the answer."""
        if self.is_prepared(selector):
            return True
        if len(self._asked_early) >= _KEPT:
            self._asked_early.clear()
            self.early_answers += 1
        self._asked_early.add(self._expressions(selector))
        return False

    def is_prepared(self, selector: ByClaim) -> bool:
        """Whether its expressions were evaluated."""
        return not self._waits or self._expressions(selector) in self._prepared

    def problem(self, selector: ByClaim) -> str:
        """Why a selector cannot be used at all; "" if it can."""
        if not self.is_prepared(selector):
            return ""
        return next(filter(None, map(self.answers.refusal, self._expressions(selector))), "")

    def selects(self, selector: ByClaim, device: Device, class_names: frozenset[str] | set[str]) -> bool:
        """`class_names` are the ResourceClasses that select the device. Only published devices can be claimed."""
        if (
            not device.driver
            or not device.healthy
            or not device.reachable
            or not tolerated(device.taints, selector.tolerations)
        ):
            return False
        if selector.device_class not in self._device_classes and selector.device_class not in class_names:
            return False
        return all(self.answers.answer(text, device).value is True for text in self._expressions(selector))

    def failure(self, selector: ByClaim, device: Device) -> str:
        """Why the evaluation for a device was aborted; "" if it was not."""
        for text in self._askable(selector):
            answer = self.answers.answer(text, device)
            if answer.failed:
                return f"CEL expression {shown(text)} fails: {answer.error}"
            if answer.value is not True:
                return ""
        return ""

    def error(self, selector: ByClaim, device: Device) -> str:
        """The error of the first expression that does not hold for a device; "" if it is simply false."""
        for text in self._askable(selector):
            answer = self.answers.answer(text, device)
            if answer.value is not True:
                return answer.error
        return ""

    def _askable(self, selector: ByClaim) -> tuple[str, ...]:
        if not self.is_prepared(selector) or self.problem(selector):
            return ()
        return self._expressions(selector)

    def _expressions(self, selector: ByClaim) -> tuple[str, ...]:
        known = self._device_classes.get(selector.device_class)
        own = tuple(s.cel.expression for s in known.spec.selectors if s.cel) if known else ()
        return (*own, *selector.expressions)


def tolerated(taints: tuple[DeviceTaint, ...], tolerations: tuple[DeviceToleration, ...]) -> bool:
    """Whether every blocking taint is tolerated. As for nodes, an empty key with Exists tolerates everything."""
    return all(
        any(_tolerates(toleration, taint) for toleration in tolerations) for taint in taints if taint.effect in BLOCKING
    )


def _tolerates(toleration: DeviceToleration, taint: DeviceTaint) -> bool:
    if toleration.effect and toleration.effect != taint.effect:
        return False
    if toleration.operator == "Exists":
        return not toleration.key or toleration.key == taint.key
    return toleration.key == taint.key and toleration.value == taint.value


MAX_DEVICES = 32
"""Maximum devices of one claim: its status cannot list more."""

CLASS_MISSING = "class"
CLAIM_MISSING = "claim"


class Option(NamedTuple):
    """One way to serve a request. `every` is all devices of the selector; `capacity` requests parts of shared ones;
    with admin access it takes nothing.
    """

    selector: DeviceSelector
    units: int = 1
    milli: int = 0
    every: bool = False
    capacity: tuple[tuple[str, int], ...] = ()
    name: str = ""
    admin: bool = False


class ResolvedRequest(NamedTuple):
    """A request with its options, of which the first that can be served is used."""

    options: tuple[Option, ...]
    strategy: tuple[str, ...] = ()
    claim: str = ""
    request: str = ""


class Rule(NamedTuple):
    """The devices of these requests share one value of an attribute, or all have different ones.

    An entry (request, option) is about one option of a request only; option -1 is any.
    """

    attribute: str
    together: bool
    requests: frozenset[tuple[int, int]]


class Missing(NamedTuple):
    """A requested object does not exist, or is not valid."""

    what: str
    text: str


class ResolvedRequests(NamedTuple):
    """All device requests of one pod. `pins` are the places where its allocated claims can be used."""

    requests: tuple[ResolvedRequest, ...] = ()
    rules: tuple[Rule, ...] = ()
    pins: tuple[NodeSelector, ...] = ()
    shared: tuple[str, ...] = ()
    """Claims, by name, that this pod would allocate and that other pods may use too."""
    missing: tuple[Missing, ...] = ()

    @property
    def admin(self) -> bool:
        """Whether any request has admin access."""
        return any(option.admin for request in self.requests for option in request.options)

    def without(self, served: Callable[[ResolvedRequest], bool]) -> ResolvedRequests:
        """The requests that remain after some are served, with the rules among them."""
        kept = [index for index, request in enumerate(self.requests) if not served(request)]
        if len(kept) == len(self.requests):
            return self
        places = {index: place for place, index in enumerate(kept)}
        rules = (
            rule._replace(
                requests=frozenset((places[need], option) for need, option in rule.requests if need in places)
            )
            for rule in self.rules
        )
        return self._replace(
            requests=tuple(self.requests[index] for index in kept), rules=tuple(rule for rule in rules if rule.requests)
        )


class RequestResolver:
    """Resolves requests against the current classes and claims."""

    def __init__(
        self,
        classes: ClassTable,
        matcher: ClaimMatcher,
        claims: Mapping[str, ResourceClaim],
        templates: Mapping[str, ResourceClaimTemplate],
    ) -> None:
        self._classes = classes
        self._matcher = matcher
        self._claims = claims
        self._templates = templates

    def resolve(self, requests: DeviceRequests | None, plain: tuple[tuple[str, int], ...] = ()) -> ResolvedRequests:
        """`plain` are units of plain resources that devices have to serve."""
        few = sum(units for _, units in plain) <= MAX_DEVICES
        resolved = [ResolvedRequest((Option(ByKind(resource, few), units),)) for resource, units in plain]
        if requests is None:
            return ResolvedRequests(tuple(resolved))
        missing: list[Missing] = []
        for request in requests.classes:
            known = self._classes.get(request.class_name)
            if known is None:
                missing.append(Missing(CLASS_MISSING, f"resource class {request.class_name} does not exist"))
            elif known.problems:
                missing.append(Missing(CLASS_MISSING, f"resource class {request.class_name}: {known.problems[0]}"))
            strategy = requests.strategy or (known.spec.strategy if known else ())
            selector = ByClass(request.class_name)
            if request.units:
                resolved.append(ResolvedRequest((Option(selector, request.units),), strategy))
            resolved += [ResolvedRequest((Option(selector, 1, milli),), strategy) for milli in request.fractions]
        made = ResolvedRequests(tuple(resolved), missing=tuple(missing))
        for claim in requests.claims:
            made = self._with_claim(made, claim, requests.strategy)
        return made

    def selectors(self, requests: DeviceRequests) -> list[ByClaim]:
        """The selectors of claims whose expressions have to be evaluated before `resolve`."""
        found: list[ByClaim] = []
        for request in requests.claims:
            claim, template = self._claims.get(request.claim), self._templates.get(request.template)
            if claim is not None and claim.status.allocation is None:
                found += _claim_selectors(claim.spec.devices)
            elif template is not None and not request.claim:
                found += _claim_selectors(template.spec.spec.devices)
        return found

    def _with_claim(
        self, resolved: ResolvedRequests, request: ClaimRequest, strategy: tuple[str, ...]
    ) -> ResolvedRequests:
        if request.claim:
            claim = self._claims.get(request.claim)
            if claim is None:
                return _lacking(resolved, Missing(CLAIM_MISSING, f"resource claim {request.claim} does not exist"))
            if claim.metadata.deletion_timestamp is not None:
                return _lacking(resolved, Missing(CLAIM_MISSING, f"resource claim {request.claim} is being deleted"))
            if claim.status.allocation is not None:
                selector = claim.status.allocation.node_selector
                return resolved._replace(pins=(*resolved.pins, selector)) if selector else resolved
            resolved = resolved._replace(shared=(*resolved.shared, request.claim))
            return self._with_requests(resolved, request.claim, claim.spec.devices, strategy)
        template = self._templates.get(request.template)
        if template is None:
            text = f"resource claim template {request.template or request.entry} does not exist"
            return _lacking(resolved, Missing(CLAIM_MISSING, text))
        return self._with_requests(resolved, request.entry, template.spec.spec.devices, strategy)

    def _with_requests(
        self, resolved: ResolvedRequests, claim: str, asked: DeviceClaim, strategy: tuple[str, ...]
    ) -> ResolvedRequests:
        try:
            return self._with_read(resolved, claim, asked, strategy)
        except Exception as error:  # whatever a claim says is a reason on its own pods
            return _lacking(resolved, Missing(CLAIM_MISSING, f"resource claim {claim} cannot be read: {error}"))

    def _with_read(
        self, resolved: ResolvedRequests, claim: str, asked: DeviceClaim, strategy: tuple[str, ...]
    ) -> ResolvedRequests:
        requests, missing = list(resolved.requests), [*resolved.missing, *_too_many(claim, asked)]
        places: dict[str, tuple[int, int]] = {}
        for request in asked.requests:
            found = _resolved(claim, request, strategy)
            places[request.name] = (len(requests), -1)
            for index, option in enumerate(found.options):
                places[f"{request.name}/{option.name}"] = (len(requests), index)
                missing += self._problems(option)
            requests.append(found)
        every = [place for name, place in places.items() if "/" not in name]
        rules = [
            Rule(
                constraint.match_attribute or constraint.distinct_attribute or "",
                constraint.match_attribute is not None,
                frozenset(places[name] for name in constraint.requests) if constraint.requests else frozenset(every),
            )
            for constraint in asked.constraints
        ]
        return resolved._replace(requests=tuple(requests), rules=(*resolved.rules, *rules), missing=tuple(missing))

    def _problems(self, option: Option) -> Iterator[Missing]:
        selector = option.selector
        assert isinstance(selector, ByClaim)
        if not self._matcher.knows(selector.device_class):
            yield Missing(CLASS_MISSING, f"device class {selector.device_class} does not exist")
        elif problem := self._matcher.problem(selector):
            yield Missing(CLASS_MISSING, problem)


def _claim_selectors(asked: DeviceClaim) -> Iterator[ByClaim]:
    for request in asked.requests:
        for option in request.first_available or (request.exactly,):
            if option is not None:
                yield _selector(option)


def _selector(asked: ExactDeviceRequest | DeviceSubRequest) -> ByClaim:
    expressions = tuple(selector.cel.expression for selector in asked.selectors if selector.cel)
    return ByClaim(asked.device_class_name, expressions, asked.tolerations)


def _too_many(claim: str, asked: DeviceClaim) -> Iterator[Missing]:
    """A claim that no devices could satisfy, because its status could not list them all."""
    least = 0
    for request in asked.requests:
        options = request.first_available or (request.exactly,)
        least += min(option.count or 1 for option in options if option is not None)
    if least > MAX_DEVICES:
        text = f"requests {least} devices, at most {MAX_DEVICES} can be allocated to one claim"
        yield Missing(CLAIM_MISSING, f"resource claim {claim} {text}")


def _lacking(requests: ResolvedRequests, missing: Missing) -> ResolvedRequests:
    return requests._replace(missing=(*requests.missing, missing))


def _resolved(claim: str, request: DeviceRequest, strategy: tuple[str, ...]) -> ResolvedRequest:
    if request.exactly is not None:
        options: tuple[Option, ...] = (_option(request.exactly, ""),)
    else:
        options = tuple(_option(sub, sub.name) for sub in request.first_available)
        if not options:
            raise InputError(f"request {request.name} says neither exactly nor firstAvailable")
    return ResolvedRequest(options, strategy, claim, request.name)


def _option(asked: ExactDeviceRequest | DeviceSubRequest, name: str) -> Option:
    capacity = asked.capacity.requests if asked.capacity else {}
    return Option(
        _selector(asked),
        asked.count or 1,
        every=asked.allocation_mode == "All",
        capacity=tuple(sorted((name, parse_quantity(text).nanos) for name, text in capacity.items())),
        name=name,
        admin=isinstance(asked, ExactDeviceRequest) and asked.admin_access,
    )
