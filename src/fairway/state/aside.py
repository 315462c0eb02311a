"""Objects that cannot be taken in: each is set aside with its error, and everything else goes on.

Objects are taken in through `SetAside.take`: whatever an object makes it raise concerns that object alone.
It counts as if it were not there until it changes, and the plan's warnings say so. This is the net below validation:
what a file or an API server has checked seldom falls into it.
"""

from __future__ import annotations

from collections.abc import Callable
from typing import TypeVar

from fairway.api import kinds
from fairway.api.kinds import ApiObject, ObjectKey

T = TypeVar("T", bound=ApiObject)
R = TypeVar("R")

SHOWN = 20
"""Warnings of this kind in one plan; the rest are counted."""
_LONGEST = 300


class SetAside:
    """The errors, by object."""

    def __init__(self) -> None:
        self._errors: dict[ObjectKey, str] = {}

    def __len__(self) -> int:
        return len(self._errors)

    def take(self, thing: T, take: Callable[[T], R], drop: Callable[[T], R]) -> R:
        """Take an object in; where that fails, drop it, with what is there of it already, and keep the error.

        `take` must be such that `drop` can follow wherever it raises: it reads all of the object before it changes
        anything.
        """
        try:
            taken = take(thing)
        except Exception as error:
            self._errors[kinds.key(thing)] = _text(error)
            return drop(thing)
        if self._errors:
            self._errors.pop(kinds.key(thing), None)
        return taken

    def forget(self, key: Callable[[], ObjectKey]) -> None:
        """An object is gone; its key is only worked out where something is set aside."""
        if self._errors:
            self._errors.pop(key(), None)

    def error(self, key: ObjectKey) -> str:
        """Why an object was set aside; "" if it was not."""
        return self._errors.get(key, "")

    def clear(self) -> None:
        self._errors.clear()

    def warnings(self) -> list[str]:
        errors = sorted(self._errors.items())
        found = [f"{_name(key)} is set aside: {error}" for key, error in errors[:SHOWN]]
        if len(errors) > SHOWN:
            found.append(f"{len(errors) - SHOWN} more objects are set aside")
        return found


def _name(key: ObjectKey) -> str:
    kind, namespace, name = key
    return f"{kind.lower()} {namespace}/{name}" if namespace else f"{kind.lower()} {name}"


def _text(error: Exception) -> str:
    """The first line, as text that can be written anywhere."""
    lines = str(error).encode("utf-8", "backslashreplace").decode().splitlines()
    return lines[0][:_LONGEST] if lines else type(error).__name__
