"""From what a pod asks for (`state.asks`) to needs: lines of devices, all to be served together on one node."""

from __future__ import annotations

from collections.abc import Callable, Iterator, Mapping
from typing import NamedTuple

from fairway.api.affinity import NodeSelector
from fairway.api.devices import (
    DeviceClaim,
    DeviceRequest,
    DeviceSubRequest,
    ExactDeviceRequest,
    ResourceClaim,
    ResourceClaimTemplate,
)
from fairway.devices.select.classes import ClassTable
from fairway.devices.select.selector_requests import ByClaim, ByClass, ByKind, ClaimMatcher, Wish
from fairway.errors import InputError
from fairway.resources.quantity import parse_quantity
from fairway.state.device_requests import ClaimAsk, DeviceRequests

MOST_DEVICES = 32
"""Of one claim: more than that its status cannot name."""

CLASS_MISSING = "class"
CLAIM_MISSING = "claim"


class Option(NamedTuple):
    """One way to serve a need. `every` is all devices of the wish; `capacity` asks for parts of shared ones; who has
    admin access looks on and takes nothing.
    """

    wish: Wish
    units: int = 1
    milli: int = 0
    every: bool = False
    capacity: tuple[tuple[str, int], ...] = ()
    name: str = ""
    admin: bool = False


class Need(NamedTuple):
    """A line: the first of its options that can be served."""

    options: tuple[Option, ...]
    strategy: tuple[str, ...] = ()
    claim: str = ""
    request: str = ""


class Rule(NamedTuple):
    """The devices of these needs have one value of an attribute in common, or all different ones.

    An entry (need, option) speaks of one option of a need only; option -1 is any.
    """

    attribute: str
    together: bool
    needs: frozenset[tuple[int, int]]


class Missing(NamedTuple):
    """Something that was asked for is not there, or cannot be understood."""

    what: str
    text: str


class DeviceNeeds(NamedTuple):
    """Everything one pod needs of devices. `pins` are where claims that are allocated already can be used."""

    needs: tuple[Need, ...] = ()
    rules: tuple[Rule, ...] = ()
    pins: tuple[NodeSelector, ...] = ()
    shared: tuple[str, ...] = ()
    """Claims by name that this pod would have allocated, and that others may name too."""
    missing: tuple[Missing, ...] = ()

    @property
    def admin(self) -> bool:
        """Whether something is asked for with admin access."""
        return any(option.admin for need in self.needs for option in need.options)

    def without(self, served: Callable[[Need], bool]) -> DeviceNeeds:
        """What is left when some needs are served already, with the rules among what is left."""
        kept = [index for index, need in enumerate(self.needs) if not served(need)]
        if len(kept) == len(self.needs):
            return self
        places = {index: place for place, index in enumerate(kept)}
        rules = (
            rule._replace(needs=frozenset((places[need], option) for need, option in rule.needs if need in places))
            for rule in self.rules
        )
        return self._replace(
            needs=tuple(self.needs[index] for index in kept), rules=tuple(rule for rule in rules if rule.needs)
        )


