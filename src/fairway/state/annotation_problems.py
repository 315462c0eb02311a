"""Annotations with a text that nobody can understand: they count as if they were not there, and the plan says so."""

from __future__ import annotations

from collections.abc import Callable, Mapping
from typing import NamedTuple

from fairway.api.meta import ObjectMeta
from fairway.state import annotations as names

SHOWN = 20
"""Warnings of this kind in one plan; the rest are counted."""

_SPAN = "or units (1h30m), a century at most"


class _Rule(NamedTuple):
    """What a text must be, and what is said where it is not."""

    holds: Callable[[str], bool]
    otherwise: str


def _is_yes_or_no(text: str) -> bool:
    return text in ("true", "false")


_RULES: Mapping[str, _Rule] = {
    names.EXPECTED_RUNTIME: _Rule(
        lambda text: names.parse_runtime(text) is not None,
        f"is not a valid run time: ignored, expected seconds above zero (90, 1.5) {_SPAN}",
    ),
    names.STARVING_AFTER: _Rule(
        lambda text: names.parse_span(text) is not None,
        f"is not a valid duration: the threshold of the policy applies, expected seconds (90, 1.5) {_SPAN}",
    ),
    names.NEVER_EVICT: _Rule(_is_yes_or_no, "protects no pod, expected 'true' or 'false'"),
    names.PREEMPTABLE: _Rule(_is_yes_or_no, "protects no pod, expected 'true' or 'false'"),
    names.MIN_AVAILABLE: _Rule(
        lambda text: names.parse_count(text) is not None,
        "is not a number of pods: counted as 1, expected a whole number of at least 1",
    ),
    names.COOLDOWN: _Rule(
        lambda text: names.parse_span(text) is not None,
        f"is not a valid duration: ignored, expected seconds (90, 1.5) {_SPAN}",
    ),
}


def _never(text: str) -> bool:
    return False


NOT_HONOURED = {
    "sla-waiting-time": "the reserve action serves jobs that wait long, see fairway.dev/starving-after",
    "volcano.sh/sla-waiting-time": "the reserve action serves jobs that wait long, see fairway.dev/starving-after",
    "volcano.sh/revocable-zone": "time windows of nodes are not read",
    "volcano.sh/numa-topology-policy": "cpu pinning is left to the kubelet",
    "volcano.sh/task-topology-affinity": "use pod affinity",
    "volcano.sh/task-topology-anti-affinity": "use pod anti-affinity",
    "volcano.sh/task-topology-task-order": "tasks are ordered by priority, then by name",
    "volcano.sh/jdb-min-available": "use a PodDisruptionBudget",
    "volcano.sh/jdb-max-unavailable": "use a PodDisruptionBudget",
}
"""Annotations of Volcano's that have no effect here, and what does."""

_RULES = {
    **_RULES,
    **{name: _Rule(_never, f"is not honoured: {instead}") for name, instead in NOT_HONOURED.items()},
}


class AnnotationProblems:
    """By object: the texts that cannot be understood."""

    def __init__(self) -> None:
        self._texts: dict[str, dict[str, str]] = {}

    def read(self, who: str, meta: ObjectMeta) -> None:
        """An object came or changed."""
        annotations = names.notes(meta)
        faulty = {name: text for name, text in annotations.items() if name in _RULES and not _RULES[name].holds(text)}
        if faulty:
            self._texts[who] = faulty
        elif self._texts:
            self._texts.pop(who, None)

    def forget(self, who: str) -> None:
        self._texts.pop(who, None)

    def warnings(self) -> list[str]:
        problems = sorted((who, name, text) for who, texts in self._texts.items() for name, text in texts.items())
        found = [_warning(*problem) for problem in problems[:SHOWN]]
        if len(problems) > SHOWN:
            found.append(f"{len(problems) - SHOWN} more annotations cannot be understood")
        return found


def _warning(who: str, name: str, text: str) -> str:
    shown = text if len(text) <= names.MAX_TEXT else text[: names.MAX_TEXT] + "..."
    return f"{who}: {name} {shown!r} {_RULES[name].otherwise}"
