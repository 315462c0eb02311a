"""The dashboard in deploy/ shows metrics that the scheduler has, and all of them."""

import json
import re
from pathlib import Path

from fairway.app.live.observing import RunMetrics

DASHBOARD = Path(__file__).parents[2] / "deploy" / "grafana-scheduler.json"
_SUFFIXES = ("_bucket", "_sum", "_count", "_total", "_created")


def base(name: str) -> str:
    return next((name.removesuffix(suffix) for suffix in _SUFFIXES if name.endswith(suffix)), name)


def test_every_metric_of_the_dashboard_exists_and_every_metric_is_on_it():
    panels = json.loads(DASHBOARD.read_text())["panels"]
    expressions = [target["expr"] for panel in panels for target in panel["targets"]]
    shown = {base(name) for text in expressions for name in re.findall(r"\b(?:fairway|scheduler)_\w+", text)}
    known = {base(metric.name) for metric in RunMetrics().registry.collect()}
    assert shown == known


def test_no_two_panels_lie_on_each_other():
    seen = set()
    for panel in json.loads(DASHBOARD.read_text())["panels"]:
        place = panel["gridPos"]
        for x in range(place["x"], place["x"] + place["w"]):
            for y in range(place["y"], place["y"] + place["h"]):
                assert (x, y) not in seen, panel["title"]
                assert x < 24
                seen.add((x, y))
