"""`python -m experiments [e1] [e3] [e4] [starvation]`: reproduce published results.

Each experiment prints its measurements, then its expectations and whether they are met. The exit status is 1 if an
expectation is not met, and 2 if the data are missing.
"""

from __future__ import annotations

import argparse
import sys
from collections.abc import Callable, Collection, Sequence
from dataclasses import dataclass

from rich.console import Console
from rich.table import Table
from tests.oracles.conservative import simulate_conservative, simulate_conservative_pool
from tests.oracles.easy import simulate
from tests.oracles.easy_pool import simulate_pool

from experiments import e1, e3, e4, engine, starvation
from experiments.expectation import Expectation, at_most, exactly, expectations_table
from fairway.app.view.run_report import comparison_view, duration_text, percent_text
from fairway.cli.report_table import comparison_tables
from fairway.errors import InputError
from fairway.sim.metrics import Metrics
from fairway.sim.traces import GPU

console = Console(width=120)
MAX_SEEDS = 1000


def print_e1(_: Options) -> list[Expectation]:
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
    rows.append(("KTH planned starts missed", *(f"{k.missed} of {k.heads}" for k in kths), "0"))
    pinned = e1.kth(simulate)
    rows.append(("KTH slowdown, hosts told apart", "", f"{pinned.slowdown:.2f}", ""))
    textbook = {s.job.number: (s.at, s.hosts) for s in e1.batsim_starts(simulate_conservative)}
    conservative = e1.compare(engine.batsim_run(engine.CONSERVATIVE).starts, textbook)
    rows.append(("conservative: start times met", f"{conservative.same_start} of {conservative.jobs}", "", ""))
    rows.append(("conservative: host sets met", f"{conservative.same_hosts} of {conservative.jobs}", "", ""))
    every = e1.kth_conservative(simulate_conservative_pool)
    name = f"conservative on the first {e1.KTH_FIRST} jobs of KTH: start times met"
    rows.append((name, f"{every.same_start} of {every.jobs}", "", ""))
    history = e1.kth_result(engine.kth_run(e1.KTH_PROCESSORS, engine.USER_HISTORY_SHORTEST).starts)
    own_in_order = e1.kth_result(engine.kth_run(e1.KTH_PROCESSORS, engine.USER_HISTORY).starts)
    low, high = e1.KTH_PREDICTORS
    rules_history = e1.kth_predicted(shortest=True)
    name = "KTH slowdown, user-history, shortest first"
    rows.append((name, f"{history.slowdown:.2f}", f"{rules_history.slowdown:.2f}", f"{low} to {high}"))
    name, in_order = "KTH slowdown, user-history, in order", e1.kth_predicted(shortest=False)
    rows.append((name, f"{own_in_order.slowdown:.2f}", f"{in_order.slowdown:.2f}", f"{low} to {high}"))
    for row in rows:
        table.add_row(*row)
    console.print(table)
    expected = [
        exactly("Batsim start times met, conservative", conservative.same_start, e1.BATSIM_JOBS),
        exactly("Batsim host sets met, conservative", conservative.same_hosts, e1.BATSIM_JOBS),
        exactly("KTH start times met, conservative", every.same_start, e1.KTH_FIRST),
        at_most("KTH slowdown, user-history, engine", own_in_order.slowdown, high),
        at_most("KTH slowdown, user-history, shortest first, engine", history.slowdown, high),
        at_most("KTH slowdown, user-history, reference", rules_history.slowdown, high),
    ]
    for who, result, kth in (("engine", own, kths[0]), ("reference", rules, kths[1])):
        expected += [
            exactly(f"Batsim start times met, {who}", result.same_start, e1.BATSIM_JOBS),
            exactly(f"Batsim host sets met, {who}", result.same_hosts, e1.BATSIM_JOBS),
            at_most(f"KTH slowdown off the published one, {who}", abs(e1.off(kth.slowdown)), 2, " %"),
            exactly(f"KTH planned starts missed, {who}", kth.missed, 0),
        ]
    return expected + print_planned_starts()


