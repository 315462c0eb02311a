"""`fairway diff`: the same jobs under two policies, side by side."""

from __future__ import annotations

import click

from fairway.cli.output import console, echo, output_option, print_structured


@click.command(
    epilog="""\b
Examples:
  fairway diff day.yaml --policy now.yaml --policy candidate.yaml
  fairway diff day.yaml --policy default --policy b.yaml --seeds 10 --out out/"""
)
@click.argument("scenario", metavar="SCENARIO")
@click.option(
    "--policy",
    "policies",
    multiple=True,
    required=True,
    metavar="FILE",
    help="A policy file, or `default` for the built-in one. Give two.",
)
@click.option(
    "--seeds",
    type=click.IntRange(1, 1000),
    metavar="N",
    help="Runs of each; default 5 where the scenario is random, else 1.",
)
@click.option("--out", "folder", metavar="DIR", help="Write the comparison and the page there.")
@output_option
@click.option(
    "--workers", type=click.IntRange(1, 256), metavar="N", help="Processes to use; default one for each core."
)
def command(
    scenario: str,
    policies: tuple[str, ...],
    seeds: int | None,
    folder: str | None,
    output: str,
    workers: int | None,
) -> None:
    """Run SCENARIO under two policies and print what gains, what loses and by how much.

    Where the scenario is random, both run on the same several seeds, and a change that the spread over the
    seeds can explain is not called better or worse.
    """
    from pathlib import Path

    import msgspec

    from fairway.cli.inputs import folder_to_write, read_policy
    from fairway.cli.simulate import origin
    from fairway.sim.parallel import RunTask, run_all, run_with_waits
    from fairway.sim.policies import policy_text
    from fairway.sim.report.compare import compare
    from fairway.sim.report.comparison import comparison_html, comparison_tables
    from fairway.sim.report.files import OutputFiles
    from fairway.sim.report.page import page
    from fairway.sim.scenario import load_scenario

    if len(policies) != 2:
        raise click.UsageError(f"{len(policies)} policies are given, expected two: --policy A --policy B")
    path = Path(scenario)
    loaded = load_scenario(path)
    count = seeds or (5 if loaded.is_random else 1)
    chosen_policies = [read_policy(None if name == "default" else name) for name in policies]
    texts = [(name, policy_text(policy)) for name, policy in zip(policies, chosen_policies, strict=True)]
    text = path.read_text(encoding="utf-8-sig")
    chosen = [loaded.file.seed + index for index in range(count)]
    target = None if folder is None else folder_to_write(folder)
    tasks = [RunTask(str(path.absolute()), text, name, policy, seed) for name, policy in texts for seed in chosen]
    runs = list(run_all(tasks, run_with_waits, workers=workers))
    reports, waits = [run.report for run in runs], [run.waits for run in runs]
    comparison = compare(reports[:count], reports[count:], (waits[:count], waits[count:]))
    if output != "table":
        print_structured(comparison, output)
    else:
        out = console()
        for part in comparison_tables(comparison):
            out.print(part)
    if target is not None:
        with OutputFiles(target) as files:
            files.write("diff.json", msgspec.json.format(msgspec.json.encode(comparison), indent=1) + b"\n")
            given = [*(("--policy", name) for name in policies), ("--seeds", seeds), ("--out", folder)]
            made_by = origin("diff", scenario, given, chosen_policies)
            html = page([reports[0], reports[count]], comparison_html(comparison), made_by)
            files.write("diff.html", html.encode())
        echo(f"Written: {target / 'diff.json'}, {target / 'diff.html'}", err=True)
