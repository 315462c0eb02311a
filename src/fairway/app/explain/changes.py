"""Kinds of change that could start a pending job, each with a search for its smallest one.

Its owner can release it, request less, need fewer pods at once, or raise its priority. An administrator can open or
create its queue, raise limits, or change weights. And rules of placement can be relaxed: selectors and affinities of
the pods, taints and states of nodes.
"""

from __future__ import annotations

from collections.abc import Callable, Sequence
from functools import partial

from msgspec.structs import replace

from fairway.api.core import NAMESPACE_WEIGHT, Node, ResourceQuota, ResourceQuotaSpec
from fairway.api.kinds import ApiObject
from fairway.api.meta import ObjectMeta
from fairway.api.pods import (
    Affinity,
    Container,
    Pod,
    ResourceRequirements,
    Taint,
    Toleration,
    container_request,
    pod_request,
)
from fairway.api.scheduling import Queue, QueueSpec, QueueStatus
from fairway.app.explain.model import SuggestedChange
from fairway.app.explain.search import Attempt, Attempts, Question, largest, smallest, smallest_set, step_of
from fairway.resources.algebra import Resource
from fairway.resources.quantity import format_amount
from fairway.scheduler.placement.matching import tolerates
from fairway.state.annotations import HOLD, is_held
from fairway.state.reader import gates_of_pod

MAX_WEIGHT_FACTOR = 1024
"""Weights are tried up to this multiple of their current value."""
MAX_TAINTS = 20
"""Taints that are tried one by one."""
NODE_ROUNDS = 12
"""Nodes that are found one by one."""

Edit = Callable[[Pod], Pod]

# -- the owner of the job ------------------------------------------------------------------------------------


def owner_attempts(question: Question) -> Attempts:
    if _holding(question):
        yield Attempt("release", "releasing it", _released)
    asked = Resource.EMPTY
    for pod in question.pods:
        asked = asked.maximum(pod_request(pod.spec))
    for name, amount in asked.amounts.items():
        if amount:
            yield Attempt("request", f"less {name} per pod", partial(_less_of, name=name, most=amount))
    if question.group is not None and question.group.spec.min_member > 1:
        yield Attempt("members", "fewer pods at once", _fewer_members)
    yield Attempt("priority", "a higher priority", _higher_priority)


def _holding(question: Question) -> list[str]:
    """What holds its pods back: scheduling gates, and the annotation on pods or group."""
    found = {name for pod in question.situation.pods_of(question.job) for name in gates_of_pod(pod)}
    if question.group is not None and is_held(question.group.metadata):
        found.add(HOLD)
    return sorted(found)


def _released(question: Question) -> SuggestedChange | None:
    """Remove all of them at once: any one that is left would still hold the job."""
    changed: list[ApiObject] = []
    for pod in question.situation.pods_of(question.job):
        if gates_of_pod(pod):
            spec = replace(pod.spec, scheduling_gates=())
            changed.append(replace(pod, metadata=_without_hold(pod.metadata), spec=spec))
    if question.group is not None and is_held(question.group.metadata):
        changed.append(replace(question.group, metadata=_without_hold(question.group.metadata)))
    if not question.works(changed):
        return None
    gates = [name for name in _holding(question) if name != HOLD]
    texts = [f"the annotation {HOLD}"] if HOLD in _holding(question) else []
    texts += [f"the scheduling {'gate' if len(gates) == 1 else 'gates'} {', '.join(gates)}"] if gates else []
    return question.suggestion("release", f"remove {' and '.join(texts)}", 0.0)


def _without_hold(meta: ObjectMeta) -> ObjectMeta:
    return replace(meta, annotations={name: text for name, text in meta.annotations.items() if name != HOLD})