def print_planned_starts(first: int = e1.KTH_FIRST) -> list[Expectation]:
    table = Table("policy", "kept", "missed", "soft, kept", "soft, missed", title=f"Planned starts, KTH, {first} jobs")
    expected = []
    for name, (text, namespaces) in engine.ORDERS.items():
        found = engine.kth_run(e1.KTH_PROCESSORS, text, first, namespaces).result.report.metrics.planned
        table.add_row(name, *(f"{n}" for n in (found.kept, found.missed, found.soft_kept, found.soft_missed)))
        expected.append(exactly(f"hard planned starts missed, {name}", found.missed, 0))
    console.print(table)
    return expected


def print_e3(options: Options) -> list[Expectation]:
    columns = ("workload", "policy", "100 %", "130 %", "sd", "published", "off", "tolerance", "reference", "s/run")
    table = Table(*columns, title=f"GPU allocation by the engine, {options.seeds} seed(s)")
    expected: list[Expectation] = []
    best: dict[str, tuple[float, str]] = {}
    for result in e3.results(options.seeds, options.workloads):
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
        off = max(abs(points) for points in result.off)
        expected.append(at_most(f"{result.workload} {result.policy}: points off", off, e3.TOLERANCES[result.policy]))
        if result.policy != e3.DRAWN:
            name = f"{result.workload} {result.policy}: pods placed as by the reference"
            expected.append(exactly(name, sum(run.alike for run in result.runs), sum(run.pods for run in result.runs)))
        best[result.workload] = max(best.get(result.workload, (0.0, "")), (result.means[0], result.policy))
    console.print(table)
    return expected + [
        Expectation(f"{workload}: best policy", "FGD", policy, policy == "FGD")
        for workload, (_, policy) in best.items()
    ]


def print_e4(_: Options) -> list[Expectation]:
    title = f"Tenants: three days of Philly on {e4.NODES * e4.GPUS} GPUs"
    found = list(e4.results())
    table = Table("E4", *(result.policy for result in found), title=title)
    measures: list[tuple[str, Callable[[Metrics], str]]] = [
        ("jobs finished", lambda m: f"{m.finished}"),
        ("wait, mean", lambda m: duration_text(m.wait.mean)),
        ("wait, median", lambda m: duration_text(m.wait.p50)),
        ("wait, 95 %", lambda m: duration_text(m.wait.p95)),
        ("wait, 99 %", lambda m: duration_text(m.wait.p99)),
        ("wait, longest", lambda m: f"{duration_text(m.wait.max)} ({_who(m)})"),
        ("bounded slowdown, mean", lambda m: f"{m.wait.slowdown_mean:.2f}"),
        ("bounded slowdown, 99 %", lambda m: f"{m.wait.slowdown_p99:.1f}"),
        ("GPUs in use, to the last end", lambda m: percent_text(m.utilisation[GPU].to_last_end)),
        ("GPUs in use, to the last submission", lambda m: percent_text(m.utilisation[GPU].to_last_submit)),
        ("makespan", lambda m: duration_text(m.makespan)),
        ("share deviation, mean", lambda m: f"{m.deviation_mean:.4f}"),
        ("share deviation, 99 %", lambda m: f"{m.deviation_p99:.4f}"),
        ("longest below its share", lambda m: f"{duration_text(m.starvation.namespace_longest)}"),
        ("idle while jobs wait", lambda m: percent_text(m.fragmentation)),
    ]
    for name, measure in measures:
        table.add_row(name, *(measure(result.metrics) for result in found))
    for tenant in sorted(found[0].metrics.by_namespace):
        waits = [result.metrics.by_namespace[tenant] for result in found]
        table.add_row(f"mean wait of {tenant}, {waits[0].jobs} jobs", *(duration_text(wait.mean) for wait in waits))
    table.add_row("GPUs requested on average", *(f"{result.requested:.0f}" for result in found))
    console.print(table)
    first, fair = (result.metrics for result in found)
    below = [metrics.starvation.namespace_longest / 3600 for metrics in (fair, first)]
    return [
        *(exactly(f"jobs finished, {result.policy}", result.metrics.finished, e4.JOBS) for result in found),
        at_most("mean slowdown, fair share", fair.wait.slowdown_mean, first.wait.slowdown_mean / 3),
        at_most("median wait, fair share", fair.wait.p50 / 3600, first.wait.p50 / 3600 / 3, " h"),
        at_most("share deviation, 99 %, fair share", fair.deviation_p99, first.deviation_p99),
        at_most("longest below its share, fair share", below[0], below[1], " h"),
        at_most("GPUs in use to the last submission, points lost", _lost_use(first, fair), 1),
    ]


