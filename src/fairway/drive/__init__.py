"""One loop for every driver and every world: read events, decide, carry out, again. Free of I/O and of clocks.

    world  -- seen, gone, listed, settled, refused -->  store  -- events -->  state
    state  -- decide -->  plan  -- changes -->  store (as sent)  and  world (to be carried out)

A *world* is where changes are carried out: virtual time, the sandbox, an API server. A *driver* decides: the scheduler
of a cluster, the placer of a hub. The loop depends on neither. Other packages import from here only; `make check`
verifies that.
"""

from fairway.drive.change import (
    SCHEDULED,
    AllocateClaim,
    Bind,
    Change,
    DeleteReservation,
    DeleteStops,
    Evict,
    MakeClassClaim,
    Nominate,
    PreBindVolume,
    ReleaseClaim,
    SelectNode,
    WriteReservation,
    WriteStops,
    annotated,
    bound_at,
    terminating,
    unrecorded,
)
from fairway.drive.claims import claim_of, failed_condition, is_made_for, is_ready, released, reserved
from fairway.drive.loop import DriverLoop, EventSink, Handle, Timer, title
from fairway.drive.member import MemberReport, PlacementPods, amounts_report, member_report, member_scores
from fairway.drive.planned_changes import EVICTION_RECORD, changes_of, pod_key
from fairway.drive.recording import RecordedCycle, RecordedLines, Recorder, plan_digest, read_cycle
from fairway.drive.scheduler_loop import Cycle, Listener, Rhythm, SchedulerLoop, Stopwatch
from fairway.drive.store import ObjectStore

__all__ = [
    "EVICTION_RECORD",
    "SCHEDULED",
    "AllocateClaim",
    "Bind",
    "Change",
    "Cycle",
    "DeleteReservation",
    "DeleteStops",
    "DriverLoop",
    "EventSink",
    "Evict",
    "Handle",
    "Listener",
    "MakeClassClaim",
    "MemberReport",
    "Nominate",
    "ObjectStore",
    "PlacementPods",
    "PreBindVolume",
    "RecordedCycle",
    "RecordedLines",
    "Recorder",
    "ReleaseClaim",
    "Rhythm",
    "SchedulerLoop",
    "SelectNode",
    "Stopwatch",
    "Timer",
    "WriteReservation",
    "WriteStops",
    "amounts_report",
    "annotated",
    "bound_at",
    "changes_of",
    "claim_of",
    "failed_condition",
    "is_made_for",
    "is_ready",
    "member_report",
    "member_scores",
    "plan_digest",
    "pod_key",
    "read_cycle",
    "released",
    "reserved",
    "terminating",
    "title",
    "unrecorded",
]
