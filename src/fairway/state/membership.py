"""Which job a pod belongs to, and what it says for that job: queue and gang size.

A pod joins a PodGroup that it names, in one of the ways that exist for it; else the implicit job of its topmost known
controller; else it is a job by itself. All is read from the pod's own object: no controller has to be watched. A
controller that makes pods through another one (a JobSet makes Jobs) is known by the label that it puts on them.
"""

from __future__ import annotations

from enum import Enum
from sys import intern
from typing import NamedTuple

from fairway.api.meta import ObjectMeta
from fairway.api.pods import Pod
from fairway.state import annotations as names
from fairway.state.topology import TopologyRequest, of_object

_TOPMOST = (
    ("jobset.sigs.k8s.io/jobset-name", "jobset"),
    ("ray.io/cluster", "raycluster"),
    ("leaderworkerset.sigs.k8s.io/name", "leaderworkerset"),
    ("sparkoperator.k8s.io/app-name", "sparkapplication"),
)
"""Labels by which controllers mark pods that they may not own themselves, and the kind that each stands for."""

_TRAINING_NAME, _TRAINING_KIND = "training.kubeflow.org/job-name", "training.kubeflow.org/operator-name"
"""Several kinds of training jobs share one label; the operator's name (`pytorchjob-controller`) says which it is."""

_CONTROLLERS = frozenset(
    {"job", "jobset", "raycluster", "rayjob", "leaderworkerset", "trainjob", "sparkapplication", "appwrapper"}
    | {"pytorchjob", "tfjob", "xgboostjob", "mxjob", "paddlejob", "jaxjob", "mpijob", "workflow", "pipelinerun"}
)
"""Kinds, in lower case, whose pods are one piece of work. Pods of services (Deployment, StatefulSet, ...) are not: each
is a job by itself."""


class Belongs(Enum):
    """How a pod came to its job."""

    GROUP = "PodGroup"
    CONTROLLER = "controller"
    ALONE = "alone"


class PodHints(NamedTuple):
    """What a pod says for its whole job. Equal ones may be shared."""

    queue: str = ""
    minimum: int = 1
    starving_after: str = ""
    controller: str = ""
    """The uid of its own controller, of pods that name no group: what it is known by when it comes again."""
    topology: TopologyRequest | None = None
    indexed: bool = False
    """Whether it carries an index: the pods of the job have an order then."""


NO_HINTS = PodHints()

PodRank = tuple[str, int, str]
"""The position of a pod in its job: its set of pods, its index in the set, its key."""

_MAX_INDEX = (1 << 31) - 1


def belonging(pod: Pod) -> tuple[str, Belongs]:
    """The key of the pod's job, always in its own namespace, and how it came to it.

    An implicit job's key has its controller's kind in it (`team/jobset/train`): no other job can have the same.
    """
    meta = pod.metadata
    group = group_name(pod)
    if group:
        return f"{meta.namespace}/{group}", Belongs.GROUP
    if meta.owner_references:
        controller = _controller(meta)
        if controller:
            return f"{meta.namespace}/{controller}", Belongs.CONTROLLER
    return f"{meta.namespace}/{meta.name}", Belongs.ALONE


def group_name(pod: Pod) -> str:
    """The PodGroup that the pod names, if any."""
    own = pod.spec.scheduling_group
    if own is not None and own.pod_group_name:
        return own.pod_group_name
    meta = pod.metadata
    found = meta.annotations.get(names.GROUP_NAME)
    if found:
        return found
    if meta.labels:
        for label in names.GROUP_LABELS:
            found = meta.labels.get(label)
            if found:
                return found
    return ""


def _controller(meta: ObjectMeta) -> str:
    owner = next((owner for owner in meta.owner_references if owner.controller), None)
    if owner is None:
        return ""
    kind = owner.kind.lower()
    for label, above in _TOPMOST:
        if meta.labels.get(label):
            return f"{above}/{meta.labels[label]}"
    training = meta.labels.get(_TRAINING_NAME)
    if training:
        operator = meta.labels.get(_TRAINING_KIND, "").partition("-")[0]
        kind = operator if operator in _CONTROLLERS else "mpijob" if operator == "mpi" else kind
        return f"{kind}/{training}"
    return f"{kind}/{owner.name}" if kind in _CONTROLLERS else ""


def queue_named(meta: ObjectMeta) -> str:
    """The queue that an object names in a label or annotation; "" if none."""
    labels, annotations = meta.labels, meta.annotations
    if not labels and not annotations:
        return ""
    for name in names.QUEUE_NAMES:
        found = (labels.get(name) if labels else None) or annotations.get(name)
        if found:
            return found
    return ""


def pod_hints(pod: Pod) -> PodHints:
    meta = pod.metadata
    if not meta.labels and not meta.annotations and not meta.owner_references:
        return NO_HINTS
    queue = queue_named(meta)
    text = names.noted(pod.metadata, names.MIN_AVAILABLE)
    minimum = 1 if text is None else names.parse_count(text) or 1
    owner = next((owner for owner in pod.metadata.owner_references if owner.controller), None)
    uid = owner.uid if owner is not None and not group_name(pod) else ""
    indexed = bool(meta.labels) and not meta.labels.keys().isdisjoint(names.INDEX_LABELS)
    hints = PodHints(queue, minimum, meta.annotations.get(names.STARVING_AFTER, ""), uid, of_object(meta), indexed)
    return NO_HINTS if hints == NO_HINTS else hints


def rank_of(pod: Pod, key: str) -> PodRank | None:
    """The rank of a pod in its job, by the indexes on its labels; None without an index.

    The sets are a JobSet's replicated jobs, or the controllers in a PodGroup that holds several: each counts from 0.
    """
    labels, pods = pod.metadata.labels, ""
    outer, worker = labels.get(names.JOB_INDEX), labels.get(names.WORKER_INDEX)
    inner = worker or labels.get(names.COMPLETION_INDEX) or labels.get(names.POD_INDEX)
    if outer:
        pods = labels.get(names.REPLICATED_JOB, "")
    elif worker:
        outer = labels.get(names.GROUP_INDEX)
    elif inner:
        for owner in pod.metadata.owner_references:
            if owner.controller:
                pods = owner.name
    else:
        return None
    number = _index(inner) if inner else 0
    return intern(pods), _index(outer) << 31 | number if outer else number, key


def _index(text: str) -> int:
    """What is not a number counts as 0: only labels that were set by hand get there."""
    return min(int(text), _MAX_INDEX) if text.isdecimal() else 0
