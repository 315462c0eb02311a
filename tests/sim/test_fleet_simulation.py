"""Runs of fleets: a placement in front of several clusters, and one engine for both."""

from __future__ import annotations

from pathlib import Path

from hypothesis import given, settings
from hypothesis import strategies as st

from fairway.api.policy import parse_policy
from fairway.scheduler.plugins.installed import default_registry
from fairway.sim.fleet_run import FleetSimulation
from fairway.sim.metrics import JobOutcome
from fairway.sim.report import FleetView, RunReport, to_json
from fairway.sim.run import RunOptions
from fairway.sim.scenario import parse_scenario
from fairway.state import invariants
from support.effort import examples

PLAIN = "actions: [enqueue, allocate, backfill]"
FREE = "spec: {prioritizerPolicy: {mode: Exact, configurations: [{name: ResourceFreeCPU, weight: 2}, {name: Steady}]}}"


class FleetRunner:
    """A fleet that is stepped through, and checked after each step."""

    def __init__(self, text: str) -> None:
        policy = parse_policy(PLAIN, "test", default_registry().catalog)
        self.done: dict[str, JobOutcome] = {}
        self.run = FleetSimulation(parse_scenario(text, Path("s.yaml")), policy, RunOptions(on_finish=self._finished))

    def _finished(self, job: JobOutcome) -> None:
        assert job.key not in self.done, "a job is done once"
        self.done[job.key] = job

    def check(self) -> None:
        """Each job is in the cluster that the hub says, and in no other; the books balance."""
        hub = self.run.hub
        for name, member in self.run.members.items():
            expected = {key for key, entry in hub.jobs.items() if entry.cluster == name}
            assert set(member.run.cluster.jobs) == expected
        self.run.hub._state.check()

    def finish(self) -> RunReport:
        self.check()
        while self.run.loop.next_time is not None and not self.run.is_stuck:
            self.run.loop.step()
            self.check()
        for member in self.run.members.values():
            invariants.check(member.run.state)
        return self.run.run().report

    def hosts(self) -> dict[str, str]:
        return {key.removeprefix("default/"): job.hosts[0] for key, job in self.done.items()}


def view(report: RunReport) -> FleetView:
    assert isinstance(report.fleet, FleetView)
    return report.fleet


def fleet(clusters: str, jobs: str, placement: str = FREE, rest: str = "") -> str:
    return (
        f"fleet:\n  report: 1s\n  clusters:\n{clusters}\n  placements:\n  - {{name: p, {placement}}}\n"
        f"workload:\n  jobs:\n{jobs}\n{rest}"
    )


TWO = "  - {name: big, nodes: '2 x {cpu: 4}'}\n  - {name: small, nodes: '1 x {cpu: 4}', labels: {tier: low}}"


def test_a_job_goes_where_most_is_free() -> None:
    runner = FleetRunner(
        fleet(TWO, "  - {name: a, request: {cpu: 4}, run: 60s}\n  - {name: b, request: {cpu: 4}, run: 9s, arrive: 5s}")
    )
    runner.finish()
    assert runner.hosts() == {"a": "big/node-0", "b": "big/node-1"}


def test_a_job_that_waits_moves_to_where_capacity_becomes_free() -> None:
    """The small cluster has more free when c comes, too little for it, and later the big one has room."""
    jobs = (
        "  - {name: a, request: {cpu: 4}, run: 20s, tasks: 2}\n"
        "  - {name: c, request: {cpu: 3}, run: 5s, tasks: 2, arrive: 2s}"
    )
    runner = FleetRunner(fleet(TWO, jobs))
    fleet_view = view(runner.finish())
    assert fleet_view.moves == 1
    assert [(one.name, one.moved_in, one.moved_out) for one in fleet_view.clusters] == [("big", 1, 0), ("small", 0, 1)]
    assert runner.done["default/c"].hosts == ("big/node-0", "big/node-1")


def test_a_job_that_has_started_stays() -> None:
    """Its placement would rather have the cluster that is free by now."""
    jobs = (
        "  - {name: a, request: {cpu: 4}, run: 10s, tasks: 2}\n"
        "  - {name: b, request: {cpu: 4}, run: 60s, arrive: 1s}\n"
        "  - {name: c, request: {cpu: 1}, run: 5s, arrive: 30s}"
    )
    runner = FleetRunner(fleet(TWO, jobs))
    report = runner.finish()
    assert view(report).moves == 0
    assert runner.hosts() == {"a": "big/node-0", "b": "small/node", "c": "big/node-0"}
    assert report.metrics.finished == 3


def test_requires_free_keeps_a_job_at_the_hub_until_there_is_enough() -> None:
    jobs = (
        "  - {name: a, request: {cpu: 3}, run: 20s, tasks: 2}\n"
        "  - {name: b, request: {cpu: 3}, run: 5s, tasks: 2, arrive: 2s}"
    )
    runner = FleetRunner(fleet(TWO, jobs, "requiresFree: true"))
    report = runner.finish()
    (team,) = view(report).teams
    assert (team.unplaced_longest, team.moves) == (18.0, 0)
    assert runner.done["default/b"].wait == 18_000_000


