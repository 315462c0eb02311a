"""What an external plugin costs: a cycle with one, against the same cycle with built-in plugins only.

    python -m benchmarks.external [NODES]

2,000 nodes and 200 pods of 200 shapes: none of them fits, for a node has either cpu or memory left; or all of them are
placed. Nothing changes between cycles. The external plugins say little on purpose: what is measured is being asked.
Those that have a say on nodes are measured with `basis`, by which they tell that their columns rest on shape and node
alone, and without.
"""

from __future__ import annotations

import sys
from typing import Any

import numpy as np

from benchmarks.timing import paired, quiet, seconds
from fairway.api.core import Node, NodeStatus
from fairway.api.kinds import ApiObject
from fairway.api.meta import ObjectMeta
from fairway.api.pods import Container, Pod, PodSpec, ResourceRequirements
from fairway.api.policy import Policy, parse_policy
from fairway.scheduler.decide import decide
from fairway.scheduler.framework.plugin_set import Registry
from fairway.scheduler.placement.node_view import Check, FloatColumn
from fairway.scheduler.plugins import BUILT_IN
from fairway.state.cluster import ClusterState

WANTED = 1.5
SHAPES = 200
_REPEAT = 15
_NAME = "external"
_PLUGINS = ("priority", "gang", "drf", "predicates", "proportion", "nodeorder")


def _init(self: object, arguments: object) -> None:
    pass


def _job_key(self: object, job: Any) -> int:
    return -int(job.priority)


def _score_static(self: object, shape: object, nodes: Any) -> FloatColumn:
    return np.zeros(nodes.size)


def _score(self: object, shape: object, nodes: Any) -> FloatColumn:
    return np.zeros(nodes.size)


def _feasible_static(self: object, shape: object, nodes: Any) -> list[Check]:
    return [Check(np.ones(nodes.size, dtype=np.bool_), "never")]


def _basis(self: object, state: object) -> tuple[()]:
    return ()


CASES: dict[str, tuple[dict[str, Any], bool]] = {
    "job_key": ({"job_key": _job_key}, True),
    "score_static, with basis": ({"score_static": _score_static, "basis": _basis}, True),
    "feasible_static, with basis": ({"feasible_static": _feasible_static, "basis": _basis}, True),
    "score, with basis": ({"score": _score, "basis": _basis}, False),
    "score_static, without basis": ({"score_static": _score_static}, False),
}
"""The hooks of an external plugin, and whether the target applies to it."""


class _Cycles:
    """The same cycle repeated, under a policy with or without an external plugin."""

    def __init__(self, nodes: int, hooks: dict[str, Any] | None, *, fits: bool) -> None:
        external = [] if hooks is None else [type("External", (), {"name": _NAME, "__init__": _init, **hooks})]
        self._registry = Registry(BUILT_IN, external)
        self._policy = _policy(self._registry, [*_PLUGINS, *[_NAME] * len(external)])
        self._state = ClusterState()
        self._state.upsert(_objects(nodes, fits=fits))
        assert self._decide() == (SHAPES if fits else 0)

    def _decide(self) -> int:
        plan = decide(self._state, self._policy, 0, registry=self._registry)
        return plan.placed

    def cycle(self) -> float:
        return seconds(self._decide)


def _policy(registry: Registry, plugins: list[str]) -> Policy:
    listed = ", ".join(f"{{name: {name}}}" for name in plugins)
    text = f"actions: allocate\ntiers: [{{plugins: [{listed}]}}]"
    return parse_policy(text, "the policy of the benchmark", registry.catalog)


def _objects(nodes: int, *, fits: bool) -> list[ApiObject]:
    found: list[ApiObject] = []
    for i in range(nodes):
        cpu, memory = ("64", "256Gi") if fits else (("64", "0") if i % 2 else ("0", "256Gi"))
        status = NodeStatus(capacity={"cpu": cpu, "memory": memory, "pods": "250"})
        found.append(Node(metadata=ObjectMeta(name=f"node-{i:05}"), status=status))
    for i in range(SHAPES):
        needs = ResourceRequirements(requests={"cpu": f"{100 + i}m", "memory": "1Gi"})
        spec = PodSpec(containers=(Container(name="main", resources=needs),))
        found.append(Pod(metadata=ObjectMeta(name=f"pod-{i:03}", namespace=f"team-{i % 10}"), spec=spec))
    return found


def main(nodes: int) -> None:
    print(f"{SHAPES} pods of as many shapes on {nodes} nodes, with an external plugin against built-in ones only")
    for fits in (False, True):
        print("  all are placed" if fits else "  none fits")
        built_in = _Cycles(nodes, None, fits=fits)
        for name, (hooks, limited) in CASES.items():
            external = _Cycles(nodes, hooks, fits=fits)
            with quiet():
                ratio, ours, theirs = paired(external.cycle, built_in.cycle, _REPEAT)
            wanted = f" (wanted: at most {WANTED})" if limited else ""
            print(f"    {name:28} {ratio:6.2f}  {ours * 1e3:7.1f} ms against {theirs * 1e3:.1f} ms{wanted}")


if __name__ == "__main__":
    main(int(sys.argv[1]) if len(sys.argv) > 1 else 2000)
