"""Placing over a fleet, as a ratio to the limit: a bare weighted sum and argpartition over the same scores.

    python -m benchmarks.fleet [--placements 1000] [--clusters 1000]

Two costs: deciding all placements from nothing, and deciding those that one cluster's change affects. The limit
gets the finished score matrix of each of those placements and does nothing but add up and cut.
"""

from __future__ import annotations

import argparse
import gc
import random
import time
from collections.abc import Callable

import msgspec
import numpy as np
import numpy.typing as npt

from fairway.api import fleet as api
from fairway.api.meta import LabelSelector, ObjectMeta
from fairway.fleet import FleetPlan, FleetState, place
from fairway.fleet.names import SET_LABEL
from fairway.fleet.plan import Outcome
from fairway.fleet.ranking import Ranking
from fairway.fleet.scores import balance_table

SETS, REGIONS, ENVIRONMENTS, CHOSEN = 20, 8, 3, 10
POLICIES = (
    ("ResourceRatioCPU", "ResourceRatioMemory"),
    ("ResourceAllocatableMemory",),
    ("ResourceAllocatableCPU", "ResourceRatio:nvidia.com/gpu"),
    ("ResourceAllocatable:nvidia.com/gpu", "ResourceRatioMemory", "ResourceRatioCPU"),
)


def cluster(index: int, dice: random.Random) -> api.ManagedCluster:
    cores, memory, gpus = dice.randrange(8, 512), dice.randrange(32, 4096), dice.randrange(0, 64)
    labels = {
        SET_LABEL: f"set-{index % SETS}",
        "region": f"region-{dice.randrange(REGIONS)}",
        "environment": f"environment-{dice.randrange(ENVIRONMENTS)}",
    }
    capacity = {"cpu": str(cores), "memory": f"{memory}Gi", "nvidia.com/gpu": str(gpus)}
    allocatable = {
        "cpu": f"{cores * dice.randrange(100, 1000)}m",
        "memory": f"{memory * dice.randrange(100, 1000)}Mi",
        "nvidia.com/gpu": str(dice.randrange(gpus + 1)),
    }
    return api.ManagedCluster(
        ObjectMeta(name=f"cluster-{index:05d}", labels=labels),
        status=api.ManagedClusterStatus(capacity=capacity, allocatable=allocatable),
    )


def placement(index: int, dice: random.Random) -> api.Placement:
    """Each namespace sees half of the sets; two in three placements require a region or an environment."""
    asked = [{}, {"environment": f"environment-{dice.randrange(ENVIRONMENTS)}"}]
    asked.append({"region": f"region-{dice.randrange(REGIONS)}"})
    labels = asked[index % 3]
    selector = api.ClusterSelector(LabelSelector(labels))
    configurations = tuple(
        api.PrioritizerConfig(name=name, weight=dice.randrange(1, 4)) for name in POLICIES[index % len(POLICIES)]
    )
    return api.Placement(
        ObjectMeta(name=f"placement-{index:05d}", namespace=f"namespace-{index % SETS}"),
        api.PlacementSpec(
            number_of_clusters=CHOSEN,
            predicates=(api.ClusterPredicate(selector),) if labels else (),
            prioritizer_policy=api.PrioritizerPolicy(configurations=configurations),
        ),
    )


