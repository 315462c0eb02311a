"""Workloads in files, expanded to the objects that their controllers would make: pods, and groups where they make one.

So a user can ask what would happen before submitting anything. A pod made here is owned by its workload, carries the
labels by which the real controller marks its pods, and is named in the same order; the random endings of real names
are left out. Sizes are checked before anything is made. A workload that has a uid was read from a cluster, where its
pods are: it is left alone.
"""

from __future__ import annotations

from collections.abc import Callable, Iterator, Mapping
from dataclasses import dataclass, field, replace
from typing import Any, NamedTuple

from fairway.api.shape import Finding, describe
from fairway.api.text import Path

Data = Mapping[str, Any]

MAX_PODS = 100_000
"""Maximum pods that one workload may expand to."""


@dataclass(frozen=True, slots=True)
class PodSet:
    """Equal pods of one workload: `name-0` to `name-(count - 1)`, or `name` alone where `count` is None."""

    name: str
    count: int | None
    template: Data
    at: Path
    """The path of the template."""
    counted: Path
    """The path of the count."""
    labels: dict[str, str] = field(default_factory=dict)
    annotations: dict[str, str] = field(default_factory=dict)


class Workload(NamedTuple):
    """The parts of a workload, and a PodGroup where its controller creates one."""

    parts: list[PodSet]
    group: Data | None = None
    scheduler: str = ""
    """The scheduler of pods whose template names none."""


class Expansion(NamedTuple):
    """The objects, each with the path of its template; or errors."""

    objects: list[tuple[Path, dict[str, Any]]]
    errors: list[Finding]


class _TemplateError(Exception):
    def __init__(self, path: Path, message: str) -> None:
        super().__init__(message)
        self.finding: Finding = (path, message)


def is_expanded(version: str, kind: str) -> bool:
    """Whether workloads of this kind are expanded."""
    return (_group(version), kind) in _READERS


def is_template(document: object) -> bool:
    """Whether this is a workload to expand. One with a uid was read from a cluster, which has its pods already."""
    if not isinstance(document, Mapping):
        return False
    kind = (_group(str(document.get("apiVersion", ""))), document.get("kind"))
    return kind in _READERS and not _at(document, ("metadata", "uid"))


def expand(document: Data) -> Expansion:
    """The objects that the workload's controller would create, or the errors that prevent it."""
    version, kind = str(document.get("apiVersion", "")), str(document.get("kind", ""))
    try:
        meta = _mapping(document, ("metadata",))
        name = _text(meta, ("metadata", "name"))
        workload = _READERS[_group(version), kind](document, name)
        _check_size(workload.parts)
    except _TemplateError as bad:
        return Expansion([], [bad.finding])
    owner = {"apiVersion": version, "kind": kind, "name": name, "uid": str(meta.get("uid", "")), "controller": True}
    base = {key: meta[key] for key in ("namespace", "creationTimestamp") if key in meta}
    made = [(part.at, _pod(part, index, workload, base, owner)) for part in workload.parts for index in _indexes(part)]
    if workload.group is not None:
        made.insert(0, ((), _pod_group(workload.group, base, owner)))
    return Expansion(made, [])


OF_PODS = (
    "fairway.dev/queue",
    "fairway.dev/min-available",
    "kueue.x-k8s.io/queue-name",
    "kueue.x-k8s.io/priority-class",
    "scheduling.volcano.sh/queue-name",
    "scheduling.k8s.io/group-name",
    "pod-group.scheduling.sigs.k8s.io",
    "scheduling.x-k8s.io/pod-group",
    "fairway.dev/starving-after",
    "sla-waiting-time",
    "volcano.sh/sla-waiting-time",
    "kueue.x-k8s.io/pod-group-name",
    "kueue.x-k8s.io/pod-group-total-count",
    "kai.scheduler/queue",
    "runai/queue",
    "yunikorn.apache.org/queue",
    "yunikorn.apache.org/task-groups",
    "yunikorn.apache.org/schedulingPolicyParameters",
    "gpu-fraction",
    "gpu-memory",
)
"""Labels and annotations of queues and gangs that are honoured on pods and groups only."""


