"""What devices cost: `decide` with classes against the same pods asking for a plain resource, and adding a class.

5,000 nodes with 8 devices each, 50 overlapping classes, 10,000 pods. Nodes come in a few models, as in a data centre,
or, at worst, no two nodes are alike. Of several pairs of runs the median is printed. Run it: `python -m
benchmarks.devices`.
"""

from __future__ import annotations

import argparse
import gc
import json
import time
from collections.abc import Iterator
from dataclasses import dataclass
from datetime import UTC, datetime, timedelta
from typing import NamedTuple

import numpy as np

from benchmarks.timing import full_cycle
from fairway.api.core import Node, NodeStatus
from fairway.api.devices import ClassRequirement, ClassSelector, ResourceClass, ResourceClassSpec
from fairway.api.kinds import ApiObject
from fairway.api.meta import ObjectMeta
from fairway.api.pods import Container, Pod, PodSpec, ResourceRequirements
from fairway.api.policy import default_policy
from fairway.api.scheduling import PodGroup, PodGroupSpec
from fairway.devices.track.ledger import device_ledger
from fairway.scheduler.framework.plugin_set import Registry
from fairway.scheduler.plugins import BUILT_IN
from fairway.state.cluster import ClusterState, Upserted
from fairway.state.device_requests import CLASS_PREFIX

_START = datetime(2026, 1, 1, tzinfo=UTC)
_NOW = 1_767_312_000_000_000
_MEMORY = ("8G", "16G", "24G", "32G", "40G", "80G")
_CORES = (16, 32, 64, 128)
_PLAIN = "example.com/gpu"


@dataclass(frozen=True)
class Size:
    nodes: int = 5_000
    devices: int = 8
    classes: int = 50
    pods: int = 10_000
    gang: int = 1
    models: int | None = 20
    """Number of node models; None if all nodes differ."""
    two_classes: float = 0.0
    """Fraction of pods that also request a second class."""


