"""`fairway simulate`: run a scenario through virtual time and report the results."""

from __future__ import annotations

from collections.abc import Callable, Iterable, Iterator, Sequence
from contextlib import ExitStack, contextmanager
from typing import TYPE_CHECKING

import click

from fairway.cli import inputs
from fairway.cli.output import console, echo, output_option, print_json, print_structured, warn

if TYPE_CHECKING:
    from fairway.api.policy import Policy
    from fairway.app.view.run_report import Origin
    from fairway.drive import Listener
    from fairway.sim.report import OutputFiles
    from fairway.sim.run import Progress, RunResult
    from fairway.sim.scenario import Scenario


def _seed(_: click.Context, __: click.Parameter, given: int | None) -> int | None:
    """Check for 64 bits here: the range of a click.IntRange would fill half of the help line."""
    if given is not None and not -(2**63) <= given < 2**63:
        raise click.BadParameter(f"{given} is not a 64-bit integer")
    return given


@click.command(
    epilog="""\b
Examples:
  fairway simulate examples/scenarios/starving.yaml
  fairway simulate day.yaml --policy new.yaml --out out/   out/report.html
  fairway simulate day.yaml --assert    exit with 1 if an assertion fails"""
)
@click.argument("scenario", metavar="SCENARIO")
@inputs.policy_option_with("Policy file. Defaults to the policy of the scenario, or else the built-in one.")
@inputs.skip_invalid_option
@click.option("--out", "folder", metavar="DIR", help="Directory for the report, its HTML page and the job list.")
@click.option("--seed", type=int, callback=_seed, metavar="N", help="Random seed to use instead of the scenario's own.")
@click.option(
    "--estimate",
    metavar="HOW",
    help="Run-time estimates for backfill: requested, user-history, clairvoyant, or a factor of the true run times.",
)
@click.option("--assert", "check", is_flag=True, help="Exit with status 1 if an assertion of the scenario fails.")
@click.option("--strict", is_flag=True, help="Reject a trace that has an invalid row.")
@click.option(
    "--paranoid",
    is_flag=True,
    help="Verify all totals, and decide each cycle a second time with nothing cached (slow).",
)
@output_option
@click.option("--record", metavar="DIR", help="Directory to record every cycle in, for `fairway replay`.")
def command(
    scenario: str,
    policy_file: str | None,
    folder: str | None,
    seed: int | None,
    estimate: str | None,
    check: bool,
    strict: bool,
    paranoid: bool,
    output: str,
    record: str | None,
) -> None:
    """Run SCENARIO in virtual time and report wait times, utilisation, fairness and starvation.

    Without --policy, the scenario's own policy applies, or else the built-in one. Ctrl-C stops the run; the report
    then covers the time so far and is marked as partial.
    """
    from pathlib import Path

    from fairway.sim.scenario import load_scenario

    loaded = with_estimate(load_scenario(Path(scenario)), estimate)
    policy = read_policy(loaded, policy_file)
    with ExitStack() as stack:
        files = None
        if folder is not None:
            from fairway.sim.report import OutputFiles

            files = stack.enter_context(OutputFiles(inputs.folder_to_write(folder)))
        result = run(loaded, policy, files, seed, strict, record, paranoid=paranoid)
        if files is not None:
            given = {"--policy": policy_file, "--seed": seed, "--estimate": estimate, "--out": folder}
            write_report(files, result, origin("simulate", [scenario], given.items(), [policy]))
    if output == "table":
        print_report(result)
    elif output == "json":
        from fairway.sim.report import to_json

        print_json(to_json(result.report))
    else:
        print_structured(result.report, output)
    if files is not None:
        echo_written(files)
    if result.report.partial:
        raise click.Abort
    if check and result.breaches:
        from fairway.cli.invocation import CheckFailed

        lines = [f"{scenario}:{breach.line}: {breach}" for breach in result.breaches]
        raise CheckFailed("\n".join([*lines, f"{len(lines)} of {len(loaded.assertions)} assertions failed"]))


def origin(
    command: str, scenarios: Sequence[str], given: Iterable[tuple[str, object]], policies: Sequence[Policy]
) -> Origin:
    """The command line and the policies, for the page of a report."""
    import shlex

    from fairway.app.view.run_report import Origin
    from fairway.sim.policies import policy_text

    options = [str(word) for name, value in given if value is not None for word in (name, value)]
    texts = [(policy.source, policy_text(policy)) for policy in policies]
    return Origin(shlex.join(["fairway", command, *scenarios, *options]), texts)


