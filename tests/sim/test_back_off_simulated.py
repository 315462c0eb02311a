"""Two weeks in which short jobs of high priority stop long ones: back-off lets the long ones finish (7.6)."""

from __future__ import annotations

import csv
import json
from pathlib import Path
from statistics import fmean

from support.cli import invoke

SCENARIO = """
name: stopped again and again
policy: policy.yaml
end: 14d
seed: 3
cluster:
  nodes: ["2 x {cpu: 64, nvidia.com/gpu: 8}"]
workload:
  jobs:
  - {name: train, namespace: ml, tasks: 2, request: {cpu: 8, nvidia.com/gpu: 8}, run: 18h, count: 4, every: 3d}
  - {name: short, namespace: ml, request: {cpu: 8, nvidia.com/gpu: 8}, run: uniform 20m 1h, count: 84, every: 4h,
     priority: 10}
"""
POLICY = """
actions: [enqueue, allocate, preempt, backfill]
tiers:
- plugins: [{name: priority}, {name: gang}, {name: conformance}]
- plugins: [{name: drf, arguments: {priorityFirst: true}}, {name: predicates}, {name: proportion}, {name: nodeorder}]
"""


def test_long_jobs_finish_though_short_ones_stop_them_every_four_hours(tmp_path: Path) -> None:
    """Without back-off none of the four finishes, and the first is stopped 83 times."""
    (tmp_path / "stops.yaml").write_text(SCENARIO)
    (tmp_path / "policy.yaml").write_text(POLICY)
    said = invoke("simulate", str(tmp_path / "stops.yaml"), "--out", str(tmp_path / "out"))
    assert said.code == 0
    assert "most stops of one job" in said.out
    assert "dominant hours lost" in said.out
    metrics = json.loads((tmp_path / "out" / "report.json").read_text())["metrics"]["preemption"]
    assert metrics["mostStops"] <= 11  # 2 + 4 + ... + 1024 minutes, then a day: longer than a training job takes
    assert 0 < metrics["dominantHours"] < 240
    with (tmp_path / "out" / "jobs.csv").open() as lines:
        jobs = list(csv.DictReader(lines))
    assert sum(job["job"].startswith("ml/train") for job in jobs) >= 3
    waits = [float(job["start"]) - float(job["submit"]) for job in jobs if job["job"].startswith("ml/short")]
    assert len(waits) >= 80
    assert fmean(waits) < 4.2 * 3600  # the price, which docs/contention.md states
