"""Which rules of placing stand in the way: the pods' own selectors and affinities, and taints and states of nodes."""

from __future__ import annotations

from collections.abc import Callable, Sequence
from functools import partial

from msgspec.structs import replace

from fairway.api.core import Node
from fairway.api.pods import Affinity, Pod, Taint, Toleration
from fairway.app.explain.model import SuggestedChange
from fairway.app.explain.question import Attempt, Attempts, Question
from fairway.app.explain.search import smallest_set
from fairway.scheduler.placement.matching import tolerates

MOST_TAINTS = 20
"""Kinds of taints that are tried one by one."""

ROUNDS = 12
"""Nodes that are found one by one."""

Edit = Callable[[Pod], Pod]


def attempts(question: Question) -> Attempts:
    pods, nodes = question.pods, question.situation.nodes()
    for text, edit in _loosened(pods):
        yield Attempt("rule", text, partial(_without, text=text, edit=edit))
    for taint in _untolerated(pods, nodes)[:MOST_TAINTS]:
        text = f"tolerate the taint {taint.key}={taint.value}" if taint.value else f"tolerate the taint {taint.key}"
        yield Attempt("taint", text, partial(_without, text=text, edit=partial(_tolerating, taint=taint), kind="taint"))
    closed = sorted((node for node in nodes if node.spec.unschedulable), key=lambda node: node.metadata.name)
    if closed:
        yield Attempt("node", "nodes uncordoned", partial(_nodes_back, nodes=closed, verb="uncordon"))
    away = sorted((node for node in nodes if not _is_ready(node)), key=lambda node: node.metadata.name)
    if away:
        yield Attempt("node", "nodes that are not ready back", partial(_nodes_back, nodes=away, verb="bring back"))


def _without(question: Question, text: str, edit: Edit, kind: str = "rule") -> SuggestedChange | None:
    return question.found(kind, text, 1.0) if question.works_for_pods(edit) else None


def _loosened(pods: Sequence[Pod]) -> list[tuple[str, Edit]]:
    """Each rule that some pod has, with the edit that takes it away."""
    found: list[tuple[str, Edit]] = []
    labels = sorted({pair for pod in pods for pair in pod.spec.node_selector.items()})
    for key, value in labels:
        found.append((f"drop the node selector {key}={value}", partial(_without_label, keys=(key,))))
    if len(labels) > 1:
        found.append(("drop all node selectors", partial(_without_label, keys=tuple(key for key, _ in labels))))
    affinities = [pod.spec.affinity for pod in pods if pod.spec.affinity is not None]
    if any(affinity.node_affinity is not None for affinity in affinities):
        found.append(("drop the node affinity", lambda pod: _affinity(pod, node_affinity=None)))
    if any(affinity.pod_affinity is not None for affinity in affinities):
        found.append(("drop the pod affinity", lambda pod: _affinity(pod, pod_affinity=None)))
    if any(affinity.pod_anti_affinity is not None for affinity in affinities):
        found.append(("drop the pod anti-affinity", lambda pod: _affinity(pod, pod_anti_affinity=None)))
    if any(pod.spec.topology_spread_constraints for pod in pods):
        found.append(("drop the topology spread", _without_spread))
    if any(pod.spec.host_ports for pod in pods):
        found.append(("use no host ports", _without_ports))
    if any(pod.spec.volumes for pod in pods):
        found.append(("use no volumes", lambda pod: replace(pod, spec=replace(pod.spec, volumes=()))))
    return found


def _without_label(pod: Pod, keys: tuple[str, ...]) -> Pod:
    kept = {key: value for key, value in pod.spec.node_selector.items() if key not in keys}
    return replace(pod, spec=replace(pod.spec, node_selector=kept))


def _affinity(pod: Pod, **parts: None) -> Pod:
    affinity = replace(pod.spec.affinity or Affinity(), **parts)
    return replace(pod, spec=replace(pod.spec, affinity=affinity))


def _without_spread(pod: Pod) -> Pod:
    return replace(pod, spec=replace(pod.spec, topology_spread_constraints=()))


def _without_ports(pod: Pod) -> Pod:
    containers = tuple(replace(container, ports=()) for container in pod.spec.containers)
    starting = tuple(replace(container, ports=()) for container in pod.spec.init_containers)
    return replace(pod, spec=replace(pod.spec, containers=containers, init_containers=starting))


def _untolerated(pods: Sequence[Pod], nodes: Sequence[Node]) -> list[Taint]:
    found: dict[tuple[str, str, str], Taint] = {}
    for node in nodes:
        for taint in node.spec.taints:
            repels = taint.effect != "PreferNoSchedule"
            if repels and not all(tolerates(pod.spec.tolerations, taint) for pod in pods):
                found[taint.key, taint.value, taint.effect] = taint
    return [found[key] for key in sorted(found)]


def _tolerating(pod: Pod, taint: Taint) -> Pod:
    more = Toleration(key=taint.key, operator="Equal", value=taint.value, effect=taint.effect)
    return replace(pod, spec=replace(pod.spec, tolerations=(*pod.spec.tolerations, more)))


def _is_ready(node: Node) -> bool:
    return all(condition.status == "True" for condition in node.status.conditions if condition.type == "Ready")


def _nodes_back(question: Question, nodes: list[Node], verb: str) -> SuggestedChange | None:
    def works(chosen: Sequence[Node]) -> bool:
        return question.works([_back(node) for node in chosen])

    found = smallest_set(nodes, works, ROUNDS)
    if not found:
        return None
    names = ", ".join(node.metadata.name for node in found)
    return question.found("node", f"{verb} {names}", len(found) / len(question.situation.nodes()))


def _back(node: Node) -> Node:
    conditions = tuple(condition for condition in node.status.conditions if condition.type != "Ready")
    return replace(
        node,
        spec=replace(node.spec, unschedulable=False),
        status=replace(node.status, conditions=conditions),
    )
