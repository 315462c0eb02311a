"""`fairway queue`: all pending jobs with position, reason and estimated start."""

from __future__ import annotations

from typing import TYPE_CHECKING

import click

from fairway.cli.cluster_options import GivenCluster, cluster_options
from fairway.cli.output import console, output_option, print_structured, table

if TYPE_CHECKING:
    from collections.abc import Sequence

    from fairway.app.view.frame import WaitingJob


@click.command(
    epilog="""\b
Examples:
  fairway queue -f cluster/                all queues
  fairway queue research -f cluster/       one queue
  fairway queue                            the running sandbox"""
)
@click.argument("queue", required=False, metavar="[QUEUE]")
@cluster_options
@output_option
def command(queue: str | None, given: GivenCluster, output: str) -> None:
    """List pending jobs with queue position, reason, and estimated start if no other jobs arrive.

    An estimated start is a forecast based on known run times. A planned start is protected by backfill.
    """
    rows = _of_files(queue, given) if given.files else _of_sandbox(queue, given)
    if output != "table":
        print_structured({"items": rows}, output)
    elif not rows:
        console().print("No job waits.")
    else:
        print_waiting(rows)


def _of_files(queue: str | None, given: GivenCluster) -> Sequence[WaitingJob]:
    from fairway.app.view.frame import waiting_jobs

    situation = given.situation()
    _check_queue(queue, {known.name for known in situation.state.queues})
    return waiting_jobs(situation, queue)


def _check_queue(queue: str | None, known: set[str]) -> None:
    from fairway.api.shape import did_you_mean
    from fairway.errors import InputError

    if queue is not None and queue not in known:
        raise InputError(f"there is no queue {queue!r}{did_you_mean(queue, sorted(known))}")


def _of_sandbox(queue: str | None, given: GivenCluster) -> Sequence[WaitingJob]:
    client = given.client()
    _check_queue(queue, {known.name for known in client.frame().queues})
    return [row for row in client.waiting() if queue is None or row.queue == queue]


def print_waiting(rows: Sequence[WaitingJob]) -> None:
    from fairway.sim.spans import rounded_span

    made = table("queue", "#", "job", "pods", "wait", "starts in", "reason", numbers=("#", "pods"))
    for row in rows:
        waiting = "" if row.waiting_for is None else rounded_span(row.waiting_for)
        mark = ", starving" if row.starving else ""
        made.add_row(row.queue, str(row.position), row.job, str(row.pods), waiting, _start(row), f"{row.reason}{mark}")
    console().print(made)


def _start(row: WaitingJob) -> str:
    from fairway.sim.spans import rounded_span

    if row.starts_in is None:
        return "unknown"
    text = "now" if row.starts_in <= 0 else rounded_span(row.starts_in)
    return f"{text}, planned" if row.planned_start else text
