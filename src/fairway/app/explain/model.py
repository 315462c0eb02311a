"""The parts of an explanation, and the JSON contract of `fairway explain`: fields are added, never changed."""

from __future__ import annotations

from enum import StrEnum

import msgspec

from fairway.scheduler.plan import Binding, NamespaceStanding, QueueStanding, Reservation


class ExplanationStruct(msgspec.Struct, rename="camel", frozen=True):
    """Base class of all parts."""


class JobStanding(StrEnum):
    """The state of a job."""

    WAITING = "waiting"
    STARTING = "starting"
    """The next cycle binds enough of its pods."""
    EVICTING = "evicting"
    """Pods are being evicted for it; it starts when they are gone."""
    RUNNING = "running"
    """All its pods have nodes."""

    @property
    def waits(self) -> bool:
        return self in (JobStanding.WAITING, JobStanding.EVICTING)


class Effect(StrEnum):
    """The effect of a change on a job."""

    STARTS = "starts"
    EVICTS = "evicts"
    """Pods are evicted for it, and it starts once they are gone."""


class SuggestedChange(ExplanationStruct, frozen=True):
    """A change that would start the job, confirmed by `decide`."""

    kind: str
    text: str
    effect: Effect
    size: float
    """Its relative size; changes are sorted by it, smallest first."""
    pods: tuple[str, ...] = ()
    """For a change that is the end of running pods: these pods."""


class Trial(ExplanationStruct, frozen=True):
    """A kind of change that was tried."""

    kind: str
    text: str
    helped: bool
    decisions: int


class Counterfactual(ExplanationStruct, frozen=True):
    changes: tuple[SuggestedChange, ...]
    """Changes that would start it now, smallest first."""
    tried: tuple[Trial, ...]
    decisions: int
    """Number of runs of `decide`."""
    complete: bool = True
    """False if the search ended at its limit."""


class UnknownEnd(ExplanationStruct, frozen=True):
    """A running pod without a known end."""

    pod: str
    node: str


class Forecast(ExplanationStruct, frozen=True):
    text: str
    start: str | None = None
    """When it starts, if no other jobs arrive and run times are as stated."""
    not_before: str | None = None
    """If no start is in sight: the time up to which no known event would start it."""
    estimate: bool = False
    """Whether it is based on an uncertain run time."""
    unknown_ends: tuple[UnknownEnd, ...] = ()
    """Pods without a known end, assumed to keep running; the first of them, by name."""
    unknown_count: int = 0
    decisions: int = 0


class StopHistory(ExplanationStruct, frozen=True):
    """How often preempt and reclaim evicted the job, and how long it is protected from them."""

    stops: int
    protected_until: str | None = None
    """None if it has not started again, or the policy has neither action."""
    protected_for: int | None = None
    """Seconds of protection from its next start, if it has not started again."""
    text: str = ""


class Explanation(ExplanationStruct, frozen=True):
    job: str
    now: str
    standing: JobStanding
    reason: str
    message: str
    nodes: dict[str, int]
    """Number of nodes rejected for each reason."""
    queue: QueueStanding | None
    namespace: NamespaceStanding | None
    waiting: int
    """Pods without a node."""
    allocated: int
    """Pods on nodes."""
    reserved: int
    """Pending pods with a node reserved or nominated for them."""
    minimum: int
    priority: int
    position: int = 0
    """Its queue position; 0 if it is not pending."""
    line: int = 0
    """Number of pending jobs in its queue."""
    starving: bool = False
    since: str | None = None
    """When it was created."""
    places: tuple[Binding, ...] = ()
    """Where its pods are, or will be bound in the next cycle."""
    reservations: tuple[Reservation, ...] = ()
    evictions: tuple[str, ...] = ()
    """Pods that the next cycle evicts for it."""
    stopped: StopHistory | None = None
    """None if it was never evicted."""
    counterfactual: Counterfactual | None = None
    forecast: Forecast | None = None
    warnings: tuple[str, ...] = ()
