"""`fairway queues`, `queue` and `order`: shares of queues, their pending jobs, and the queue position of a job."""

from __future__ import annotations

import re
from typing import TYPE_CHECKING

import click

from fairway.cli import inputs
from fairway.cli.inputs import GivenCluster, cluster_options
from fairway.cli.output import console, output_option, print_structured, table

if TYPE_CHECKING:
    from collections.abc import Sequence

    from fairway.app.view.frame import WaitingJob
    from fairway.app.view.job_order import JobOrder, OrderKey
    from fairway.scheduler.plan import NamespaceStanding, QueueStanding


@click.command(
    epilog="""\b
Examples:
  fairway queues -f cluster/
  fairway queues -f cluster/ --policy policy.yaml -o json
  fairway queues                           the running sandbox"""
)
@cluster_options
@output_option
def command(given: GivenCluster, output: str) -> None:
    """Show the deserved resources of queues, and the allocations of queues and namespaces, after one cycle."""
    queues, namespaces = _standings(given)
    if output == "table":
        from fairway.cli.plan_table import print_shares

        print_shares(queues, namespaces)
    else:
        print_structured({"queues": list(queues), "namespaces": list(namespaces)}, output)


def _standings(given: GivenCluster) -> tuple[Sequence[QueueStanding], Sequence[NamespaceStanding]]:
    if given.files:
        from fairway.scheduler.decide import decide_and_explain

        policy, moment = given.policy_and_time()
        plan = decide_and_explain(inputs.read_state(given.files, given.own_schedulers()), policy, moment)
        return plan.queues, plan.namespaces
    frame = given.client().frame()
    return frame.queues, frame.namespaces


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
def queue(queue: str | None, given: GivenCluster, output: str) -> None:
    """List pending jobs with queue position, reason, and estimated start if no other jobs arrive.

    An estimated start is a forecast based on known run times. A planned start is protected by backfill.
    """
    rows = _pending_jobs(queue, given)
    if output != "table":
        print_structured({"items": rows}, output)
    elif not rows:
        console().print("No pending jobs.")
    else:
        print_waiting(rows)


def _pending_jobs(queue: str | None, given: GivenCluster) -> Sequence[WaitingJob]:
    if given.files:
        from fairway.app.view.frame import waiting_jobs

        situation = given.situation()
        _check_queue(queue, {each.name for each in situation.state.queues})
        return waiting_jobs(situation, queue)
    client = given.client()
    _check_queue(queue, {each.name for each in client.frame().queues})
    return [row for row in client.waiting() if queue is None or row.queue == queue]


def _check_queue(queue: str | None, names: set[str]) -> None:
    from fairway.api.shape import did_you_mean
    from fairway.errors import InputError

    if queue is not None and queue not in names:
        raise InputError(f"there is no queue {queue!r}{did_you_mean(queue, sorted(names))}")


def print_waiting(rows: Sequence[WaitingJob]) -> None:
    from fairway.sim.spans import rounded_span

    pending = table("queue", "#", "job", "pods", "wait", "starts in", "reason", numbers=("#", "pods"))
    for row in rows:
        waiting = "" if row.waiting_for is None else rounded_span(row.waiting_for)
        mark = ", starving" if row.starving else ""
        pending.add_row(
            row.queue, str(row.position), row.job, str(row.pods), waiting, _start(row), f"{row.reason}{mark}"
        )
    console().print(pending)


def _start(row: WaitingJob) -> str:
    from fairway.sim.spans import rounded_span

    if row.starts_in is None:
        return "unknown"
    text = "now" if row.starts_in <= 0 else rounded_span(row.starts_in)
    return f"{text}, planned" if row.planned_start else text


@click.command(
    epilog="""\b
Examples:
  fairway order team-vision/sweep -f cluster/
  fairway order sweep -f cluster/ --policy policy.yaml -o json
  fairway order train-7                    a job in the running sandbox"""
)
@click.argument("job", metavar="JOB")
@cluster_options
@output_option
def order(job: str, given: GivenCluster, output: str) -> None:
    """Explain the queue position of JOB by comparing it with the pending jobs just before and after it.

    Queues are compared first, then the namespaces of a queue, then the jobs of a namespace. Each comparison asks the
    plugins in policy order, then the tie rule; the first key that differs decides. Keys are as of the next cycle.
    """
    from fairway.app.view.job_order import job_order

    found = job_order(given.situation(), job) if given.files else given.client().order(job)
    _print_order(found) if output == "table" else print_structured(found, output)


def _to_the_second(key: OrderKey) -> OrderKey:
    """The key with times to the second, unless the fractions decide."""
    from msgspec.structs import replace

    texts = (key.own, key.before, key.after)
    short = [None if text is None else re.sub(r"(T\d\d:\d\d:\d\d)\.\d+Z", r"\1Z", text) for text in texts]
    if len(set(short)) < len(set(texts)):
        return key
    return replace(key, own=short[0] or "", before=short[1], after=short[2])


def _print_order(found: JobOrder) -> None:
    out = console()
    out.print(
        f"{found.job}: position {found.position} of {found.of} in queue {found.queue}, "
        f"{found.place} of {found.places} over all queues\n"
    )
    others = [("before", found.before), ("after", found.after)]
    columns = [f"{name}: {job}" for name, job in others if job is not None]
    rows = table("level", "plugin", "key", found.job, *columns)
    for key in map(_to_the_second, found.keys):
        texts = {"before": key.before or "", "after": key.after or ""}
        cells = [f"{texts[name]}{'  <- decides' * (name in key.decides)}" for name, job in others if job is not None]
        rows.add_row(key.level, key.plugin, key.key, key.own, *cells)
    out.print(rows)
    for name, job in others:
        deciding = next((key for key in found.keys if name in key.decides), None)
        if deciding is not None:
            side = "behind" if name == "before" else "ahead of"
            whose = "the tie rule" if deciding.plugin == "tie rule" else f"plugin {deciding.plugin}"
            out.print(f"It is {side} {job} by {deciding.key} of the {deciding.level} ({whose}).")
