"""What shapes need of devices, as a session understands it: resolved once per shape, numbered once per need."""

from __future__ import annotations

from typing import NamedTuple

from fairway.devices.model.device import WHOLE
from fairway.devices.select.requests import DeviceNeeds, Need
from fairway.devices.select.selector_requests import ByClass, ByKind, label
from fairway.devices.track.ledger import DeviceLedger
from fairway.devices.track.occupancy import Plain
from fairway.devices.track.slotbits import MOST_LINES, Lines
from fairway.resources.columns import Vector
from fairway.state.device_requests import CLASS_PREFIX
from fairway.state.shapes import Shape


class Asked(NamedTuple):
    """`lines` are (place, amount) where all that is needed are whole units that the columns know."""

    number: int
    needs: DeviceNeeds
    named: Vector
    """What the shape's own vector says of classes."""
    lines: Vector | None
    classes: Lines
    """The same as classes and units, where there are several lines and all are of classes."""
    local: bool
    """Whether more of a device counts than which classes select it: then nodes are not alike."""

    @property
    def part(self) -> int:
        """Thousandths of one device, where that is all that is asked for and nobody says how to choose it."""
        needs = self.needs.needs
        if len(needs) != 1 or needs[0].strategy or len(needs[0].options) != 1:
            return 0
        return needs[0].options[0].milli

    @property
    def simple(self) -> bool:
        """Whether the columns tell everything, where devices are independent of each other."""
        return self.lines is not None and len(self.lines) <= 1


class OpenDeviceRequests:
    """Answers for one session. A claim that was allocated in it needs nothing more."""

    def __init__(self, book: DeviceLedger) -> None:
        self._book = book
        self._contested = book.columns.contested
        self._numbers: dict[tuple[DeviceNeeds, Vector], int] = {}
        self._known: dict[Shape, tuple[int, Asked]] = {}
        self.claimed: dict[str, int] = {}
        """Claims that were allocated in this session, and on which row."""

    def uses_devices(self, shape: Shape) -> bool:
        """Whether placing the shape has anything to do with devices."""
        if shape.devices is not None:
            return self._book.enabled
        contested = self._contested
        return bool(contested) and any(place in contested for place, _ in shape.vector)

    def of(self, shape: Shape) -> Asked:
        known = self._known.get(shape)
        if known is None or known[0] != len(self.claimed):
            known = self._known[shape] = (len(self.claimed), self._asked(shape))
        return known[1]

    def _asked(self, shape: Shape) -> Asked:
        needs, named = self._needs(shape), self.named(shape)
        number = self._numbers.setdefault((needs, named), len(self._numbers))
        local = bool(needs.rules) or any(need.claim for need in needs.needs)
        return Asked(number, needs, named, self._lines(needs), _classes(needs), local)

    def named(self, shape: Shape) -> Vector:
        """The part of a shape's vector that is about classes."""
        names = self._book.axis.names
        return tuple((place, amount) for place, amount in shape.vector if names[place].startswith(CLASS_PREFIX))

    def _needs(self, shape: Shape) -> DeviceNeeds:
        axis = self._book.axis
        plain: Plain = tuple((name, n) for name, n in self._book.plain(shape) if axis.find(name) in self._contested)
        needs = self._book.resolve(shape.devices, plain)
        if not self.claimed or not any(claim in self.claimed for claim in needs.shared):
            return needs
        return needs.without(lambda need: need.claim in self.claimed)

    def _lines(self, needs: DeviceNeeds) -> Vector | None:
        found = []
        for need in needs.needs:
            place, option = self._book.axis.find(_name(need)), need.options[0]
            if place is None or option.milli or not isinstance(option.wish, ByClass | ByKind):
                return None
            found.append((place, option.units * WHOLE))
        return tuple(found)


def _classes(needs: DeviceNeeds) -> Lines:
    found = [(need.options[0].wish, need.options[0]) for need in needs.needs]
    if not 1 < len(found) <= MOST_LINES or any(not isinstance(wish, ByClass) or opt.milli for wish, opt in found):
        return ()
    return tuple((label(wish), option.units) for wish, option in found)


def _name(need: Need) -> str:
    wish = need.options[0].wish
    return CLASS_PREFIX + label(wish) if isinstance(wish, ByClass) else label(wish)
