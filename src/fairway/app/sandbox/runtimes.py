"""How long pods of a sandbox really run, which the scheduler is not told, and when jobs of files come.

A pod runs for the time of its annotation `sim.fairway.dev/run` (`90s`, or drawn: `uniform 1m 5m`), else for its
expected run time, and never beyond its deadline; one that says nothing runs until it is deleted.
"""

from __future__ import annotations

from random import Random

from msgspec.structs import replace

from fairway.api.pods import Pod
from fairway.api.scheduling import PodGroup
from fairway.clock import SECOND, Micros
from fairway.drive import annotated
from fairway.errors import InputError
from fairway.sim.live import FOREVER
from fairway.sim.spans import parse_drawn, parse_span
from fairway.sim.workload import ARRIVE, RUN
from fairway.state.annotations import EXPECTED_RUNTIME, parse_runtime
from fairway.state.reader import key_of

DRAWN = "sim.fairway.dev/drawn-run"
"""On a pod whose run time is drawn: what was drawn."""


def run_time(pod: Pod, group: PodGroup | None) -> Micros:
    """Counted from the start of the run."""
    notes = pod.metadata.annotations
    text = notes.get(DRAWN) or notes.get(RUN)
    run = _expected(pod, group) if text is None else parse_span(text)
    deadline = pod.spec.active_deadline_seconds
    return run if deadline is None else min(run, deadline * SECOND)


def _expected(pod: Pod, group: PodGroup | None) -> Micros:
    notes = [pod.metadata.annotations] + ([] if group is None else [group.metadata.annotations])
    for texts in notes:
        if EXPECTED_RUNTIME in texts:
            span = parse_runtime(texts[EXPECTED_RUNTIME])
            if span is not None:
                return span
    return FOREVER


def with_run(pod: Pod, run: Micros) -> Pod:
    return annotated(pod, {RUN: f"{run}us"})


def drawn(pod: Pod, at: Micros) -> Pod:
    """The pod with its run time drawn, once and for all; InputError where it cannot be understood."""
    text = pod.metadata.annotations.get(RUN)
    if text is None:
        return pod
    try:
        span = parse_drawn(text)
    except InputError as error:
        raise InputError(f"pod {key_of(pod)}: annotation {RUN}: {error}") from None
    run = span.draw(Random(f"{key_of(pod)}/{at}"))
    return pod if not span.is_random else annotated(pod, {DRAWN: f"{run}us"})


def arrives_after(pod: Pod) -> Micros:
    """How long after the beginning a pod of a file comes; it comes once."""
    text = pod.metadata.annotations.get(ARRIVE)
    try:
        return 0 if text is None else parse_span(text)
    except InputError as error:
        raise InputError(f"pod {key_of(pod)}: annotation {ARRIVE}: {error}") from None


def arrived(pod: Pod) -> Pod:
    """The pod without its time of arrival, which has come."""
    notes = {name: text for name, text in pod.metadata.annotations.items() if name != ARRIVE}
    return replace(pod, metadata=replace(pod.metadata, annotations=notes))
