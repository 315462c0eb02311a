"""What an external plugin is given: the engine's objects to look at, with no way to change them.

Lists come as tuples, mappings and sets as ones that cannot be written to, arrays as copies, and every other object as a
`ReadOnly` that answers with the same. Methods are not there, but for a few that only tell. Built-in plugins get the
objects themselves, so none of this costs them anything.

This keeps mistakes and careless code from harming others. Python code in the same process that is bent on it can reach
anything; installing a plugin means to trust it that far.
"""

from __future__ import annotations

from collections.abc import Callable, Mapping, Set
from datetime import date, timedelta
from enum import Enum
from types import MappingProxyType
from typing import Any

import numpy as np
from numpy.typing import NDArray

from fairway.resources.columns import IntColumn
from fairway.scheduler.placement.node_view import NodeView

_PLAIN = (str, bytes, int, float, complex, type(None), Enum, type, np.generic, date, timedelta)
_TELLING = frozenset({"left", "members", "members_by_role", "ready_by_role", "has_started", "terms"})
"""Methods that change nothing."""


class ReadOnly:
    """Stands for an object of the engine. Two that stand for the same object are equal."""

    __slots__ = ("__target",)

    def __init__(self, target: object) -> None:
        object.__setattr__(self, "_ReadOnly__target", target)

    @property  # type: ignore[misc]
    def __class__(self) -> type[Any]:
        """Of the object that it stands for, so that `isinstance` says what a plugin expects."""
        return type(self.__target)

    def __getattr__(self, name: str) -> Any:
        if name.startswith("_"):
            raise AttributeError(f"{name} is not for plugins")
        value = getattr(self.__target, name)
        if not callable(value) or isinstance(value, type):
            return shown(value)
        if name not in _TELLING:
            raise AttributeError(f"{name}() of {type(self.__target).__name__} is not for plugins")
        return _telling(value)

    def __setattr__(self, name: str, value: object) -> None:
        raise AttributeError(f"plugins cannot set {name} of {type(self.__target).__name__}")

    def __delattr__(self, name: str) -> None:
        raise AttributeError(f"plugins cannot delete {name} of {type(self.__target).__name__}")

    def __eq__(self, other: object) -> bool:
        return type(other) is ReadOnly and other.__target is self.__target

    def __hash__(self) -> int:
        return id(self.__target)

    def __repr__(self) -> str:
        return repr(self.__target)


def _telling(method: Callable[..., Any]) -> Callable[[], Any]:
    return lambda: shown(method())


def shown(value: Any) -> Any:
    """The value as an external plugin may have it."""
    if isinstance(value, _PLAIN):
        return value
    if isinstance(value, NodeView):
        return Nodes(value)
    if isinstance(value, np.ndarray):
        return _copied(value)
    if isinstance(value, tuple):
        return _shown_tuple(value)
    if isinstance(value, list):
        return tuple(map(shown, value))
    if isinstance(value, Mapping):
        return MappingProxyType({shown(key): shown(item) for key, item in value.items()})
    if isinstance(value, Set):
        return frozenset(map(shown, value))
    return ReadOnly(value)


def _shown_tuple(value: tuple[Any, ...]) -> tuple[Any, ...]:
    """The same tuple where nothing in it can be changed, so that requests stay cheap to look at."""
    parts = tuple(map(shown, value))
    if all(mine is theirs for mine, theirs in zip(parts, value, strict=True)):
        return value
    named = getattr(type(value), "_make", None)
    return parts if named is None else named(parts)


def _copied(column: NDArray[Any]) -> NDArray[Any]:
    copy = column.copy()
    copy.flags.writeable = False
    return copy


class Nodes:
    """A `NodeView` to look at: the columns are copies that cannot be written to, made when first asked for."""

    __slots__ = ("__made", "__view", "size")

    def __init__(self, view: NodeView) -> None:
        self.__view = view
        self.__made: dict[str, NDArray[Any]] = {}
        self.size = view.size

    @property
    def idle(self) -> NDArray[np.int64]:
        return self._once("idle", lambda: self.__view.idle)

    def free(self, resource: int) -> IntColumn:
        found: IntColumn = self.idle[resource]
        return found

    @property
    def allocatable(self) -> NDArray[np.int64]:
        return self._once("allocatable", lambda: self.__view.allocatable)

    @property
    def rows(self) -> IntColumn | None:
        rows = self.__view.rows
        return None if rows is None else self._once("rows", lambda: rows)

    def _once(self, name: str, column: Callable[[], NDArray[Any]]) -> NDArray[Any]:
        if name not in self.__made:
            self.__made[name] = _copied(column())
        return self.__made[name]

    def percent(self, resource: int) -> NDArray[np.float64]:
        return _copied(self.__view.percent(resource))

    def row(self, resource: str) -> int | None:
        return self.__view.row(resource)

    def labels(self, key: str) -> list[str | None]:
        return self.__view.labels(key)

    def names(self) -> list[str]:
        return self.__view.names()

    def all_rows(self) -> IntColumn:
        return _copied(self.__view.all_rows())
