"""Pods that keep off their like (required anti-affinity by host name), against the same pods without that rule.

    python -m benchmarks.antiaffinity [NODES]

As many pods as nodes, in applications of 100 pods each that select themselves: lone pods, and gangs of 10.
"""

from __future__ import annotations

import sys
from collections.abc import Iterator

import msgspec

from benchmarks.policies import SCORES, policy_for
from benchmarks.timing import Paired, paired, quiet, seconds
from benchmarks.workload import Size, Workload
from fairway.api.affinity import Affinity, PodAffinity, PodAffinityTerm
from fairway.api.kinds import ApiObject
from fairway.api.meta import LabelSelector
from fairway.api.nodes import Node
from fairway.api.pods import Pod
from fairway.api.policy import Policy
from fairway.scheduler.decide import decide
from fairway.state.cluster import ClusterState

WANTED = 2.0
HOSTNAME = "kubernetes.io/hostname"
_APPLICATION = 100
_REPEAT = 3


def measure(nodes: int, gang: int, score: str) -> Paired:
    """Pods with the rule against plain ones; the cluster is loaded anew each time."""
    workload, policy = Workload(Size(nodes=nodes, pods=nodes, gang=gang)), policy_for(score)
    return paired(lambda: _cycle(workload, policy, apart=True), lambda: _cycle(workload, policy, apart=False), _REPEAT)


def _cycle(workload: Workload, policy: Policy, *, apart: bool) -> float:
    state = ClusterState()
    state.upsert(_named(workload.cluster()))
    state.upsert(_labelled(workload, apart=apart))
    with quiet():
        return seconds(lambda: decide(state, policy, 0))


def _named(cluster: Iterator[ApiObject]) -> Iterator[ApiObject]:
    for thing in cluster:
        if isinstance(thing, Node):
            metadata = msgspec.structs.replace(thing.metadata, labels={HOSTNAME: thing.metadata.name})
            thing = msgspec.structs.replace(thing, metadata=metadata)
        yield thing


def _labelled(workload: Workload, *, apart: bool) -> Iterator[ApiObject]:
    """The backlog; every so many pods are one application."""
    count = 0
    for thing in workload.backlog():
        if isinstance(thing, Pod):
            labels = {"app": f"app-{count // _APPLICATION}"}
            count += 1
            metadata = msgspec.structs.replace(thing.metadata, labels=labels)
            spec = msgspec.structs.replace(thing.spec, affinity=_keep_off(labels)) if apart else thing.spec
            thing = msgspec.structs.replace(thing, metadata=metadata, spec=spec)
        yield thing


def _keep_off(labels: dict[str, str]) -> Affinity:
    term = PodAffinityTerm(
        topology_key=HOSTNAME, label_selector=LabelSelector(match_labels=labels), namespace_selector=LabelSelector()
    )
    return Affinity(pod_anti_affinity=PodAffinity(required_during_scheduling_ignored_during_execution=(term,)))


def main(nodes: int) -> None:
    print(f"{nodes} pods that keep off their like against plain ones, on {nodes} nodes (wanted: at most {WANTED})")
    for gang in (1, 10):
        for score in SCORES:
            ratio, apart, plain = measure(nodes, gang, score)
            print(f"  {score:8} gangs of {gang:2}: {ratio:.2f} ({apart:.2f} s against {plain:.2f} s)")


if __name__ == "__main__":
    main(int(sys.argv[1]) if len(sys.argv) > 1 else 5_000)
