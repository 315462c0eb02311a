"""Plans as tables, and the difference between two plans.

A plan is printed as placements, evictions, reservations, pending jobs with their reasons, and the shares of queues and
namespaces. `submission` decides with and without some new objects, for `fairway plan --only`.
"""

from __future__ import annotations

import re
from collections.abc import Iterable, Sequence
from typing import TYPE_CHECKING

import msgspec
from rich.console import Console

from fairway.cli import inputs
from fairway.cli.output import amount_text, console, readable, table
from fairway.devices.model.pools import KIND_PREFIX
from fairway.scheduler.plan import (
    Binding,
    Eviction,
    ExplainedPlan,
    NamespaceStanding,
    Pending,
    Plan,
    QueueStanding,
    Reservation,
)
from fairway.state.device_requests import CLASS_PREFIX

if TYPE_CHECKING:
    from collections.abc import Iterator, Mapping

    from fairway.api.kinds import ApiObject
    from fairway.api.policy import Policy
    from fairway.clock import Micros
    from fairway.scheduler.plan import Plan


BAR = 12
"""Width of a share bar."""

WIDE = 96
"""Width of a terminal that fits a bar beside a table of six columns."""

MAX_ROWS = 40
"""Rows of a table; the rest are counted."""


def print_plan(plan: ExplainedPlan) -> None:
    out = console()
    _print_bindings(out, plan)
    _print_changes(out, plan)
    _print_pending(out, plan.pending)
    _print_shares(out, plan.queues, plan.namespaces)


def print_shares(queues: Sequence[QueueStanding], namespaces: Sequence[NamespaceStanding]) -> None:
    _print_shares(console(), queues, namespaces)


def _print_bindings(out: Console, plan: ExplainedPlan) -> None:
    if not plan.bindings:
        out.print("Nothing to place.\n" if not plan.pending else "Nothing can be placed now.\n")
        return
    out.print(f"Placed {_count(len(plan.bindings), 'pod')}")
    rows = table("job", "pods", "nodes", numbers=("pods",))
    jobs: dict[str, list[str]] = {}
    for binding in plan.bindings:
        jobs.setdefault(binding.job, []).append(binding.node)
    for job, nodes in list(jobs.items())[:MAX_ROWS]:
        rows.add_row(job, str(len(nodes)), _grouped(nodes))
    out.print(rows)
    _print_rest(out, len(jobs))


def _print_changes(out: Console, plan: ExplainedPlan) -> None:
    if plan.evictions:
        out.print(f"Evicted {_count(len(plan.evictions), 'pod')}")
        rows = table("pod", "node", "for", "why")
        for eviction in plan.evictions[:MAX_ROWS]:
            rows.add_row(eviction.pod, eviction.node, eviction.for_, f"{eviction.action}: {eviction.reason}")
        out.print(rows)
        _print_rest(out, len(plan.evictions))
    if plan.reservations:
        out.print("Reserved")
        rows = table("job", "pod", "node", "state", "planned start")
        for reservation in plan.reservations[:MAX_ROWS]:
            rows.add_row(
                reservation.job, reservation.pod, reservation.node, reservation.state, _planned_start(reservation)
            )
        out.print(rows)
        _print_rest(out, len(plan.reservations))
    if plan.released:
        rows = table("released", "node", "why")
        for released in plan.released[:MAX_ROWS]:
            rows.add_row(released.pod, released.node, released.reason)
        out.print(rows)
        _print_rest(out, len(plan.released))


def _planned_start(reservation: Reservation) -> str:
    marks = [mark for mark, on in (("soft", reservation.soft), ("an estimate", reservation.estimated)) if on]
    return (reservation.planned_start or "") + (f" ({', '.join(marks)})" if marks else "")


def _print_pending(out: Console, pending: Sequence[Pending]) -> None:
    if not pending:
        return
    out.print(f"Pending: {_count(len(pending), 'job')}")
    rows = table("#", "job", "pods", "why", numbers=("#", "pods"))
    for row in _alike(pending)[:MAX_ROWS]:
        rows.add_row(*row)
    out.print(rows)
    _print_rest(out, len(_alike(pending)))


def _alike(pending: Sequence[Pending]) -> list[tuple[str, str, str, str]]:
    """Neighbours with the same reason and names that differ only in numbers share a row."""
    rows: list[tuple[str, str, str, str]] = []
    alike: list[Pending] = []
    for job in [*pending, None]:
        if alike and (job is None or _kind(job) != _kind(alike[0])):
            first, last = alike[0], alike[-1]
            name = first.job if len(alike) == 1 else f"{first.job} .. {last.job.split('/', 1)[1]} ({len(alike)})"
            position = str(first.position) if len(alike) == 1 else f"{first.position}-{last.position}"
            mark = "starving; " if first.starving else ""
            pods = str(sum(one.waiting for one in alike))
            rows.append((position, name, pods, f"{mark}{first.reason}: {first.message}"))
            alike = []
        if job is not None:
            alike.append(job)
    return rows


def _kind(job: Pending) -> tuple[str, ...]:
    bare = re.sub(r"\d+", "0", job.job)
    return bare, job.queue, job.reason, re.sub(r"\S*/\S+:", "", job.message), str(job.starving)


