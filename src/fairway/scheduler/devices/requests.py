"""What shapes need of devices, as a session understands it: resolved once per shape, numbered once per need."""

from __future__ import annotations

from typing import NamedTuple

from fairway.devices.model.device import WHOLE
from fairway.devices.select.requests import ByClass, ByKind, ResolvedRequest, ResolvedRequests, label
from fairway.devices.track.class_columns import MAX_REQUESTS, Lines
from fairway.devices.track.ledger import DeviceLedger
from fairway.devices.track.occupancy import Plain
from fairway.resources.columns import Vector
from fairway.state.device_requests import CLASS_PREFIX
from fairway.state.shapes import Shape


class PreparedRequest(NamedTuple):
    """`columns` are (place, amount) where all that is requested are whole units that the columns know."""

    number: int
    resolved: ResolvedRequests
    named: Vector
    """What the shape's own vector says of classes."""
    columns: Vector | None
    classes: Lines
    """The same as classes and units, where there are several lines and all are of classes."""
    local: bool
    """Whether more of a device counts than which classes select it: then nodes are not alike."""
    simple: bool
    """Whether the columns tell everything, where devices are independent of each other."""
    line: tuple[str, int, bool] | None
    """Of the one request, where it is simple: what it names, how many, and whether that is a class."""

    @property
    def part(self) -> int:
        """Thousandths of one device, where that is all that is requested and no strategy is given."""
        requests = self.resolved.requests
        if len(requests) != 1 or requests[0].strategy or len(requests[0].options) != 1:
            return 0
        return requests[0].options[0].milli


class OpenDeviceRequests:
    """Answers for one session. A claim that was allocated in it needs nothing more."""

    def __init__(self, ledger: DeviceLedger) -> None:
        self._ledger = ledger
        self._contested = ledger.columns.contested
        self._numbers: dict[tuple[ResolvedRequests, Vector], int] = {}
        self._known: dict[Shape, tuple[tuple[int, int], PreparedRequest]] = {}
        self.claimed: dict[str, int] = {}
        """Claims that were allocated in this session, and on which row."""

    def of(self, shape: Shape) -> PreparedRequest:
        known, basis = self._known.get(shape), (len(self.claimed), self._ledger.refusals)
        if known is None or known[0] != basis:
            known = self._known[shape] = (basis, self._prepared(shape))
        return known[1]

    def _prepared(self, shape: Shape) -> PreparedRequest:
        requests, named = self._resolved(shape), self.named(shape)
        number = self._numbers.setdefault((requests, named), len(self._numbers))
        local = bool(requests.rules) or any(request.claim for request in requests.requests)
        columns = self._columns(requests)
        simple = columns is not None and len(columns) <= 1
        line = _line(requests.requests[0]) if simple and requests.requests else None
        return PreparedRequest(number, requests, named, columns, _classes(requests), local, simple, line)

    def named(self, shape: Shape) -> Vector:
        """The part of a shape's vector that is about classes, and about extended resources that devices may serve."""
        names, extended = self._ledger.axis.names, self._ledger.extended.places
        return tuple(
            (place, amount)
            for place, amount in shape.vector
            if names[place].startswith(CLASS_PREFIX) or place in extended
        )

    def _resolved(self, shape: Shape) -> ResolvedRequests:
        axis = self._ledger.axis
        plain: Plain = tuple((name, n) for name, n in self._ledger.plain(shape) if axis.find(name) in self._contested)
        requests = self._ledger.resolve(shape.devices, plain)
        if not self.claimed or not any(claim in self.claimed for claim in requests.shared):
            return requests
        return requests.without(lambda request: request.claim in self.claimed)

    def _columns(self, requests: ResolvedRequests) -> Vector | None:
        found = []
        for request in requests.requests:
            place, option = self._ledger.axis.find(_name(request)), request.options[0]
            if place is None or option.milli or not isinstance(option.selector, ByClass | ByKind):
                return None
            if isinstance(option.selector, ByKind) and not option.selector.devices:
                return None
            found.append((place, option.units * WHOLE))
        return tuple(found)


def _classes(requests: ResolvedRequests) -> Lines:
    found = [(request.options[0].selector, request.options[0]) for request in requests.requests]
    if not 1 < len(found) <= MAX_REQUESTS or any(
        not isinstance(selector, ByClass) or opt.milli for selector, opt in found
    ):
        return ()
    return tuple((label(selector), option.units) for selector, option in found)


def _line(request: ResolvedRequest) -> tuple[str, int, bool]:
    option = request.options[0]
    return label(option.selector), option.units, isinstance(option.selector, ByClass)


def _name(request: ResolvedRequest) -> str:
    selector = request.options[0].selector
    return CLASS_PREFIX + label(selector) if isinstance(selector, ByClass) else label(selector)