def misplaced(document: Data, expansion: Expansion) -> list[str]:
    """Warnings for queue and gang settings in a workload's own metadata, where they have no effect."""
    meta = _mapping(document, ("metadata",), {})
    given = {**_mapping(meta, ("labels",), {}), **_mapping(meta, ("annotations",), {})}
    objects = [_mapping(data, ("metadata",), {}) for _, data in expansion.objects]
    carried = [{**_mapping(one, ("labels",), {}), **_mapping(one, ("annotations",), {})} for one in objects]
    who = f"{document.get('kind', '')} {meta.get('namespace', 'default')}/{meta.get('name', '')}"
    return [
        f"{who}: metadata: {name} is not honoured there: put it on the pod template"
        for name in OF_PODS
        if name in given and not any(name in one for one in carried)
    ]


def _indexes(part: PodSet) -> range:
    return range(1 if part.count is None else part.count)


def _check_size(parts: list[PodSet]) -> None:
    total = 0
    for part in parts:
        total += len(_indexes(part))
        if total > MAX_PODS:
            raise _TemplateError(part.counted, f"makes {total} pods, expected at most {MAX_PODS}")


def _pod(part: PodSet, index: int, workload: Workload, base: Data, owner: Data) -> dict[str, Any]:
    meta, spec = _mapping(part.template, ("metadata",), {}), dict(_mapping(part.template, ("spec",), {}))
    if workload.scheduler:
        spec.setdefault("schedulerName", workload.scheduler)
    return {
        "apiVersion": "v1",
        "kind": "Pod",
        "metadata": {
            **base,
            "name": part.name if part.count is None else f"{part.name}-{index}",
            "labels": {**_mapping(meta, ("labels",), {}), **part.labels},
            "annotations": {**_mapping(meta, ("annotations",), {}), **part.annotations},
            "ownerReferences": [dict(owner)],
        },
        "spec": spec,
    }


def _pod_group(group: Data, base: Data, owner: Data) -> dict[str, Any]:
    return {
        "apiVersion": "scheduling.volcano.sh/v1beta1",
        "kind": "PodGroup",
        "metadata": {**base, "name": group["name"], "ownerReferences": [dict(owner)]},
        "spec": group["spec"],
    }


# -- reading plain data --------------------------------------------------------------------------------------------


def _group(version: str) -> str:
    return version.partition("/")[0] if "/" in version else ""


def _at(data: Data, path: Path, default: Any = None) -> Any:
    found: Any = data
    for step in path:
        if not isinstance(found, Mapping):
            return default
        found = found.get(step)
    return default if found is None else found


def _mapping(data: Data, path: Path, default: Data | None = None, under: Path = ()) -> Data:
    """`under` is the path of the data itself, for the error."""
    found = _at(data, path, default)
    if isinstance(found, Mapping):
        return found
    raise _TemplateError((*under, *path), f"is {'missing' if found is None else describe(found)}, expected an object")


def _text(data: Data, path: Path) -> str:
    found = data.get(str(path[-1]))
    if isinstance(found, str) and found:
        return found
    raise _TemplateError(path, f"is {'missing' if found is None else describe(found)}, expected a name")


def _count(data: Data, path: Path, default: int, least: int = 0, under: Path = ()) -> int:
    found = _at(data, path, default)
    if isinstance(found, int) and not isinstance(found, bool) and least <= found <= MAX_PODS:
        return found
    raise _TemplateError((*under, *path), f"is {describe(found)}, expected a whole number from {least} to {MAX_PODS}")


def _entries(data: Data, path: Path) -> Iterator[tuple[Path, Data]]:
    found = _at(data, path, [])
    if not isinstance(found, list):
        raise _TemplateError(path, f"is {describe(found)}, expected a list")
    for index, entry in enumerate(found):
        if not isinstance(entry, Mapping):
            raise _TemplateError((*path, index), f"is {describe(entry)}, expected an object")
        yield (*path, index), entry


