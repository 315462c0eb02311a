"""Pods that keep off their like (required anti-affinity by host name), against the same pods without that rule.

    python -m benchmarks.antiaffinity [NODES]

As many pods as nodes, lone and in gangs of 10. The pods of an application are alike and select themselves:
applications of 100 pods, which are 50 kinds of pods, and of 10, which are 500.
"""

from __future__ import annotations

import sys
from collections.abc import Iterator

import msgspec
import numpy as np

from benchmarks.policies import SCORES, policy_for
from benchmarks.timing import Paired, full_cycle, paired, quiet, seconds
from benchmarks.workload import Size, Workload
from fairway.api.core import Node
from fairway.api.kinds import ApiObject
from fairway.api.meta import LabelSelector
from fairway.api.pods import Affinity, Pod, PodAffinity, PodAffinityTerm
from fairway.api.policy import Policy
from fairway.state.cluster import ClusterState

WANTED = 2.0
HOSTNAME = "kubernetes.io/hostname"
_REPEAT = 5


class Applications:
    """A cluster, and a backlog of applications with this many pods each."""

    def __init__(self, nodes: int, gang: int, pods_each: int) -> None:
        self._workload = Workload(Size(nodes=nodes, pods=nodes, gang=gang))
        self._pods_each = pods_each
        jobs = np.arange(self._workload.size.jobs)
        self._workload.shape_of_job = jobs * gang // pods_each % self._workload.size.shapes

    def cluster(self) -> Iterator[ApiObject]:
        for thing in self._workload.cluster():
            if isinstance(thing, Node):
                metadata = msgspec.structs.replace(thing.metadata, labels={HOSTNAME: thing.metadata.name})
                thing = msgspec.structs.replace(thing, metadata=metadata)
            yield thing

    def backlog(self, *, apart: bool) -> Iterator[ApiObject]:
        count = 0
        for thing in self._workload.backlog():
            if isinstance(thing, Pod):
                labels = {"app": f"app-{count // self._pods_each}"}
                count += 1
                metadata = msgspec.structs.replace(thing.metadata, labels=labels)
                spec = msgspec.structs.replace(thing.spec, affinity=_keep_off(labels)) if apart else thing.spec
                thing = msgspec.structs.replace(thing, metadata=metadata, spec=spec)
            yield thing


def measure(applications: Applications, score: str) -> Paired:
    """Pods with the rule against plain ones; the cluster is loaded again each time."""
    policy = policy_for(score)
    return paired(
        lambda: _cycle(applications, policy, apart=True),
        lambda: _cycle(applications, policy, apart=False),
        _REPEAT,
    )


def _cycle(applications: Applications, policy: Policy, *, apart: bool) -> float:
    state = ClusterState()
    state.upsert(applications.cluster())
    state.upsert(applications.backlog(apart=apart))
    with quiet():
        return seconds(lambda: full_cycle(state, policy, 0))


def _keep_off(labels: dict[str, str]) -> Affinity:
    term = PodAffinityTerm(
        topology_key=HOSTNAME, label_selector=LabelSelector(match_labels=labels), namespace_selector=LabelSelector()
    )
    return Affinity(pod_anti_affinity=PodAffinity(required_during_scheduling_ignored_during_execution=(term,)))


def main(nodes: int) -> None:
    print(f"{nodes} pods that keep off their like against plain ones, on {nodes} nodes (wanted: at most {WANTED})")
    for gang, pods_each in ((1, 100), (10, 100), (1, 10), (10, 10)):
        applications = Applications(nodes, gang, pods_each)
        for score in SCORES:
            ratio, apart, plain = measure(applications, score)
            title = f"{score:8} gangs of {gang:2}, applications of {pods_each:3}"
            print(f"  {title}: {ratio:.2f} ({apart:.2f} s against {plain:.2f} s)", flush=True)


if __name__ == "__main__":
    main(int(sys.argv[1]) if len(sys.argv) > 1 else 5_000)