def write_report(files: OutputFiles, result: RunResult, origin: Origin) -> None:
    """Every file but `jobs.csv`, which is written while the run goes on."""
    import msgspec

    from fairway.app.view.run_report import report_view
    from fairway.sim.report import to_json
    from fairway.web import write_page

    files.write("report.json", to_json(result.report))
    files.write("speed.json", msgspec.json.format(msgspec.json.encode(result.speed), indent=1) + b"\n")
    write_page(files, "report.html", report_view([result.report], origin=origin))


def echo_written(files: OutputFiles) -> None:
    """The names of the files, and why there is no page among them if there is none."""
    from fairway.web import NOT_BUILT

    echo(f"Written: {', '.join(map(str, files.paths))}", err=True)
    if not any(path.suffix == ".html" for path in files.paths):
        warn(NOT_BUILT)


def with_estimate(scenario: Scenario, given: str | None) -> Scenario:
    """The scenario with the `--estimate` of the command line."""
    from dataclasses import replace

    import msgspec

    from fairway.sim.scenario.model import SCALES, ScaledRunTimes

    if given is None:
        return scenario
    words = ("requested", "user-history", "clairvoyant")
    try:
        estimate = given if given in words else ScaledRunTimes(float(given))
    except ValueError:
        raise click.UsageError(f"--estimate {given!r}: expected one of {', '.join(words)}, or a factor") from None
    if isinstance(estimate, ScaledRunTimes) and not SCALES[0] <= estimate.scale <= SCALES[1]:
        raise click.UsageError(f"--estimate {given!r}: expected a factor from {SCALES[0]} to {SCALES[1]}")
    return replace(scenario, file=msgspec.structs.replace(scenario.file, estimate=estimate))


def read_policy(scenario: Scenario, given: str | None) -> Policy:
    """The given policy, or else the scenario's own, or else the built-in one."""
    own = scenario.file.policy
    return inputs.read_policy(given if given is not None or own is None else str(scenario.resolve(own)))


def run(
    scenario: Scenario,
    policy: Policy,
    files: OutputFiles | None,
    seed: int | None,
    strict: bool,
    record: str | None,
    *,
    paranoid: bool = False,
) -> RunResult:
    from fairway.sim.fleet_run import simulation_of
    from fairway.sim.report import JobsFile
    from fairway.sim.run import RunOptions

    with ExitStack() as stack:
        jobs = None if files is None else JobsFile(files, scenario.start)
        with inputs.naming_skip_invalid() as options:
            chosen = RunOptions(
                seed=seed,
                strict=strict,
                skip_invalid=options.skip_invalid,
                on_finish=jobs,
                recorder_of=None if record is None else _logs(stack, record, policy),
            )
            simulation = simulation_of(scenario, policy, chosen)
        inputs.report_set_aside(simulation.inputs.invalid, simulation.inputs.set_aside)
        for one in simulation.clusters:
            one.scheduler.paranoid = paranoid
        return simulation.run(stack.enter_context(progress_bar()))


def _logs(stack: ExitStack, folder: str, policy: Policy) -> Callable[[str], Listener]:
    """Recorders of clusters: in the folder itself, or in a subfolder per cluster of a fleet."""
    from pathlib import Path

    from fairway.app.recordings import recording_to

    def made(cluster: str) -> Listener:
        target = str(Path(folder) / cluster) if cluster else folder
        return stack.enter_context(recording_to(inputs.folder_to_write(target), policy))

    return made


def print_report(result: RunResult) -> None:
    from fairway.cli.report_table import report_tables

    out = console()
    for part in report_tables(result.report, result.speed):
        out.print(part)
    for breach in result.breaches:
        out.print(f"Failed: {breach}", style="red", soft_wrap=True)
    for warning in result.report.warnings:
        warn(warning)


@contextmanager
def progress_bar() -> Iterator[Callable[[Progress], None] | None]:
    """Shows virtual time, finished jobs and speed, if standard error is a terminal."""
    import sys
    import time

    if not sys.stderr.isatty():
        yield None
        return
    from rich.progress import BarColumn, TextColumn
    from rich.progress import Progress as Bar

    from fairway.sim.spans import format_span

    begin = time.monotonic()
    with Bar(
        TextColumn("{task.description}"), BarColumn(), TextColumn("{task.fields[detail]}"),
        console=console(err=True), transient=True,
    ) as bar:  # fmt: skip
        task = bar.add_task("simulating", total=None, detail="")

        def watch(now: Progress) -> None:
            speed = now.events / max(time.monotonic() - begin, 1e-6)
            passed = now.now - now.start
            jobs = f"{now.finished} of {now.submitted} jobs finished"
            detail = f"{format_span(passed)} simulated, {jobs}, {speed:,.0f} events/s"
            total = None if now.end is None else now.end - now.start
            bar.update(task, completed=passed, total=total, detail=detail)

        yield watch