# -- one reader for each kind --------------------------------------------------------------------------------------


def _replicas(document: Data, name: str) -> Workload:
    """Deployment, ReplicaSet, StatefulSet and similar kinds: equal pods."""
    path: Path = ("spec", "replicas")
    template: Path = ("spec", "template")
    return Workload([PodSet(name, _count(document, path, 1), _mapping(document, template), template, path)])


def _job_parts(document: Data, name: str, job: Path = (), labels: dict[str, str] | None = None) -> list[PodSet]:
    spec = (*job, "spec")
    if _at(document, (*spec, "suspend"), False) is True:
        return []
    parallelism = _count(document, (*spec, "parallelism"), 1)
    completions = _count(document, (*spec, "completions"), max(parallelism, 1))
    marks = {"batch.kubernetes.io/job-name": name, **(labels or {})}
    at = (*spec, "template")
    return [PodSet(name, min(parallelism, completions), _mapping(document, at), at, (*spec, "parallelism"), marks)]


def _job(document: Data, name: str) -> Workload:
    return Workload(_job_parts(document, name))


def _cron_job(document: Data, name: str) -> Workload:
    """A single run of it."""
    return Workload(_job_parts(document, name, ("spec", "jobTemplate")))


def _job_set(document: Data, name: str) -> Workload:
    parts: list[PodSet] = []
    for path, entry in _entries(document, ("spec", "replicatedJobs")):
        role = _text(entry, (*path, "name"))
        replicas = _count(entry, ("replicas",), 1, under=path)
        marks = {"jobset.sigs.k8s.io/jobset-name": name, "jobset.sigs.k8s.io/replicatedjob-name": role}
        for index in range(replicas):
            made = _job_parts(entry, f"{name}-{role}-{index}", ("template",), marks)
            parts += [replace(part, at=(*path, *part.at), counted=(*path, *part.counted)) for part in made]
    return Workload(parts)


def _volcano_job(document: Data, name: str) -> Workload:
    tasks = list(_entries(document, ("spec", "tasks")))
    parts, least = [], {}
    for path, task in tasks:
        role = task.get("name") or f"default{path[-1]}"
        replicas = _count(task, ("replicas",), 1, under=path)
        least[role] = _count(task, ("minAvailable",), replicas, under=path)
        notes = {"scheduling.k8s.io/group-name": name, "volcano.sh/task-spec": role}
        marks = {"volcano.sh/job-name": name}
        template = _mapping(task, ("template",), under=path)
        at = (*path, "template")
        parts.append(PodSet(f"{name}-{role}", replicas, template, at, (*path, "replicas"), marks, notes))
    minimum = _count(document, ("spec", "minAvailable"), sum(part.count or 0 for part in parts))
    spec: dict[str, Any] = {"minMember": minimum, "minTaskMember": least}
    for key in ("queue", "priorityClassName", "networkTopology"):
        if (value := _at(document, ("spec", key))) is not None:
            spec[key] = value
    scheduler = _at(document, ("spec", "schedulerName"), "volcano")
    return Workload(parts, {"name": name, "spec": spec}, str(scheduler))


def _training_job(field: str) -> Callable[[Data, str], Workload]:
    """Kubeflow's jobs: pods by role, under a field that differs by framework."""

    def read(document: Data, name: str) -> Workload:
        parts = []
        for role, entry in _mapping(document, ("spec", field)).items():
            path: Path = ("spec", field, str(role))
            if not isinstance(entry, Mapping):
                raise _TemplateError(path, f"is {describe(entry)}, expected an object")
            marks = {
                "training.kubeflow.org/job-name": name,
                "training.kubeflow.org/replica-type": str(role).lower(),
            }
            count = _count(entry, ("replicas",), 1, under=path)
            template = _mapping(entry, ("template",), under=path)
            at = (*path, "template")
            parts.append(PodSet(f"{name}-{str(role).lower()}", count, template, at, (*path, "replicas"), marks))
        return Workload(parts)

    return read


