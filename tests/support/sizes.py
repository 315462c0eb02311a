"""How much a state remembers: entries in everything that it is made of, by the path that leads there."""

from __future__ import annotations

from collections import Counter, deque
from enum import Enum
from types import BuiltinFunctionType, FunctionType, MethodType, ModuleType
from typing import Any

import msgspec
import numpy as np

from fairway.state.derived import Log, RowLog

_PLAIN = (
    str,
    bytes,
    int,
    float,
    bool,
    type(None),
    Enum,
    type,
    ModuleType,
    FunctionType,
    BuiltinFunctionType,
    MethodType,
)
_BOUNDED = (Log, RowLog)
"""They only grow at the end, up to a fixed length, and are counted as one."""


def sizes(root: object) -> Counter[str]:
    """Entries of every container below `root`; each object counts once, under the first path that leads to it."""
    found: Counter[str] = Counter()
    seen: set[int] = set()
    queue: deque[tuple[str, Any]] = deque([(type(root).__name__, root)])
    while queue:
        path, thing = queue.popleft()
        if isinstance(thing, (*_PLAIN, *_BOUNDED)) or id(thing) in seen:
            continue
        seen.add(id(thing))
        if isinstance(thing, np.ndarray):
            found[path] += thing.size
        elif isinstance(thing, dict):
            found[path] += len(thing)
            queue.extend((f"{path}[]", entry) for pair in thing.items() for entry in pair)
        elif isinstance(thing, list | tuple | set | frozenset | deque):
            found[path] += len(thing)
            queue.extend((f"{path}[]", entry) for entry in thing)
        else:
            queue.extend((f"{path}.{name}", value) for name, value in _fields(thing))
    return found


def _fields(thing: Any) -> list[tuple[str, Any]]:
    if isinstance(thing, msgspec.Struct):
        return [(name, getattr(thing, name)) for name in thing.__struct_fields__]
    names = [name for kind in type(thing).__mro__ for name in getattr(kind, "__slots__", ())]
    slots = [(name, getattr(thing, name)) for name in names if hasattr(thing, name)]
    return [*slots, *getattr(thing, "__dict__", {}).items()]
