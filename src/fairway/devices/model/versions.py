"""Versions as devices and drivers write them, ordered by semantic-version precedence.

More is read than the standard allows, since drivers write `v8.6` and `535.86.05`: a leading `v` is dropped,
missing parts are zero, leading zeros do not count. Build metadata is ignored; four parts are no version.
"""

from __future__ import annotations

import re
from functools import lru_cache

import msgspec

MAX_TEXT = 64
"""The longest version that Kubernetes publishes."""

_MAX_DIGITS = 18
_VERSION = re.compile(
    r"v?([0-9]+)(?:\.([0-9]+))?(?:\.([0-9]+))?"
    r"(?:-([0-9A-Za-z-]+(?:\.[0-9A-Za-z-]+)*))?(?:\+[0-9A-Za-z-]+(?:\.[0-9A-Za-z-]+)*)?"
)
_MARKED = re.compile(r"v[0-9]")
_THREE_PARTS = re.compile(r"[0-9]+\.[0-9]+\.[0-9]+(?:[-+]|\Z)")

Identifier = tuple[int, int, str]
"""One part of a prerelease: (0, number, "") or (1, 0, text); numbers come before texts."""


class Version(msgspec.Struct, frozen=True):
    """Compare by `precedence`; `text` is what was written."""

    parts: tuple[int, int, int]
    prerelease: tuple[Identifier, ...]
    text: str

    @property
    def precedence(self) -> tuple[tuple[int, int, int], bool, tuple[Identifier, ...]]:
        """A prerelease comes before its release."""
        return self.parts, not self.prerelease, self.prerelease

    def normal(self) -> str:
        """The strict semantic version of the same precedence."""
        core = ".".join(map(str, self.parts))
        marks = [text if kind else str(number) for kind, number, text in self.prerelease]
        return f"{core}-{'.'.join(marks)}" if marks else core


@lru_cache(maxsize=65536)
def parse_version(text: str) -> Version | None:
    """The version that the text stands for, if it is one."""
    match = _VERSION.fullmatch(text) if len(text) <= MAX_TEXT else None
    if match is None:
        return None
    major, minor, patch, prerelease = match.groups(default="")
    marks = prerelease.split(".") if prerelease else []
    if any(mark.isdigit() and len(mark) > _MAX_DIGITS for mark in (major, minor, patch, *marks)):
        return None
    parts = (int(major), int(minor or 0), int(patch or 0))
    return Version(parts, tuple(map(_identifier, marks)), text)


def is_marked(text: str) -> bool:
    """Whether a text starts as `v8` does: such a text means a version."""
    return _MARKED.match(text) is not None


def is_unmistakable(text: str) -> bool:
    """Whether raw text is to be taken for a version: marked, or with three dotted numbers."""
    return is_marked(text) or _THREE_PARTS.match(text) is not None


def _identifier(mark: str) -> Identifier:
    return (0, int(mark), "") if mark.isdigit() else (1, 0, mark)
