"""The annotations that Fairway reads from pods and groups, and how their texts are understood."""

from __future__ import annotations

import re
from collections.abc import Mapping
from fractions import Fraction

from fairway.api.meta import ObjectMeta
from fairway.clock import SECOND, Micros

GROUP_NAME = "scheduling.k8s.io/group-name"
GROUP_LABELS = ("pod-group.scheduling.sigs.k8s.io", "scheduling.x-k8s.io/pod-group")
"""The labels of scheduler-plugins, older and newer."""

QUEUE_NAME = "scheduling.volcano.sh/queue-name"
QUEUE_NAMES = ("fairway.dev/queue", "kueue.x-k8s.io/queue-name", QUEUE_NAME)
"""Labels or annotations that name a queue: the first that is there counts."""

MIN_AVAILABLE = "fairway.dev/min-available"
"""On the pods of a controller: how many of them make a gang."""

TASK_ROLE = "volcano.sh/task-spec"
PREEMPTABLE = "volcano.sh/preemptable"
COOLDOWN = "volcano.sh/cooldown-time"
"""A pod that has run for less is no victim."""
EXPECTED_RUNTIME = "fairway.dev/expected-runtime"
STARVING_AFTER = "fairway.dev/starving-after"
USER = "fairway.dev/user"
"""On a pod or a group: whose job it is, where several users share a namespace."""
TRUE_RUNTIME = "sim.fairway.dev/true-runtime"
"""What only a simulator knows: how long the job will run."""
NOMINATED_SINCE = "fairway.dev/nominated-since"
NEVER_EVICT = "fairway.dev/never-evict"
"""On a queue, a group or a pod: `"true"` and its pods are never victims."""

KEPT = (EXPECTED_RUNTIME, STARVING_AFTER, NEVER_EVICT, PREEMPTABLE, USER, TRUE_RUNTIME)
"""Those of a job that are looked up later; everything else is read when its object comes."""

AS_LABELS = (TASK_ROLE, PREEMPTABLE, COOLDOWN, MIN_AVAILABLE)
"""What may be a label as well as an annotation; the annotation counts where both are there."""

_UNITS = {"": 1, "s": 1, "m": 60, "h": 3600, "d": 86400}
_PART = re.compile(r"(\d+(?:\.\d+)?)([smhd]?)", re.ASCII)
_WHOLE = re.compile(r"(?:\d+(?:\.\d+)?[smhd])+|\d+(?:\.\d+)?", re.ASCII)
_COUNT = re.compile(r"[1-9]\d{0,8}", re.ASCII)
_LONGEST = 100 * 366 * 86400
MAX_TEXT = 64


def noted(meta: ObjectMeta, name: str) -> str | None:
    """What an object says under a name that may be an annotation or a label."""
    text = meta.annotations.get(name)
    return meta.labels.get(name) if text is None and meta.labels else text


def notes(meta: ObjectMeta) -> Mapping[str, str]:
    """The annotations, with those labels that mean the same (Volcano's users write either)."""
    if meta.labels:
        said = {name: meta.labels[name] for name in AS_LABELS if name in meta.labels}
        if said:
            return {**said, **meta.annotations}
    return meta.annotations


def kept(meta: ObjectMeta) -> dict[str, str] | None:
    """What a job keeps of its object's annotations; None, as with nearly all, is nothing."""
    given = notes(meta)
    return {name: given[name] for name in KEPT if name in given} or None


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


def parse_count(text: str) -> int | None:
    """A number of pods: a whole number of at least 1. None if it is none."""
    return int(text) if _COUNT.fullmatch(text) else None
