"""Taints and tolerations: may a placement choose a tainted cluster, and until when?"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass
from datetime import UTC, datetime

from fairway.api.fleet import ClusterTaint, PlacementToleration
from fairway.clock import SECOND, Micros, format_rfc3339, from_datetime

_END_OF_TIME: Micros = from_datetime(datetime(9999, 1, 1, tzinfo=UTC))
"""A toleration that ends later never ends."""
_EFFECTS = ("", "NoSelect", "PreferNoSelect", "NoSelectIfNew")


@dataclass(frozen=True, slots=True)
class TaintEffect:
    """The effect of a cluster's taints on a placement at one instant.

    `blocked` is the taint that excludes it ("" for none); `disliked` whether a PreferNoSelect taint is not tolerated;
    `until` is when any of that may change because a toleration ends.
    """

    blocked: str = ""
    disliked: bool = False
    until: Micros | None = None


def problems_of(tolerations: Sequence[PlacementToleration]) -> list[str]:
    """What is wrong with the tolerations of a placement."""
    problems = []
    for index, toleration in enumerate(tolerations):
        place = f"tolerations[{index}]"
        if toleration.operator not in ("", "Equal", "Exists"):
            problems.append(f"{place}.operator {toleration.operator!r} is unknown, expected Equal or Exists")
        if toleration.effect not in _EFFECTS:
            problems.append(f"{place}.effect {toleration.effect!r} is unknown, expected {', '.join(_EFFECTS[1:])}")
        if not toleration.key and toleration.operator != "Exists":
            problems.append(f"{place}: an empty key needs the operator Exists")
        if toleration.operator == "Exists" and toleration.value:
            problems.append(f"{place}: the operator Exists takes no value")
    return problems


def standing(
    taints: Sequence[ClusterTaint], tolerations: Sequence[PlacementToleration], chosen: bool, now: Micros
) -> TaintEffect:
    """`chosen`: the cluster is already in the placement's decision, so NoSelectIfNew does not apply."""
    blocked, disliked = "", False
    until: Micros | None = None
    for taint in taints:
        if taint.effect == "NoSelectIfNew" and chosen:
            continue
        tolerated, ends, why = _tolerated(taint, tolerations, now)
        if tolerated:
            until = ends if until is None else until if ends is None else min(until, ends)
        elif taint.effect == "PreferNoSelect":
            disliked = True
        else:
            blocked = blocked or f"taint {text(taint)} is not tolerated{why}"
    return TaintEffect(blocked, disliked, until)


def text(taint: ClusterTaint) -> str:
    """`key=value:effect`, as Kubernetes writes taints."""
    return f"{taint.key}={taint.value}:{taint.effect}" if taint.value else f"{taint.key}:{taint.effect}"


def _tolerated(
    taint: ClusterTaint, tolerations: Sequence[PlacementToleration], now: Micros
) -> tuple[bool, Micros | None, str]:
    """Whether it is tolerated, until when (None for ever), and if not, what ended it."""
    latest: Micros | None = None
    why = ""
    for toleration in tolerations:
        if not _concerns(toleration, taint):
            continue
        if toleration.toleration_seconds is None:
            return True, None, ""
        if taint.time_added is None:
            why = ": tolerationSeconds needs the taint's timeAdded"
            continue
        ends = from_datetime(taint.time_added) + toleration.toleration_seconds * SECOND
        latest = ends if latest is None else max(latest, ends)
    if latest is None:
        return False, None, why
    if now < latest:
        return True, latest if latest < _END_OF_TIME else None, ""
    ended = format_rfc3339(latest) if latest >= 0 else "once"
    return False, None, f" any more: the toleration ended {ended}"


def _concerns(toleration: PlacementToleration, taint: ClusterTaint) -> bool:
    if toleration.effect and toleration.effect != taint.effect:
        return False
    if toleration.key and toleration.key != taint.key:
        return False
    return toleration.operator == "Exists" or toleration.value == taint.value
