"""The cost of rules as the cluster grows: planned starts, reservations, host ports and hard spread."""

from __future__ import annotations

from collections.abc import Iterator
from typing import Any

from benchmarks.live.scene import NOW, Scene, growth, node, pod
from fairway.api.kinds import ApiObject
from fairway.api.meta import LabelSelector
from fairway.api.pods import ContainerPort, TopologySpreadConstraint
from fairway.api.policy import Policy, parse_policy
from fairway.scheduler.decide import decide_and_explain
from fairway.scheduler.plugins.installed import default_registry
from fairway.scheduler.reservations.objects import reservation_objects

STEP = 1.2
RUN_TIME = {"fairway.dev/expected-runtime": "48h"}
FULL = "64"
"""What fills a node."""


def policy_of_actions(actions: str) -> Policy:
    text = f"""
actions: [{actions}]
tiers:
- plugins: [{{name: priority}}, {{name: gang}}]
- plugins: [{{name: drf}}, {{name: predicates}}, {{name: proportion}}, {{name: binpack}}]
"""
    return parse_policy(text, "the policy of the benchmark", default_registry().catalog)


def _nodes(count: int) -> Iterator[ApiObject]:
    return (node(index, zone=f"zone-{index % 5}") for index in range(count))


def easy() -> None:
    """One new pod with easy backfilling and n running pods; one gang-sized pod has a planned start."""

    def scene(running: int) -> Scene:
        nodes = running // 2
        pods = (pod(f"run-{index}", "32", on=f"node-{index % nodes:05}", notes=RUN_TIME) for index in range(running))
        head = pod("head", FULL, notes=RUN_TIME)
        policy = policy_of_actions("enqueue, allocate, {name: backfill, arguments: {mode: easy}}")
        return Scene([*_nodes(nodes), *pods, head], pod("new", "48", notes=RUN_TIME), policy)

    growth("easy backfill, pods that run", scene, [1_250, 2_500, 5_000, 10_000, 20_000], step=STEP)


def reserved_scene(nodes: int, count: int) -> Scene:
    """One new pod with so many reservations on a full cluster."""
    pods = (pod(f"run-{index}", "60", on=f"node-{index:05}") for index in range(nodes))
    starving = (pod(f"starving-{index}", FULL, uid=f"uid-{index}") for index in range(count))
    actions = "enqueue, {name: reserve, arguments: {starvingJobTimeThreshold: 60}}, allocate, backfill"
    scene = Scene([*_nodes(nodes), *pods, *starving], policy=policy_of_actions(actions))
    reserved = reservation_objects(decide_and_explain(scene.state, scene.policy, NOW).reservations)
    assert len(reserved) == count
    scene.state.upsert(reserved.values())
    scene.state.refresh()
    assert len(scene.state.waiting.with_reservations) == count  # they stand, and are not made again in each cycle
    scene.event = pod("new")
    scene.cycle()
    return scene


def reservations() -> None:
    """One new pod with n reservations on a full cluster of 1,000 nodes."""
    growth("standing reservations", lambda count: reserved_scene(1_000, count), [25, 50, 100, 200], step=STEP)


def ports() -> None:
    """One new pod with a host port on n nodes, half of which have it taken."""
    port = (ContainerPort(container_port=80, host_port=8080),)

    def scene(nodes: int) -> Scene:
        pods = (pod(f"run-{index}", on=f"node-{index:05}", ports=port) for index in range(0, nodes, 2))
        return Scene([*_nodes(nodes), *pods], pod("new", ports=port))

    growth("host ports, nodes", scene, [1_250, 2_500, 5_000, 10_000], step=STEP)


def spread() -> None:
    """One new pod that must be spread over zones, on n nodes."""
    labels = {"app": "web"}
    rule = TopologySpreadConstraint(
        max_skew=1,
        topology_key="zone",
        when_unsatisfiable="DoNotSchedule",
        label_selector=LabelSelector(match_labels=labels),
    )

    def scene(nodes: int) -> Scene:
        rules: dict[str, Any] = {"labels": labels, "topology_spread_constraints": (rule,)}
        pods = (pod(f"run-{index}", on=f"node-{index:05}", **rules) for index in range(0, nodes, 2))
        return Scene([*_nodes(nodes), *pods], pod("new", **rules))

    growth("hard spread, nodes", scene, [1_250, 2_500, 5_000, 10_000], step=STEP)
