"""The report for a terminal: a few tables, the most asked-for figures first."""

from __future__ import annotations

from collections.abc import Iterator, Mapping

from rich import box
from rich.console import RenderableType
from rich.table import Table

from fairway.sim.metrics import Metrics, WaitMetrics
from fairway.sim.metrics.outcomes import UserMetrics
from fairway.sim.metrics.summary import PlannedMetrics
from fairway.sim.report.fleet import FleetView
from fairway.sim.report.model import RunReport, Speed
from fairway.sim.report.plots import by_size
from fairway.sim.report.svg import clear_moment, clear_time, counted, percent

MAX_ROWS = 20


def tables(report: RunReport, speed: Speed | None = None) -> Iterator[RenderableType]:
    """Everything to be printed, in order."""
    state = " (cut short: partial)" if report.partial else ""
    yield f"{report.scenario} under {report.policy}, seed {report.seed}{state}"
    yield f"{counted(report.nodes, 'node')}, {clear_moment(report.start)} to {clear_moment(report.end)}\n"
    yield _overview(report.metrics)
    yield ""
    yield _groups("size", by_size(report))
    for name, groups in (("queue", report.metrics.by_queue), ("namespace", report.metrics.by_namespace)):
        if len(groups) > 1:
            yield ""
            yield _groups(name, groups)
    if isinstance(report.fleet, FleetView):
        yield ""
        yield _clusters(report.fleet)
        yield ""
        yield _teams(report.fleet)
    if report.passed:
        yield ""
        yield f"{counted(len(report.passed), 'assertion')} held"
    if speed is not None:
        yield ""
        yield _speed_line(speed)


def plain_table(*columns: str) -> Table:
    """Names to the left, figures to the right."""
    made = Table(box=box.SIMPLE_HEAD, show_edge=False, pad_edge=False, padding=(0, 1, 0, 0))
    for index, column in enumerate(columns):
        made.add_column(column, justify="right" if index else "left", overflow="fold")
    return made


def _overview(metrics: Metrics) -> Table:
    table = plain_table("metric", "value", "more")
    table.columns[2].justify = "left"
    wait, longest = metrics.wait, metrics.wait.longest
    left = [
        f"{count} {what}"
        for count, what in (
            (metrics.running, "running"),
            (metrics.waiting, "waiting"),
            (metrics.withdrawn, "withdrawn"),
        )
        if count
    ]
    table.add_row("jobs finished", f"{metrics.finished} of {metrics.submitted}", ", ".join(left))
    table.add_row("wait, mean", clear_time(wait.mean), f"median {clear_time(wait.p50)}")
    table.add_row("wait, 95 %", clear_time(wait.p95), f"99 %: {clear_time(wait.p99)}")
    who = "" if longest is None else f"{longest.key}, {counted(longest.tasks, 'task')}, queue {longest.queue}"
    table.add_row("wait, longest", clear_time(wait.max), who)
    if metrics.waiting:
        table.add_row("still waiting", clear_time(metrics.longest_waiting), metrics.longest_waiting_job)
    more = f"99 %: {wait.slowdown_p99:.4g}; weighted by area: {wait.slowdown_weighted:.4g}"
    table.add_row("bounded slowdown", f"{wait.slowdown_mean:.2f}", more)
    _add_users(table, metrics.users)
    _add_planned(table, metrics.planned)
    table.add_row("makespan", clear_time(metrics.makespan), "first submission to last end")
    for name, use in metrics.utilisation.items():
        table.add_row(
            f"{name} in use",
            percent(use.to_last_end),
            f"to the last start {percent(use.to_last_start)}, submission {percent(use.to_last_submit)}",
        )
    table.add_row("idle while jobs wait", percent(metrics.fragmentation), "of the most used resource")
    if metrics.jain is not None:
        table.add_row("Jain index", f"{metrics.jain:.4f}", "namespaces' service by weight")
    table.add_row("share deviation", f"{metrics.deviation_mean:.4f}", f"99 %: {metrics.deviation_p99:.4f}")
    starved = metrics.starvation
    table.add_row("below its share", clear_time(starved.namespace_longest), starved.namespace or "no namespace")
    if starved.queue:
        table.add_row("below its guarantee", clear_time(starved.queue_longest), f"queue {starved.queue}")
    _add_preemption(table, metrics)
    if metrics.preemption.failures:
        table.add_row("pods lost with nodes", f"{metrics.preemption.failures}", "")
    return table


def _add_users(table: Table, users: UserMetrics) -> None:
    """Of one user there is nothing to compare."""
    if users.users < 2:
        return
    wait, normalised = users.wait, users.normalised_wait
    who = f"± {clear_time(wait.deviation)}; longest {clear_time(wait.largest)}, {wait.user}"
    table.add_row(f"wait of {users.users} users", clear_time(wait.mean), who)
    more = f"± {normalised.deviation:.3g}; most {normalised.largest:.3g}, {normalised.user}"
    table.add_row("normalised user wait", f"{normalised.mean:.3g}", more)


