"""What an administrator could change: the queue's state and limits, the weights of queue and namespace."""

from __future__ import annotations

from functools import partial

from msgspec.structs import replace

from fairway.api.core import NAMESPACE_WEIGHT, ResourceQuota, ResourceQuotaSpec
from fairway.api.meta import ObjectMeta
from fairway.api.pods import pod_request
from fairway.api.scheduling import Queue, QueueSpec, QueueStatus
from fairway.app.explain.model import SuggestedChange
from fairway.app.explain.question import Attempt, Attempts, Question, step_of
from fairway.app.explain.search import smallest
from fairway.resources.algebra import Resource
from fairway.resources.quantity import format_amount

MOST_WEIGHT = 1024
"""Weights are tried up to so many times what they are."""


def attempts(question: Question) -> Attempts:
    chain = question.situation.queue_chain(question.queue)
    if not chain:
        yield Attempt("queue", f"queue {question.queue} made", _made_queue)
    if any(_closed(queue) for queue in chain):
        yield Attempt("queue", "its queue opened", partial(_opened, chain=chain))
    if any(queue.spec.capability for queue in chain):
        limited = [(queue, dict(queue.spec.capability)) for queue in chain if queue.spec.capability]
        yield Attempt("capability", "more queue capability", partial(_more, limited=limited, word="capability"))
    if any(plugin.name == "capacity" for plugin in question.situation.policy.plugins()):
        limited = [(queue, dict(queue.spec.deserved)) for queue in chain if queue.spec.deserved]
        if limited:
            yield Attempt("deserved", "more deserved by its queue", partial(_more, limited=limited, word="deserved"))
    elif chain:
        yield Attempt("weight", "a higher queue weight", partial(_heavier_queue, queue=chain[0]))
    yield Attempt("namespaceWeight", "a higher namespace weight", _heavier_namespace)


def _made_queue(question: Question) -> SuggestedChange | None:
    made = Queue(metadata=ObjectMeta(name=question.queue), spec=QueueSpec())
    return question.found("queue", f"make the queue {question.queue}", 1.0) if question.works([made]) else None


def _closed(queue: Queue) -> bool:
    return (queue.spec.state or queue.status.state) in ("Closed", "Closing")


def _opened(question: Question, chain: list[Queue]) -> SuggestedChange | None:
    closed = [queue for queue in chain if _closed(queue)]
    opened = [replace(queue, spec=replace(queue.spec, state="Open"), status=QueueStatus()) for queue in closed]
    if not question.works(opened):
        return None
    names = " and ".join(queue.metadata.name for queue in closed)
    return question.found("queue", f"open the queue {names}", 1.0)


def _more(question: Question, limited: list[tuple[Queue, dict[str, str]]], word: str) -> SuggestedChange | None:
    """The smallest raise, dimension by dimension: the others are out of the way while one is searched."""
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
        f"{name} of {queue} from {format_amount(name, have)} to {format_amount(name, new)}"
        for queue, name, have, new in raises
    ]
    size = max((new - have) / max(have, 1) for _, _, have, new in raises)
    return question.found(word, f"raise the {word} in {' and '.join(parts)}", size)


def _least(
    question: Question,
    bounds: list[tuple[Queue, dict[str, str]]],
    index: int,
    name: str,
    have: int,
    more: int,
    word: str,
) -> int | None:
    """The smallest limit in one dimension at which the job starts, what it has now included."""
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

    found = smallest(weight + 1, weight * MOST_WEIGHT, works)
    if found is None:
        return None
    text = f"give queue {queue.metadata.name} the weight {found} instead of {weight}"
    return question.found("weight", text, (found - weight) / weight)


def _heavier_namespace(question: Question) -> SuggestedChange | None:
    namespace = question.job.split("/", 1)[0]
    weight = question.situation.state.namespaces.weight(namespace)
    quotas = question.situation.quotas(namespace)
    bare = ResourceQuota(metadata=ObjectMeta(name="fairway", namespace=namespace), spec=ResourceQuotaSpec())
    quota = next((quota for quota in quotas if NAMESPACE_WEIGHT in quota.spec.hard), quotas[0] if quotas else bare)

    def works(more: int) -> bool:
        hard = {**quota.spec.hard, NAMESPACE_WEIGHT: str(more)}
        return question.works([replace(quota, spec=replace(quota.spec, hard=hard))])

    found = smallest(weight + 1, weight * MOST_WEIGHT, works)
    if found is None:
        return None
    text = f"give namespace {namespace} the weight {found} instead of {weight}"
    return question.found("namespaceWeight", text, (found - weight) / weight)
