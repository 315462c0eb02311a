"""The annotations that Fairway reads from pods and groups, and how their texts are understood."""

from __future__ import annotations

import re
from collections.abc import Mapping
from fractions import Fraction

from fairway.clock import SECOND, Micros

GROUP_NAME = "scheduling.k8s.io/group-name"
QUEUE_NAME = "scheduling.volcano.sh/queue-name"
TASK_ROLE = "volcano.sh/task-spec"
PREEMPTABLE = "volcano.sh/preemptable"
EXPECTED_RUNTIME = "fairway.dev/expected-runtime"
STARVING_AFTER = "fairway.dev/starving-after"
NOMINATED_SINCE = "fairway.dev/nominated-since"
NEVER_EVICT = "fairway.dev/never-evict"
"""On a queue, a group or a pod: `"true"` and its pods are never victims."""

KEPT = (EXPECTED_RUNTIME, STARVING_AFTER, NEVER_EVICT, PREEMPTABLE)
"""Those of a job that are looked up later; everything else is read when its object comes."""

_UNITS = {"": 1, "s": 1, "m": 60, "h": 3600, "d": 86400}
_PART = re.compile(r"(\d+(?:\.\d+)?)([smhd]?)", re.ASCII)
_WHOLE = re.compile(r"(?:\d+(?:\.\d+)?[smhd])+|\d+(?:\.\d+)?", re.ASCII)
_LONGEST = 100 * 366 * 86400
MAX_TEXT = 64


def kept(annotations: Mapping[str, str]) -> dict[str, str] | None:
    """What a job keeps of its object's annotations; None, as with nearly all, is nothing."""
    return {name: annotations[name] for name in KEPT if name in annotations} or None


def is_never_evicted(annotations: Mapping[str, str] | None) -> bool:
    """Whether a pod or group says that it is no victim."""
    if not annotations:
        return False
    return annotations.get(NEVER_EVICT) == "true" or annotations.get(PREEMPTABLE) == "false"


def parse_span(text: str) -> Micros | None:
    """A span of time: seconds (`90`, `1.5`) or units (`1h30m`). None if it is none, or longer than a century."""
    if len(text) > MAX_TEXT or not _WHOLE.fullmatch(text):
        return None
    seconds = sum(Fraction(number) * _UNITS[unit] for number, unit in _PART.findall(text))
    return int(seconds * SECOND) if seconds <= _LONGEST else None


def parse_runtime(text: str) -> Micros | None:
    """An expected run time: a span above zero. None if it is none."""
    return parse_span(text) or None
