"""Scenarios: what a run is made of, as a file that people write."""

from fairway.sim.scenario.model import ScenarioFile
from fairway.sim.scenario.reader import Scenario, load_scenario, parse_scenario

__all__ = ["Scenario", "ScenarioFile", "load_scenario", "parse_scenario"]
