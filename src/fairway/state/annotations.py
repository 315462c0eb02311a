"""The annotations that Fairway reads from pods and groups, and how their texts are understood. One with a text that
cannot be understood counts as if it were not there, and the plan says so.
"""

from __future__ import annotations

import re
from collections.abc import Callable, Mapping
from fractions import Fraction
from typing import NamedTuple

from fairway.api.meta import ObjectMeta
from fairway.clock import SECOND, Micros, parse_rfc3339
from fairway.errors import InputError

GROUP_NAME = "scheduling.k8s.io/group-name"
GROUP_LABELS = ("pod-group.scheduling.sigs.k8s.io", "scheduling.x-k8s.io/pod-group")
"""The labels of scheduler-plugins, older and newer."""

QUEUE_NAME = "scheduling.volcano.sh/queue-name"
QUEUE_NAMES = ("fairway.dev/queue", "kueue.x-k8s.io/queue-name", QUEUE_NAME)
"""Labels or annotations that name a queue: the first that is there counts."""

JOB_INDEX = "jobset.sigs.k8s.io/job-index"
REPLICATED_JOB = "jobset.sigs.k8s.io/replicatedjob-name"
"""Job indexes count within one of these."""
GROUP_INDEX = "leaderworkerset.sigs.k8s.io/group-index"
WORKER_INDEX = "leaderworkerset.sigs.k8s.io/worker-index"
COMPLETION_INDEX = "batch.kubernetes.io/job-completion-index"
POD_INDEX = "apps.kubernetes.io/pod-index"
INDEX_LABELS = (JOB_INDEX, WORKER_INDEX, COMPLETION_INDEX, POD_INDEX)
"""Labels of a pod that has a rank in its job: controllers write them."""

MIN_AVAILABLE = "fairway.dev/min-available"
"""On the pods of a controller: how many of them make a gang."""

TASK_ROLE = "volcano.sh/task-spec"
PREEMPTABLE = "volcano.sh/preemptable"
COOLDOWN = "volcano.sh/cooldown-time"
"""A pod that has run for less is no victim."""
EXPECTED_RUNTIME = "fairway.dev/expected-runtime"
STARVING_AFTER = "fairway.dev/starving-after"
SLA_WAITS = ("volcano.sh/sla-waiting-time", "sla-waiting-time")
"""Volcano's: how long a group may wait; the first that is there counts, where the policy has the plugin sla."""
USER = "fairway.dev/user"
"""On a pod or a group: the user of the job, where several users share a namespace."""
TRUE_RUNTIME = "sim.fairway.dev/true-runtime"
"""What only a simulator knows: how long the job will run."""
NOMINATED_SINCE = "fairway.dev/nominated-since"
NEVER_EVICT = "fairway.dev/never-evict"
"""On a queue, a group or a pod: `"true"` and its pods are never victims."""

LAST_CHECKPOINT = "fairway.dev/last-checkpoint"
"""On a pod or a group: when its work was last saved (RFC 3339). Work before that is not lost by an eviction."""

HOLD = "fairway.dev/hold"
"""On a group or a pod: `"true"` and its pods are not placed, as if they had a scheduling gate. Unlike a gate it can be
set on a pod that exists.
"""

KEPT = (EXPECTED_RUNTIME, STARVING_AFTER, *SLA_WAITS, NEVER_EVICT, PREEMPTABLE, LAST_CHECKPOINT, USER, TRUE_RUNTIME)
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
    labels = meta.labels
    if labels and not labels.keys().isdisjoint(AS_LABELS):
        said = {name: labels[name] for name in AS_LABELS if name in labels}
        return {**said, **meta.annotations}
    return meta.annotations


def kept(meta: ObjectMeta) -> dict[str, str] | None:
    """What a job keeps of its object's annotations; None, as with nearly all, is nothing."""
    given = notes(meta)
    return None if given.keys().isdisjoint(KEPT) else {name: given[name] for name in KEPT if name in given}


def is_never_evicted(annotations: Mapping[str, str] | None) -> bool:
    """Whether a pod or group says that it is no victim."""
    if not annotations:
        return False
    return annotations.get(NEVER_EVICT) == "true" or annotations.get(PREEMPTABLE) == "false"


