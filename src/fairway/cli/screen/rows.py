"""A frame as lists of rows: jobs, shares of queues and namespaces, nodes, events. Pure."""

from __future__ import annotations

from collections.abc import Iterable, Iterator, Mapping, Sequence
from typing import NamedTuple

from fairway.app.records import FinishedJob
from fairway.app.view.frame import Frame, JobRow, NodeUse, job_rows
from fairway.cli.amounts import age, readable
from fairway.cli.output import amount_text
from fairway.cli.screen.cells import bar, clean
from fairway.clock import Micros, format_rfc3339, parse_rfc3339
from fairway.scheduler.plan import NamespaceStanding, QueueStanding, Reservation

STYLES = {
    "starving": "yellow",
    "reserved": "yellow",
    "starting": "green",
    "running": "green",
    "placed": "green",
    "finished": "blue",
    "evicted": "red",
    "lost": "red",
    "refused": "red",
    "NotReady": "red",
    "SchedulingDisabled": "yellow",
}
NAMED_NODES = 3
BAR = 10


class ScreenRow(NamedTuple):
    """One entry of a list. `text` stands on its line if it fits there, else `tag` does and `text` is below it."""

    key: str
    """By which it is known in the next frame."""
    cells: tuple[str, ...]
    text: str
    tag: str = ""
    job: str = ""
    """The job that Enter explains."""
    details: tuple[str, ...] = ()
    """What Enter shows of a row that is no job's."""

    def has(self, word: str) -> bool:
        """Whether a filter finds it."""
        return any(word in part.lower() for part in (*self.cells, self.tag, self.text))


class ScreenList(NamedTuple):
    title: str
    columns: tuple[str, ...]
    """The last is that of `text`."""
    numbers: frozenset[str]
    rows: Sequence[ScreenRow]
    empty: str


def short(resource: str) -> str:
    return resource.rsplit("/", 1)[-1]


def rank(resource: str) -> tuple[int, str]:
    """What is scarce and dear first."""
    return ({"cpu": 1, "memory": 2}.get(resource, 0), resource)


# -- jobs ----------------------------------------------------------------------------------------------------


def jobs(frame: Frame, finished: Sequence[FinishedJob]) -> ScreenList:
    """Those that wait, in the order in which they are considered; then those that start, run and have ended."""
    now = parse_rfc3339(frame.now)
    held = _reserved_nodes(frame.reservations)
    rows = [_job(row, now, held) for row in job_rows(frame, finished)]
    columns = ("JOB", "STATE", "PODS", "AGE", "QUEUE", "REASON, OR NODES")
    return ScreenList("Jobs", columns, frozenset({"PODS", "AGE"}), rows, "No jobs. In another terminal: fairway apply")


def _job(row: JobRow, now: Micros, held: Mapping[str, list[str]]) -> ScreenRow:
    pods = f"{row.placed}/{row.pods}" if row.phase == "running" and row.placed != row.pods else str(row.pods)
    since = row.started if row.phase in ("running", "finished") and row.started else row.created
    state = "starving" if row.starving else "reserved" if row.job in held else row.phase
    if row.phase == "finished" and row.ended and row.started:
        text = f"ran for {age(parse_rfc3339(row.ended) - parse_rfc3339(row.started))}"
        tag, since = "", row.ended
    elif row.phase == "waiting":
        text, tag = row.message, row.reason
    else:
        text, tag = ", ".join(row.nodes), _nodes(row.nodes)
    passed = age(now - parse_rfc3339(since)) if since else ""
    cells = (clean(row.job), state, pods, passed, clean(row.queue))
    return ScreenRow(row.job, cells, clean(text), clean(tag), job="" if row.phase == "finished" else row.job)


def _nodes(nodes: Sequence[str]) -> str:
    more = f" and {len(nodes) - NAMED_NODES} more" if len(nodes) > NAMED_NODES else ""
    return ", ".join(nodes[:NAMED_NODES]) + more


def _reserved_nodes(reservations: Iterable[Reservation]) -> dict[str, list[str]]:
    held: dict[str, list[str]] = {}
    for entry in reservations:
        held.setdefault(entry.job, []).append(entry.node)
    return held


# -- shares --------------------------------------------------------------------------------------------------


def shares(frame: Frame) -> ScreenList:
    """Queues, each with its namespaces below it."""
    spaces: dict[str, list[NamespaceStanding]] = {}
    for space in frame.namespaces:
        spaces.setdefault(space.queue, []).append(space)
    rows: list[ScreenRow] = []
    for queue in frame.queues:
        rows.append(_queue(queue))
        rows += [_namespace(space) for space in sorted(spaces.get(queue.name, ()), key=lambda one: one.namespace)]
    columns = ("QUEUE, NAMESPACE", "WEIGHT", "SHARE", "BY WEIGHT", "ALLOCATED OF DESERVED")
    return ScreenList("Shares", columns, frozenset({"WEIGHT", "BY WEIGHT"}), rows, "No queues.")


