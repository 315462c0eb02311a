"""`fairway queue`: all jobs that wait, with position, reason and estimated start."""

from __future__ import annotations

from typing import TYPE_CHECKING

import click

from fairway.cli import inputs
from fairway.cli.lazy import Options
from fairway.cli.output import console, output_option, print_structured, table
from fairway.cli.sandbox_options import sandbox_option

if TYPE_CHECKING:
    from collections.abc import Sequence

    from fairway.app.view.waiting import WaitingJob


@click.command(
    epilog="""\b
Examples:
  fairway queue -f cluster/                all queues
  fairway queue research -f cluster/       one queue
  fairway queue                            the sandbox that runs"""
)
@click.argument("queue", required=False, metavar="[QUEUE]")
@click.option("-f", "--file", "files", multiple=True, metavar="FILE", help="Manifests; default the sandbox that runs.")
@inputs.skip_invalid_option
@inputs.policy_option
@inputs.now_option
@inputs.scheduler_name_option
@sandbox_option
@output_option
def command(
    queue: str | None,
    files: tuple[str, ...],
    policy_file: str | None,
    now: str | None,
    scheduler_names: tuple[str, ...],
    all_pods: bool,
    sandbox: str | None,
    output: str,
) -> None:
    """List the jobs that wait: queue position, reason, and estimated start if nothing else arrives.

    An estimated start is a forecast from the run times that are known. A planned start is one that backfill protects.
    """
    rows = (
        _of_files(queue, files, policy_file, now, inputs.ours(scheduler_names, all_pods))
        if files
        else _of_sandbox(queue, sandbox, bool(policy_file or now or scheduler_names or all_pods))
    )
    if output != "table":
        print_structured({"items": rows}, output)
    elif not rows:
        console().print("No job waits.")
    else:
        print_waiting(rows)


def _of_files(
    queue: str | None,
    files: tuple[str, ...],
    policy_file: str | None,
    now: str | None,
    scheduler_names: tuple[str, ...] | None,
) -> Sequence[WaitingJob]:
    from fairway.app.explain import Situation
    from fairway.app.view.waiting import waiting_jobs

    policy = inputs.read_policy(policy_file)
    moment = inputs.read_time(now)
    objects = inputs.read_objects(files)
    if scheduler_names is not None:
        inputs.warn_of_others(objects, scheduler_names)
    situation = Situation(objects, policy, moment, scheduler_names)
    _check_queue(queue, {known.name for known in situation.state.queues})
    return waiting_jobs(situation, queue)


def _check_queue(queue: str | None, known: set[str]) -> None:
    from fairway.api.settings import did_you_mean
    from fairway.errors import InputError

    if queue is not None and queue not in known:
        raise InputError(f"there is no queue {queue!r}{did_you_mean(queue, sorted(known))}")


def _of_sandbox(queue: str | None, sandbox: str | None, given: bool) -> Sequence[WaitingJob]:
    if given:
        raise click.UsageError("--policy, --now, --scheduler-name and --all-pods go with -f: the sandbox has its own")
    if click.get_current_context().ensure_object(Options).skip_invalid:
        raise click.UsageError("--skip-invalid goes with -f: the sandbox always sets such objects aside")
    from fairway.app.sandbox.client import Client

    client = Client.find(sandbox)
    _check_queue(queue, {known.name for known in client.frame().queues})
    return [row for row in client.waiting() if queue is None or row.queue == queue]


def print_waiting(rows: Sequence[WaitingJob]) -> None:
    from fairway.sim.spans import rounded_span

    made = table("queue", "#", "job", "pods", "waiting", "starts in", "reason", numbers=("#", "pods", "priority"))
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
