"""A cycle that can place nothing: 100,000 pods that fit nowhere, against 1,000 pods of the same 50 shapes.

    python -m benchmarks.unschedulable [PODS]

What the plan says of each of them is made when somebody reads it: that is shown apart, for both.
"""

from __future__ import annotations

import sys
from collections.abc import Iterator

from benchmarks.policies import SCORES, policy_for
from benchmarks.timing import Paired, full_cycle, paired, quiet, seconds
from benchmarks.workload import QUEUE, Size, Workload
from fairway.api.meta import ObjectMeta
from fairway.api.pods import Container, Pod, PodSpec, ResourceRequirements
from fairway.api.policy import Policy
from fairway.scheduler.decide import OpenCycle
from fairway.state.cluster import ClusterState

WANTED = 1.5
_FEW = 1_000
_SHAPES = 50
_REPEAT = 15


def waiting(workload: Workload, pods: int) -> ClusterState:
    """The cluster with pods that request more than any node has."""
    state = ClusterState()
    state.upsert(workload.cluster())
    state.upsert(_too_large(pods))
    return state


def measure(nodes: int, pods: int, score: str) -> tuple[Paired, Paired]:
    """(deciding, reading) with many pods against a thousand."""
    workload, policy = Workload(Size(nodes=nodes)), policy_for(score)
    many, few = waiting(workload, pods), waiting(workload, _FEW)
    with quiet():
        deciding = paired(lambda: _cycle(many, policy), lambda: _cycle(few, policy), _REPEAT)
        reading = paired(lambda: _reading(many, policy), lambda: _reading(few, policy), 3)
    return deciding, reading


def _cycle(state: ClusterState, policy: Policy) -> float:
    return seconds(lambda: full_cycle(state, policy, 0))


def _reading(state: ClusterState, policy: Policy) -> float:
    with OpenCycle(state, policy, 0) as cycle:
        return seconds(cycle.explain)


def _too_large(pods: int) -> Iterator[Pod]:
    for index in range(pods):
        requests = {"cpu": str(1000 + index % _SHAPES)}
        yield Pod(
            metadata=ObjectMeta(
                name=f"large-{index}",
                namespace=f"team-{index % 1000}",
                annotations={QUEUE: f"queue-{index % 100:03}"},
            ),
            spec=PodSpec(containers=(Container(name="main", resources=ResourceRequirements(requests=requests)),)),
        )


def main(pods: int) -> None:
    print(f"{pods} pods that fit nowhere against {_FEW}, on 10,000 nodes (wanted: at most {WANTED})")
    for score in SCORES:
        deciding, reading = measure(10_000, pods, score)
        print(
            f"  {score:8}: {deciding.ratio:.2f} ({deciding.ours * 1e3:.1f} ms against {deciding.theirs * 1e3:.1f} ms);"
            f" reading all reasons {reading.ours:.2f} s against {reading.theirs:.3f} s"
        )


if __name__ == "__main__":
    main(int(sys.argv[1]) if len(sys.argv) > 1 else 100_000)
