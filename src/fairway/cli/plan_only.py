"""`fairway plan --only`: what would happen to objects that are not submitted yet, and to others because of them."""

from __future__ import annotations

from collections.abc import Sequence
from typing import TYPE_CHECKING

import msgspec

from fairway.cli import inputs
from fairway.cli.output import console, table
from fairway.scheduler.plan import Binding, Eviction, ExplainedPlan, Pending, Plan

if TYPE_CHECKING:
    from collections.abc import Iterator, Mapping

    from fairway.api.kinds import ApiObject
    from fairway.api.policy import Policy
    from fairway.clock import Micros

MOST_ROWS = 40
"""Rows of a list before the rest is only counted."""


class Submission(msgspec.Struct, rename="camel", frozen=True):
    """What a cycle does with the objects, and what it does otherwise because of them."""

    jobs: tuple[str, ...]
    bindings: tuple[Binding, ...]
    pending: tuple[Pending, ...]
    evictions: tuple[Eviction, ...]
    """Pods that would be evicted for these jobs."""
    others: tuple[str, ...]
    """What would be different for other pods."""


def submission(
    files: Sequence[str], only: Sequence[str], policy: Policy, now: Micros, scheduler_names: Sequence[str] | None
) -> Submission:
    """Decide with and without the objects of `only`; one that is in the cluster already is replaced by its new form."""
    from fairway.api import kinds
    from fairway.api.pods import Pod
    from fairway.errors import InputError
    from fairway.scheduler.decide import decide_and_explain
    from fairway.state.cluster import ClusterState
    from fairway.state.reader import arrival_order, job_of, key_of

    there = inputs.read_objects(files)
    given = inputs.read_objects(only)
    if scheduler_names is not None:
        inputs.warn_of_others(given, scheduler_names)
    new = {kinds.key(thing): thing for thing in given}
    pods = [thing for thing in given if isinstance(thing, Pod)]
    if not pods:
        raise InputError(f"{', '.join(only)}: there is no pod and no workload, expected something to be scheduled")

    def plan_of(objects: list[ApiObject]) -> ExplainedPlan:
        state = ClusterState(scheduler_names)
        state.upsert(arrival_order(objects))
        return decide_and_explain(state, policy, now)

    before = plan_of(there)
    after = plan_of([*(thing for thing in there if kinds.key(thing) not in new), *given])
    jobs = dict.fromkeys(job_of(pod) for pod in pods)
    own = {key_of(pod) for pod in pods}
    changed = [line for line in differences(before, after) if line.split(":", 1)[0] not in own]
    return Submission(
        jobs=tuple(jobs),
        bindings=tuple(entry for entry in after.bindings if entry.job in jobs),
        pending=tuple(entry for entry in after.pending if entry.job in jobs),
        evictions=tuple(entry for entry in after.evictions if entry.for_ in jobs),
        others=tuple(changed),
    )


def print_submission(asked: Submission) -> None:
    out = console()
    placed: dict[str, list[str]] = {}
    for binding in asked.bindings:
        placed.setdefault(binding.job, []).append(binding.node)
    waiting = {entry.job: entry for entry in asked.pending}
    rows = table("job", "what happens", "where, or why not")
    for job in asked.jobs[:MOST_ROWS]:
        nodes, pending = placed.get(job, []), waiting.get(job)
        if nodes:
            more = "" if pending is None else f"; {pending.waiting} more wait: {pending.message}"
            rows.add_row(job, f"{len(nodes)} start now", ", ".join(sorted(set(nodes))) + more)
        elif pending is not None:
            rows.add_row(job, f"waits, position {pending.position}", f"{pending.reason}: {pending.message}")
        else:
            rows.add_row(job, "nothing", "no pod of it is scheduled by Fairway, or all of them have a node")
    out.print(rows)
    if len(asked.jobs) > MOST_ROWS:
        out.print(f"and {len(asked.jobs) - MOST_ROWS} more jobs")
    for eviction in asked.evictions:
        out.print(f"{eviction.pod} would be evicted from {eviction.node} ({eviction.action}: {eviction.reason})")
    if not asked.others:
        out.print("Nothing changes for other pods.")
        return
    out.print("For other pods this changes:")
    for line in asked.others[:MOST_ROWS]:
        out.print(f"  {line}")
    if len(asked.others) > MOST_ROWS:
        out.print(f"  and {len(asked.others) - MOST_ROWS} more")


def differences(first: Plan, second: Plan) -> list[str]:
    """One sentence for each pod with which `second` does something else; none where both do the same."""
    return [
        *_moved({b.pod: b.node for b in first.bindings}, {b.pod: b.node for b in second.bindings}, "bound to"),
        *_gone({e.pod for e in first.evictions}, {e.pod for e in second.evictions}, "evicted"),
        *_moved({r.pod: r.node for r in first.reservations}, {r.pod: r.node for r in second.reservations}, "reserved"),
        *_moved(
            {n.pod: n.node for n in first.nominations}, {n.pod: n.node for n in second.nominations}, "nominated to"
        ),
    ]


def _moved(first: Mapping[str, str], second: Mapping[str, str], what: str) -> Iterator[str]:
    for pod in sorted({*first, *second}):
        before, after = first.get(pod), second.get(pod)
        if before == after:
            continue
        if after is None:
            yield f"{pod}: not {what} {before}"
        else:
            yield f"{pod}: {what} {after}" + (f" instead of {before}" if before else "")


def _gone(first: set[str], second: set[str], what: str) -> Iterator[str]:
    for pod in sorted(first ^ second):
        yield f"{pod}: {what}" if pod in second else f"{pod}: not {what}"