class Cluster:
    """Objects of a size: the same demand, requested by class or as a plain resource."""

    def __init__(self, size: Size, seed: int = 1) -> None:
        self.size = size
        self._random = np.random.default_rng(seed)
        models = [self._devices() for _ in range(size.models or size.nodes)]
        self._nodes = [models[i % len(models)] for i in range(size.nodes)]

    def _devices(self) -> str:
        pick = self._random.integers
        return json.dumps(
            [
                {
                    "name": f"gpu-{i}",
                    "kind": "gpu",
                    "attributes": {
                        "memory": _MEMORY[int(pick(len(_MEMORY)))],
                        "cores": _CORES[int(pick(len(_CORES)))],
                        "numa": i // 4,
                    },
                }
                for i in range(self.size.devices)
            ]
        )

    def classes(self) -> Iterator[ResourceClass]:
        for i in range(self.size.classes):
            yield self.a_class(f"class-{i:02}", _MEMORY[i % len(_MEMORY)], _CORES[i // len(_MEMORY) % len(_CORES)], i)

    def a_class(self, name: str, memory: str, cores: int, salt: int) -> ResourceClass:
        """Minimum memory and (for most) minimum cores: the classes overlap."""
        wanted = [
            ClassRequirement("Kind", "In", ("gpu",)),
            ClassRequirement("memory", "GtEq", (memory,)),
            ClassRequirement("cores", "GtEq", (str(cores if salt % 3 else 1),)),
        ]
        spec = ResourceClassSpec(resource_selector=(ClassSelector(tuple(wanted)),))
        return ResourceClass(metadata=ObjectMeta(name=name), spec=spec)

    def nodes(self, *, described: bool) -> Iterator[Node]:
        for i, devices in enumerate(self._nodes):
            capacity = {"cpu": "64", "memory": "256Gi", "pods": "110"}
            if not described:
                capacity[_PLAIN] = str(self.size.devices)
            notes = {"fairway.dev/devices": devices} if described else {}
            yield Node(
                metadata=ObjectMeta(name=f"node-{i:05}", annotations=notes), status=NodeStatus(capacity=capacity)
            )

    def pods(self, *, by_class: bool) -> Iterator[ApiObject]:
        random = np.random.default_rng(7)
        for job in range(self.size.pods // self.size.gang):
            created = _START + timedelta(seconds=job)
            asked = self._asked(random, by_class=by_class)
            notes = {}
            if self.size.gang > 1:
                notes = {"scheduling.k8s.io/group-name": f"job-{job:05}"}
                yield PodGroup(
                    metadata=ObjectMeta(name=f"job-{job:05}", namespace="team", creation_timestamp=created),
                    spec=PodGroupSpec(min_member=self.size.gang, queue="default"),
                )
            for member in range(self.size.gang):
                meta = ObjectMeta(
                    name=f"pod-{job:05}-{member}", namespace="team", annotations=notes, creation_timestamp=created
                )
                resources = ResourceRequirements(requests=asked, limits=asked)
                yield Pod(metadata=meta, spec=PodSpec(containers=(Container(name="main", resources=resources),)))

    def _asked(self, random: np.random.Generator, *, by_class: bool) -> dict[str, str]:
        first = int(random.integers(self.size.classes))
        second = (first + 7) % self.size.classes
        both = random.random() < self.size.two_classes
        common = {"cpu": f"{2000 + 10 * first}m", "memory": "4Gi"}  # as many shapes of pods in both clusters
        if not by_class:
            return {**common, _PLAIN: "2" if both else "1"}
        names = [first, second] if both else [first]
        return {**common, **{f"{CLASS_PREFIX}class-{i:02}": "1" for i in names}}


def decided(state: ClusterState) -> tuple[float, int]:
    policy = default_policy(Registry(BUILT_IN).catalog)
    gc.collect()
    gc.freeze()
    begun = time.process_time()
    plan = full_cycle(state, policy, _NOW)
    spent = time.process_time() - begun
    gc.unfreeze()
    return spent, plan.placed


def loaded(cluster: Cluster, *, by_class: bool) -> ClusterState:
    state = ClusterState()
    if by_class:
        state.upsert(cluster.classes())
    state.upsert(cluster.nodes(described=by_class))
    state.upsert(cluster.pods(by_class=by_class))
    state.refresh()
    return state


class Run(NamedTuple):
    """Seconds, and the number of pods placed."""

    plain: float
    devices: float
    placed: int
    learnt: float
    added: float

    @property
    def ratio(self) -> float:
        return self.devices / self.plain


def run(cluster: Cluster) -> Run:
    """One pair: the same demand without devices and with them."""
    plain_time, _ = decided(loaded(cluster, by_class=False))
    state = loaded(cluster, by_class=True)
    begun = time.process_time()
    device_ledger(state)
    learnt = time.process_time() - begun
    device_time, placed = decided(state)
    begun = time.process_time()
    state.apply(Upserted(cluster.a_class("one-more", "24G", 32, 1)))
    device_ledger(state)
    return Run(plain_time, device_time, placed, learnt, time.process_time() - begun)


def compare(name: str, size: Size, repeat: int = 3) -> None:
    """The pair whose ratio is the median."""
    runs = sorted((run(Cluster(size)) for _ in range(repeat)), key=lambda found: found.ratio)
    found = runs[len(runs) // 2]
    print(
        f"{name:34} plain {found.plain:6.2f} s  devices {found.devices:6.2f} s ({found.placed} placed)"
        f"  ratio {found.ratio:5.2f}  first look {found.learnt:5.2f} s  one more class {found.added:5.2f} s",
        flush=True,
    )


ROWS = {
    "single": ("gangs of 1, 20 models of nodes", Size()),
    "single-unlike": ("gangs of 1, no two nodes alike", Size(models=None)),
    "gangs": ("gangs of 10, 20 models of nodes", Size(gang=10)),
    "gangs-unlike": ("gangs of 10, no two nodes alike", Size(gang=10, models=None)),
    "two": ("a quarter asks for two classes", Size(two_classes=0.25)),
    "two-unlike": ("the same, no two nodes alike", Size(models=None, two_classes=0.25)),
}


def main() -> None:
    parser = argparse.ArgumentParser(prog="python -m benchmarks.devices")
    parser.add_argument("--only", choices=ROWS, action="append", help="one row; may be given again")
    parser.add_argument("--repeat", type=int, default=3)
    given = parser.parse_args()
    for row in given.only or ROWS:
        compare(*ROWS[row], given.repeat)


if __name__ == "__main__":
    main()
