"""`fairway diff`: the same jobs under two policies, or two scenarios, side by side."""

from __future__ import annotations

from typing import TYPE_CHECKING, NamedTuple

import click

from fairway.cli.output import console, output_option, print_structured

if TYPE_CHECKING:
    from pathlib import Path

    from fairway.api.policy import Policy
    from fairway.sim.scenario import Scenario


class DiffSide(NamedTuple):
    """One side of the comparison."""

    path: Path
    text: str
    scenario: Scenario
    policy_name: str
    policy: Policy


@click.command(
    epilog="""\b
Examples:
  fairway diff day.yaml --policy now.yaml --policy candidate.yaml
  fairway diff day.yaml --policy default --policy b.yaml --seeds 10 --out out/
  fairway diff fleet.yaml one-more-cluster.yaml"""
)
@click.argument("scenario", metavar="SCENARIO")
@click.argument("other", metavar="[OTHER]", required=False)
@click.option(
    "--policy",
    "policies",
    multiple=True,
    metavar="FILE",
    help="Policy file, or `default` for the built-in policy. Required twice; with OTHER, optional and used for both.",
)
@click.option(
    "--seeds",
    type=click.IntRange(1, 1000),
    metavar="N",
    help="Number of seeds per side. Defaults to 5 for a random scenario, else to 1.",
)
@click.option("--out", "folder", metavar="DIR", help="Directory for the comparison and its HTML page.")
@output_option
@click.option(
    "--workers",
    type=click.IntRange(1, 256),
    metavar="N",
    help="Number of worker processes. Defaults to the number of cores.",
)
def command(
    scenario: str,
    other: str | None,
    policies: tuple[str, ...],
    seeds: int | None,
    folder: str | None,
    output: str,
    workers: int | None,
) -> None:
    """Run SCENARIO under two policies and print which metrics improve or worsen, and by how much.

    With OTHER, compare two scenarios instead: for example the same jobs with one more cluster in the fleet, or with
    different placements.

    A random scenario runs on the same seeds on both sides, and a change within the spread over the seeds is not
    reported as better or worse.
    """
    import msgspec

    from fairway.app.view.run_report import comparison_view, report_view
    from fairway.cli.inputs import folder_to_write
    from fairway.cli.report_table import comparison_tables
    from fairway.cli.simulate import echo_written, origin
    from fairway.sim.parallel import RunTask, run_all, run_with_waits
    from fairway.sim.policies import policy_text
    from fairway.sim.report import OutputFiles, compare
    from fairway.web import write_page

    sides = _sides(scenario, other, policies)
    loaded = sides[0].scenario
    count = seeds or (5 if any(side.scenario.is_random for side in sides) else 1)
    chosen = [loaded.file.seed + index for index in range(count)]
    target = None if folder is None else folder_to_write(folder)
    tasks = [
        RunTask(str(side.path.absolute()), side.text, side.policy_name, policy_text(side.policy), seed)
        for side in sides
        for seed in chosen
    ]
    runs = list(run_all(tasks, run_with_waits, workers=workers))
    reports, waits = [run.report for run in runs], [run.waits for run in runs]
    if other is not None:
        reports = [
            msgspec.structs.replace(report, policy=sides[index // count].path.name)
            for index, report in enumerate(reports)
        ]
    comparison = compare(reports[:count], reports[count:], (waits[:count], waits[count:]))
    if output != "table":
        print_structured(comparison, output)
    else:
        out = console()
        for part in comparison_tables(comparison_view(comparison)):
            out.print(part)
    if target is not None:
        with OutputFiles(target) as files:
            files.write("diff.json", msgspec.json.format(msgspec.json.encode(comparison), indent=1) + b"\n")
            given = [*(("--policy", name) for name in policies), ("--seeds", seeds), ("--out", folder)]
            made_by = origin("diff", [scenario, *([other] if other else [])], given, [side.policy for side in sides])
            write_page(files, "diff.html", report_view([reports[0], reports[count]], comparison, made_by))
        echo_written(files)


def _sides(scenario: str, other: str | None, policies: tuple[str, ...]) -> list[DiffSide]:
    if other is None and len(policies) != 2:
        raise click.UsageError(
            f"got {len(policies)} policies, expected two (--policy A --policy B) or a second scenario"
        )
    if other is not None and len(policies) > 1:
        raise click.UsageError(f"got two scenarios and {len(policies)} policies, expected at most one policy")
    if other is None:
        return [_side(scenario, name) for name in policies]
    return [_side(name, policies[0] if policies else None) for name in (scenario, other)]


def _side(scenario: str, given: str | None) -> DiffSide:
    """`given` is a policy; None for the scenario's own."""
    from pathlib import Path

    from fairway.cli.inputs import read_policy
    from fairway.cli.simulate import read_policy as policy_of
    from fairway.sim.scenario import load_scenario

    path = Path(scenario)
    loaded = load_scenario(path)
    policy = policy_of(loaded, None) if given is None else read_policy(None if given == "default" else given)
    return DiffSide(path, path.read_text(encoding="utf-8-sig"), loaded, given or policy.source, policy)
