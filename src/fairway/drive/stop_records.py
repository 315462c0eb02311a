"""What a plan says of a job's stops, as the EvictionRecord that carries it to the next cycle (spec S7.6)."""

from __future__ import annotations

from datetime import datetime

import msgspec

from fairway.api.kinds import ObjectKey
from fairway.api.meta import ObjectMeta
from fairway.api.scheduling import (
    EvictionRecord,
    EvictionRecordSpec,
    EvictionRecordStatus,
    JobKind,
    JobReference,
    reservation_name,
)
from fairway.clock import parse_rfc3339, to_datetime
from fairway.scheduler.plan import StopEntry

EVICTION_RECORD = "EvictionRecord"


def record_key(entry: StopEntry) -> ObjectKey:
    namespace, _, name = entry.job.partition("/")
    return EVICTION_RECORD, namespace, reservation_name(entry.job_kind, name)


def eviction_record(entry: StopEntry) -> EvictionRecord:
    _, namespace, own = record_key(entry)
    kind: JobKind = msgspec.convert(entry.job_kind, JobKind)
    stopped = _time(entry.stopped_at)
    return EvictionRecord(
        metadata=ObjectMeta(
            name=own,
            namespace=namespace,
            creation_timestamp=stopped,
            owner_references=() if entry.owner is None else (msgspec.structs.replace(entry.owner, controller=None),),
        ),
        spec=EvictionRecordSpec(JobReference(kind, entry.job.partition("/")[2], entry.job_uid)),
        status=EvictionRecordStatus(
            stops=entry.stops,
            stopped_at=stopped,
            restarted_at=None if entry.restarted_at is None else _time(entry.restarted_at),
            victims=entry.victims,
        ),
    )


def _time(text: str) -> datetime:
    return to_datetime(parse_rfc3339(text))