def _lost_use(first: Metrics, fair: Metrics) -> float:
    return 100 * (first.utilisation[GPU].to_last_submit - fair.utilisation[GPU].to_last_submit)


def _who(metrics: Metrics) -> str:
    longest = metrics.wait.longest
    return "" if longest is None else f"{longest.tasks} GPUs, {longest.namespace}"


def print_starvation(_: Options) -> list[Expectation]:
    comparison, reports = starvation.compared()
    for part in comparison_tables(comparison_view(comparison)):
        console.print(part)
    starvation.PICTURE.parent.mkdir(parents=True, exist_ok=True)
    starvation.PICTURE.write_text(starvation.picture(reports))
    waits = {row.name: row for row in comparison.queues}
    gang, small = waits["gangs"], waits["stream"]
    in_order, shortest = starvation.known_run_times()
    table = Table("Mean wait of the small jobs", "increase, min", title="With all run times known, as one pool")
    table.add_row("in the order of submission", f"{in_order:.1f}")
    table.add_row("the shortest first", f"{shortest:.1f}")
    console.print(table)
    missed = f"the {starvation.WISHED_MINUTES} minutes asked for are missed with all run times known, too"
    return [
        at_most("wait of the gang with reserve", gang.second / 60, starvation.GANG_MINUTES, " min"),
        at_most("wait of the gang with reserve, against without", gang.second / gang.first, 0.5, " times"),
        at_most("mean wait of the small jobs, increase", small.change / 60, starvation.SMALL_MINUTES, " min"),
        Expectation(missed, "yes", f"{shortest:.1f} min", shortest > starvation.WISHED_MINUTES),
    ]


@dataclass(frozen=True, slots=True)
class Options:
    """Of the command line."""

    seeds: int = e3.SEEDS
    workloads: Sequence[str] = e3.WORKLOADS


EXPERIMENTS: dict[str, Callable[[Options], list[Expectation]]] = {
    "e1": print_e1,
    "e3": print_e3,
    "e4": print_e4,
    "starvation": print_starvation,
}


def main(arguments: list[str]) -> int:
    parser = argparse.ArgumentParser(prog="python -m experiments", description="Measure published results again.")
    parser.add_argument("names", nargs="*", metavar="NAME", help=f"of {', '.join(EXPERIMENTS)}; default all")
    parser.add_argument("--seeds", type=int, default=e3.SEEDS, help="of each run of e3 (default %(default)s)")
    parser.add_argument("--workloads", default=",".join(e3.WORKLOADS), help="of e3, with commas (default %(default)s)")
    given = parser.parse_args(arguments)
    workloads = given.workloads.split(",")
    _known(parser, "experiment", given.names, EXPERIMENTS)
    _known(parser, "workload", workloads, e3.WORKLOADS)
    if not 1 <= given.seeds <= MAX_SEEDS:
        parser.error(f"--seeds {given.seeds}, expected 1 to {MAX_SEEDS}")
    try:
        return run(given.names or list(EXPERIMENTS), Options(given.seeds, workloads))
    except InputError as error:
        sys.stderr.write(f"{error}\n")
        return 2


def _known(parser: argparse.ArgumentParser, what: str, names: Sequence[str], known: Collection[str]) -> None:
    for name in names:
        if name not in known:
            parser.error(f"there is no {what} {name!r}, expected some of {', '.join(known)}")


def run(names: Sequence[str], options: Options) -> int:
    """The exit status: 1 if an expectation is not met. All experiments run in any case."""
    met = True
    for name in names:
        found = EXPERIMENTS[name](options)
        console.print(expectations_table(name, found))
        met &= all(entry.met for entry in found)
    return 0 if met else 1


if __name__ == "__main__":
    sys.exit(main(sys.argv[1:]))
