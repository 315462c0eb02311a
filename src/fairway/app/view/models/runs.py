"""A finished run, or two runs side by side: the model of the report of `simulate` and `diff`.

The terminal prints it, and the page draws it from one self-contained file (`web/report_file`). Figures that are only
read are text already, so that both show the same words; figures that are drawn or compared are numbers. Every list is
bounded, because the file has to stay small enough to mail: where rows were left out, a count says how many.
"""

from __future__ import annotations

from typing import Literal

from fairway.app.view.models.common import PageStruct, TimeSeries
from fairway.app.view.models.history import TimelineNode


class RunNotice(PageStruct, frozen=True):
    """Something to know before reading the figures."""

    kind: Literal["partial", "failed", "passed", "warning"]
    """failed and passed are assertions of the scenario."""
    text: str


class Measure(PageStruct, frozen=True):
    """One figure of a run, ready to print."""

    name: str
    value: str
    detail: str
    """What puts the figure into context; may be empty."""


class RunWaits(PageStruct, frozen=True):
    """Waits of the finished jobs of a group, in seconds."""

    group: str
    jobs: int
    mean: float
    median: float
    p95: float
    p99: float
    longest: float
    slowdown: float
    """Mean bounded slowdown."""


class WaitTable(PageStruct, frozen=True):
    by: Literal["size", "queue", "namespace"]
    rows: list[RunWaits]
    """Sizes from small to large; queues and namespaces with the most jobs first."""
    more: int
    """Groups that are not listed."""


class RunCluster(PageStruct, frozen=True):
    """A cluster of a fleet over the run."""

    name: str
    nodes: int
    finished: int
    running: int
    waiting: int
    mean_wait: float
    """Seconds since the jobs were submitted to the fleet."""
    longest_wait: float
    moved_in: int
    moved_out: int
    in_use: str
    """Utilisation of each resource, over the whole run."""


class RunTeam(PageStruct, frozen=True):
    """A namespace of a fleet."""

    name: str
    unplaced_mean: float
    """Seconds until a cluster was first chosen."""
    unplaced_longest: float
    moves: int
    clusters: str
    """Finished jobs by cluster."""


class RunFleet(PageStruct, frozen=True):
    clusters: list[RunCluster]
    more_clusters: int
    teams: list[RunTeam]
    more_teams: int
    unplaced: int
    """Jobs without a cluster at the end."""
    use: list[TimeSeries]
    """Utilisation of the most used resource of each cluster."""
    more_use: int


class RunView(PageStruct, frozen=True):
    """One run. Points of series are means over the interval that ends at their time, unless noted otherwise."""

    label: str
    """`A: now.yaml` where two runs are side by side; else empty."""
    policy: str
    seed: int
    start: float
    """Seconds since 1970."""
    end: float
    notices: list[RunNotice]
    measures: list[Measure]
    waits: list[WaitTable]
    utilisation: TimeSeries
    queues: TimeSeries
    """Dominant share of each queue."""
    namespaces: list[TimeSeries]
    """Dominant share of the namespaces with the most service: allocated, and entitled by weight and demand."""
    more_namespaces: int
    waiting: TimeSeries
    """Waiting jobs; jobs with reserved nodes and those nodes, where there were any."""
    fragmentation: TimeSeries
    """Idle part of the most used resource while jobs were waiting."""
    evictions: TimeSeries
    """Pods evicted in each interval."""
    reservations: list[TimelineNode]
    """A row for each job that had nodes reserved."""
    timeline: list[TimelineNode]
    """Pods on nodes; empty where `timelineNote` says why."""
    timeline_note: str
    fleet: RunFleet | None


class ComparisonRow(PageStruct, frozen=True):
    """A measure under both policies, ready to print."""

    name: str
    first: str
    second: str
    change: str
    margin: str
    """Half the 95% confidence interval of the change; empty for a single seed."""
    verdict: Literal["better", "worse", ""]
    """Empty where the change is zero or within the margin, or where neither direction is better."""


class ComparisonTable(PageStruct, frozen=True):
    title: str
    rows: list[ComparisonRow]


class RunComparisonView(PageStruct, frozen=True):
    scenario: str
    first: str
    second: str
    seeds: int
    tables: list[ComparisonTable]
    note: str


class RunPolicy(PageStruct, frozen=True):
    name: str
    text: str


class ReportView(PageStruct, frozen=True):
    """The whole report: one run, or two with a comparison."""

    title: str
    """Name of the scenario."""
    subtitle: str
    """Size and time span."""
    command: str
    """The command that wrote the report; empty if unknown."""
    policies: list[RunPolicy]
    rules: str
    """How simultaneous events and ties are ordered."""
    notes: list[str]
    """What was left out or averaged to bound the size of the report."""
    runs: list[RunView]
    comparison: RunComparisonView | None
