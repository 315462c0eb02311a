"""Which kind of run a scenario is: of one cluster, or of a fleet."""

from __future__ import annotations

from fairway.api.policy import Policy
from fairway.sim.fleet_run import FleetSimulation
from fairway.sim.run import RunOptions, ScenarioRun, Simulation
from fairway.sim.scenario import Scenario


def simulation_of(scenario: Scenario, policy: Policy, options: RunOptions) -> ScenarioRun:
    kind = Simulation if scenario.file.fleet is None else FleetSimulation
    return kind(scenario, policy, options)