def _ray_parts(document: Data, name: str, spec: Path) -> list[PodSet]:
    marks = {"ray.io/cluster": name}
    at: Path = (*spec, "headGroupSpec", "template")
    parts = [PodSet(f"{name}-head", None, _mapping(document, at), at, at, {**marks, "ray.io/node-type": "head"})]
    for path, entry in _entries(document, (*spec, "workerGroupSpecs")):
        role = _text(entry, (*path, "groupName"))
        count = _count(entry, ("replicas",), 1, under=path) * _count(entry, ("numOfHosts",), 1, least=1, under=path)
        labels = {**marks, "ray.io/node-type": "worker", "ray.io/group": role}
        template = _mapping(entry, ("template",), under=path)
        parts.append(PodSet(f"{name}-{role}-worker", count, template, (*path, "template"), (*path, "replicas"), labels))
    return parts


def _ray_cluster(document: Data, name: str) -> Workload:
    return Workload(_ray_parts(document, name, ("spec",)))


def _ray_job(document: Data, name: str) -> Workload:
    return Workload(_ray_parts(document, name, ("spec", "rayClusterSpec")))


def _leader_worker_set(document: Data, name: str) -> Workload:
    template: Path = ("spec", "leaderWorkerTemplate")
    groups = _count(document, ("spec", "replicas"), 1)
    size = _count(document, (*template, "size"), 1, least=1)
    workers = (*template, "workerTemplate")
    worker = _mapping(document, workers)
    leader = _mapping(document, (*template, "leaderTemplate"), worker)
    leaders = workers if leader is worker else (*template, "leaderTemplate")
    if groups * size > MAX_PODS:
        raise _TemplateError(("spec", "replicas"), f"makes {groups * size} pods, expected at most {MAX_PODS}")
    parts = []
    for group in range(groups):
        marks = {"leaderworkerset.sigs.k8s.io/name": name, "leaderworkerset.sigs.k8s.io/group-index": str(group)}
        parts.append(PodSet(f"{name}-{group}", None, leader, leaders, ("spec", "replicas"), marks))
        parts += [
            PodSet(f"{name}-{group}-{index}", None, worker, workers, (*template, "size"), marks)
            for index in range(1, size)
        ]
    return Workload(parts)


_READERS: dict[tuple[str, str], Callable[[Data, str], Workload]] = {
    ("apps", "Deployment"): _replicas,
    ("apps", "ReplicaSet"): _replicas,
    ("apps", "StatefulSet"): _replicas,
    ("", "ReplicationController"): _replicas,
    ("batch", "Job"): _job,
    ("batch", "CronJob"): _cron_job,
    ("batch.volcano.sh", "Job"): _volcano_job,
    ("jobset.x-k8s.io", "JobSet"): _job_set,
    ("kubeflow.org", "PyTorchJob"): _training_job("pytorchReplicaSpecs"),
    ("kubeflow.org", "TFJob"): _training_job("tfReplicaSpecs"),
    ("kubeflow.org", "MPIJob"): _training_job("mpiReplicaSpecs"),
    ("kubeflow.org", "XGBoostJob"): _training_job("xgbReplicaSpecs"),
    ("kubeflow.org", "PaddleJob"): _training_job("paddleReplicaSpecs"),
    ("kubeflow.org", "JAXJob"): _training_job("jaxReplicaSpecs"),
    ("ray.io", "RayCluster"): _ray_cluster,
    ("ray.io", "RayJob"): _ray_job,
    ("leaderworkerset.x-k8s.io", "LeaderWorkerSet"): _leader_worker_set,
}
EXPANDED = tuple(sorted(f"{kind} ({group or 'v1'})" for group, kind in _READERS))
"""Every kind that is expanded, for the documentation."""
