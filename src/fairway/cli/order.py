"""`fairway order`: a job's queue position, key by key."""

from __future__ import annotations

import re
from typing import TYPE_CHECKING

import click

from fairway.cli.cluster_options import GivenCluster, cluster_options
from fairway.cli.output import console, output_option, print_structured, table

if TYPE_CHECKING:
    from fairway.app.view.job_order import JobOrder, OrderKey


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
def command(job: str, given: GivenCluster, output: str) -> None:
    """Explain the queue position of JOB by comparing it with the pending jobs just before and after it.

    Queues are compared first, then the namespaces of a queue, then the jobs of a namespace. Each comparison asks the
    plugins in policy order, then the tie rule; the first key that differs decides. Keys are as of the next cycle.
    """
    from fairway.app.view.job_order import job_order

    found = job_order(given.situation(), job) if given.files else given.client().order(job)
    _print(found) if output == "table" else print_structured(found, output)


def _to_the_second(key: OrderKey) -> OrderKey:
    """Times without their fractions, where those are not what decides."""
    from msgspec.structs import replace

    texts = (key.own, key.before, key.after)
    short = [None if text is None else re.sub(r"(T\d\d:\d\d:\d\d)\.\d+Z", r"\1Z", text) for text in texts]
    if len(set(short)) < len(set(texts)):
        return key
    return replace(key, own=short[0] or "", before=short[1], after=short[2])


def _print(found: JobOrder) -> None:
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
