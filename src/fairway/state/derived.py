"""What is worked out from a state and kept beside it from cycle to cycle: of each class, at most one object.

The state does not know these classes: layers above it make them (the ledger of devices, the index of victims, kept
columns). Each is made from the state alone, and can be forgotten at any time: the next that asks makes it again.
"""

from __future__ import annotations

from collections.abc import Callable
from typing import TypeVar

T = TypeVar("T")


class Derived:
    """The objects of one state."""

    def __init__(self) -> None:
        self._kept: dict[type[object], object] = {}

    def of(self, kind: type[T], make: Callable[[], T]) -> T:
        """The object of a class, made now if there is none."""
        found = self.kept(kind)
        if found is None:
            self._kept[kind] = found = make()
        return found

    def kept(self, kind: type[T]) -> T | None:
        """The object of a class, if there is one."""
        found = self._kept.get(kind)
        return found if isinstance(found, kind) else None

    def forget(self) -> None:
        """What is asked for from now on is made again."""
        self._kept.clear()
