"""What the job's owner could change: release it, ask for less, need fewer pods at once, be more important."""

from __future__ import annotations

from functools import partial

from msgspec.structs import replace

from fairway.api.kinds import ApiObject
from fairway.api.meta import ObjectMeta
from fairway.api.pods import Container, Pod, ResourceRequirements, container_request, pod_request
from fairway.app.explain.model import SuggestedChange
from fairway.app.explain.question import Attempt, Attempts, Question, step_of
from fairway.app.explain.search import largest, smallest
from fairway.resources.algebra import Resource
from fairway.resources.quantity import format_amount
from fairway.state.annotations import HOLD, is_held
from fairway.state.reader import gates_of_pod


def attempts(question: Question) -> Attempts:
    if _holding(question):
        yield Attempt("release", "its release", _released)
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
    """What keeps its pods from being placed: scheduling gates, and the annotation on pods or group."""
    found = {name for pod in question.situation.pods_of(question.job) for name in gates_of_pod(pod)}
    if question.group is not None and is_held(question.group.metadata):
        found.add(HOLD)
    return sorted(found)


def _released(question: Question) -> SuggestedChange | None:
    """All of it at once: what is left of several would hold it as well."""
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
    return question.found("release", f"remove {' and '.join(texts)}", 0.0)


def _without_hold(meta: ObjectMeta) -> ObjectMeta:
    return replace(meta, annotations={name: text for name, text in meta.annotations.items() if name != HOLD})


def _less_of(question: Question, name: str, most: int) -> SuggestedChange | None:
    """The largest request of a resource that would start now; requesting none of it is no help."""
    step = step_of(name, most)

    def works(steps: int) -> bool:
        return question.works_for_pods(lambda pod: capped(pod, name, steps * step))

    found = largest(1, -(-most // step) - 1, works)
    if found is None:
        return None
    less = found * step
    each = "" if len(question.pods) == 1 else " per pod"
    text = f"request at most {format_amount(name, less)} {name}{each} instead of {format_amount(name, most)}"
    return question.found("request", text, (most - less) / most)


def capped(pod: Pod, name: str, most: int) -> Pod | None:
    """The pod with its containers asking for at most so much of a resource together; None if that cannot be."""
    if pod_request(pod.spec).get(name) <= most:
        return pod
    left = most - Resource.parse(pod.spec.overhead).get(name)
    containers: list[Container] = []
    for container in pod.spec.containers:
        own = min(container_request(container).get(name), max(0, left))
        left -= own
        containers.append(_asking(container, name, own))
    starting = tuple(
        _asking(container, name, min(container_request(container).get(name), most))
        for container in pod.spec.init_containers
    )
    whole = pod.spec.resources
    if whole is not None:
        whole = _with(whole, name, most)
    edited = replace(
        pod, spec=replace(pod.spec, containers=tuple(containers), init_containers=starting, resources=whole)
    )
    return edited if pod_request(edited.spec).get(name) <= most else None


def _asking(container: Container, name: str, amount: int) -> Container:
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
    return question.found("members", text, (minimum - found) / minimum)


def _higher_priority(question: Question) -> SuggestedChange | None:
    """The smallest priority, among those just above that of another job, at which it would start."""
    jobs = {job.key: job.priority for job in question.situation.state.jobs()}
    own = jobs[question.job]
    steps = sorted({priority + 1 for priority in jobs.values() if priority >= own})

    def works(index: int) -> bool:
        return question.works(_prioritised(question, steps[index]))

    found = smallest(0, len(steps) - 1, works)
    if found is None:
        return None
    return question.found("priority", f"raise its priority from {own} to {steps[found]}", 1.0)


def _prioritised(question: Question, priority: int) -> list[ApiObject]:
    """The pods' own priority counts where their group names no class."""
    changed: list[ApiObject] = [
        replace(pod, spec=replace(pod.spec, priority=priority)) for pod in question.situation.pods_of(question.job)
    ]
    if question.group is not None and question.group.spec.priority_class_name:
        changed.append(replace(question.group, spec=replace(question.group.spec, priority_class_name="")))
    return changed
