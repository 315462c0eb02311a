"""A plan as a person likes to read it: what goes where, what waits and why, and how much queues and namespaces have."""

from __future__ import annotations

import re
from collections.abc import Iterable, Sequence

from rich.console import Console

from fairway.cli.amounts import readable
from fairway.cli.output import amount_text, console, table
from fairway.devices.model.pools import KIND_PREFIX
from fairway.scheduler.plan import ExplainedPlan, NamespaceStanding, Pending, QueueStanding, Reservation
from fairway.state.device_requests import CLASS_PREFIX

BAR = 12
"""Width of a share bar."""

WIDE = 96
"""Columns of a terminal that has room for a bar beside a table of six columns."""

MOST_ROWS = 40
"""Rows of a table before the rest is only counted."""


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
    for job, nodes in list(jobs.items())[:MOST_ROWS]:
        rows.add_row(job, str(len(nodes)), _grouped(nodes))
    out.print(rows)
    _print_rest(out, len(jobs))


def _print_changes(out: Console, plan: ExplainedPlan) -> None:
    if plan.evictions:
        out.print(f"Evicted {_count(len(plan.evictions), 'pod')}")
        rows = table("pod", "node", "for", "why")
        for eviction in plan.evictions[:MOST_ROWS]:
            rows.add_row(eviction.pod, eviction.node, eviction.for_, f"{eviction.action}: {eviction.reason}")
        out.print(rows)
        _print_rest(out, len(plan.evictions))
    if plan.reservations:
        out.print("Reserved")
        rows = table("job", "pod", "node", "state", "planned start")
        for reservation in plan.reservations[:MOST_ROWS]:
            rows.add_row(
                reservation.job, reservation.pod, reservation.node, reservation.state, _planned_start(reservation)
            )
        out.print(rows)
        _print_rest(out, len(plan.reservations))
    if plan.released:
        rows = table("released", "node", "why")
        for released in plan.released[:MOST_ROWS]:
            rows.add_row(released.pod, released.node, released.reason)
        out.print(rows)
        _print_rest(out, len(plan.released))


def _planned_start(reservation: Reservation) -> str:
    marks = [mark for mark, on in (("soft", reservation.soft), ("an estimate", reservation.estimated)) if on]
    return (reservation.planned_start or "") + (f" ({', '.join(marks)})" if marks else "")


def _print_pending(out: Console, pending: Sequence[Pending]) -> None:
    if not pending:
        return
    out.print(f"Waiting: {_count(len(pending), 'job')}")
    rows = table("#", "job", "pods", "why", numbers=("#", "pods"))
    for row in _alike(pending)[:MOST_ROWS]:
        rows.add_row(*row)
    out.print(rows)
    _print_rest(out, len(_alike(pending)))


def _alike(pending: Sequence[Pending]) -> list[tuple[str, str, str, str]]:
    """Neighbours that wait for the same reason, apart from a number in their name, share a row."""
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
    counted = " with what is reserved" if any(set(one.reserved.values()) - {"0"} for one in namespaces) else ""
    out.print(f"Namespaces: share of the cluster{counted}, and the same divided by weight")
    most = max((namespace.weighted_share for namespace in namespaces), default=0.0)
    pictures = [""] if out.width >= WIDE else []
    numbers = ("share", "weight", "by weight")
    rows = table("queue", "namespace", "allocated", *numbers, *pictures, numbers=numbers)
    for namespace in namespaces[:MOST_ROWS]:
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
    out.print(f"... and {rows - MOST_ROWS} more; -o json has all\n" if rows > MOST_ROWS else "")


def _grouped(nodes: Iterable[str]) -> str:
    counts: dict[str, int] = {}
    for node in nodes:
        counts[node] = counts.get(node, 0) + 1
    names = sorted(counts)
    shown = ", ".join(f"{name} ({counts[name]})" if counts[name] > 1 else name for name in names[:6])
    return shown + (f" and {len(names) - 6} more" if len(names) > 6 else "")


def _lines(allocated: dict[str, str], reserved: dict[str, str], deserved: dict[str, str] | None = None) -> str:
    """One resource to a line, those without any left out."""
    lines = []
    for name in {**(deserved or {}), **allocated, **reserved}:
        have, aside = allocated.get(name, "0"), reserved.get(name, "0")
        due = "0" if deserved is None else deserved.get(name, "0")
        if (have, aside, due) != ("0", "0", "0"):
            of = "" if deserved is None else f" of {readable(name, due)}"
            lines.append(f"{amount_text(readable(name, have), readable(name, aside))}{of} {_short(name)}")
    return "\n".join(lines) or "nothing"


def _short(name: str) -> str:
    """A resource's name without our own prefixes, which only tell a class from a kind of device."""
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
