"""`python -m experiments [e1] [e3]`: measure the published results again and print them beside the published ones."""

from __future__ import annotations

import sys
from collections.abc import Callable

from rich.console import Console
from rich.table import Table

from experiments import e1, e3
from experiments.easy import simulate
from experiments.easy_pool import simulate_pool
from fairway.errors import InputError

console = Console(width=110)


def print_e1() -> bool:
    table = Table("E1", "measured", "published", title="EASY backfilling, by its rules (reference)")
    batsim = e1.batsim(simulate)
    table.add_row("start times met", f"{batsim.same_start} of {batsim.jobs}", f"{batsim.jobs}")
    table.add_row("host sets met", f"{batsim.same_hosts} of {batsim.jobs}", f"{batsim.jobs}")
    table.add_row("mean wait, s", f"{batsim.mean_wait:.6f}", f"{e1.PUBLISHED_MEAN_WAIT:.6f}")
    table.add_row("longest wait, s", f"{batsim.max_wait:.6f}", f"{e1.PUBLISHED_MAX_WAIT:.6f}")
    kth = e1.kth(simulate_pool)
    table.add_row(
        f"KTH bounded slowdown, {kth.jobs} jobs", f"{kth.slowdown:.2f} ({kth.off:+.2f} %)", f"{e1.KTH_PUBLISHED}"
    )
    table.add_row("KTH promises missed", f"{kth.missed} of {kth.heads}", "0")
    console.print(table)
    met = batsim.same_start == batsim.same_hosts == batsim.jobs
    return met and abs(kth.off) <= 2 and kth.missed == 0


def print_e3() -> bool:
    columns = ("workload", "policy", "100 %", "130 %", "sd", "published", "off", "tolerance", "s/run")
    table = Table(*columns, title=f"GPU allocation, {e3.SEEDS} seeds (reference)")
    good = True
    best: dict[str, tuple[float, str]] = {}
    for result in e3.results():
        first, second = e3.PUBLISHED[result.workload][result.policy]
        table.add_row(
            result.workload,
            result.policy,
            f"{result.means[0]:.2f}",
            f"{result.means[1]:.2f}",
            f"{result.deviations[0]:.2f} {result.deviations[1]:.2f}",
            f"{first:.2f} / {second:.2f}",
            f"{result.off[0]:+.2f} {result.off[1]:+.2f}",
            f"{e3.TOLERANCES[result.policy]:.2f}" + ("" if result.within else " !"),
            f"{result.seconds:.2f}",
        )
        good &= result.within
        best[result.workload] = max(best.get(result.workload, (0.0, "")), (result.means[0], result.policy))
    console.print(table)
    return good and all(policy == "FGD" for _, policy in best.values())


EXPERIMENTS: dict[str, Callable[[], bool]] = {"e1": print_e1, "e3": print_e3}


def main(names: list[str]) -> int:
    if unknown := [name for name in names if name not in EXPERIMENTS]:
        sys.stderr.write(f"{unknown[0]} is no experiment, expected some of {', '.join(EXPERIMENTS)}\n")
        return 2
    try:
        met = [EXPERIMENTS[name]() for name in names or EXPERIMENTS]
    except InputError as error:
        sys.stderr.write(f"{error}\n")
        return 2
    return 0 if all(met) else 1


if __name__ == "__main__":
    sys.exit(main(sys.argv[1:]))
