"""The annotations that Fairway reads from pods and groups, and how their texts are understood. One with a text that
cannot be understood counts as if it were not there, and the plan says so.
"""

from __future__ import annotations

import re
from collections.abc import Callable, Mapping
from fractions import Fraction
from typing import Literal, NamedTuple

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


KUEUE_QUEUE = "kueue.x-k8s.io/local-queue-name"
"""Kueue labels the pods of the jobs that it has admitted with it. It is all that a scheduler sees of the queue that is
named on a Job: Jobs themselves are not read.
"""

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
    KUEUE_QUEUE: "put fairway.dev/queue or kueue.x-k8s.io/queue-name on the pod template",
    "kueue.x-k8s.io/priority-class": "use priorityClassName of the pod",
    "kueue.x-k8s.io/pod-group-name": "use scheduling.k8s.io/group-name and a PodGroup",
    "kueue.x-k8s.io/pod-group-total-count": "use a PodGroup, or fairway.dev/min-available",
}
"""Labels and annotations of other schedulers that have no effect here, and what does."""

_RULES = {
    **_RULES,
    **{name: _Rule(_never, f"is not honoured: {instead}") for name, instead in NOT_HONOURED.items()},
}


class PolicyPart(NamedTuple):
    kind: Literal["action", "plugin"]
    name: str


NEEDED: Mapping[str, PolicyPart] = {
    **dict.fromkeys(SLA_WAITS, PolicyPart("plugin", "sla")),
    STARVING_AFTER: PolicyPart("action", "reserve"),
}
"""Annotations that only a part of the policy reads, which a policy may not have."""

UNREAD_IN_GROUPS = frozenset({*SLA_WAITS, STARVING_AFTER})
"""What the pods of a PodGroup cannot say: their group does."""
UNREAD_OF_CONTROLLERS = frozenset(SLA_WAITS)
"""The same of the pods of a controller."""
NONE_UNREAD: frozenset[str] = frozenset()

_ELSEWHERE = "is not honoured there: put it on a PodGroup"


class AnnotationProblems:
    """By object: the texts that cannot be understood, or that nothing reads where they stand."""

    def __init__(self) -> None:
        self._texts: dict[str, dict[str, tuple[str, str]]] = {}
        """By object and name: the text, and what is wrong with it."""
        self._stated: dict[str, dict[str, None]] = {}
        """The objects that state one of `NEEDED`, by name of the annotation."""

    def read(self, who: str, meta: ObjectMeta, unread: frozenset[str] = NONE_UNREAD) -> None:
        """An object came or changed; annotations that are `unread` there count nothing."""
        said = notes(meta)
        faulty: dict[str, tuple[str, str]] = {}
        if self._stated:
            self._forget_stated(who)
        if not said.keys().isdisjoint(_RULES):
            for name, text in said.items():
                if name not in _RULES:
                    continue
                if name in unread:
                    faulty[name] = text, _ELSEWHERE
                elif not _RULES[name].holds(text):
                    faulty[name] = text, _RULES[name].otherwise
                elif name in NEEDED:
                    self._stated.setdefault(name, {})[who] = None
        if meta.labels and not meta.labels.keys().isdisjoint(NOT_HONOURED):
            for name in NOT_HONOURED.keys() & meta.labels.keys():
                if name != KUEUE_QUEUE or not _names_queue(meta):
                    faulty.setdefault(name, (meta.labels[name], _RULES[name].otherwise))
        if faulty:
            self._texts[who] = faulty
        elif self._texts:
            self._texts.pop(who, None)

    def forget(self, who: str) -> None:
        self._texts.pop(who, None)
        if self._stated:
            self._forget_stated(who)

    def _forget_stated(self, who: str) -> None:
        for name in [name for name, objects in self._stated.items() if who in objects]:
            del self._stated[name][who]
            if not self._stated[name]:
                del self._stated[name]

    def warnings(self) -> list[str]:
        problems = sorted((who, name, *said) for who, texts in self._texts.items() for name, said in texts.items())
        found = [_warning(*problem) for problem in problems[:SHOWN]]
        if len(problems) > SHOWN:
            found.append(f"{len(problems) - SHOWN} more annotations are invalid")
        return found

    def unused(self, has: Callable[[PolicyPart], bool]) -> list[str]:
        """What no part of a policy reads: one warning for each annotation, however many objects state it."""
        found = []
        for name in sorted(self._stated):
            part, objects = NEEDED[name], self._stated[name]
            if not has(part):
                others = len(objects) - 1
                more = "" if not others else f" and {others} other object{'s' if others > 1 else ''}"
                found.append(f"{min(objects)}{more}: {name} has no effect: the policy has no {part.kind} {part.name}")
        return found


def _names_queue(meta: ObjectMeta) -> bool:
    return any(name in meta.annotations or (meta.labels and name in meta.labels) for name in QUEUE_NAMES)


def _warning(who: str, name: str, text: str, why: str) -> str:
    shown = text if len(text) <= MAX_TEXT else text[:MAX_TEXT] + "..."
    return f"{who}: {name} {shown!r} {why}"
