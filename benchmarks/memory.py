"""What a running pod costs in the state.

    python -m benchmarks.memory [PODS]

Counted by tracemalloc around applying running pods to a cluster that has its nodes, queues and waiting jobs already:
every byte that is still held when the pods' own objects are gone, over the number of pods. The pods have no labels;
a pod's labels are kept as they came. With groups, their part of a group counts too.
"""

from __future__ import annotations

import gc
import sys
import tracemalloc
from dataclasses import replace

from benchmarks.workload import Size, Workload
from fairway.state.cluster import ClusterState

WANTED = 700


def bytes_per_running_pod(size: Size, pods: int) -> int:
    """At the given size of gangs, on as many nodes as the pods need."""
    pods = min(size.pods, pods) // size.gang * size.gang
    workload = Workload(replace(size, pods=pods, nodes=max(1, pods // 10)))
    state = ClusterState()
    state.upsert(workload.cluster())
    state.upsert(workload.backlog(jobs=min(1000, pods // size.gang)))
    state.refresh()
    gc.collect()
    tracemalloc.start()
    try:
        before = tracemalloc.get_traced_memory()[0]
        state.upsert(workload.backlog(prefix="running", node_of=True))
        state.refresh()
        gc.collect()
        return (tracemalloc.get_traced_memory()[0] - before) // max(pods, 1)
    finally:
        tracemalloc.stop()


def main(pods: int) -> None:
    print(f"bytes a running pod in the state, {pods} pods (wanted: at most {WANTED})")
    for gang in (1, 10, 100):
        print(f"  gangs of {gang:3}: {bytes_per_running_pod(Size(pods=pods, gang=gang), pods)}")


if __name__ == "__main__":
    main(int(sys.argv[1]) if len(sys.argv) > 1 else 100_000)
