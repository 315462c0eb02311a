"""Where a task of the reference may go, and which node is best: one node at a time."""

from __future__ import annotations

from collections.abc import Iterator, Mapping

from fairway.api.arguments import BinPackArguments, NodeOrderArguments
from fairway.api.core import Node
from fairway.api.meta import LabelSelector
from fairway.api.pods import PodAffinity, PodAffinityTerm, TopologySpreadConstraint
from fairway.api.policy import Policy
from fairway.resources.algebra import Resource
from oracles.cluster import Amounts, Cluster, Task, add_up
from oracles.matching import selects, term_holds, tolerated

CORDON = "node.kubernetes.io/unschedulable"


class Places:
    """Asks every node about every task."""

    def __init__(self, cluster: Cluster, policy: Policy) -> None:
        self._cluster = cluster
        self._policy = policy
        self._sizes = {name: Resource.parse(node.allocatable).amounts for name, node in cluster.nodes.items()}

    def best(self, task: Task) -> str | None:
        return next(iter(self.in_order(task)), None)

    def in_order(self, task: Task) -> list[str]:
        """The nodes that take it, the best first."""
        fitting = [name for name in self._cluster.nodes if self.fits(task, self._cluster.nodes[name])]
        return sorted(fitting, key=lambda name: (-self.score(task, name), name))

    # -- may it go there? -------------------------------------------------------------------------------------

    def fits(self, task: Task, node: Node) -> bool:
        free = self.free(node)
        if any(free.get(name, 0) < amount for name, amount in task.request.items() if amount):
            return False
        if self._policy.plugin("predicates") is None:
            return True
        return (
            self._node_takes(task, node)
            and self._ports_are_free(task, node)
            and self._pod_rules_hold(task, node)
            and all(self._spread_holds(task, node, c) for c in task.pod.spec.topology_spread_constraints)
        )

    def fits_when_empty(self, task: Task, node: Node) -> bool:
        """Whether the node takes such a task when it is empty, whatever pods are there now."""
        whole = self.allocatable(node)
        enough = all(whole.get(name, 0) >= amount for name, amount in task.request.items() if amount)
        return enough and (self._policy.plugin("predicates") is None or self._node_takes(task, node))

    def rules_hold(self, task: Task, node: Node) -> bool:
        """Everything but room."""
        return self._policy.plugin("predicates") is None or (
            self._node_takes(task, node)
            and self._ports_are_free(task, node)
            and self._pod_rules_hold(task, node)
            and all(self._spread_holds(task, node, c) for c in task.pod.spec.topology_spread_constraints)
        )

    def blocks(self, other: Task, task: Task, node: Node) -> bool:
        """Whether a port of another pod, or a rule of either, keeps the task off the node."""
        here = other.node == node.metadata.name
        ports = [(mine, theirs) for mine in task.pod.spec.host_ports for theirs in other.pod.spec.host_ports]
        if here and any(_clash(mine, theirs) for mine, theirs in ports):
            return True
        mine, theirs = task.pod.spec.affinity, other.pod.spec.affinity
        repelled = _required(mine.pod_anti_affinity if mine else None)
        repels = _required(theirs.pod_anti_affinity if theirs else None)
        keys = [term.topology_key for term in repelled if self._means(task, term, other)]
        keys += [term.topology_key for term in repels if self._means(other, term, task)]
        for spread in task.pod.spec.topology_spread_constraints:
            if spread.when_unsatisfiable == "DoNotSchedule" and self._selected(task, spread.label_selector, [other]):
                keys.append(spread.topology_key)
        return any(other in self._in_domain(node, key) for key in keys)

    def free(self, node: Node) -> Amounts:
        free = self.allocatable(node)
        for name, amount in add_up(task.request for task in self._on(node)).items():
            free[name] = free.get(name, 0) - amount
        return free

    def allocatable(self, node: Node) -> Amounts:
        return {"pods": 1 << 40, **self._sizes[node.metadata.name]}

    def is_ready(self, node: Node) -> bool:
        return all(condition.status == "True" for condition in node.status.conditions if condition.type == "Ready")

    def _on(self, node: Node) -> list[Task]:
        return [task for task in self._cluster.tasks() if task.node == node.metadata.name]

    def _node_takes(self, task: Task, node: Node) -> bool:
        spec, labels = task.pod.spec, node.metadata.labels
        if not self.is_ready(node):
            return False
        if node.spec.unschedulable and not any(
            t.operator == "Exists" and t.key in ("", CORDON) and t.effect in ("", "NoSchedule")
            for t in spec.tolerations
        ):
            return False
        if any(labels.get(key) != value for key, value in spec.node_selector.items()):
            return False
        if not self._affinity_holds(task, node):
            return False
        return all(t.effect == "PreferNoSchedule" or tolerated(t, spec.tolerations) for t in node.spec.taints)

    def _affinity_holds(self, task: Task, node: Node) -> bool:
        affinity = task.pod.spec.affinity and task.pod.spec.affinity.node_affinity
        required = affinity.required_during_scheduling_ignored_during_execution if affinity else None
        return required is None or any(term_holds(term, node) for term in required.node_selector_terms)

    def _ports_are_free(self, task: Task, node: Node) -> bool:
        taken = [port for other in self._on(node) for port in other.pod.spec.host_ports]
        return not any(_clash(mine, theirs) for mine in task.pod.spec.host_ports for theirs in taken)

    def _pod_rules_hold(self, task: Task, node: Node) -> bool:
        affinity = task.pod.spec.affinity
        for term in _required(affinity.pod_anti_affinity if affinity else None):
            if any(self._means(task, term, other) for other in self._in_domain(node, term.topology_key)):
                return False
        for other in self._cluster.tasks():
            theirs = other.pod.spec.affinity
            for term in _required(theirs.pod_anti_affinity if theirs else None):
                if other in self._in_domain(node, term.topology_key) and self._means(other, term, task):
                    return False
        return self._is_near(task, node, list(_required(affinity.pod_affinity if affinity else None)))

    def _is_near(self, task: Task, node: Node, terms: list[PodAffinityTerm]) -> bool:
        """Every affinity finds, in its domain, a pod that all mean; the first of a group that wants its own kind
        may go anywhere.
        """
        if any(term.topology_key not in node.metadata.labels for term in terms):
            return False

        def is_meant(other: Task) -> bool:
            return all(self._means(task, term, other) for term in terms)

        everywhere = self._cluster.nodes.values()
        exists = any(
            is_meant(other)
            for term in terms
            for somewhere in everywhere
            for other in self._in_domain(somewhere, term.topology_key)
        )
        if is_meant(task) and not exists:
            return True
        return all(any(map(is_meant, self._in_domain(node, term.topology_key))) for term in terms)

    def _in_domain(self, node: Node, key: str) -> list[Task]:
        value = node.metadata.labels.get(key)
        if value is None:
            return []
        return [
            task
            for other in self._cluster.nodes.values()
            if other.metadata.labels.get(key) == value
            for task in self._on(other)
        ]

    def _means(self, owner: Task, term: PodAffinityTerm, other: Task) -> bool:
        """Whether a term of the owner selects the other."""
        namespace, home = other.pod.metadata.namespace, owner.pod.metadata.namespace
        named = set(term.namespaces)
        if not named and term.namespace_selector is None:
            named = {home}
        labels = {"kubernetes.io/metadata.name": namespace, **self._cluster.labels.get(namespace, {})}
        if namespace not in named and not selects(term.namespace_selector, labels):
            return False
        return selects(term.label_selector, other.pod.metadata.labels)

    def _spread_holds(self, task: Task, node: Node, constraint: TopologySpreadConstraint) -> bool:
        if constraint.when_unsatisfiable != "DoNotSchedule":
            return True
        key = constraint.topology_key
        if key not in node.metadata.labels:
            return False
        counts: dict[str, int] = {}
        for other in self._cluster.nodes.values():
            if key in other.metadata.labels and self._counts_in_spread(task, other, constraint):
                domain = other.metadata.labels[key]
                found = self._selected(task, constraint.label_selector, self._on(other))
                counts[domain] = counts.get(domain, 0) + found
        enough = len(counts) >= max(1, constraint.min_domains or 1)
        least = min(counts.values()) if enough else 0
        itself = self._selected(task, constraint.label_selector, [task])
        return counts.get(node.metadata.labels[key], 0) + itself - least <= constraint.max_skew

    def _counts_in_spread(self, task: Task, node: Node, constraint: TopologySpreadConstraint) -> bool:
        spec = task.pod.spec
        if constraint.node_affinity_policy == "Honor":
            labels = node.metadata.labels
            if any(labels.get(k) != v for k, v in spec.node_selector.items()) or not self._affinity_holds(task, node):
                return False
        if constraint.node_taints_policy == "Honor":
            return all(t.effect == "PreferNoSchedule" or tolerated(t, spec.tolerations) for t in node.spec.taints)
        return True

    def _selected(self, task: Task, selector: LabelSelector | None, tasks: list[Task]) -> int:
        home = task.pod.metadata.namespace
        return sum(
            other.pod.metadata.namespace == home and selects(selector, other.pod.metadata.labels) for other in tasks
        )

    # -- how good would it be? ----------------------------------------------------------------------------------

    def score(self, task: Task, name: str) -> int:
        """In steps of 2**-16, fixed scores and those that move with the room rounded apart."""
        node = self._cluster.nodes[name]
        moving, fixed = 0.0, 0.0
        for plugin in self._policy.plugins():
            match plugin.arguments:
                case NodeOrderArguments() as weights if plugin.enabled("score"):
                    moving += self._node_order(task, node, weights)
                    fixed += _node_affinity(task, node, weights) + _taints(task, node, weights)
                case BinPackArguments() as weights if plugin.enabled("score"):
                    moving += self._bin_pack(task, node, weights)
                case _:
                    pass
        return round(moving * 65536) + round(fixed * 65536)

    def _left(self, task: Task, node: Node, name: str) -> float:
        """What would be left of a resource, in per cent of the node."""
        allocatable = self._sizes[node.metadata.name].get(name, 0)
        percent = 100.0 / allocatable if allocatable else 0.0
        return (self.free(node).get(name, 0) - task.request.get(name, 0)) * percent

    def _node_order(self, task: Task, node: Node, weights: NodeOrderArguments) -> float:
        cpu, memory = self._left(task, node, "cpu"), self._left(task, node, "memory")
        score = (cpu + memory) * ((weights.least_allocated - weights.most_allocated) / 2)
        if weights.most_allocated:
            score += 100.0 * weights.most_allocated
        if weights.balanced_allocation:
            score += abs(cpu - memory) * (-weights.balanced_allocation / 2) + 100.0 * weights.balanced_allocation
        return score

    def _bin_pack(self, task: Task, node: Node, arguments: BinPackArguments) -> float:
        weights = {"cpu": arguments.cpu, "memory": arguments.memory, **arguments.resources}
        asked = [name for name in _axis_order(task.request) if weights.get(name)]
        whole = sum(weights[name] for name in asked)
        if not whole:
            return 0.0
        part = arguments.weight / whole
        score = 0.0
        for name in asked:
            score += self._left(task, node, name) * (-weights[name] * part)
        return score + 100.0 * arguments.weight


