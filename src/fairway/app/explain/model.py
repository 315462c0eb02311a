"""What an explanation says: the JSON contract of `fairway explain` (fields may be added, never changed)."""

from __future__ import annotations

from enum import StrEnum

import msgspec

from fairway.scheduler.plan import Binding, NamespaceStanding, QueueStanding, Reservation


class ExplanationStruct(msgspec.Struct, rename="camel", frozen=True):
    """The base of all parts."""


class JobStanding(StrEnum):
    """Where a job is."""

    WAITING = "waiting"
    STARTING = "starting"
    """The next cycle binds what it needs."""
    EVICTING = "evicting"
    """Pods are being evicted for it; it starts when they are gone."""
    RUNNING = "running"
    """All its pods have their places."""

    @property
    def waits(self) -> bool:
        return self in (JobStanding.WAITING, JobStanding.EVICTING)


class Effect(StrEnum):
    """What a change does for a job."""

    STARTS = "starts"
    EVICTS = "evicts"
    """It starts as soon as the pods that are evicted for it are gone."""


class SuggestedChange(ExplanationStruct, frozen=True):
    """A change that would start the job, confirmed by `decide`."""

    kind: str
    text: str
    effect: Effect
    size: float
    """How large it is, as a part of what is there: by this the smallest comes first."""
    pods: tuple[str, ...] = ()
    """Of a change that is the end of runs: the pods."""


class Trial(ExplanationStruct, frozen=True):
    """A kind of change that was tried."""

    kind: str
    text: str
    helped: bool
    decisions: int


class Counterfactual(ExplanationStruct, frozen=True):
    changes: tuple[SuggestedChange, ...]
    """Those that would start it now, the smallest first."""
    tried: tuple[Trial, ...]
    decisions: int
    """How often `decide` was asked."""
    complete: bool = True
    """False where the search ended at its limit."""


class UnknownEnd(ExplanationStruct, frozen=True):
    """A run of unknown end."""

    pod: str
    node: str


class Forecast(ExplanationStruct, frozen=True):
    text: str
    start: str | None = None
    """When it starts, if nothing else arrives and runs take as long as they state."""
    not_before: str | None = None
    """Where there is no start in sight: until when nothing that is known would start it."""
    estimate: bool = False
    """Whether it rests on a run time that is not sure."""
    unknown_ends: tuple[UnknownEnd, ...] = ()
    """Runs with no known end, taken to go on; the first of them by pod."""
    unknown_count: int = 0
    decisions: int = 0


class StopHistory(ExplanationStruct, frozen=True):
    """How often preempt and reclaim stopped the job, and until when they leave it alone."""

    stops: int
    protected_until: str | None = None
    """None where it does not run since it was stopped, or the policy has neither action."""
    protected_for: int | None = None
    """Seconds of protection from its next start, where it has not started again."""
    text: str = ""


class Explanation(ExplanationStruct, frozen=True):
    job: str
    now: str
    standing: JobStanding
    reason: str
    message: str
    nodes: dict[str, int]
    """How many nodes have which cause against it."""
    queue: QueueStanding | None
    namespace: NamespaceStanding | None
    waiting: int
    """Pods without a place."""
    allocated: int
    """Pods that are on nodes."""
    reserved: int
    """Pods that wait with a place reserved or nominated for them."""
    minimum: int
    priority: int
    position: int = 0
    """Its queue position; 0 where it does not wait."""
    line: int = 0
    """How many jobs wait in its queue."""
    starving: bool = False
    since: str | None = None
    """When it was created."""
    places: tuple[Binding, ...] = ()
    """Where its pods are, or go with the next cycle."""
    reservations: tuple[Reservation, ...] = ()
    evictions: tuple[str, ...] = ()
    """Pods that the next cycle evicts for it."""
    stopped: StopHistory | None = None
    """None where it was never stopped."""
    counterfactual: Counterfactual | None = None
    forecast: Forecast | None = None
    warnings: tuple[str, ...] = ()
