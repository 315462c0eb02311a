"""Results of runs as data: reports, comparisons, and the files that they are written to.

Wording and drawing are not done here: `app/view/run_report` turns a report into the view model that the terminal and
the page show.
"""

from fairway.sim.report.charts import charts_of, usage_series
from fairway.sim.report.compare import Difference, RunComparison, compare
from fairway.sim.report.files import JobsFile, OutputFiles
from fairway.sim.report.model import Charts, FleetCluster, FleetTeam, FleetView, RunReport, Speed, to_json

__all__ = [
    "Charts",
    "Difference",
    "FleetCluster",
    "FleetTeam",
    "FleetView",
    "JobsFile",
    "OutputFiles",
    "RunComparison",
    "RunReport",
    "Speed",
    "charts_of",
    "compare",
    "to_json",
    "usage_series",
]
