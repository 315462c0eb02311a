"""Reports of runs: as data, as a table, as a page."""

from fairway.sim.report.model import RunReport, Speed, to_json

__all__ = ["RunReport", "Speed", "to_json"]