def _queue(queue: QueueStanding) -> ScreenRow:
    amounts = [
        f"{_amount(name, queue.allocated, queue.reserved)}/{readable(name, queue.deserved[name])} {short(name)}"
        for name in sorted(queue.deserved, key=rank)
        if any(amounts.get(name, "0") != "0" for amounts in (queue.deserved, queue.allocated, queue.reserved))
    ]
    state = "" if queue.state == "Open" else f"{queue.state.lower()}; "
    cells = (clean(queue.name), str(queue.weight), _share(queue.dominant_share), "")
    details = (
        f"Queue {queue.name}" + (f", below {queue.parent}" if queue.parent else ""),
        f"weight {queue.weight}, {queue.state.lower()}",
        f"{queue.dominant_share:.1%} of the cluster in its dominant resource",
        *(
            f"{name}: {_amount(name, queue.allocated, queue.reserved)}; deserved {readable(name, deserved)}; "
            f"requested {readable(name, queue.requested.get(name, '0'))}"
            for name, deserved in sorted(queue.deserved.items(), key=lambda item: rank(item[0]))
        ),
    )
    text = clean(state + (", ".join(amounts) or "nothing allocated"))
    return ScreenRow(f"queue {queue.name}", cells, text, details=details)


def _namespace(space: NamespaceStanding) -> ScreenRow:
    amounts = [
        f"{_amount(name, space.allocated, space.reserved)} {short(name)}"
        for name in sorted(space.allocated, key=rank)
        if (space.allocated[name], space.reserved.get(name, "0")) != ("0", "0")
    ]
    cells = (f"  {clean(space.namespace)}", str(space.weight), _share(space.share), f"{space.weighted_share:.1%}")
    details = (
        f"Namespace {space.namespace} in queue {space.queue}",
        f"weight {space.weight}",
        f"{space.share:.1%} of the cluster in its dominant resource, {space.weighted_share:.1%} divided by weight",
        "The namespace with the smallest share by weight gets the next place.",
        *(f"{name}: {_amount(name, space.allocated, space.reserved)}" for name in sorted(space.allocated, key=rank)),
    )
    text = clean(", ".join(amounts) or "nothing allocated")
    return ScreenRow(f"namespace {space.queue}/{space.namespace}", cells, text, details=details)


def _share(part: float) -> str:
    return f"{bar(part, BAR)} {part:>4.0%}"


def _amount(name: str, allocated: Mapping[str, str], reserved: Mapping[str, str]) -> str:
    held = reserved.get(name, "0")
    return amount_text(readable(name, allocated.get(name, "0")), "0" if held == "0" else readable(name, held))


# -- nodes ---------------------------------------------------------------------------------------------------


def nodes(frame: Frame, uses: Sequence[NodeUse]) -> ScreenList:
    on: dict[str, list[str]] = {}
    for job in frame.running:
        for node in job.nodes:
            on.setdefault(node, []).append(f"{job.job} since {age(job.since)}")
    held: dict[str, list[str]] = {}
    for entry in frame.reservations:
        held.setdefault(entry.node, []).append(entry.job)
    rows = [_node(use, on.get(use.name, []), sorted(set(held.get(use.name, [])))) for use in uses]
    columns = ("NODE", "STATE", "PODS", "IN USE")
    return ScreenList("Nodes", columns, frozenset({"PODS"}), rows, "No nodes.")


def _node(use: NodeUse, running: Sequence[str], reserved_for: Sequence[str]) -> ScreenRow:
    names = sorted((name for name in use.allocatable if name != "pods"), key=rank)
    parts = [
        f"{short(name)} {bar(_part(name, use), 6)} {readable(name, use.used.get(name, '0'))}"
        f"/{readable(name, use.allocatable[name])}"
        for name in names
    ]
    held = f"reserved for {', '.join(reserved_for)}" if reserved_for else ""
    text = "  ".join([*parts, held] if held else parts)
    details = (
        f"Node {use.name}, {use.state}" + (f", {held}" if held else ""),
        *(
            f"{name}: {readable(name, use.used.get(name, '0'))} of {readable(name, use.allocatable[name])}"
            for name in names
        ),
        f"{len(running)} jobs run here:" if running else "No job runs here.",
        *running,
    )
    return ScreenRow(
        f"node {use.name}", (clean(use.name), use.state, str(use.pods)), clean(text), held, details=details
    )


def _part(name: str, use: NodeUse) -> float:
    from fairway.resources.quantity import parse_amount

    total = parse_amount(name, use.allocatable[name])
    return parse_amount(name, use.used.get(name, "0")) / total if total else 0.0


# -- events --------------------------------------------------------------------------------------------------


def events(frame: Frame) -> ScreenList:
    """The latest first."""
    rows = list(_events(frame))[::-1]
    return ScreenList("Events", ("TIME", "EVENT", "JOB", "WHAT"), frozenset(), rows, "Nothing has happened yet.")


def _events(frame: Frame) -> Iterator[ScreenRow]:
    seen: dict[str, int] = {}
    for event in frame.happenings:
        at = format_rfc3339(event.at)[11:19]
        base = f"{event.at} {event.kind} {event.job} {event.text}"
        number = seen[base] = seen.get(base, 0) + 1
        cells = (at, event.kind, clean(event.job))
        details = (
            f"{at} {event.kind} {event.job}".rstrip(),
            event.text,
            *(f"{pod} on {node}" for pod, node in event.pods.items()),
        )
        yield ScreenRow(f"{base} {number}", cells, clean(event.text), details=details)
