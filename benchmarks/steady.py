"""A steady cycle: 100 pods arrive and are placed, with 100,000 pods running, against the same with none running.

    python -m benchmarks.steady [RUNNING]

Both clusters are in one process and take turns. A cycle is what the live scheduler does between two looks at the
cluster: the events of 100 new pods, and `decide`. Between cycles the new pods are taken away again, unmeasured.
"""

from __future__ import annotations

import sys

from benchmarks.policies import SCORES, policy_for
from benchmarks.timing import Paired, full_cycle, paired, quiet, seconds
from benchmarks.workload import Size, Workload
from fairway.api.policy import Policy
from fairway.scheduler.plan import Plan
from fairway.state.cluster import ClusterState, Deleted

WANTED = 1.2
NEW_JOBS = 10
_REPEAT = 15


class Steady:
    """A cluster with some running pods, ready for cycles."""

    def __init__(self, workload: Workload, running: int, policy: Policy) -> None:
        self._policy = policy
        self._new = list(workload.backlog(prefix="new", jobs=NEW_JOBS))
        self._state = ClusterState()
        self._state.upsert(workload.cluster())
        self._state.upsert(workload.backlog(prefix="run", jobs=running // workload.size.gang, node_of=True))
        self.cycle()

    def cycle(self) -> float:
        took = seconds(self._decide)
        for thing in self._new:
            self._state.apply(Deleted(thing))
        self._state.refresh()
        return took

    def _decide(self) -> Plan:
        self._state.upsert(self._new)
        return full_cycle(self._state, self._policy, 0)


def measure(nodes: int, running: int, score: str) -> Paired:
    """Cycles with pods running against those with none."""
    workload, policy = Workload(Size(nodes=nodes, pods=max(running, 10 * nodes))), policy_for(score)
    busy, idle = Steady(workload, running, policy), Steady(workload, 0, policy)
    with quiet():
        return paired(busy.cycle, idle.cycle, _REPEAT)


def main(running: int) -> None:
    print(f"100 new pods on 10,000 nodes, {running} running against none (wanted: at most {WANTED})")
    for score in SCORES:
        ratio, busy, idle = measure(10_000, running, score)
        print(f"  {score:8}: {ratio:.2f} ({busy * 1e3:.1f} ms against {idle * 1e3:.1f} ms)")


if __name__ == "__main__":
    main(int(sys.argv[1]) if len(sys.argv) > 1 else 100_000)