def _less_of(question: Question, name: str, most: int) -> SuggestedChange | None:
    """The largest request of a resource that would start now; requesting none of it is not an answer."""
    step = step_of(name, most)

    def works(steps: int) -> bool:
        return question.works_for_pods(lambda pod: capped(pod, name, steps * step))

    found = largest(1, -(-most // step) - 1, works)
    if found is None:
        return None
    less = found * step
    each = "" if len(question.pods) == 1 else " per pod"
    text = f"request at most {format_amount(name, less)} {name}{each} instead of {format_amount(name, most)}"
    return question.suggestion("request", text, (most - less) / most)


def capped(pod: Pod, name: str, most: int) -> Pod | None:
    """The pod with its total request of a resource capped; None if that is impossible."""
    if pod_request(pod.spec).get(name) <= most:
        return pod
    left = most - Resource.parse(pod.spec.overhead).get(name)
    containers: list[Container] = []
    for container in pod.spec.containers:
        own = min(container_request(container).get(name), max(0, left))
        left -= own
        containers.append(_requesting(container, name, own))
    starting = tuple(
        _requesting(container, name, min(container_request(container).get(name), most))
        for container in pod.spec.init_containers
    )
    whole = pod.spec.resources
    if whole is not None:
        whole = _with(whole, name, most)
    edited = replace(
        pod, spec=replace(pod.spec, containers=tuple(containers), init_containers=starting, resources=whole)
    )
    return edited if pod_request(edited.spec).get(name) <= most else None


def _requesting(container: Container, name: str, amount: int) -> Container:
    return replace(container, resources=_with(container.resources, name, amount))


def _with(resources: ResourceRequirements, name: str, amount: int) -> ResourceRequirements:
    text = format_amount(name, amount)
    requests = {**resources.requests, **({name: text} if name in resources.requests else {})}
    limits = {**resources.limits, **({name: text} if name in resources.limits else {})}
    return replace(resources, requests=requests, limits=limits)


def _fewer_members(question: Question) -> SuggestedChange | None:
    group = question.group
    assert group is not None
    minimum = group.spec.min_member

    def works(members: int) -> bool:
        spec = replace(group.spec, min_member=members, min_task_member={}, min_resources={})
        return question.works([replace(group, spec=spec)])

    found = largest(1, minimum - 1, works)
    if found is None:
        return None
    roles = " and drop minTaskMember" if group.spec.min_task_member else ""
    text = f"lower minMember from {minimum} to {found}{roles}"
    return question.suggestion("members", text, (minimum - found) / minimum)


def _higher_priority(question: Question) -> SuggestedChange | None:
    """The smallest priority that would start it, among those just above the priority of another job."""
    jobs = {job.key: job.priority for job in question.situation.state.jobs()}
    own = jobs[question.job]
    steps = sorted({priority + 1 for priority in jobs.values() if priority >= own})

    def works(index: int) -> bool:
        return question.works(_prioritised(question, steps[index]))

    found = smallest(0, len(steps) - 1, works)
    if found is None:
        return None
    return question.suggestion("priority", f"raise its priority from {own} to {steps[found]}", 1.0)


def _prioritised(question: Question, priority: int) -> list[ApiObject]:
    """The pods' own priority applies if their group names no priority class."""
    changed: list[ApiObject] = [
        replace(pod, spec=replace(pod.spec, priority=priority)) for pod in question.situation.pods_of(question.job)
    ]
    if question.group is not None and question.group.spec.priority_class_name:
        changed.append(replace(question.group, spec=replace(question.group.spec, priority_class_name="")))
    return changed


# -- administrators ------------------------------------------------------------------------------------------


def administrator_attempts(question: Question) -> Attempts:
    chain = question.situation.queue_chain(question.queue)
    if not chain:
        yield Attempt("queue", f"creating queue {question.queue}", _created_queue)
    if any(_closed(queue) for queue in chain):
        yield Attempt("queue", "opening its queue", partial(_opened, chain=chain))
    if any(queue.spec.capability for queue in chain):
        limited = [(queue, dict(queue.spec.capability)) for queue in chain if queue.spec.capability]
        yield Attempt("capability", "more queue capability", partial(_more, limited=limited, word="capability"))
    if any(plugin.name == "capacity" for plugin in question.situation.policy.plugins()):
        limited = [(queue, dict(queue.spec.deserved)) for queue in chain if queue.spec.deserved]
        if limited:
            yield Attempt(
                "deserved", "more deserved resources for its queue", partial(_more, limited=limited, word="deserved")
            )
    elif chain:
        yield Attempt("weight", "a higher queue weight", partial(_heavier_queue, queue=chain[0]))
    yield Attempt("namespaceWeight", "a higher namespace weight", _heavier_namespace)


def _created_queue(question: Question) -> SuggestedChange | None:
    queue = Queue(metadata=ObjectMeta(name=question.queue), spec=QueueSpec())
    return question.suggestion("queue", f"create queue {question.queue}", 1.0) if question.works([queue]) else None


def _closed(queue: Queue) -> bool:
    return (queue.spec.state or queue.status.state) in ("Closed", "Closing")


def _opened(question: Question, chain: list[Queue]) -> SuggestedChange | None:
    closed = [queue for queue in chain if _closed(queue)]
    opened = [replace(queue, spec=replace(queue.spec, state="Open"), status=QueueStatus()) for queue in closed]
    if not question.works(opened):
        return None
    names = " and ".join(queue.metadata.name for queue in closed)
    return question.suggestion("queue", f"open queue {names}", 1.0)


def _more(question: Question, limited: list[tuple[Queue, dict[str, str]]], word: str) -> SuggestedChange | None:
    """The smallest raise, one dimension at a time, with the others unlimited while one is searched."""
    if not question.works([_limited(queue, {}, word) for queue, _ in limited]):
        return None
    asked = Resource.sum(pod_request(pod.spec) for pod in question.pods) + Resource.of({"pods": len(question.pods)})
    bounds: list[tuple[Queue, dict[str, str]]] = [(queue, {}) for queue, _ in limited]
    raises: list[tuple[str, str, int, int]] = []
    for index, (queue, texts) in enumerate(limited):
        for name, have in Resource.parse(texts).amounts.items():
            least = _least(question, bounds, index, name, have, asked.get(name), word)
            if least is None:
                return None
            bounds[index][1][name] = format_amount(name, least)
            if least > have:
                raises.append((queue.metadata.name, name, have, least))
    if not raises or not question.works([_limited(queue, texts, word) for queue, texts in bounds]):
        return None
    parts = [
        f"queue {queue} from {format_amount(name, have)} to {format_amount(name, new)} {name}"
        for queue, name, have, new in raises
    ]
    size = max((new - have) / max(have, 1) for _, _, have, new in raises)
    return question.suggestion(word, f"raise the {word} of {' and '.join(parts)}", size)


def _least(
    question: Question,
    bounds: list[tuple[Queue, dict[str, str]]],
    index: int,
    name: str,
    have: int,
    more: int,
    word: str,
) -> int | None:
    """The smallest limit in one dimension, from the current one up, at which the job starts."""
    there = Resource.sum(Resource.parse(node.allocatable) for node in question.situation.nodes()).get(name)
    step = step_of(name, max(have, more))
    top = max(have, there, len(question.situation.objects)) + more

    def works(count: int) -> bool:
        raised = {**bounds[index][1], name: format_amount(name, have + count * step)}
        changed = [_limited(queue, raised if at == index else texts, word) for at, (queue, texts) in enumerate(bounds)]
        return question.works(changed)

    found = 0 if works(0) else smallest(1, -(-(top - have) // step), works)
    return None if found is None else have + found * step


def _limited(queue: Queue, texts: dict[str, str], word: str) -> Queue:
    if word == "capability":
        return replace(queue, spec=replace(queue.spec, capability=texts))
    return replace(queue, spec=replace(queue.spec, deserved=texts))


def _heavier_queue(question: Question, queue: Queue) -> SuggestedChange | None:
    weight = queue.spec.weight

    def works(more: int) -> bool:
        return question.works([replace(queue, spec=replace(queue.spec, weight=more))])

    found = smallest(weight + 1, weight * MAX_WEIGHT_FACTOR, works)
    if found is None:
        return None
    text = f"raise the weight of queue {queue.metadata.name} from {weight} to {found}"
    return question.suggestion("weight", text, (found - weight) / weight)


def _heavier_namespace(question: Question) -> SuggestedChange | None:
    namespace = question.job.split("/", 1)[0]
    weight = question.situation.state.namespaces.weight(namespace)
    quotas = question.situation.quotas(namespace)
    bare = ResourceQuota(metadata=ObjectMeta(name="fairway", namespace=namespace), spec=ResourceQuotaSpec())
    quota = next((quota for quota in quotas if NAMESPACE_WEIGHT in quota.spec.hard), quotas[0] if quotas else bare)

    def works(more: int) -> bool:
        hard = {**quota.spec.hard, NAMESPACE_WEIGHT: str(more)}
        return question.works([replace(quota, spec=replace(quota.spec, hard=hard))])

    found = smallest(weight + 1, weight * MAX_WEIGHT_FACTOR, works)
    if found is None:
        return None
    text = f"raise the weight of namespace {namespace} from {weight} to {found}"
    return question.suggestion("namespaceWeight", text, (found - weight) / weight)


# -- rules of placement --------------------------------------------------------------------------------------


def rule_attempts(question: Question) -> Attempts:
    pods, nodes = question.pods, question.situation.nodes()
    for text, edit in _loosened(pods):
        yield Attempt("rule", text, partial(_without, text=text, edit=edit))
    for taint in _untolerated(pods, nodes)[:MAX_TAINTS]:
        text = f"tolerate the taint {taint.key}={taint.value}" if taint.value else f"tolerate the taint {taint.key}"
        yield Attempt("taint", text, partial(_without, text=text, edit=partial(_tolerating, taint=taint), kind="taint"))
    closed = sorted((node for node in nodes if node.spec.unschedulable), key=lambda node: node.metadata.name)
    if closed:
        yield Attempt("node", "uncordoning nodes", partial(_nodes_back, nodes=closed, verb="uncordon"))
    away = sorted((node for node in nodes if not _is_ready(node)), key=lambda node: node.metadata.name)
    if away:
        yield Attempt("node", "restoring nodes that are not ready", partial(_nodes_back, nodes=away, verb="restore"))


def _without(question: Question, text: str, edit: Edit, kind: str = "rule") -> SuggestedChange | None:
    return question.suggestion(kind, text, 1.0) if question.works_for_pods(edit) else None


def _loosened(pods: Sequence[Pod]) -> list[tuple[str, Edit]]:
    """Each rule of some pod, with the edit that removes it."""
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

    found = smallest_set(nodes, works, NODE_ROUNDS)
    if not found:
        return None
    names = ", ".join(node.metadata.name for node in found)
    return question.suggestion("node", f"{verb} {names}", len(found) / len(question.situation.nodes()))


def _back(node: Node) -> Node:
    conditions = tuple(condition for condition in node.status.conditions if condition.type != "Ready")
    return replace(
        node,
        spec=replace(node.spec, unschedulable=False),
        status=replace(node.status, conditions=conditions),
    )
