"""Resource versions: which of two is older. Those of one server can be compared as numbers."""

from __future__ import annotations

_MOST_DIGITS = 20


def version_number(version: str) -> int | None:
    """None where it is no number: then nothing can be said."""
    is_number = version and len(version) <= _MOST_DIGITS and version.isascii() and version.isdecimal()
    return int(version) if is_number else None


def is_older(version: str, than: str) -> bool:
    """False where nothing can be said."""
    mine, theirs = version_number(version), version_number(than)
    return mine is not None and theirs is not None and mine < theirs
