"""The controllers that make the pods of a job: what there is to delete, where a job is not its own."""

from __future__ import annotations

from typing import NamedTuple
from urllib.parse import quote

from fairway.api.meta import ObjectMeta, OwnerReference
from fairway.api.scheduling import PodGroup
from fairway.app.view.mirror import Mirror
from fairway.app.view.picture import pod_of
from fairway.state.jobs import Job

JOB_SET_LABEL = "jobset.sigs.k8s.io/jobset-name"
_JOB_SET = "jobset.x-k8s.io", "jobset"
_KINDS = {
    ("batch", "job"): ("apis/batch/v1", "jobs", "Job"),
    _JOB_SET: ("apis/jobset.x-k8s.io/v1alpha2", "jobsets", "JobSet"),
    ("batch.volcano.sh", "job"): ("apis/batch.volcano.sh/v1alpha1", "jobs", "Volcano Job"),
}


class JobOwner(NamedTuple):
    """A controller. `path` is where it is at the API server, "" where its kind is none that is known here."""

    title: str
    path: str = ""


def owner_of(mirror: Mirror, job: Job) -> JobOwner | None:
    """The controller of a job's pods or of its group; None where there is none, or where pods have several."""
    namespace, _, name = job.key.partition("/")
    group = mirror.objects.get(("PodGroup", namespace, name)) if job.group else None
    pods = (pod_of(mirror, task.key) for task in job.tasks)
    found = {_owner(pod.metadata) for pod in pods if pod is not None}
    if isinstance(group, PodGroup) and _controlled(group.metadata):
        found = {_owner(group.metadata)}
    return found.pop() if len(found) == 1 else None


def held_pods(pods: int) -> str:
    """What a hold did where there is no PodGroup and a controller makes the pods: it holds those that there are."""
    noun = "1 pod that waits is" if pods == 1 else f"{pods} pods that wait are"
    return f"{noun} held; pods that its controller makes later are not"


def _owner(meta: ObjectMeta) -> JobOwner | None:
    above = meta.labels.get(JOB_SET_LABEL)
    if above:
        return _known(_JOB_SET, meta.namespace, above)
    for owner in _controlled(meta):
        kind = owner.api_version.rpartition("/")[0], owner.kind.lower()
        return _known(kind, meta.namespace, owner.name) if kind in _KINDS else JobOwner(f"{owner.kind} {owner.name}")
    return None


def _controlled(meta: ObjectMeta) -> list[OwnerReference]:
    return [owner for owner in meta.owner_references if owner.controller]


def _known(kind: tuple[str, str], namespace: str, name: str) -> JobOwner:
    prefix, plural, title = _KINDS[kind]
    path = f"/{prefix}/namespaces/{quote(namespace, safe='')}/{plural}/{quote(name, safe='')}"
    return JobOwner(f"{title} {name}", path)
