"""The sandbox in a terminal: one screen of lines, as many as fit, the most telling first. Readable at 80 x 24."""

from __future__ import annotations

import re
from collections.abc import Callable, Sequence
from textwrap import wrap
from typing import TypeVar

from rich.text import Text

from fairway.app.records import SandboxEvent
from fairway.app.view.frame import Frame, RunningJob
from fairway.cli.output import amount_text
from fairway.clock import SECOND, Micros, format_rfc3339
from fairway.scheduler.plan import NamespaceStanding, Pending, QueueStanding

J = TypeVar("J")

STYLES = {"placed": "green", "finished": "blue", "evicted": "red", "lost": "red", "reserved": "yellow"}
FEWEST = 3
"""Lines that each list gets at least."""


def screen(frame: Frame, speed: str, url: str, width: int, height: int) -> Text:
    """Exactly `height` lines of at most `width` columns."""
    head = [_title(frame, speed, url, width), _use(frame), *_queues(frame.queues, width, height // 4)]
    head += _namespaces(frame.namespaces, width)
    foot = [Text("Ctrl-C stops; in another terminal: fairway get, apply -f, delete, explain JOB", style="dim")]
    reserved = _reserved(frame, width)
    room = max(3 * (FEWEST + 1), height - len(head) - len(reserved) - len(foot))
    running = _listed(f"Running: {_jobs(len(frame.running))}", _running(frame.running, width))
    waiting = _listed(f"Waiting: {_jobs(len(frame.waiting))}", _waiting(frame.waiting, width))
    events = _listed("Events", [_event(one) for one in reversed(frame.happenings)])
    shares = _divide(room, [len(running), len(waiting), len(events)])
    lines = [*head, *_cut(running, shares[0]), *_cut(waiting, shares[1]), *reserved, *events[: shares[2]]]
    lines += [Text("")] * (height - len(lines) - len(foot)) + foot
    for line in lines:
        line.truncate(width, overflow="ellipsis")
    return Text("\n").join(lines[: height - 1] + foot)


def event_line(happening: SandboxEvent) -> str:
    """One event as a plain line, for where there is no terminal."""
    job = f"{happening.job} " if happening.job else ""
    return f"{format_rfc3339(happening.at)[:19]}Z {happening.kind:<9} {job}{happening.text}"


def _title(frame: Frame, speed: str, url: str, width: int) -> Text:
    left = Text.assemble((" Fairway sandbox ", "reverse bold"), f"  {frame.now[:10]} {frame.now[11:19]}  x{speed}")
    return Text.assemble(left, " " * max(2, width - left.cell_len - len(url)), (url, "dim"))


def _use(frame: Frame) -> Text:
    line = Text(f"{frame.nodes} nodes ")
    for name in sorted(frame.fill, key=_rank):
        part = frame.fill[name]
        line.append(f" {short(name)} ").append(bar(part, 8), style=_heat(part)).append(f" {part:.0%} ")
    return line.append(f"  {frame.finished} done", style="dim")


def _queues(queues: Sequence[QueueStanding], width: int, most: int) -> list[Text]:
    lines = [Text("Queues: share of the cluster, allocated of deserved", style="bold")]
    shown = [queue for queue in queues if queue.name != "default" or any(_is_some(a) for a in queue.requested.values())]
    room = max((len(queue.name) for queue in shown), default=0)
    for queue in shown[:most]:
        line = Text(f"  {queue.name:<{min(room, width // 4)}}  ")
        share = queue.dominant_share
        line.append(bar(share, 16), style=_heat(queue.share)).append(f" {share:>5.0%}  ")
        lines.append(line.append(", ".join(_holds(queue)), style="dim"))
    if len(shown) > most:
        lines.append(Text(f"  and {len(shown) - most} more", style="dim"))
    return lines


def _namespaces(namespaces: Sequence[NamespaceStanding], width: int) -> list[Text]:
    """Weighted shares in one line, the largest first; those that do not fit are counted."""
    shown = sorted((one for one in namespaces if one.share), key=lambda one: (-one.weighted_share, one.namespace))
    if not shown:
        return []
    line = Text("Namespaces by weight ", style="bold")
    for number, one in enumerate(shown):
        text = f" {one.namespace} {one.weighted_share:.0%} "
        rest = len(shown) - number
        if line.cell_len + len(text) + len(f" and {rest} more") > width:
            return [line.append(f" and {rest} more", style="dim")]
        line.append(text, style="")
    return [line]


def _holds(queue: QueueStanding) -> list[str]:
    return [
        f"{amount_text(queue.allocated[name], queue.reserved.get(name, '0'))}/{queue.deserved[name]} {short(name)}"
        for name in sorted(queue.deserved, key=_rank)
        if _is_some(queue.deserved[name]) or _is_some(queue.allocated[name])
    ]


def _running(jobs: Sequence[RunningJob], width: int) -> list[Text]:
    """Jobs of a kind in one line."""
    lines = []
    for alike in _by_kind(jobs, lambda job: (_bare(job.job), job.queue)):
        spans = [_span(job.since) for job in (alike[0], alike[-1])]
        nodes = sorted({node for job in alike for node in job.nodes})
        line = Text("  ").append(_fit(_several([job.job for job in alike]), width * 3 // 8))
        line.append(f" {_pods(sum(job.placed for job in alike))}  ")
        span = spans[0] if spans[0] == spans[1] else f"{spans[0]} to {spans[1]}"
        lines.append(line.append(_fit(span, 12)).append(f" {', '.join(nodes)}", style="dim"))
    return lines


def _waiting(jobs: Sequence[Pending], width: int) -> list[Text]:
    """Jobs of a kind that wait for the same reason in one line, in the order of the line."""
    lines = []
    for alike in _by_kind(jobs, lambda job: (_bare(job.job), job.queue, job.reason, job.starving)):
        line = Text("  ").append(_fit(_several([job.job for job in alike]), width * 3 // 8)).append(" ")
        if alike[0].starving:
            line.append("starving; ", style="yellow")
        reason, message = alike[0].reason, alike[0].message
        if line.cell_len + len(f"{reason}: {message}") <= width:
            lines.append(line.append(f"{reason}: {message}", style="dim"))
        else:
            lines.append(line.append(reason, style="dim"))
            lines += [Text(f"    {part}", style="dim") for part in wrap(message, max(width - 4, 20))]
    return lines


def _by_kind(jobs: Sequence[J], kind: Callable[[J], tuple[object, ...]]) -> list[list[J]]:
    kinds: dict[tuple[object, ...], list[J]] = {}
    for job in jobs:
        kinds.setdefault(kind(job), []).append(job)
    return list(kinds.values())


def _bare(job: str) -> str:
    """A name without its numbers."""
    return re.sub(r"\d+", "0", job)


def _several(names: Sequence[str]) -> str:
    return names[0] if len(names) == 1 else f"{names[0]} and {len(names) - 1} more"


def _reserved(frame: Frame, width: int) -> list[Text]:
    held: dict[str, list[str]] = {}
    for entry in frame.reservations:
        held.setdefault(entry.job, []).append(entry.node)
    if not held:
        return []
    lines = [Text("Reserved", style="bold")]
    for job, nodes in list(held.items())[:2]:
        lines.append(Text(f"  {_fit(job, width * 3 // 8)} {', '.join(sorted(set(nodes)))}", style="yellow"))
    if len(held) > 2:
        lines[-1].append(f"  and {len(held) - 2} jobs more", style="dim")
    return lines


def _event(happening: SandboxEvent) -> Text:
    line = Text(f"  {format_rfc3339(happening.at)[11:19]} ", style="dim")
    line.append(f"{happening.kind:<9} ", style=STYLES.get(happening.kind, ""))
    return line.append(f"{happening.job} " if happening.job else "", style="").append(happening.text, style="dim")


def _listed(title: str, lines: list[Text]) -> list[Text]:
    return [Text(title, style="bold"), *(lines or [Text("  none", style="dim")])]


def _cut(lines: list[Text], room: int) -> list[Text]:
    if len(lines) <= room:
        return lines
    return [*lines[: room - 1], Text(f"  and {len(lines) - room + 1} lines more", style="dim")]


def _divide(room: int, wanted: list[int]) -> list[int]:
    """Lines for each list: what it wants, as far as there is room, shared out evenly where there is not."""
    given = [min(want, FEWEST + 1) for want in wanted]
    while sum(given) < room and given != wanted:
        for index, want in enumerate(wanted):
            if given[index] < want and sum(given) < room:
                given[index] += 1
    return given


def bar(part: float, width: int) -> str:
    filled = round(min(part, 1.0) * width)
    return "█" * filled + "░" * (width - filled)


def short(name: str) -> str:
    return name.rsplit("/", 1)[-1]


def _rank(name: str) -> tuple[int, str]:
    """What is scarce and dear first."""
    return ({"cpu": 1, "memory": 2}.get(name, 0), name)


def _is_some(amount: str) -> bool:
    return amount not in ("0", "")


def _heat(part: float) -> str:
    return "green" if part <= 1.0 else "red"


def _span(since: Micros) -> str:
    """In its largest unit, below two hours in minutes."""
    seconds = since // SECOND
    if seconds < 120:
        return f"{seconds}s"
    return f"{seconds // 60}m" if seconds < 7200 else f"{seconds // 3600}h"


def _pods(count: int) -> str:
    return f"{count:>3} {'pod ' if count == 1 else 'pods'}"


def _jobs(count: int) -> str:
    return "1 job" if count == 1 else f"{count} jobs"


def _fit(text: str, width: int) -> str:
    return f"{text:<{width}}" if len(text) <= width else f"{text[: width - 1]}…"
