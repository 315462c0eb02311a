"""A frame as text: the heading, and rows of jobs, shares, nodes and events. Pure.

Text is measured in columns of the terminal: wide characters take two, and characters that a terminal would obey are
shown by their number.
"""

from __future__ import annotations

from collections.abc import Iterable, Iterator, Mapping, Sequence
from functools import lru_cache
from typing import NamedTuple

from rich.cells import cell_len, chop_cells
from rich.text import Text

from fairway.app.records import FinishedJob
from fairway.app.view.frame import Frame, JobRow, NodeUse, job_rows
from fairway.cli.output import age, amount_text, one_line, readable
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
CUT = "…"
MAX_NAME = 20
MAX_RESOURCES = 4


# -- text in columns -----------------------------------------------------------------------------------------


@lru_cache(maxsize=65_536)
def clean(text: str) -> str:
    """The text on one line, without characters that a terminal would obey."""
    return one_line(text)


def fitted(text: str, width: int) -> str:
    """Exactly `width` columns. The middle of a long name is cut: its ends distinguish it from others."""
    size = cell_len(text)
    if size <= width:
        return text + " " * (width - size)
    if width < 8:
        return _padded(_start(text, width - 1) + CUT, width)
    tail = _start(text[::-1], (width - 1) // 3)[::-1]
    return _padded(_start(text, width - 1 - cell_len(tail)) + CUT + tail, width)


@lru_cache(maxsize=4_096)
def wrapped(text: str, width: int) -> tuple[str, ...]:
    """Lines of at most `width` columns, broken between words; longer words are split."""
    lines: list[str] = []
    line = ""
    for word in text.split():
        if line and cell_len(line) + 1 + cell_len(word) <= width:
            line = f"{line} {word}"
            continue
        if line:
            lines.append(line)
        *full, line = chop_cells(word, max(width, 2)) or [""]
        lines += full
    return (*lines, line) if line else tuple(lines)


def bar(part: float, width: int) -> str:
    """A bar filled to a fraction; any fraction above zero is visible."""
    filled = min(max(round(part * width), 1 if part > 0 else 0), width)
    return "█" * filled + "░" * (width - filled)


def _start(text: str, width: int) -> str:
    return chop_cells(text, width)[0] if text and width > 0 else ""


def _padded(text: str, width: int) -> str:
    return text + " " * max(0, width - cell_len(text))


# -- rows ----------------------------------------------------------------------------------------------------


class ScreenRow(NamedTuple):
    """One entry of a list. `text` is on its line if it fits; otherwise `tag` is, and `text` is below."""

    key: str
    """Identifies it in the next frame."""
    cells: tuple[str, ...]
    text: str
    tag: str = ""
    job: str = ""
    """The job that Enter explains."""
    details: tuple[str, ...] = ()
    """What Enter shows for a row that is not a job."""

    def has(self, word: str) -> bool:
        """Whether it matches a filter."""
        return any(word in part.lower() for part in (*self.cells, self.tag, self.text))


class ScreenList(NamedTuple):
    title: str
    columns: tuple[str, ...]
    """The last one is the column of `text`."""
    numbers: frozenset[str]
    rows: Sequence[ScreenRow]
    empty: str


def short(resource: str) -> str:
    return resource.rsplit("/", 1)[-1]


def rank(resource: str) -> tuple[int, str]:
    """Scarce resources first."""
    return ({"cpu": 1, "memory": 2}.get(resource, 0), resource)


# -- jobs ----------------------------------------------------------------------------------------------------


def jobs(frame: Frame, finished: Sequence[FinishedJob]) -> ScreenList:
    """Pending jobs in order of consideration, then starting, running and finished ones."""
    now = parse_rfc3339(frame.now)
    held = _reserved_nodes(frame.reservations)
    rows = [_job(row, now, held) for row in job_rows(frame, finished)]
    columns = ("JOB", "STATE", "PODS", "AGE", "QUEUE", "REASON, OR NODES")
    return ScreenList(
        "Jobs",
        columns,
        frozenset({"PODS", "AGE"}),
        rows,
        "No jobs. Submit one from another terminal: fairway apply -f FILE",
    )


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
    columns = ("QUEUE, NAMESPACE", "WEIGHT", "SHARE", "WEIGHTED", "ALLOCATED OF DESERVED")
    return ScreenList("Shares", columns, frozenset({"WEIGHT", "WEIGHTED"}), rows, "No queues.")


def _queue(queue: QueueStanding) -> ScreenRow:
    amounts = [
        f"{_amount(name, queue.allocated, queue.reserved)}/{readable(name, queue.deserved[name])} {short(name)}"
        for name in sorted(queue.deserved, key=rank)
        if any(amounts.get(name, "0") != "0" for amounts in (queue.deserved, queue.allocated, queue.reserved))
    ]
    state = "" if queue.state == "Open" else f"{queue.state.lower()}; "
    cells = (clean(queue.name), str(queue.weight), _share(queue.dominant_share), "")
    details = (
        f"Queue {queue.name}" + (f", child of {queue.parent}" if queue.parent else ""),
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
        "The namespace with the smallest weighted share is served next.",
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
            on.setdefault(node, []).append(f"{job.job} for {age(job.since)}")
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
        "Running jobs:" if running else "No running jobs.",
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
    """The newest first."""
    rows = list(_events(frame))[::-1]
    return ScreenList("Events", ("TIME", "EVENT", "JOB", "WHAT"), frozenset(), rows, "No events yet.")


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


# -- heading -------------------------------------------------------------------------------------------------


def heading(frame: Frame, name: str, pace: Text, address: str, width: int, most_queues: int) -> list[Text]:
    """Lines of at most `width` columns for time and pace, use of nodes, and the share of each queue."""
    lines = [_title(frame, name, pace, address, width), _use(frame), *_queue_lines(frame, width, most_queues)]
    if frame.warnings:
        more = f" (and {len(frame.warnings) - 1} more)" if len(frame.warnings) > 1 else ""
        lines.append(Text(f"Warning: {clean(frame.warnings[0])}{more}", style="yellow"))
    for line in lines:
        line.truncate(width, overflow="ellipsis")
    return lines


def _title(frame: Frame, name: str, pace: Text, address: str, width: int) -> Text:
    title, clock = Text(f" {name} ", style="reverse bold"), frame.now[11:19]
    left = Text.assemble(title, f"  {frame.now[:10]} {clock}  ", pace)
    if left.cell_len > width and len(pace) > len("paused"):  # being behind is more important than the date
        left = Text.assemble(title, f"  {clock}  ", pace)
    shown = _address(left, address, width)
    return Text.assemble(left, " " * max(2, width - left.cell_len - len(shown)), shown)


def _address(left: Text, address: str, width: int) -> Text:
    """The address with its token if there is space, otherwise without it but as a hyperlink."""
    whole = left.cell_len + 2 + len(address) <= width
    shown = address if whole else address.partition("/#")[0]
    return Text(shown, style=f"dim link {address}" if address.partition("/#")[1] else "dim")


def _use(frame: Frame) -> Text:
    line = Text(f"{frame.nodes} nodes ")
    names = sorted(frame.fill, key=rank)
    for name in names[:MAX_RESOURCES]:
        part = frame.fill[name]
        line.append(f" {clean(short(name))} ").append(bar(part, 8), style="green").append(f" {part:.0%} ")
    if len(names) > MAX_RESOURCES:
        line.append(f" and {len(names) - MAX_RESOURCES} more resources ", style="dim")
    return line.append(f"  {frame.finished} finished", style="dim")


def _queue_lines(frame: Frame, width: int, most: int) -> list[Text]:
    shown = [queue for queue in frame.queues if queue.name != "default" or _is_used(queue)]
    spaces: dict[str, list[NamespaceStanding]] = {}
    for space in frame.namespaces:
        spaces.setdefault(space.queue, []).append(space)
    room = min(max((cell_len(clean(queue.name)) for queue in shown), default=0), MAX_NAME)
    lines = [_queue_line(queue, spaces.get(queue.name, ()), room, width) for queue in shown[:most]]
    if len(shown) > most:
        lines[-1:] = [Text(f"and {len(shown) - most + 1} more queues: press 2", style="dim")]
    return lines


def _queue_line(queue: QueueStanding, spaces: Sequence[NamespaceStanding], room: int, width: int) -> Text:
    share = queue.dominant_share
    line = Text(f"{fitted(clean(queue.name), room)}  ")
    line.append(bar(share, 8), style="yellow" if queue.share > 1.0 else "green").append(f" {share:>4.0%}  ")
    line.append(_main_amount(queue))
    for number, space in enumerate(sorted(spaces, key=lambda one: (-one.share, one.namespace))):
        text = f"  {clean(space.namespace)} {space.share:.0%}"
        rest = len(spaces) - number
        more = f"  and {rest} more"
        if line.cell_len + cell_len(text) + (len(more) if rest > 1 else 0) > width:
            return line.append(more, style="dim")
        line.append(text, style="dim")
    return line


def _main_amount(queue: QueueStanding) -> str:
    """The amount of the scarcest resource that the queue deserves or has; the list of shares has all of them."""
    for name in sorted(queue.deserved, key=rank):
        deserved, allocated, held = queue.deserved[name], queue.allocated.get(name, "0"), queue.reserved.get(name, "0")
        if (deserved, allocated, held) != ("0", "0", "0"):
            plus = "" if held == "0" else f" + {readable(name, held)} reserved"
            return f"{readable(name, allocated)}{plus} of {readable(name, deserved)} {short(name)}"
    return "idle"


def _is_used(queue: QueueStanding) -> bool:
    return any(amount not in ("0", "") for amount in (*queue.requested.values(), *queue.allocated.values()))
