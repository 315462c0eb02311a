"""The same packing by the engine: the production `decide`, under a policy whose only score is the plugin in question.

All pods of a run wait, in the order in which they come, and one cycle is decided: `allocate` takes one after the other
and leaves out what fits nowhere, which is what coming one by one means where nothing ever ends. Nodes are named by
their place in the run's order, so that ties fall to the first. GPUs are devices, models are resource classes.
"""

from __future__ import annotations

import json
from collections.abc import Iterator, Sequence

from experiments.packing import MAX_PODS, Place
from experiments.packing_plugins import ANY_GPU, registry
from fairway.api.core import Node, NodeStatus
from fairway.api.devices import ClassRequirement, ClassSelector, ResourceClass, ResourceClassSpec
from fairway.api.meta import ObjectMeta
from fairway.api.pods import Container, Pod, PodSpec, ResourceRequirements
from fairway.api.policy import Policy, parse_policy
from fairway.devices.model.device import ANNOTATION
from fairway.resources.quantity import format_amount
from fairway.scheduler.decide import decide
from fairway.sim.traces import GPU, GPU_MODEL_LABEL, TraceNode
from fairway.sim.traces.csv_traces import WHOLE_GPU, OpenbPod
from fairway.state.cluster import ClusterState
from fairway.state.device_requests import CLASS_PREFIX

REGISTRY = registry()

POLICY = """\
actions: [allocate]
tiers:
- plugins: [{name: gang}, {name: predicates}, {name: devices, arguments: {strategy: [pack]}}, {name: %s}]
"""

PLUGINS = {"FGD": "fgd", "BestFit": "bestfit", "DotProd": "dotprod", "Random": "random, arguments: {seed: %d}"}

_MIB = 1 << 20


def policy_of(name: str, seed: int) -> Policy:
    plugin = PLUGINS[name]
    text = POLICY % (plugin % (seed + 1) if "%" in plugin else plugin)
    return parse_policy(text, name, REGISTRY.catalog)


def pack_by_engine(
    nodes: Sequence[TraceNode], order: Sequence[int], pods: Sequence[OpenbPod], policy: Policy
) -> list[Place | None]:
    """Where each pod goes: the node's place in the order, and the GPUs."""
    state = ClusterState()
    state.upsert(_classes(pods))
    state.upsert(_node(nodes[index], place) for place, index in enumerate(order))
    state.upsert(_pods(pods))
    plan = decide(state, policy, 0, registry=REGISTRY)
    places: list[Place | None] = [None] * len(pods)
    for binding in plan.bindings:
        gpus = tuple(int(choice.device) for choice in binding.devices)
        places[_number(binding.pod)] = (_number(binding.node), gpus)
    return places


def _number(name: str) -> int:
    return int(name.rpartition("-")[2])


def _class_of(models: Sequence[str]) -> str:
    return "-".join((ANY_GPU, *models)).lower()


def _classes(pods: Sequence[OpenbPod]) -> Iterator[ResourceClass]:
    """A class for every choice of models; one that names none takes any GPU."""
    for models in sorted({(), *(pod.gpu_models for pod in pods)}):
        wanted = [ClassRequirement("Kind", "In", (GPU,))]
        if models:
            wanted.append(ClassRequirement("model", "In", models))
        spec = ResourceClassSpec(resource_selector=(ClassSelector(tuple(wanted)),))
        yield ResourceClass(metadata=ObjectMeta(name=_class_of(models)), spec=spec)


def _node(node: TraceNode, place: int) -> Node:
    attributes = {"model": node.labels.get(GPU_MODEL_LABEL, ""), "shareable": True}
    devices = [{"name": str(index), "kind": GPU, "attributes": attributes} for index in range(node.gpus)]
    amounts = {name: format_amount(name, node.allocatable[name]) for name in ("cpu", "memory")}
    return Node(
        metadata=ObjectMeta(name=f"node-{place:05d}", annotations={ANNOTATION: json.dumps(devices)}),
        status=NodeStatus(allocatable={**amounts, "pods": str(MAX_PODS)}),
    )


def _pods(pods: Sequence[OpenbPod]) -> Iterator[Pod]:
    """Like pods share a spec: the engine then reads it once."""
    specs: dict[tuple[int, int, int, int, tuple[str, ...]], PodSpec] = {}
    for number, pod in enumerate(pods):
        kind = (pod.cpu_milli, pod.memory_mib, pod.num_gpu, pod.gpu_milli, pod.gpu_models)
        spec = specs.get(kind)
        if spec is None:
            resources = ResourceRequirements(requests=_requests(pod))
            spec = specs[kind] = PodSpec(containers=(Container(name="main", resources=resources),))
        yield Pod(metadata=ObjectMeta(name=f"pod-{number:06d}", namespace="all"), spec=spec)


def _requests(pod: OpenbPod) -> dict[str, str]:
    amounts = {"cpu": f"{pod.cpu_milli}m", "memory": f"{pod.memory_mib}Mi"}
    if not pod.num_gpu:
        return amounts
    part = f"{pod.gpu_milli}m" if pod.gpu_milli < WHOLE_GPU else str(pod.num_gpu)
    return {**amounts, CLASS_PREFIX + _class_of(pod.gpu_models): part}
