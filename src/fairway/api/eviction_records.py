"""EvictionRecord: how often a job was stopped by preempt and reclaim, and when it last started again (spec S7.6).

Only Fairway writes it, before the pods are evicted. It belongs to what outlives the pods: the controller of a PodGroup
(a Volcano job keeps its uid when it restarts, its PodGroup does not), the PodGroup itself, or the controller of the
pods. It counts for the job whose uid it names and for no other: a job that was deleted and created again under the same
name has a clean record.
"""

from __future__ import annotations

import msgspec

from fairway.api.meta import ApiStruct, Count, ObjectMeta, Time
from fairway.api.reservations import JobReference

MAX_VICTIMS = 10_000
"""Pods of one stop that are recorded."""


class StoppedPod(ApiStruct, frozen=True):
    """A pod that the last stop evicts."""

    pod: str
    uid: str


class EvictionRecordSpec(ApiStruct, frozen=True):
    job_ref: JobReference


class EvictionRecordStatus(ApiStruct, frozen=True):
    """`victims` make the record idempotent: while all of them still run the last stop has not happened, and another
    eviction of any of them belongs to the same stop, whichever leader sends it.
    """

    stops: Count = 0
    stopped_at: Time | None = None
    restarted_at: Time | None = None
    """When the job first had its minimum again after the last stop."""
    victims: tuple[StoppedPod, ...] = ()


class EvictionRecord(ApiStruct, frozen=True):
    """Named after its job, as the job's Reservation is."""

    spec: EvictionRecordSpec
    metadata: ObjectMeta = msgspec.field(default_factory=ObjectMeta)
    status: EvictionRecordStatus = msgspec.field(default_factory=EvictionRecordStatus)