def _add_planned(table: Table, planned: PlannedMetrics) -> None:
    """Only of runs in which a start was planned."""
    hard, soft = planned.kept + planned.missed, planned.soft_kept + planned.soft_missed
    if not hard + soft:
        return
    late = f", by up to {clear_time(planned.worst)} ({planned.worst_job})" if planned.missed else ""
    more = f"{planned.missed} missed{late}; {planned.soft_kept} of {soft} soft ones kept"
    table.add_row("planned starts kept", f"{planned.kept} of {hard}", more)


def _add_preemption(table: Table, metrics: Metrics) -> None:
    found = metrics.preemption
    lost = ", ".join(_lost(name, amount) for name, amount in found.lost_work.items())
    table.add_row("evictions", f"{found.evictions}", f"lost {lost}" if lost else "")
    if not found.evictions:
        return
    again = f"; {counted(found.repeat_victims, 'job')} more than once" if found.repeat_victims else ""
    table.add_row("most stops of one job", f"{found.most_stops}", f"{found.most_stopped_job}{again}".lstrip("; "))
    served = sum(metrics.service.values())
    part = f"of the cluster, {percent(found.dominant_hours * 3600 / served)} of all that ran" if served else ""
    table.add_row("dominant hours lost", f"{found.dominant_hours:.3g}", part)


def _lost(name: str, amount: float) -> str:
    """Amounts times seconds, as hours; bytes as GiB."""
    if name in ("memory", "ephemeral-storage"):
        return f"{amount / 2**30 / 3600:.3g} GiB-hours of {name}"
    return f"{amount / 3600:.3g} {name}-hours"


def _groups(name: str, groups: Mapping[str, WaitMetrics]) -> Table:
    table = plain_table(name, "jobs", "mean wait", "median", "95 %", "longest", "slowdown")
    shown = sorted(groups.items(), key=lambda item: -item[1].jobs) if name != "size" else list(groups.items())
    for group, waits in shown[:MAX_ROWS]:
        times = (clear_time(seconds) for seconds in (waits.mean, waits.p50, waits.p95, waits.max))
        table.add_row(group, f"{waits.jobs}", *times, f"{waits.slowdown_mean:.2f}")
    if len(shown) > MAX_ROWS:
        table.add_row(f"and {len(shown) - MAX_ROWS} more", *[""] * 6)
    return table


def _clusters(fleet: FleetView) -> Table:
    table = plain_table("cluster", "nodes", "finished", "waiting", "mean wait", "longest", "moved in", "out", "in use")
    for one in fleet.clusters[:MAX_ROWS]:
        use = ", ".join(f"{name} {percent(part)}" for name, part in one.utilisation.items() if part)
        times = (clear_time(seconds) for seconds in (one.mean_wait, one.longest_wait))
        counts = (f"{one.nodes}", f"{one.finished}", f"{one.waiting}")
        table.add_row(one.name, *counts, *times, f"{one.moved_in}", f"{one.moved_out}", use)
    if len(fleet.clusters) > MAX_ROWS:
        table.add_row(f"and {len(fleet.clusters) - MAX_ROWS} more", *[""] * 8)
    if fleet.unplaced:
        table.add_row("no cluster yet", "", "", f"{fleet.unplaced}", *[""] * 5)
    return table


def _teams(fleet: FleetView) -> Table:
    """How long teams waited in all is in the table of namespaces."""
    table = plain_table("team", "without a cluster", "longest", "moves", "jobs by cluster")
    table.columns[4].justify = "left"
    for team in fleet.teams[:MAX_ROWS]:
        jobs = ", ".join(f"{name} {count}" for name, count in team.clusters.items())
        table.add_row(
            team.name, clear_time(team.unplaced_mean), clear_time(team.unplaced_longest), f"{team.moves}", jobs
        )
    if len(fleet.teams) > MAX_ROWS:
        table.add_row(f"and {len(fleet.teams) - MAX_ROWS} more", *[""] * 4)
    return table


def _speed_line(speed: Speed) -> str:
    part = 100 * speed.decide_seconds / max(speed.seconds, 1e-9)
    return (
        f"{speed.seconds:.2f} s: {speed.events} events, {speed.cycles} cycles ({part:.0f} % of the time, 99 %: "
        f"{speed.cycle_p99 * 1000:.2f} ms), {speed.decisions_per_second:.0f} decisions/s, "
        f"{speed.peak_memory / 2**20:.0f} MiB"
    )
