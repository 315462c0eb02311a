"""`python -m experiments [e1] [e3] [e4] [starvation] [speed]`: measure results again, beside the published ones."""

from __future__ import annotations

import sys
from collections.abc import Callable

from rich.console import Console
from rich.table import Table

from experiments import e1, e3, e4, engine, speed, starvation
from experiments.easy import simulate
from experiments.easy_pool import simulate_pool
from fairway.errors import InputError
from fairway.sim.metrics import Metrics
from fairway.sim.report.comparison import comparison_tables
from fairway.sim.report.svg import clear_time, percent
from fairway.sim.traces import GPU

console = Console(width=120)


def print_e1() -> bool:
    table = Table("E1", "engine", "reference", "published", title="EASY backfilling")
    own, rules = e1.compare(engine.batsim_run().starts, e1.published()), e1.batsim(simulate)
    rows = [
        ("start times met", *(f"{result.same_start} of {result.jobs}" for result in (own, rules)), f"{rules.jobs}"),
        ("host sets met", *(f"{result.same_hosts} of {result.jobs}" for result in (own, rules)), f"{rules.jobs}"),
        ("mean wait, s", f"{own.mean_wait:.6f}", f"{rules.mean_wait:.6f}", f"{e1.PUBLISHED_MEAN_WAIT:.6f}"),
        ("longest wait, s", f"{own.max_wait:.6f}", f"{rules.max_wait:.6f}", f"{e1.PUBLISHED_MAX_WAIT:.6f}"),
    ]
    run = engine.kth_run(e1.KTH_PROCESSORS)
    kths = (e1.kth_result(run.starts), e1.kth(simulate_pool))
    name = f"KTH slowdown, {kths[0].jobs} jobs"
    rows.append((name, *(f"{k.slowdown:.2f} ({e1.off(k.slowdown):+.2f} %)" for k in kths), f"{e1.KTH_PUBLISHED}"))
    rows.append(("KTH promises missed", *(f"{k.missed} of {k.heads}" for k in kths), "0"))
    rows.append(("KTH seconds", f"{run.result.speed.seconds:.1f}", "", ""))
    for row in rows:
        table.add_row(*row)
    console.print(table)
    met = all(result.same_start == result.same_hosts == result.jobs for result in (own, rules))
    return met and all(abs(e1.off(k.slowdown)) <= 2 and not k.missed for k in kths)


def print_e3() -> bool:
    columns = ("workload", "policy", "100 %", "130 %", "sd", "published", "off", "tolerance", "reference", "s/run")
    table = Table(*columns, title=f"GPU allocation by the engine, {e3.SEEDS} seeds")
    good = True
    best: dict[str, tuple[float, str]] = {}
    for result in e3.results():
        table.add_row(
            result.workload,
            result.policy,
            *(f"{mean:.2f}" for mean in result.means),
            " ".join(f"{deviation:.2f}" for deviation in result.deviations),
            " / ".join(f"{mean:.2f}" for mean in e3.PUBLISHED[result.workload][result.policy]),
            " ".join(f"{points:+.2f}" for points in result.off),
            f"{e3.TOLERANCES[result.policy]:.2f}" + ("" if result.within else " !"),
            "every pod alike" if result.alike else " / ".join(f"{mean:.2f}" for mean in result.reference),
            f"{result.seconds:.1f}",
        )
        good &= result.within and (result.alike or result.policy == e3.DRAWN)
        best[result.workload] = max(best.get(result.workload, (0.0, "")), (result.means[0], result.policy))
    console.print(table)
    return good and all(policy == "FGD" for _, policy in best.values())


def print_e4() -> bool:
    title = f"Tenants: three days of Philly on {e4.NODES * e4.GPUS} GPUs"
    found = list(e4.results())
    table = Table("E4", *(result.policy for result in found), title=title)
    measures: list[tuple[str, Callable[[Metrics], str]]] = [
        ("jobs finished", lambda m: f"{m.finished}"),
        ("wait, mean", lambda m: clear_time(m.wait.mean)),
        ("wait, median", lambda m: clear_time(m.wait.p50)),
        ("wait, 95 %", lambda m: clear_time(m.wait.p95)),
        ("wait, 99 %", lambda m: clear_time(m.wait.p99)),
        ("wait, longest", lambda m: f"{clear_time(m.wait.max)} ({_who(m)})"),
        ("bounded slowdown, mean", lambda m: f"{m.wait.slowdown_mean:.2f}"),
        ("bounded slowdown, 99 %", lambda m: f"{m.wait.slowdown_p99:.1f}"),
        ("GPUs in use, to the last end", lambda m: percent(m.utilisation[GPU].to_last_end)),
        ("GPUs in use, to the last submission", lambda m: percent(m.utilisation[GPU].to_last_submit)),
        ("makespan", lambda m: clear_time(m.makespan)),
        ("share deviation, mean", lambda m: f"{m.deviation_mean:.4f}"),
        ("share deviation, 99 %", lambda m: f"{m.deviation_p99:.4f}"),
        ("longest below its share", lambda m: f"{clear_time(m.starvation.namespace_longest)}"),
        ("idle while jobs wait", lambda m: percent(m.fragmentation)),
    ]
    for name, measure in measures:
        table.add_row(name, *(measure(result.metrics) for result in found))
    for tenant in sorted(found[0].metrics.by_namespace):
        waits = [result.metrics.by_namespace[tenant] for result in found]
        table.add_row(f"mean wait of {tenant}, {waits[0].jobs} jobs", *(clear_time(wait.mean) for wait in waits))
    speeds = [result.speed for result in found]
    table.add_row("decisions/s", *(f"{speed.decisions_per_second:.0f}" for speed in speeds))
    table.add_row("cycle, 99 %", *(f"{speed.cycle_p99 * 1000:.1f} ms" for speed in speeds))
    console.print(table)
    return True


def _who(metrics: Metrics) -> str:
    longest = metrics.wait.longest
    return "" if longest is None else f"{longest.tasks} GPUs, {longest.namespace}"


def print_starvation() -> bool:
    comparison, reports = starvation.compared()
    for part in comparison_tables(comparison):
        console.print(part)
    starvation.PICTURE.parent.mkdir(parents=True, exist_ok=True)
    starvation.PICTURE.write_text(starvation.picture(reports))
    return True


def print_speed() -> bool:
    columns = (
        "run",
        "seconds",
        "at most",
        "events",
        "events/s",
        "times a bare loop",
        "in decide",
        "cycle, 99 %",
        "memory",
    )
    table = Table(*columns, title="What the simulator costs")
    found = speed.costs()
    for cost in found:
        table.add_row(
            cost.name,
            f"{cost.speed.seconds:.1f}",
            f"{cost.limit:g}",
            f"{cost.speed.events}",
            f"{cost.speed.events / cost.speed.seconds:.0f}",
            f"{cost.ratio:.0f}",
            percent(cost.speed.decide_seconds / cost.speed.seconds),
            f"{cost.speed.cycle_p99 * 1000:.2f} ms",
            f"{cost.speed.peak_memory / 2**20:.0f} MiB",
        )
    console.print(table)
    return all(cost.speed.seconds <= cost.limit for cost in found)


EXPERIMENTS: dict[str, Callable[[], bool]] = {
    "e1": print_e1,
    "e3": print_e3,
    "e4": print_e4,
    "starvation": print_starvation,
    "speed": print_speed,
}


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