class RequestResolver:
    """Resolves asks against the classes and claims that there are now."""

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

    def resolve(self, asks: DeviceRequests | None, plain: tuple[tuple[str, int], ...] = ()) -> DeviceNeeds:
        """`plain` are units of plain resources that have to be found among devices."""
        needs = [Need((Option(ByKind(resource), units),)) for resource, units in plain]
        if asks is None:
            return DeviceNeeds(tuple(needs))
        missing: list[Missing] = []
        for ask in asks.classes:
            known = self._classes.get(ask.class_name)
            if known is None:
                missing.append(Missing(CLASS_MISSING, f"resource class {ask.class_name} does not exist"))
            elif known.faults:
                missing.append(Missing(CLASS_MISSING, f"resource class {ask.class_name}: {known.faults[0]}"))
            strategy = asks.strategy or (known.spec.strategy if known else ())
            wish = ByClass(ask.class_name)
            if ask.units:
                needs.append(Need((Option(wish, ask.units),), strategy))
            needs += [Need((Option(wish, 1, milli),), strategy) for milli in ask.fractions]
        made = DeviceNeeds(tuple(needs), missing=tuple(missing))
        for claim in asks.claims:
            made = self._with_claim(made, claim, asks.strategy)
        return made

    def _with_claim(self, so_far: DeviceNeeds, ask: ClaimAsk, strategy: tuple[str, ...]) -> DeviceNeeds:
        if ask.claim:
            claim = self._claims.get(ask.claim)
            if claim is None:
                return _lacking(so_far, Missing(CLAIM_MISSING, f"resource claim {ask.claim} does not exist"))
            if claim.status.allocation is not None:
                selector = claim.status.allocation.node_selector
                return so_far._replace(pins=(*so_far.pins, selector)) if selector else so_far
            so_far = so_far._replace(shared=(*so_far.shared, ask.claim))
            return self._with_requests(so_far, ask.claim, claim.spec.devices, strategy)
        template = self._templates.get(ask.template)
        if template is None:
            text = f"resource claim template {ask.template or ask.entry} does not exist"
            return _lacking(so_far, Missing(CLAIM_MISSING, text))
        return self._with_requests(so_far, ask.entry, template.spec.spec.devices, strategy)

    def _with_requests(
        self, so_far: DeviceNeeds, claim: str, asked: DeviceClaim, strategy: tuple[str, ...]
    ) -> DeviceNeeds:
        try:
            return self._with_read(so_far, claim, asked, strategy)
        except Exception as error:  # whatever a claim says is a reason on its own pods
            return _lacking(so_far, Missing(CLAIM_MISSING, f"resource claim {claim} cannot be read: {error}"))

    def _with_read(self, so_far: DeviceNeeds, claim: str, asked: DeviceClaim, strategy: tuple[str, ...]) -> DeviceNeeds:
        needs, missing = list(so_far.needs), [*so_far.missing, *_too_many(claim, asked)]
        places: dict[str, tuple[int, int]] = {}
        for request in asked.requests:
            need = _need(claim, request, strategy)
            places[request.name] = (len(needs), -1)
            for index, option in enumerate(need.options):
                places[f"{request.name}/{option.name}"] = (len(needs), index)
                missing += self._faults(option)
            needs.append(need)
        every = [place for name, place in places.items() if "/" not in name]
        rules = [
            Rule(
                constraint.match_attribute or constraint.distinct_attribute or "",
                constraint.match_attribute is not None,
                frozenset(places[name] for name in constraint.requests) if constraint.requests else frozenset(every),
            )
            for constraint in asked.constraints
        ]
        return so_far._replace(needs=tuple(needs), rules=(*so_far.rules, *rules), missing=tuple(missing))

    def _faults(self, option: Option) -> Iterator[Missing]:
        wish = option.wish
        assert isinstance(wish, ByClaim)
        if not self._matcher.knows(wish.device_class):
            yield Missing(CLASS_MISSING, f"device class {wish.device_class} does not exist")
        elif fault := self._matcher.fault(wish):
            yield Missing(CLASS_MISSING, fault)


def _too_many(claim: str, asked: DeviceClaim) -> Iterator[Missing]:
    """A claim that could not be allocated whichever devices there are, for its status could not name them all."""
    least = 0
    for request in asked.requests:
        options = request.first_available or (request.exactly,)
        least += min(option.count or 1 for option in options if option is not None)
    if least > MOST_DEVICES:
        text = f"requests {least} devices, at most {MOST_DEVICES} can be allocated to one claim"
        yield Missing(CLAIM_MISSING, f"resource claim {claim} {text}")


def _lacking(needs: DeviceNeeds, missing: Missing) -> DeviceNeeds:
    return needs._replace(missing=(*needs.missing, missing))


def _need(claim: str, request: DeviceRequest, strategy: tuple[str, ...]) -> Need:
    if request.exactly is not None:
        options: tuple[Option, ...] = (_option(request.exactly, ""),)
    else:
        options = tuple(_option(sub, sub.name) for sub in request.first_available)
        if not options:
            raise InputError(f"request {request.name} says neither exactly nor firstAvailable")
    return Need(options, strategy, claim, request.name)


def _option(asked: ExactDeviceRequest | DeviceSubRequest, name: str) -> Option:
    expressions = tuple(selector.cel.expression for selector in asked.selectors if selector.cel)
    capacity = asked.capacity.requests if asked.capacity else {}
    return Option(
        ByClaim(asked.device_class_name, expressions, asked.tolerations),
        asked.count or 1,
        every=asked.allocation_mode == "All",
        capacity=tuple(sorted((name, parse_quantity(text).nanos) for name, text in capacity.items())),
        name=name,
        admin=isinstance(asked, ExactDeviceRequest) and asked.admin_access,
    )