def _axis_order(request: Mapping[str, int]) -> list[str]:
    return sorted((name for name in request if request[name]), key=lambda name: (name not in ("cpu", "memory"), name))


def _node_affinity(task: Task, node: Node, weights: NodeOrderArguments) -> float:
    affinity = task.pod.spec.affinity and task.pod.spec.affinity.node_affinity
    wishes = affinity.preferred_during_scheduling_ignored_during_execution if affinity else ()
    most = sum(wish.weight for wish in wishes)
    if not most:
        return 0.0
    met = sum(wish.weight for wish in wishes if term_holds(wish.preference, node))
    return met * (100.0 * weights.node_affinity / most)


def _taints(task: Task, node: Node, weights: NodeOrderArguments) -> float:
    tolerations = task.pod.spec.tolerations
    disliked = sum(t.effect == "PreferNoSchedule" and not tolerated(t, tolerations) for t in node.spec.taints)
    return weights.taint_toleration * (100.0 / (1 + disliked) - 100.0)


def _required(rule: PodAffinity | None) -> Iterator[PodAffinityTerm]:
    yield from rule.required_during_scheduling_ignored_during_execution if rule else ()


def _clash(mine: tuple[str, str, int], theirs: tuple[str, str, int]) -> bool:
    everywhere = ("", "0.0.0.0")
    return mine[1:] == theirs[1:] and (mine[0] == theirs[0] or mine[0] in everywhere or theirs[0] in everywhere)
