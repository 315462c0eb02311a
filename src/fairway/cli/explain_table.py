"""An explanation as text: why the job is pending, its standing, what would start it now, and when it will start."""

from __future__ import annotations

import re
from collections.abc import Iterator
from textwrap import wrap

from rich.text import Text

from fairway.app.explain import Counterfactual, Explanation, Forecast, JobStanding
from fairway.cli.output import amount_text, console, one_line, readable
from fairway.cli.plan_table import bar, percent
from fairway.scheduler.plan import QueueStanding

MAX_PLACES = 12
_FORECAST = Text("When it starts", style="bold")
LABEL = 22
_HEADS = {
    JobStanding.WAITING: "is pending",
    JobStanding.STARTING: "starts in the next cycle",
    JobStanding.EVICTING: "is pending while pods are evicted for it",
    JobStanding.RUNNING: "is running",
}


def print_explanation(said: Explanation) -> None:
    out = console()
    for line in explanation_lines(said, out.width):
        out.print(line, soft_wrap=True)


class ForecastPart:
    """The forecast, whose heading is printed before it is computed."""

    def __init__(self) -> None:
        self._out = console()
        self._out.print()
        self._out.print(_FORECAST, soft_wrap=True)

    def finish(self, found: Forecast | None) -> None:
        """None if the job is no longer pending."""
        width = self._out.width
        for line in _line(width, "It is no longer pending.") if found is None else _forecast_lines(width, found):
            self._out.print(line, soft_wrap=True)


def explanation_lines(said: Explanation, width: int) -> list[Text]:
    """Wrapped between words: a name is never split, even if a line gets longer than `width`."""
    queue = f" in queue {said.queue.name}" if said.queue else ""
    mark = " (starving)" if said.starving else ""
    lines = [Text(one_line(f"{said.job} {_HEADS[said.standing]}{queue}{mark}"), style="bold")]
    if said.reason:
        lines += _line(width, f"{said.reason}: {said.message}")
    lines.append(Text())
    for label, text in _standing(said):
        lines += _labelled(width, label, text)
    if said.counterfactual is not None:
        lines += [Text(), *_counterfactual_lines(width, said.counterfactual)]
    if said.forecast is not None:
        lines += [Text(), _FORECAST, *_forecast_lines(width, said.forecast)]
    return lines


def _standing(said: Explanation) -> Iterator[tuple[str, str]]:
    if said.position:
        yield "queue position", f"{said.position} of {said.line} in its queue, priority {said.priority}"
    needs = "" if said.minimum <= 1 else f", needs {said.minimum} at once"
    starts = len(said.places) if said.standing is JobStanding.STARTING else 0
    reserved = f"{said.reserved} reserved, " if said.reserved else ""
    count = f"{starts} starting" if starts else f"{said.allocated} allocated, {reserved}{said.waiting} pending"
    yield "pods", f"{count}{needs}"
    if said.since:
        yield "created", re.sub(r"\.\d+Z$", "Z", said.since)
    if said.queue is not None:
        yield f"queue {said.queue.name}", _queue_text(said.queue)
    if said.namespace is not None:
        space = said.namespace
        counted = " including reservations" if set(space.reserved.values()) - {"0"} else ""
        text = f"{percent(space.share)} of the cluster{counted}, {percent(space.weighted_share)} divided by weight"
        yield f"namespace {space.namespace}", f"{text} {space.weight}"
    if said.places:
        yield "nodes", _listed([f"{place.pod.split('/', 1)[1]} on {place.node}" for place in said.places])
    if said.reservations:
        yield "reserved", _listed([f"{reservation.node} ({reservation.state})" for reservation in said.reservations])
    if said.stopped is not None:
        yield "evictions", said.stopped.text
    if said.evictions:
        yield "evicted for it", _listed(list(said.evictions))


def _queue_text(queue: QueueStanding) -> str:
    held = [
        f"{_amount(name, queue)} of {readable(name, deserved)} {name}"
        for name, deserved in queue.deserved.items()
        if (deserved, queue.allocated.get(name, "0"), queue.reserved.get(name, "0")) != ("0", "0", "0")
    ]
    state = "" if queue.state == "Open" else f"{queue.state.lower()}; "
    share = queue.dominant_share
    return f"{state}{bar(share)} {percent(share)} of the cluster: {', '.join(held) or 'nothing'}"


def _amount(name: str, queue: QueueStanding) -> str:
    return amount_text(readable(name, queue.allocated[name]), readable(name, queue.reserved.get(name, "0")))


def _counterfactual_lines(width: int, found: Counterfactual) -> Iterator[Text]:
    yield Text("What would start it now", style="bold")
    for number, change in enumerate(found.changes, 1):
        after = "" if change.effect == "starts" else " (starts when the pods evicted for it are gone)"
        yield from _line(width, f"{number}. {change.text}{after}", hang=3)
    if not found.changes:
        yield from _line(width, "None of the changes tried.")
    failed = [trial.text for trial in found.tried if not trial.helped]
    if failed:
        yield from _line(width, f"Tried without effect: {', '.join(failed)}.", style="dim")
    limit = "" if found.complete else "; the search reached its limit"
    yield from _line(width, f"Verified by {found.decisions} scheduling cycles on changed copies{limit}.", style="dim")


def _forecast_lines(width: int, forecast: Forecast) -> Iterator[Text]:
    yield from _line(width, f"{forecast.text}.")
    if forecast.unknown_ends:
        names = [end.pod for end in forecast.unknown_ends]
        more = f" and {forecast.unknown_count - len(names)} more" if forecast.unknown_count > len(names) else ""
        yield from _line(width, f"No known end: {', '.join(names)}{more}.", style="dim")
    cycles = "1 scheduling cycle" if forecast.decisions == 1 else f"{forecast.decisions} scheduling cycles"
    yield from _line(width, f"Simulated with {cycles} on a copy rolled forward in time.", style="dim")


def _line(width: int, text: str, *, style: str = "", hang: int = 0) -> list[Text]:
    """Indented; lines after the first by `hang` more."""
    return _wrapped(width, text, " " * 2, " " * (2 + hang), style)


def _labelled(width: int, label: str, text: str) -> list[Text]:
    return _wrapped(width, text, f"  {one_line(label):<{LABEL}}  ", " " * (LABEL + 4), "")


def _wrapped(width: int, text: str, first: str, rest: str, style: str) -> list[Text]:
    lines = wrap(
        one_line(text),
        max(width, len(rest) + 20),
        initial_indent=first,
        subsequent_indent=rest,
        break_long_words=False,
        break_on_hyphens=False,
    )
    return [Text(line, style=style) for line in lines]


def _listed(items: list[str]) -> str:
    more = f" and {len(items) - MAX_PLACES} more" if len(items) > MAX_PLACES else ""
    return ", ".join(items[:MAX_PLACES]) + more