def build(placements: int, clusters: int) -> FleetState:
    dice = random.Random(7)
    objects: list[object] = [api.ManagedClusterSet(ObjectMeta(name=f"set-{index}")) for index in range(SETS)]
    for namespace in range(SETS):
        for offset in range(SETS // 2):
            name = f"set-{(namespace + offset) % SETS}"
            metadata = ObjectMeta(name=name, namespace=f"namespace-{namespace}")
            objects.append(api.ManagedClusterSetBinding(api.ManagedClusterSetBindingSpec(name), metadata))
    objects += [cluster(index, dice) for index in range(clusters)]
    objects += [placement(index, dice) for index in range(placements)]
    return FleetState(objects)


def _over_all(ranking: Ranking, column: npt.NDArray[np.int64]) -> npt.NDArray[np.int64]:
    """Scores over the whole table: the limit has one row for every cluster, whether it passed the filters or not."""
    whole = np.zeros(ranking.pool.mask.size, np.int64)
    whole[ranking.pool.index] = column
    return whole


def limit(outcomes: tuple[Outcome, ...]) -> Callable[[], None]:
    """The bare kernel over the scores that these outcomes were decided on."""
    prepared: list[tuple[npt.NDArray[np.int64], npt.NDArray[np.int64]]] = []
    for outcome in outcomes:
        ranking = outcome.ranking
        assert ranking is not None
        steady = np.zeros(outcome.view.rank.size, np.int64)
        steady[outcome.before] = 100
        given = [balance_table(ranking.max_uses)[ranking.uses], *(part.column.values for part in ranking.parts)]
        balance, *others = (_over_all(ranking, column) for column in given)
        columns = [balance, steady, *others]
        weights = [1, 1, *(part.weight for part in ranking.parts)]
        prepared.append((np.stack(columns), np.array(weights, np.int64)))

    def run() -> None:
        for matrix, weights in prepared:
            np.argpartition(weights @ matrix, -CHOSEN)[-CHOSEN:]

    return run


def seconds(work: Callable[[], object], repeat: int = 5) -> float:
    """CPU time of the best of a few runs: the one least disturbed by others."""
    best = float("inf")
    for _ in range(repeat):
        gc.collect()
        start = time.process_time()
        work()
        best = min(best, time.process_time() - start)
    return best


def report(title: str, decided: int, ours: float, bare: float) -> None:
    ratio = f"{ours / bare:>6.2f} x the limit" if decided else ""
    print(f"{title:<32}{decided:>6} decided {ours * 1e3:>8.2f} ms {decided / ours:>8.0f}/s {ratio}")


def from_nothing(placements: int, clusters: int) -> FleetState:
    """Fresh states, so that nothing is remembered from an earlier run."""
    ours = bare = float("inf")
    for _ in range(5):
        fleet = build(placements, clusters)
        plans: list[FleetPlan] = []
        ours = min(ours, seconds(lambda: plans.append(place(fleet, 0)), 1))  # noqa: B023 - run at once
        bare = min(bare, seconds(limit(plans[0].outcomes)))
    report("from nothing", placements, ours, bare)
    objects = seconds(lambda: [outcome.slices for outcome in plans[0].outcomes], 1)
    report("the same with the objects", placements, ours + objects, bare)
    fleet.apply(plans[0])
    return fleet


def settle(fleet: FleetState) -> None:
    """Repeat until Balance is stable."""
    for _ in range(50):
        plan = place(fleet, 0)
        if not plan.outcomes:
            return
        fleet.apply(plan)
    raise AssertionError("not at rest after 50 rounds")


def one_change(fleet: FleetState, title: str, resources: tuple[str, ...], share: int) -> None:
    """One cluster reports other amounts; the placements that weigh them are decided again."""
    name = f"cluster-{len(fleet.clusters) // 2:05d}"
    ours = bare = float("inf")
    for step in range(10):
        before = fleet.clusters[name]
        amounts = dict.fromkeys(resources, f"{share + step}")
        status = msgspec.structs.replace(before.status, allocatable=before.status.allocatable | amounts)
        after = msgspec.structs.replace(before, status=status)
        plans: list[FleetPlan] = []

        def change() -> None:
            fleet.upsert(after)  # noqa: B023 - run at once
            plans.append(place(fleet, 0))  # noqa: B023

        ours = min(ours, seconds(change, 1))
        bare = min(bare, seconds(limit(plans[0].outcomes)))
        fleet.apply(plans[0])
        settle(fleet)
    report(title, len(plans[0].outcomes), ours, bare)


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawTextHelpFormatter)
    parser.add_argument("--placements", type=int, default=1000)
    parser.add_argument("--clusters", type=int, default=1000)
    given = parser.parse_args()
    print(f"{given.placements} placements x {given.clusters} clusters")
    fleet = from_nothing(given.placements, given.clusters)
    settle(fleet)
    one_change(fleet, "one cluster's memory changed", ("memory",), 10**12)
    one_change(fleet, "one cluster's GPUs changed", ("nvidia.com/gpu",), 30)
    one_change(fleet, "one cluster's pods changed", ("pods",), 100)


if __name__ == "__main__":
    main()
