"""A gang that loses a pod to a failed node, in a simulated cluster that single pods of another namespace keep full."""

from __future__ import annotations

import pytest

from sim.simulating import Run

TEXT = """
cluster: {nodes: 2 x {cpu: 1}}
workload:
  jobs:
  - {name: gang, namespace: a, tasks: 2, request: {cpu: 1}, run: 10m}
  - {name: single, namespace: b, request: {cpu: 1}, run: 30s, count: 200, every: 20s, arrive: 30s}
failures: [{node: node-1, at: 60s, lasts: %s}]
"""
"""Single pods ask for more than the cluster has left; their namespace has the smaller share when the node is back."""


@pytest.mark.parametrize("lasts", ["10s", "5m"], ids=["while capacity is kept", "later, by its turn"])
def test_it_is_repaired_as_soon_as_there_is_a_node(lasts: str) -> None:
    run = Run(TEXT % lasts)
    back = {"10s": 70, "5m": 360}[lasts]
    start, end = run.times["a/gang"]
    assert start <= back
    assert end <= back + 600
