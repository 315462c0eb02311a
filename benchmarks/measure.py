"""`python -m benchmarks.measure`: how fast the engine is, as ratios to a bare loop in the same process."""

from __future__ import annotations

import sys
from collections.abc import Callable
from typing import Any

import click

from benchmarks.engine import run
from benchmarks.workload import Size
from fairway.cli import main as command_line
from fairway.cli.output import F, console, output_option, print_structured, table
from fairway.errors import InputError

MOST = 1_000_000
"""Maximum of any size of a benchmark: more would measure the machine's memory."""


def _count(name: str, default: int, help: str) -> Callable[[F], F]:
    return click.option(name, type=click.IntRange(1, MOST), default=default, show_default=True, help=help)


@click.command(
    epilog="""\b
Examples:
  python -m benchmarks.measure
  python -m benchmarks.measure --gang 100 --score least --repeat 3
  python -m benchmarks.measure --gang 10 --min-member 1 -o json"""
)
@_count("--nodes", 10_000, "Nodes of the cluster.")
@_count("--pods", 100_000, "Pods that wait, all of which fit.")
@_count("--gang", 10, "Pods in a job.")
@click.option("--min-member", type=click.IntRange(1, MOST), help="Pods that a job needs at once.  [default: all]")
@_count("--queues", 100, "Queues.")
@_count("--namespaces", 10, "Namespaces in each queue.")
@_count("--shapes", 50, "Different pods.")
@click.option("--score", type=click.Choice(["binpack", "least"]), default="binpack", show_default=True)
@_count("--repeat", 5, "Repetitions; medians are printed.")
@output_option
def engine(score: str, repeat: int, output: str, min_member: int | None, **size: int) -> None:
    """One whole cycle on a backlog of pods, against the baseline kernel.

    The baseline kernel is a bare best-fit loop over all nodes for each pod: no plugins, no fairness, no gangs.
    The ratio says what a decision costs in units of one such loop; below 1 is faster than the loop.
    """
    result = _measured(score, repeat, {**size, "min_member": min_member or 0})
    if output == "table":
        _print_table(result)
    else:
        print_structured(result, output)


def _measured(score: str, repeat: int, size: dict[str, int]) -> dict[str, Any]:
    if size["pods"] < size["gang"]:
        raise InputError(f"--pods {size['pods']}: less than one gang, expected at least {size['gang']}")
    if size["min_member"] > size["gang"]:
        raise InputError(f"--min-member {size['min_member']}: more than --gang, expected at most {size['gang']}")
    return run(Size(**size), score, repeat)


def _print_table(result: dict[str, Any]) -> None:
    out = console()
    limits = result["limit_per_second"]
    out.print(
        f"{result['placed']} of {result['pods']} pods placed on {result['nodes']} nodes, gangs of {result['gang']} "
        f"(at least {result['min_member']} at once),\n{result['queues']} queues x {result['namespaces']} namespaces, "
        f"{result['shapes']} shapes, score {result['score']}; medians of {result['repeat']}\n"
    )
    rows = table("what", "value", numbers=["value"])
    rows.add_row("decisions per second", f"{result['decisions_per_second']:,}")
    rows.add_row("baseline kernel, before", f"{limits['before']:,}")
    rows.add_row("baseline kernel, after", f"{limits['after']:,}")
    rows.add_row("ratio to the baseline kernel", f"{result['ratio']:.2f}")
    rows.add_row("cycle", f"{result['cycle_seconds']:.3f} s")
    for name, seconds in result["phase_seconds"].items():
        rows.add_row(f"  {name}", f"{seconds:.3f} s")
    rows.add_row("peak memory of the process", f"{result['peak_memory_bytes'] / 2**20:,.0f} MiB")
    rows.add_row("a running pod in the state", f"{result['bytes_per_running_pod']} bytes")
    out.print(rows)


if __name__ == "__main__":
    sys.exit(command_line.run(engine, sys.argv[1:]))