def test_what_is_reserved_for_one_job_is_not_promised_to_another() -> None:
    """Both come at one instant, before any report: the ledger keeps them apart."""
    clusters = "  - {name: one, nodes: '1 x {cpu: 4}'}\n  - {name: two, nodes: '1 x {cpu: 4}'}"
    jobs = "\n".join(f"  - {{name: {name}, request: {{cpu: 3}}, run: 10s}}" for name in "abc")
    runner = FleetRunner(fleet(clusters, jobs, "requiresFree: true"))
    report = runner.finish()
    assert sorted(runner.hosts().values()) == ["one/node", "one/node", "two/node"]
    assert report.metrics.wait.max == 10


def test_predicates_and_placements_by_namespace() -> None:
    placement = "spec: {predicates: [{requiredClusterSelector: {labelSelector: {matchLabels: {tier: low}}}}]}"
    jobs = (
        "  - {name: a, namespace: cheap, request: {cpu: 1}, run: 5s}\n"
        "  - {name: b, namespace: other, request: {cpu: 1}, run: 5s}"
    )
    text = fleet(TWO, jobs, f"namespaces: [cheap], {placement}")
    runner = FleetRunner(text)
    report = runner.finish()
    assert {team.name: dict(team.clusters) for team in view(report).teams} == {
        "cheap": {"small": 1},
        "other": {"big": 1},
    }


def test_a_job_that_no_cluster_can_take_is_reported() -> None:
    runner = FleetRunner(fleet(TWO, "  - {name: a, request: {cpu: 64}, run: 5s}", "requiresFree: true"))
    report = runner.finish()
    assert (view(report).unplaced, report.metrics.waiting) == (1, 1)


def test_a_node_that_fails_changes_what_is_allocatable() -> None:
    big = "  - {name: big, nodes: '2 x {cpu: 4}', failures: [{node: node-0, at: 10s, lasts: 100s}]}"
    placement = "spec: {prioritizerPolicy: {mode: Exact, configurations: [{name: ResourceRatioCPU}]}}"
    runner = FleetRunner(
        fleet(
            f"{big}\n  - {{name: small, nodes: '1 x {{cpu: 4}}'}}",
            "  - {name: a, request: {cpu: 1}, run: 5s, arrive: 1s}\n"
            "  - {name: b, request: {cpu: 1}, run: 5s, arrive: 30s}",
            placement,
        )
    )
    runner.finish()
    assert {name: host.split("/")[0] for name, host in runner.hosts().items()} == {"a": "big", "b": "small"}


JOBS = st.lists(
    st.tuples(
        st.integers(1, 3),  # tasks
        st.integers(1, 5),  # cpu of each
        st.integers(0, 20),  # arrives
        st.integers(1, 15),  # runs
        st.sampled_from(["red", "blue"]),
    ),
    min_size=1,
    max_size=8,
)
PLACEMENTS = st.sampled_from(
    [
        "spec: {}",
        FREE,
        "requiresFree: true",
        "requiresFree: true, annotations: {fairway.dev/cooldown: '5'}",
        "spec: {prioritizerPolicy: {configurations: [{name: ResourceFreeCPU, weight: 3}]}}",
    ]
)
CLUSTERS = st.lists(st.tuples(st.integers(1, 3), st.integers(2, 6), st.booleans()), min_size=1, max_size=3)


def random_fleet(clusters: list[tuple[int, int, bool]], jobs: list[tuple[int, int, int, int, str]], by: str) -> str:
    members = []
    for index, (nodes, cpu, fails) in enumerate(clusters):
        name = "node-0" if nodes > 1 else "node"
        failures = f", failures: [{{node: {name}, at: 7s, lasts: 4s}}]" if fails else ""
        members.append(f"  - {{name: c{index}, nodes: '{nodes} x {{cpu: {cpu}}}'{failures}}}")
    wanted = [
        f"  - {{name: j{index}, namespace: {team}, tasks: {tasks}, request: {{cpu: {cpu}}}, "
        f"arrive: {at}s, run: {run}s}}"
        for index, (tasks, cpu, at, run, team) in enumerate(jobs)
    ]
    return fleet("\n".join(members), "\n".join(wanted), by, "end: 200s\n")


@given(CLUSTERS, JOBS, PLACEMENTS)
@settings(max_examples=examples(12, 600), deadline=None)
def test_no_job_is_lost_or_in_two_clusters_and_the_same_run_gives_the_same_bytes(
    clusters: list[tuple[int, int, bool]], jobs: list[tuple[int, int, int, int, str]], by: str
) -> None:
    text = random_fleet(clusters, jobs, by)
    runner = FleetRunner(text)
    report = runner.finish()
    metrics, fleet_view = report.metrics, view(report)
    assert metrics.submitted == len(jobs) == metrics.finished + metrics.running + metrics.waiting
    assert sum(one.finished for one in fleet_view.clusters) == metrics.finished == len(runner.done)
    assert sum(one.waiting for one in fleet_view.clusters) + fleet_view.unplaced == metrics.waiting
    assert sum(one.moved_in for one in fleet_view.clusters) == fleet_view.moves
    for one, (nodes, cpu, _) in zip(fleet_view.clusters, clusters, strict=True):
        assert 0 <= one.utilisation["cpu"] <= 1, (nodes, cpu)
    again = FleetRunner(text)
    assert to_json(again.finish()) == to_json(report)