def is_held(meta: ObjectMeta) -> bool:
    return meta.annotations.get(HOLD) == "true"


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


def parse_checkpoint(text: str) -> Micros | None:
    """When work was last saved; None if the text is not a time."""
    try:
        return parse_rfc3339(text) if len(text) <= MAX_TEXT else None
    except InputError:
        return None


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
    EXPECTED_RUNTIME: _Rule(
        lambda text: parse_runtime(text) is not None,
        f"is not a valid run time: ignored, expected seconds above zero (90, 1.5) {_SPAN}",
    ),
    STARVING_AFTER: _Rule(
        lambda text: parse_span(text) is not None,
        f"is not a valid duration: the threshold of the policy applies, expected seconds (90, 1.5) {_SPAN}",
    ),
    **dict.fromkeys(
        SLA_WAITS,
        _Rule(
            lambda text: parse_runtime(text) is not None,
            f"is not a valid duration: ignored, expected seconds above zero (90, 1.5) {_SPAN}",
        ),
    ),
    NEVER_EVICT: _Rule(_is_yes_or_no, "protects no pod, expected 'true' or 'false'"),
    HOLD: _Rule(_is_yes_or_no, "holds no pod, expected 'true' or 'false'"),
    PREEMPTABLE: _Rule(_is_yes_or_no, "protects no pod, expected 'true' or 'false'"),
    MIN_AVAILABLE: _Rule(
        lambda text: parse_count(text) is not None,
        "is not a number of pods: counted as 1, expected a whole number of at least 1",
    ),
    LAST_CHECKPOINT: _Rule(
        lambda text: parse_checkpoint(text) is not None,
        "is not a valid time: ignored, expected RFC 3339 (2026-01-31T12:00:00Z)",
    ),
    COOLDOWN: _Rule(
        lambda text: parse_span(text) is not None,
        f"is not a valid duration: ignored, expected seconds (90, 1.5) {_SPAN}",
    ),
}


def _never(text: str) -> bool:
    return False


NOT_HONOURED = {
    "volcano.sh/revocable-zone": "time windows of nodes are not read",
    "volcano.sh/numa-topology-policy": "cpu pinning is left to the kubelet",
    "volcano.sh/task-topology-affinity": "use pod affinity",
    "volcano.sh/task-topology-anti-affinity": "use pod anti-affinity",
    "volcano.sh/task-topology-task-order": "tasks are ordered by priority, then by name",
    "volcano.sh/jdb-min-available": "use a PodDisruptionBudget",
    "volcano.sh/jdb-max-unavailable": "use a PodDisruptionBudget",
    "kai.scheduler/queue": "use fairway.dev/queue",
    "runai/queue": "use fairway.dev/queue",
    "yunikorn.apache.org/queue": "use fairway.dev/queue",
    "yunikorn.apache.org/task-groups": "use a PodGroup, or fairway.dev/min-available",
    "yunikorn.apache.org/schedulingPolicyParameters": "use a PodGroup, or fairway.dev/min-available",
    "gpu-fraction": "request devices by class, or by a ResourceClaim",
    "gpu-memory": "request devices by class, or by a ResourceClaim",
    "kueue.x-k8s.io/pod-group-name": "use scheduling.k8s.io/group-name and a PodGroup",
    "kueue.x-k8s.io/pod-group-total-count": "use a PodGroup, or fairway.dev/min-available",
}
"""Labels and annotations of other schedulers that have no effect here, and what does."""

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
        said = notes(meta)
        faulty = None
        if not said.keys().isdisjoint(_RULES):
            faulty = {name: text for name, text in said.items() if name in _RULES and not _RULES[name].holds(text)}
        if meta.labels and not meta.labels.keys().isdisjoint(NOT_HONOURED):
            faulty = {**{name: meta.labels[name] for name in NOT_HONOURED if name in meta.labels}, **(faulty or {})}
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
    shown = text if len(text) <= MAX_TEXT else text[:MAX_TEXT] + "..."
    return f"{who}: {name} {shown!r} {_RULES[name].otherwise}"
