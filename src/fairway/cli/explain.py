"""`fairway explain`: why a job waits, what would start it now, and when it starts anyway."""

from __future__ import annotations

from typing import TYPE_CHECKING

import click

from fairway.cli import inputs
from fairway.cli.lazy import Options
from fairway.cli.output import output_option, print_structured, warn
from fairway.cli.sandbox_options import sandbox_option

if TYPE_CHECKING:
    from fairway.app.explain import Explanation


@click.command(
    epilog="""\b
Examples:
  fairway explain team-vision/sweep -f cluster/
  fairway explain sweep -f cluster/ --policy policy.yaml -o json
  fairway explain train-7                  a job of the sandbox that runs"""
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
    """Print why JOB waits, which smallest change would start it now, and when it will start.

    JOB is namespace/name, or a name alone where only one job has it. The cluster is that of the manifests, else that
    of the sandbox that runs. Every answer is confirmed by deciding on a copy; nothing is changed.
    """
    if files:
        said = _of_files(job, files, policy_file, now, inputs.ours(scheduler_names, all_pods))
    else:
        if policy_file or now or scheduler_names or all_pods:
            raise click.UsageError(
                "--policy, --now, --scheduler-name and --all-pods go with -f: the sandbox has its own"
            )
        if click.get_current_context().ensure_object(Options).skip_invalid:
            raise click.UsageError("--skip-invalid goes with -f: the sandbox always sets such objects aside")
        from fairway.app.sandbox.client import Client

        said = Client.find(sandbox).explain(job)
    if output == "table":
        from fairway.cli.explain_table import print_explanation

        print_explanation(said)
    else:
        print_structured(said, output)
    for warning in said.warnings:
        warn(warning)


def _of_files(
    job: str, files: tuple[str, ...], policy_file: str | None, now: str | None, scheduler_names: tuple[str, ...] | None
) -> Explanation:
    from fairway.app.explain import Situation, explain

    policy = inputs.read_policy(policy_file)
    moment = inputs.read_time(now)
    objects = inputs.read_objects(files)
    if scheduler_names is not None:
        inputs.warn_of_others(objects, scheduler_names)
    return explain(Situation(objects, policy, moment, scheduler_names), job)
