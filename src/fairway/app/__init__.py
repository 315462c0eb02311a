"""The long-running programs, and answers that take more than one call of `decide`.

A room (`explain`, `live`, `sandbox`) is a package whose `__init__` lists in `__all__` what other packages may use of
it; `make check` fails on an import past that. The modules beside the rooms (`logs`, `health`, `stopping`, `records`,
`recordings`, `hub`) are used directly.
"""

from __future__ import annotations

from collections.abc import Callable, Mapping
from importlib import import_module
from typing import Any


def loader(room: str, modules: Mapping[str, str]) -> Callable[[str], Any]:
    """The `__getattr__` of a room: imports a public name's module on first use.

    Without it, one light name of a room would cost the import of all of it. The page's process, for example, reads
    `live.FeedHead` and neither needs nor always has the libraries of the scheduler beside it.
    """

    def load(name: str) -> Any:
        if name not in modules:
            raise AttributeError(f"module {room!r} has no attribute {name!r}")
        return getattr(import_module(f"{room}.{modules[name]}"), name)

    return load
