"""All that a state consists of, as a flat table from paths to values: to see what a cycle has changed in it."""

from __future__ import annotations

import enum
from collections.abc import Collection, Iterator
from typing import Any

import msgspec
import numpy as np

_PLAIN = (str, bytes, int, float, bool, type(None), enum.Enum)


def contents(root: object, *, without: Collection[str] = ()) -> dict[str, object]:
    """Every value that can be reached, by the path on which it was reached first. An object reached twice is named by
    its first path, so that a table that swaps two objects differs. `without` are paths that are not followed.
    """
    values: dict[str, object] = {}
    first: dict[int, tuple[str, object]] = {}  # with the object, or its id could be given to another
    stack: list[tuple[str, Any]] = [("state", root)]
    while stack:
        path, thing = stack.pop()
        if path in without:
            continue
        if isinstance(thing, _PLAIN):
            values[path] = thing
        elif isinstance(thing, np.ndarray):
            values[path] = (thing.shape, thing.tobytes())
        elif id(thing) in first:
            values[path] = f"as {first[id(thing)][0]}"
        else:
            first[id(thing)] = path, thing
            parts = list(_parts(thing))
            values[path] = (type(thing).__name__, len(parts))
            stack.extend((f"{path}.{name}", part) for name, part in reversed(parts))
    return values


def _parts(thing: Any) -> Iterator[tuple[object, Any]]:
    if isinstance(thing, dict):
        for number, (key, value) in enumerate(thing.items()):
            yield from ((f"key{number}", key), (key if isinstance(key, str) else number, value))
    elif isinstance(thing, list | tuple):
        yield from enumerate(thing)
    elif isinstance(thing, set | frozenset):
        yield from enumerate(sorted(thing, key=lambda each: (type(each).__name__, hash(each))))
    elif isinstance(thing, msgspec.Struct):
        yield from ((name, getattr(thing, name)) for name in thing.__struct_fields__)
    elif not isinstance(thing, type) and not callable(thing):
        for kind in type(thing).__mro__:
            slots = getattr(kind, "__slots__", ())
            for name in (slots,) if isinstance(slots, str) else slots:
                if hasattr(thing, name):
                    yield name, getattr(thing, name)
        yield from vars(thing).items() if hasattr(thing, "__dict__") else ()
