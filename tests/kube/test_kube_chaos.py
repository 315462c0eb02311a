"""Random stories with faults and kill -9, checked on the server's own history (spec K35).

A short one runs with the others; `make kube-chaos` runs until there were 200 kills and 2,000 faults.
"""

from __future__ import annotations

import os
import sys
import time
from collections import Counter
from pathlib import Path

import pytest

from kube.chaos import ChaosStory
from kube.controlplane.plane import ControlPlane
from kube.forked import ForkServer

KILLS = int(os.environ.get("FAIRWAY_KILLS", "0"))
FAULTS = 10 * KILLS
KILLS_OF_ONE = 20
SEED = int(os.environ.get("FAIRWAY_SEED", "1000"))


@pytest.mark.parametrize("replicas", [1, 2])
def test_random_stories_with_faults_and_kills_lose_nothing_and_do_nothing_twice(
    installed: ControlPlane, tmp_path: Path, replicas: int
) -> None:
    if KILLS:
        pytest.skip("the long run is another test")
    story = ChaosStory(installed, tmp_path, replicas, replicas=replicas)
    story.play(kills=4, faults=6)


@pytest.mark.skipif(not KILLS, reason="make kube-chaos")
@pytest.mark.parametrize("replicas", [1, 2])
def test_the_long_run(installed: ControlPlane, tmp_path: Path, replicas: int) -> None:
    """Half of the kills and faults happen to a lone scheduler, half to two replicas."""
    kills, injected, jobs, number, excused, half, begin = 0, Counter[str](), 0, 0, 0, 0.0, time.monotonic()
    with ForkServer() as server:
        while kills < KILLS / 2 or injected.total() < FAULTS / 2:
            folder = tmp_path / f"story-{number}"
            folder.mkdir()
            story = ChaosStory(installed, folder, SEED + 2 * number + replicas, replicas=replicas, server=server)
            left = max(1, min(KILLS_OF_ONE, KILLS // 2 - kills))
            story.play(kills=left, faults=min(10 * KILLS_OF_ONE, FAULTS // 2 - injected.total()))
            number += 1
            kills += story.kills
            jobs += len(story.workload.jobs)
            excused += story.excused
            half = max(half, story.longest_half)
            for proxy in story.proxies:
                injected += proxy.injected
            said = f"{number} stories, {jobs} jobs, {kills} kills, {injected.total()} faults"
            spent = f"{time.monotonic() - begin:.0f} s; half-bound for {half:.1f} s at most, {excused} writes excused"
            sys.stderr.write(f"{replicas} replicas: {said} in {spent}\n")
    sys.stderr.write(f"{replicas} replicas: nothing lost, nothing double: {said}: {dict(injected)}\n")
