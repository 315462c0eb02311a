"""The cost of distinct requests: every pod of a backlog has a different one."""

from __future__ import annotations

import resource

import numpy as np

from benchmarks import baseline
from benchmarks.live.scene import Scene, node, pod, report
from benchmarks.policies import policy_for
from benchmarks.timing import clock, quiet
from fairway.scheduler.decide import decide

NODES, PODS = 10_000, 20_000
MEGABYTES = 256 + 64
"""The default of the setting, plus what deciding needs besides."""


def distinct_requests() -> None:
    """Processor time per pod against the baseline kernel, and how much memory the cycle takes and keeps: on nodes that
    are alike, and on nodes of which each has another size.
    """
    _measure("distinct requests", [512] * NODES, PODS)
    _measure("distinct requests, no two nodes alike", [512 + index for index in range(NODES)], PODS // 5)


def _measure(title: str, sizes: list[int], count: int) -> None:
    pods = [pod(f"pod-{index}", f"{500 + index}m", memory=f"{100 + index % 7}Mi") for index in range(count)]
    scene = Scene([*(node(index, size) for index, size in enumerate(sizes))], policy=policy_for("binpack"))
    scene.state.upsert(pods)
    requests = np.array([[500 + index, (100 + index % 7) << 20, 1] for index in range(2_000)], dtype=np.int64)
    idle = np.array([[1000 * size for size in sizes], [4 * size << 30 for size in sizes], [250] * len(sizes)])
    before = _peak()
    with quiet():
        theirs = 1 / baseline.rate(idle, requests)
        began = clock()
        plan = decide(scene.state, scene.policy, 0)
        ours = (clock() - began) / plan.placed
        theirs = (theirs + 1 / baseline.rate(idle, requests)) / 2
    assert plan.placed == count
    report(f"{title}, {ours * 1e6:.0f} us a pod against the baseline kernel", ours / theirs, 2.5)
    report(f"{title}, MB more at the peak of the cycle", _peak() - before, MEGABYTES)


def _peak() -> float:
    return resource.getrusage(resource.RUSAGE_SELF).ru_maxrss / 1024
