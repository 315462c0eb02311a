"""The lines above the lists: time and pace, how full the cluster is, and the shares of queues and namespaces. Pure."""

from __future__ import annotations

from collections.abc import Sequence

from rich.cells import cell_len
from rich.text import Text

from fairway.app.view.frame import Frame
from fairway.cli.amounts import readable
from fairway.cli.screen.cells import bar, clean, fitted
from fairway.cli.screen.rows import rank, short
from fairway.scheduler.plan import NamespaceStanding, QueueStanding

MOST_NAME = 20
MOST_RESOURCES = 4


def heading(frame: Frame, name: str, pace: Text, address: str, width: int, most_queues: int) -> list[Text]:
    """A line for the time, one for the nodes and one for each queue, of at most `width` columns each."""
    lines = [_title(frame, name, pace, address, width), _use(frame), *_queues(frame, width, most_queues)]
    if frame.warnings:
        more = f" (and {len(frame.warnings) - 1} more)" if len(frame.warnings) > 1 else ""
        lines.append(Text(f"Warning: {clean(frame.warnings[0])}{more}", style="yellow"))
    for line in lines:
        line.truncate(width, overflow="ellipsis")
    return lines


def _title(frame: Frame, name: str, pace: Text, address: str, width: int) -> Text:
    title, clock = Text(f" {name} ", style="reverse bold"), frame.now[11:19]
    left = Text.assemble(title, f"  {frame.now[:10]} {clock}  ", pace)
    if left.cell_len > width and len(pace) > len("paused"):  # what is behind is worth more than the date
        left = Text.assemble(title, f"  {clock}  ", pace)
    shown = _address(left, address, width)
    return Text.assemble(left, " " * max(2, width - left.cell_len - len(shown)), shown)


def _address(left: Text, address: str, width: int) -> Text:
    """With its token where there is space for it; else a link of terminals that know links."""
    whole = left.cell_len + 2 + len(address) <= width
    shown = address if whole else address.partition("/#")[0]
    return Text(shown, style=f"dim link {address}" if address.partition("/#")[1] else "dim")


def _use(frame: Frame) -> Text:
    line = Text(f"{frame.nodes} nodes ")
    names = sorted(frame.fill, key=rank)
    for name in names[:MOST_RESOURCES]:
        part = frame.fill[name]
        line.append(f" {clean(short(name))} ").append(bar(part, 8), style="green").append(f" {part:.0%} ")
    if len(names) > MOST_RESOURCES:
        line.append(f" and {len(names) - MOST_RESOURCES} resources more ", style="dim")
    return line.append(f"  {frame.finished} done", style="dim")


def _queues(frame: Frame, width: int, most: int) -> list[Text]:
    shown = [queue for queue in frame.queues if queue.name != "default" or _is_used(queue)]
    spaces: dict[str, list[NamespaceStanding]] = {}
    for space in frame.namespaces:
        spaces.setdefault(space.queue, []).append(space)
    room = min(max((cell_len(clean(queue.name)) for queue in shown), default=0), MOST_NAME)
    lines = [_queue(queue, spaces.get(queue.name, ()), room, width) for queue in shown[:most]]
    if len(shown) > most:
        lines[-1:] = [Text(f"and {len(shown) - most + 1} queues more: press 2", style="dim")]
    return lines


def _queue(queue: QueueStanding, spaces: Sequence[NamespaceStanding], room: int, width: int) -> Text:
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
    """Of the scarcest resource that the queue deserves or has; the list of shares has them all."""
    for name in sorted(queue.deserved, key=rank):
        deserved, allocated, held = queue.deserved[name], queue.allocated.get(name, "0"), queue.reserved.get(name, "0")
        if (deserved, allocated, held) != ("0", "0", "0"):
            plus = "" if held == "0" else f" + {readable(name, held)} reserved"
            return f"{readable(name, allocated)}{plus} of {readable(name, deserved)} {short(name)}"
    return "idle"


def _is_used(queue: QueueStanding) -> bool:
    return any(amount not in ("0", "") for amount in (*queue.requested.values(), *queue.allocated.values()))