def _print_shares(out: Console, queues: Sequence[QueueStanding], namespaces: Sequence[NamespaceStanding]) -> None:
    out.print("Queues: allocated of deserved, and share of the cluster")
    rows = table("queue", "weight", "allocated", "share", "", numbers=("weight", "share"))
    for queue in queues:
        allocated = _lines(queue.allocated, queue.reserved, queue.deserved)
        share = queue.dominant_share
        rows.add_row(queue.name, str(queue.weight), allocated, percent(share), bar(share))
    out.print(rows)
    out.print()
    if not namespaces:
        return
    counted = " including reservations" if any(set(one.reserved.values()) - {"0"} for one in namespaces) else ""
    out.print(f"Namespaces: share of the cluster{counted}, and the same divided by weight")
    most = max((namespace.weighted_share for namespace in namespaces), default=0.0)
    pictures = [""] if out.width >= WIDE else []
    numbers = ("share", "weight", "by weight")
    rows = table("queue", "namespace", "allocated", *numbers, *pictures, numbers=numbers)
    for namespace in namespaces[:MAX_ROWS]:
        rows.add_row(
            namespace.queue,
            namespace.namespace,
            _lines(namespace.allocated, namespace.reserved),
            percent(namespace.share),
            str(namespace.weight),
            percent(namespace.weighted_share),
            *(bar(namespace.weighted_share / most if most else 0.0) for _ in pictures),
        )
    out.print(rows)
    _print_rest(out, len(namespaces))


def _print_rest(out: Console, rows: int) -> None:
    out.print(f"... and {rows - MAX_ROWS} more; -o json has all\n" if rows > MAX_ROWS else "")


def _grouped(nodes: Iterable[str]) -> str:
    counts: dict[str, int] = {}
    for node in nodes:
        counts[node] = counts.get(node, 0) + 1
    names = sorted(counts)
    shown = ", ".join(f"{name} ({counts[name]})" if counts[name] > 1 else name for name in names[:6])
    return shown + (f" and {len(names) - 6} more" if len(names) > 6 else "")


def _lines(allocated: dict[str, str], reserved: dict[str, str], deserved: dict[str, str] | None = None) -> str:
    """One line per resource, without those that are zero."""
    lines = []
    for name in {**(deserved or {}), **allocated, **reserved}:
        have, aside = allocated.get(name, "0"), reserved.get(name, "0")
        due = "0" if deserved is None else deserved.get(name, "0")
        if (have, aside, due) != ("0", "0", "0"):
            of = "" if deserved is None else f" of {readable(name, due)}"
            lines.append(f"{amount_text(readable(name, have), readable(name, aside))}{of} {_short(name)}")
    return "\n".join(lines) or "nothing"


def _short(name: str) -> str:
    """The name of a resource without our internal prefixes for classes and kinds of devices."""
    if name.startswith(CLASS_PREFIX):
        return f"class {name.removeprefix(CLASS_PREFIX)}"
    return name.removeprefix(KIND_PREFIX)


def percent(part: float) -> str:
    return f"{100 * part:.1f}%"


def bar(part: float) -> str:
    filled = round(min(part, 1.0) * BAR)
    return "█" * filled + "░" * (BAR - filled)


def _count(number: int, what: str) -> str:
    return f"{number} {what}" if number == 1 else f"{number} {what}s"


class Submission(msgspec.Struct, rename="camel", frozen=True):
    """What a cycle does with new objects, and what changes for others because of them."""

    jobs: tuple[str, ...]
    bindings: tuple[Binding, ...]
    pending: tuple[Pending, ...]
    evictions: tuple[Eviction, ...]
    """Pods that would be evicted for the new jobs."""
    others: tuple[str, ...]
    """What would change for other pods."""


def submission(
    files: Sequence[str], only: Sequence[str], policy: Policy, now: Micros, scheduler_names: Sequence[str] | None
) -> Submission:
    """Decide with and without the objects of `only`; an existing object is replaced by its new version."""
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
        raise InputError(f"{', '.join(only)}: no pods, expected at least one pod or workload to schedule")

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
    rows = table("job", "effect", "nodes or reason")
    for job in asked.jobs[:MAX_ROWS]:
        nodes, pending = placed.get(job, []), waiting.get(job)
        if nodes:
            more = "" if pending is None else f"; {pending.waiting} more pending: {pending.message}"
            rows.add_row(
                job,
                f"{_count(len(nodes), 'pod')} start now" if len(nodes) > 1 else "1 pod starts now",
                ", ".join(sorted(set(nodes))) + more,
            )
        elif pending is not None:
            rows.add_row(job, f"pending, position {pending.position}", f"{pending.reason}: {pending.message}")
        else:
            rows.add_row(job, "none", "none of its pods is scheduled by Fairway, or all of them have a node")
    out.print(rows)
    if len(asked.jobs) > MAX_ROWS:
        out.print(f"and {len(asked.jobs) - MAX_ROWS} more jobs")
    for eviction in asked.evictions:
        out.print(f"{eviction.pod} would be evicted from {eviction.node} ({eviction.action}: {eviction.reason})")
    if not asked.others:
        out.print("Nothing changes for other pods.")
        return
    out.print("Changes for other pods:")
    for line in asked.others[:MAX_ROWS]:
        out.print(f"  {line}")
    if len(asked.others) > MAX_ROWS:
        out.print(f"  and {len(asked.others) - MAX_ROWS} more")


def differences(first: Plan, second: Plan) -> list[str]:
    """One line for each pod that `second` treats differently; none if both plans do the same."""
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
