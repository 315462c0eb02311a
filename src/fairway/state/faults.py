"""Run times that pods or groups state and nobody can understand: they count as unknown, and the plan says so."""

from __future__ import annotations

from collections.abc import Mapping

from fairway.state.annotations import EXPECTED_RUNTIME, MAX_TEXT, parse_runtime

SHOWN = 20
"""Warnings of this kind in one plan; the rest are counted."""


class RuntimeFaults:
    """By object: the text that is no run time."""

    def __init__(self) -> None:
        self._texts: dict[str, str] = {}

    def read(self, who: str, annotations: Mapping[str, str]) -> None:
        """An object came or changed."""
        text = annotations.get(EXPECTED_RUNTIME)
        if text is not None and parse_runtime(text) is None:
            self._texts[who] = text
        elif self._texts:
            self._texts.pop(who, None)

    def forget(self, who: str) -> None:
        self._texts.pop(who, None)

    def warnings(self) -> list[str]:
        faults = sorted(self._texts.items())
        found = [_warning(who, text) for who, text in faults[:SHOWN]]
        return found if len(faults) <= SHOWN else [*found, f"{len(faults) - SHOWN} more run times cannot be understood"]


def _warning(who: str, text: str) -> str:
    shown = text if len(text) <= MAX_TEXT else text[:MAX_TEXT] + "..."
    return (
        f"{who}: {EXPECTED_RUNTIME} {shown!r} is no run time: taken as unknown, "
        "expected seconds above zero (90, 1.5) or units (1h30m), a century at most"
    )
