"""`fairway order`: why a job stands where it stands, key by key."""

from __future__ import annotations

from typing import TYPE_CHECKING

import click

from fairway.cli import inputs
from fairway.cli.lazy import Options
from fairway.cli.output import console, output_option, print_structured, table
from fairway.cli.sandbox_options import sandbox_option

if TYPE_CHECKING:
    from fairway.app.view.order import JobOrder


@click.command(
    epilog="""\b
Examples:
  fairway order team-vision/sweep -f cluster/
  fairway order sweep -f cluster/ --policy policy.yaml -o json
  fairway order train-7                    a job of the sandbox that runs"""
)
@click.argument("job", metavar="JOB")
@click.option("-f", "--file", "files", multiple=True, metavar="FILE", help="Manifests; default the sandbox that runs.")
@inputs.strict_option
@inputs.skip_invalid_option
@inputs.policy_option
@inputs.now_option
@inputs.scheduler_name_option
@sandbox_option
@output_option
def command(
    job: str,
    files: tuple[str, ...],
    policy_file: str | None,
    now: str | None,
    scheduler_names: tuple[str, ...],
    all_pods: bool,
    sandbox: str | None,
    output: str,
) -> None:
    """Say why JOB stands where it stands among the jobs that wait, beside the job before it and the job after it.

    Queues are compared first, then namespaces of one queue, then jobs of one namespace; in each the plugins in the
    order of the policy, then the tie rule. The first key that differs decides. Keys are those after the next cycle.
    """
    if files:
        found = _of_files(job, files, policy_file, now, inputs.ours(scheduler_names, all_pods))
    else:
        if policy_file or now or scheduler_names or all_pods:
            raise click.UsageError(
                "--policy, --now, --scheduler-name and --all-pods go with -f: the sandbox has its own"
            )
        if click.get_current_context().ensure_object(Options).skip_invalid:
            raise click.UsageError("--skip-invalid goes with -f: the sandbox always sets such objects aside")
        from fairway.app.sandbox.client import Client

        found = Client.find(sandbox).order(job)
    _print(found) if output == "table" else print_structured(found, output)


def _of_files(
    job: str, files: tuple[str, ...], policy_file: str | None, now: str | None, scheduler_names: tuple[str, ...] | None
) -> JobOrder:
    from fairway.app.explain import Situation
    from fairway.app.view.order import job_order

    policy = inputs.read_policy(policy_file)
    moment = inputs.read_time(now)
    objects = inputs.read_objects(files)
    if scheduler_names is not None:
        inputs.warn_of_others(objects, scheduler_names)
    return job_order(Situation(objects, policy, moment, scheduler_names), job)


def _print(found: JobOrder) -> None:
    out = console()
    out.print(
        f"{found.job}: position {found.position} of {found.of} in queue {found.queue}, "
        f"{found.place} of {found.places} over all queues\n"
    )
    others = [("before", found.before), ("after", found.after)]
    columns = [f"{name}: {job}" for name, job in others if job is not None]
    rows = table("level", "plugin", "key", found.job, *columns)
    for key in found.keys:
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
