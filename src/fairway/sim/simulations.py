"""Which kind of run a scenario is: of one cluster, or of a fleet."""

from __future__ import annotations

from collections.abc import Callable

from fairway.api.policy import Policy
from fairway.drive.loop import Listener
from fairway.sim.fleet_run import FleetSimulation
from fairway.sim.metrics import JobOutcome
from fairway.sim.run import ScenarioRun, Simulation
from fairway.sim.scenario import Scenario


def simulation_of(
    scenario: Scenario,
    policy: Policy,
    *,
    seed: int | None = None,
    strict: bool = False,
    skip_invalid: bool = False,
    on_finish: Callable[[JobOutcome], None] | None = None,
    recorder_of: Callable[[str], Listener] | None = None,
) -> ScenarioRun:
    """`recorder_of` gives a log of the cycles of each cluster, by its name; "" where there is just one."""
    if scenario.file.fleet is None:
        recorder = None if recorder_of is None else recorder_of("")
        return Simulation(
            scenario,
            policy,
            seed=seed,
            strict=strict,
            skip_invalid=skip_invalid,
            on_finish=on_finish,
            recorder=recorder,
        )
    return FleetSimulation(
        scenario,
        policy,
        seed=seed,
        strict=strict,
        skip_invalid=skip_invalid,
        on_finish=on_finish,
        recorder_of=recorder_of,
    )
