"""`fairway sweep`: one scenario under many policies, in parallel, as one table."""

from __future__ import annotations

from typing import TYPE_CHECKING, Any

import click

from fairway.cli import inputs
from fairway.cli.output import console, output_option, print_structured

if TYPE_CHECKING:
    from collections.abc import Sequence

    from fairway.sim.report import RunReport


@click.command(
    epilog="""\b
Examples:
  fairway sweep day.yaml --set reserve.reservedNodePercent=10,30,50
  fairway sweep day.yaml --set drf.priorityFirst=true,false --seeds 5
  fairway sweep day.yaml --set binpack.weight=1,5 --dask tcp://host:8786"""
)
@click.argument("scenario", metavar="SCENARIO")
@inputs.policy_option_with("Base policy file. Defaults to the policy of the scenario, or else the built-in one.")
@click.option(
    "--set",
    "settings",
    multiple=True,
    required=True,
    metavar="PATH=VALUES",
    help="Argument of an action or plugin, as NAME.ARGUMENT, and the comma-separated values to try. Repeatable.",
)
@click.option(
    "--seeds",
    type=click.IntRange(1, 1000),
    metavar="N",
    default=1,
    show_default=True,
    help="Number of seeds per combination.",
)
@click.option(
    "--workers",
    type=click.IntRange(1, 256),
    metavar="N",
    help="Number of worker processes. Defaults to the number of cores.",
)
@click.option(
    "--dask", metavar="ADDRESS", help="Dask scheduler to run on instead of local processes (needs the extra `sweep`)."
)
@output_option
def command(
    scenario: str,
    policy_file: str | None,
    settings: tuple[str, ...],
    seeds: int,
    workers: int | None,
    dask: str | None,
    output: str,
) -> None:
    """Run SCENARIO under every combination of settings and print one row per combination."""
    from pathlib import Path

    from fairway.cli.simulate import read_policy
    from fairway.scheduler.plugins.installed import default_registry
    from fairway.sim.parallel import RunTask, run_all, run_task
    from fairway.sim.policies import combinations, parse_settings, policy_text, with_settings
    from fairway.sim.scenario import load_scenario

    path = Path(scenario)
    loaded = load_scenario(path)
    base = read_policy(loaded, policy_file)
    catalog = default_registry().catalog
    chosen = combinations(parse_settings(list(settings)), seeds)
    text = path.read_text(encoding="utf-8-sig")
    tasks = [
        RunTask(str(path.absolute()), text, policy.source, policy_text(policy), loaded.file.seed + index)
        for policy in [with_settings(base, values, catalog) for values in chosen]
        for index in range(seeds)
    ]
    reports = list(run_all(tasks, run_task, workers=workers, dask=dask))
    rows = [_row(values, reports[index * seeds : (index + 1) * seeds]) for index, values in enumerate(chosen)]
    if output == "table":
        _print(rows, list(chosen[0]))
    else:
        print_structured(rows, output)


def _row(values: dict[str, Any], reports: Sequence[RunReport]) -> dict[str, Any]:
    """The settings, and the mean of each metric over the seeds."""
    from statistics import mean

    metrics = [report.metrics for report in reports]
    use = {name: mean(m.utilisation[name].to_last_end for m in metrics) for name in metrics[0].utilisation}
    return {
        "settings": values,
        "seeds": len(reports),
        "finished": mean(m.finished for m in metrics),
        "waitMean": mean(m.wait.mean for m in metrics),
        "waitP95": mean(m.wait.p95 for m in metrics),
        "waitMax": mean(m.wait.max for m in metrics),
        "slowdown": mean(m.wait.slowdown_mean for m in metrics),
        "utilisation": use,
        "jain": mean(known) if (known := [m.jain for m in metrics if m.jain is not None]) else None,
        "slowdownWeighted": mean(m.wait.slowdown_weighted for m in metrics),
        "userWait": mean(m.users.wait.mean for m in metrics),
        "userWaitDeviation": mean(m.users.wait.deviation for m in metrics),
        "normalisedUserWait": mean(m.users.normalised_wait.mean for m in metrics),
        "plannedKept": mean(m.planned.kept for m in metrics),
        "plannedMissed": mean(m.planned.missed for m in metrics),
        "deviation": mean(m.deviation_mean for m in metrics),
        "belowShare": mean(m.starvation.namespace_longest for m in metrics),
        "evictions": mean(m.preemption.evictions for m in metrics),
        "mostStops": mean(m.preemption.most_stops for m in metrics),
        "dominantHoursLost": mean(m.preemption.dominant_hours for m in metrics),
    }


def _print(rows: Sequence[dict[str, Any]], settings: list[str]) -> None:
    from fairway.app.view.run_report import duration_text, percent_text
    from fairway.cli.report_table import plain_table

    columns = (
        "mean wait",
        "95 %",
        "longest",
        "slowdown",
        "in use",
        "deviation",
        "below share",
        "evictions",
        "most stops",
        "hours lost",
    )
    table = plain_table(*(_words(path.partition(".")[2]) for path in settings), *columns)
    for row in rows:
        times = (duration_text(row[name]) for name in ("waitMean", "waitP95", "waitMax"))
        most = max(row["utilisation"].values(), default=0.0)
        table.add_row(
            *(str(value) for value in row["settings"].values()),
            *times,
            f"{row['slowdown']:.2f}",
            percent_text(most),
            f"{row['deviation']:.4f}",
            duration_text(row["belowShare"]),
            f"{row['evictions']:g}",
            f"{row['mostStops']:g}",
            f"{row['dominantHoursLost']:.3g}",
        )
    table.padding = (0, 1, 0, 0)
    console().print(table)


def _words(name: str) -> str:
    """A camel-case name with spaces, so that a narrow table can break it."""
    import re

    return re.sub(r"(?<=[a-z])(?=[A-Z])", " ", name)
