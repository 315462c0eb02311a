"""What types alone cannot express about a scenario: names, limits that depend on each other, references.

Queues, nodes and pods follow the rules of manifests, by the same code. A fleet is checked cluster by cluster: each
cluster is a scenario of its own (`cluster_files`), and `in_file` maps a place in it back to a place in the whole file.
"""

from __future__ import annotations

from collections.abc import Callable, Iterable, Iterator, Sequence

from msgspec.structs import asdict, replace

from fairway.api.core import Node, NodeSpec, NodeStatus, ResourceQuota
from fairway.api.fleet import Placement, PlacementSpec
from fairway.api.kinds import find
from fairway.api.meta import ObjectMeta
from fairway.api.scheduling import Queue, QueueGuarantee, QueueSpec
from fairway.api.shape import Finding, describe, did_you_mean, fit, unknown_fields
from fairway.api.text import Path
from fairway.api.validation.labels import check_dns_label, check_dns_subdomain, check_labels, check_unique
from fairway.errors import InputError
from fairway.fleet import rules
from fairway.resources.algebra import Resource
from fairway.resources.quantity import INT64_MAX
from fairway.sim.limits import MAX_NODES, MIN_INTERVAL, MIN_MEAN_FAILURE
from fairway.sim.scenario.model import (
    ClusterChange,
    ClusterPart,
    Failure,
    FleetPart,
    JobTemplate,
    NodeTemplate,
    PlacementTemplate,
    QueueTemplate,
    ScenarioFile,
    Span,
    TraceSource,
)
from fairway.sim.spans import format_span
from fairway.sim.traces.csv_traces import check_unit
from fairway.sim.traces.formats import check_format, check_node_format

DEFAULT_QUEUE = "default"
MAX_LISTED = 20
"""Maximum known names that an error lists."""

Templates = Sequence[tuple[Path, NodeTemplate]]
"""Node templates and their places in the file."""


def check_cluster(file: ScenarioFile, nodes: Templates, joining: Templates, findings: list[Finding]) -> None:
    """The checks of one cluster that need only the file."""
    cluster = file.cluster
    _check_nodes(nodes, joining, findings)
    _check_queues(cluster.queues, findings)
    for name in cluster.namespaces:
        check_dns_label(name, ("cluster", "namespaces", name), findings)
    if not cluster.manifests:
        known = {DEFAULT_QUEUE, *(queue.name for queue in cluster.queues)}
        findings += unknown_queues(file, known)
    if cluster.trace is not None:
        _try(("cluster", "trace", "format"), check_node_format, cluster.trace.format, findings)
    for index, failure in enumerate(file.failures):
        _check_failure(failure, ("failures", index), findings)
    for index, change in enumerate(file.changes):
        _check_change(change, ("changes", index), findings)
    if not (cluster.nodes or cluster.manifests or cluster.trace):
        findings.append((("cluster",), "no nodes, expected nodes, manifests or a trace"))


def check_workload(file: ScenarioFile, findings: list[Finding]) -> None:
    """The checks of the workload and its timing."""
    workload = file.workload
    for index, job in enumerate(workload.jobs):
        _check_job(job, ("workload", "jobs", index), findings)
    _check_same_jobs(workload.jobs, findings)
    if workload.trace is not None:
        _check_trace(workload.trace, findings)
    if file.timing.interval < MIN_INTERVAL:
        expected = f"at least {format_span(MIN_INTERVAL)} between two passes of the scheduler"
        findings.append((("timing", "interval"), f"is {format_span(file.timing.interval)}, expected {expected}"))
    if not (workload.jobs or workload.manifests or workload.trace):
        findings.append((("workload",), "no jobs, expected jobs, manifests or a trace"))


def unknown_queues(file: ScenarioFile, known: Iterable[str]) -> Iterator[Finding]:
    """Queues that jobs, parents or the trace name and that do not exist. Manifests that may add queues must be read
    first.
    """
    names = set(known)
    named: list[tuple[Path, str]] = [
        (("cluster", "queues", index, "parent"), queue.parent)
        for index, queue in enumerate(file.cluster.queues)
        if queue.parent and queue.parent != queue.name
    ]
    named += [(("workload", "jobs", index, "queue"), job.queue) for index, job in enumerate(file.workload.jobs)]
    if file.workload.trace is not None and file.workload.trace.queue is not None:
        named.append((("workload", "trace", "queue"), file.workload.trace.queue))
    for path, name in named:
        if name not in names:
            yield path, f"there is no queue {describe(name)}{suggestion(name, names)}"


def suggestion(name: str, known: set[str]) -> str:
    """A near name, or all known names if they are few."""
    near = did_you_mean(name, known)
    return near if len(known) <= MAX_LISTED or "did you mean" in near else ""


def queue_of_template(template: QueueTemplate) -> Queue:
    def texts(amounts: Resource | None) -> dict[str, str]:
        return {} if amounts is None else amounts.format()

    spec = QueueSpec(
        weight=template.weight,
        guarantee=QueueGuarantee(resource=texts(template.guarantee)),
        capability=texts(template.capability),
        deserved=texts(template.deserved),
        parent=template.parent,
        reclaimable=template.reclaimable,
    )
    return Queue(metadata=ObjectMeta(name=template.name), spec=spec)


def _check_nodes(nodes: Templates, joining: Templates, findings: list[Finding]) -> None:
    for path, template in (*nodes, *joining):
        _check_node(template, path, findings)
    count = sum(template.count for _, template in (*nodes, *joining))
    if count > MAX_NODES:
        findings.append((("cluster", "nodes"), f"{count} nodes in all, expected at most {MAX_NODES}"))
    _check_same_nodes(nodes, findings)
    totals: dict[str, int] = {}
    for path, template in (*nodes, *joining):
        for name, amount in template.allocatable.amounts.items():
            totals[name] = totals.get(name, 0) + amount * template.count
            if totals[name] > INT64_MAX:
                findings.append((path, f"the cluster's total of {name} does not fit an int64"))
                return


def _check_node(template: NodeTemplate, path: Path, findings: list[Finding]) -> None:
    meta = ObjectMeta(name=_numbered(template.name, template.count), labels=template.labels)
    node = Node(
        metadata=meta,
        spec=NodeSpec(taints=template.taints),
        status=NodeStatus(allocatable=template.allocatable.format()),
    )
    findings += (((*path, *_in_template(inner)), text) for inner, text in _settle("Node", node))


def _check_same_nodes(nodes: Templates, findings: list[Finding]) -> None:
    """Templates whose nodes have the same names would replace each other's nodes."""
    seen: dict[tuple[str, int], Path] = {}
    for path, template in nodes:
        key = template.name, len(str(template.count - 1)) if template.count > 1 else 0
        if key in seen:
            other = "".join(f"[{step}]" for step in seen[key] if isinstance(step, int))
            text = f"nodes named {template.name} already exist (nodes{other}), expected another name"
            findings.append((path, text))
        seen.setdefault(key, path)


def _check_queues(queues: Sequence[QueueTemplate], findings: list[Finding]) -> None:
    path = ("cluster", "queues")
    check_unique((queue.name for queue in queues), path, "name", findings)
    for index, template in enumerate(queues):
        for inner, text in _settle("Queue", queue_of_template(template)):
            findings.append(((*path, index, *_in_template(inner)), text))
    findings += (((*path, index, "parent"), text) for index, text in _circles(queues))


def _circles(queues: Sequence[QueueTemplate]) -> Iterator[tuple[int, str]]:
    parents = {queue.name: queue.parent for queue in queues}
    for index, queue in enumerate(queues):
        above, seen = queue.parent, {queue.name}
        while above in parents and above not in seen:
            seen.add(above)
            above = parents[above]
        if above == queue.name and queue.parent != queue.name:
            yield index, "is a descendant of the queue itself, expected another queue"


def _settle(kind: str, obj: Node | Queue | ResourceQuota) -> list[Finding]:
    """The findings of the manifest reader for the object that the template stands for."""
    known = find("v1" if kind == "Node" else "scheduling.volcano.sh/v1beta1", kind)
    assert known is not None
    return known.settle(obj)


def _in_template(path: Path) -> Path:
    """A path in an object, as a path in its template: `spec.guarantee.resource.cpu` is `guarantee.cpu`."""
    return tuple(step for step in path if step not in ("metadata", "spec", "status", "resource"))


def _numbered(name: str, count: int) -> str:
    """The longest of `count` numbered names."""
    return name if count == 1 or not name else f"{name}-{count - 1}"


def _check_job(job: JobTemplate, path: Path, findings: list[Finding]) -> None:
    check_dns_subdomain(_numbered(_numbered(job.name, job.count), job.tasks), (*path, "name"), findings)
    check_dns_label(job.namespace, (*path, "namespace"), findings)
    check_labels(job.node_selector, (*path, "nodeSelector"), findings)
    if "pods" in job.request:
        text = "cannot be requested, expected a resource: every pod takes one slot"
        findings.append(((*path, "request", "pods"), text))
    for name, amount in job.request.amounts.items():
        if amount * job.tasks > INT64_MAX:
            findings.append(((*path, "request", name), f"{job.tasks} tasks of it do not fit an int64"))
    findings += ((path, text) for text in _when(job))


def _when(job: JobTemplate) -> Iterator[str]:
    """How many arrive, and when."""
    if job.minimum is not None and job.minimum > job.tasks:
        yield f"minimum: {job.minimum}, expected 1 to {job.tasks}"
    if job.every is not None and job.load is not None:
        yield "every and load are both set, expected one of them"
    if job.load is not None and not 0 < job.load <= 10:
        yield f"load: {job.load}, expected a part of the cluster such as 0.95"
    if job.count > 1 and job.every is None and job.load is None:
        yield "count requires every or load"


def _check_same_jobs(jobs: Sequence[JobTemplate], findings: list[Finding]) -> None:
    seen: dict[tuple[str, str], int] = {}
    for index, job in enumerate(jobs):
        first = seen.setdefault((job.namespace, job.name), index)
        if first != index:
            text = f"is {describe(job.name)} again (as in jobs[{first}]), expected a new name"
            findings.append((("workload", "jobs", index, "name"), text))


def _check_trace(trace: TraceSource, findings: list[Finding]) -> None:
    path: Path = ("workload", "trace")
    _try((*path, "format"), check_format, trace.format, findings)
    _check_columns(trace, path, findings)
    if trace.namespace is not None:
        check_dns_label(trace.namespace, (*path, "namespace"), findings)


def _check_columns(trace: TraceSource, path: Path, findings: list[Finding]) -> None:
    if trace.columns is not None:
        _try((*path, "columns", "unit"), check_unit, trace.columns.unit, findings)
    elif trace.format == "csv":
        findings.append((path, "a trace in CSV needs `columns`, to say which column means what"))


def _check_failure(failure: Failure, path: Path, findings: list[Finding]) -> None:
    planned = failure.node is not None and failure.at is not None
    if planned == (failure.every is not None) or (failure.every is not None and failure.at is not None):
        findings.append((path, "expected either node and at, or every"))
    elif failure.every is not None and failure.every.mean < MIN_MEAN_FAILURE:
        expected = f"at least {format_span(MIN_MEAN_FAILURE)} on average between two failures"
        findings.append(((*path, "every"), f"is {format_span(failure.every.mean)}, expected {expected}"))


def _check_change(change: ClusterChange, path: Path, findings: list[Finding]) -> None:
    if not (change.join or change.drain or change.remove):
        findings.append((path, "nothing changes, expected join, drain or remove"))


def _try(path: Path, attempt: Callable[[str], None], given: str, findings: list[Finding]) -> None:
    try:
        attempt(given)
    except InputError as error:
        findings.append((path, str(error)))


def declared_queues(cluster: ClusterPart, manifests: Iterable[object]) -> set[str]:
    """The queues of a cluster: its own, and those in its manifests."""
    brought = (obj.metadata.name for obj in manifests if isinstance(obj, Queue))
    return {DEFAULT_QUEUE, *(queue.name for queue in cluster.queues), *brought}


MAX_CLUSTERS = 1_000
MIN_REPORT = 100_000
"""Between two reports of a cluster: 100 ms."""
_CHOSEN_HERE = {
    "numberOfClusters": "each job gets one cluster",
    "requirements": "`requiresFree: true` takes what the job requests",
    "replicas": "a job is in one cluster",
    "replicaStrategy": "a job is in one cluster",
    "decisionStrategy": "each job gets one cluster",
}


def cluster_files(file: ScenarioFile) -> list[tuple[Path, ScenarioFile]]:
    """Each cluster as a scenario of its own, and its place in the file."""
    if file.fleet is None:
        return [((), file)]
    return [
        (
            ("fleet", "clusters", index),
            replace(
                file,
                cluster=_whole(file.fleet, asdict(member)),
                failures=member.failures,
                changes=member.changes,
                fleet=None,
            ),
        )
        for index, member in enumerate(file.fleet.clusters)
    ]


def _whole(fleet: FleetPart, member: dict[str, object]) -> ClusterPart:
    """With the queues and namespaces of the fleet; those of the cluster itself take precedence."""
    part = ClusterPart(**{name: member[name] for name in ClusterPart.__struct_fields__})  # type: ignore[arg-type]
    own = {queue.name for queue in part.queues}
    queues = (*part.queues, *(queue for queue in fleet.queues if queue.name not in own))
    return replace(part, queues=queues, namespaces={**fleet.namespaces, **part.namespaces})


def in_file(file: ScenarioFile, inside: Path, place: Path) -> Path:
    """The place in the whole file for a place in the scenario of one cluster."""
    if not inside or place[0] == "workload" or file.fleet is None:
        return place
    if place[0] != "cluster":
        return (*inside, *place)
    member = file.fleet.clusters[int(inside[-1])]
    if place[1:2] == ("namespaces",) and place[2] not in member.namespaces:
        return ("fleet", *place[1:])
    if place[1:2] == ("queues",) and len(place) > 2 and int(place[2]) >= len(member.queues):
        own = {queue.name for queue in member.queues}
        common = [index for index, queue in enumerate(file.fleet.queues) if queue.name not in own]
        return ("fleet", "queues", common[int(place[2]) - len(member.queues)], *place[3:])
    return (*inside, *place[1:])


def check_fleet(file: ScenarioFile, findings: list[Finding]) -> None:
    """The checks of the fleet besides its clusters."""
    fleet = file.fleet
    if fleet is None:
        return
    path: Path = ("fleet", "clusters")
    if file.cluster != ClusterPart():
        findings.append((("cluster",), "cannot be combined with a fleet, expected one of them"))
    for name in ("failures", "changes"):
        if getattr(file, name):
            text = "cannot be combined with a fleet, expected it under the cluster concerned"
            findings.append(((name,), text))
    if not 1 <= len(fleet.clusters) <= MAX_CLUSTERS:
        findings.append((path, f"{len(fleet.clusters)} clusters, expected 1 to {MAX_CLUSTERS}"))
    check_unique((member.name for member in fleet.clusters), path, "name", findings)
    for index, member in enumerate(fleet.clusters):
        check_dns_subdomain(member.name, (*path, index, "name"), findings)
        check_labels(member.labels, (*path, index, "labels"), findings)
    if fleet.report < MIN_REPORT:
        expected = f"at least {format_span(Span(MIN_REPORT))} between two reports of a cluster"
        findings.append((("fleet", "report"), f"is {format_span(fleet.report)}, expected {expected}"))
    findings += _placements(fleet.placements)


def _placements(templates: Sequence[PlacementTemplate]) -> Iterator[Finding]:
    path: Path = ("fleet", "placements")
    findings: list[Finding] = []
    check_unique((template.name for template in templates), path, "name", findings)
    seen: dict[str, int] = {}
    for index, template in enumerate(templates):
        here = (*path, index)
        check_dns_subdomain(template.name, (*here, "name"), findings)
        for place, name in enumerate(template.namespaces or ("",)):
            if name:
                check_dns_label(name, (*here, "namespaces", place), findings)
            first = seen.setdefault(name, index)
            if first != index:
                what = f"namespace {name} has" if name else "all other namespaces have"
                findings.append((here, f"{what} a placement already (placements[{first}]), expected one for each"))
        findings += ((((*here, *inner)), text) for inner, text in _spec_problems(template))
    yield from findings


def _spec_problems(template: PlacementTemplate) -> Iterator[Finding]:
    for name in _CHOSEN_HERE.keys() & template.spec.keys():
        yield ("spec", name), f"cannot be set here: {_CHOSEN_HERE[name]}"
    for place, meant in unknown_fields({"spec": template.spec}, "Placement", Placement):
        yield place, f"is an unknown field{f', did you mean {meant!r}?' if meant else ''}"
    spec, findings = fit(template.spec, PlacementSpec)
    if findings:
        yield from ((("spec", *place), text) for place, text in findings)
        return
    meta = ObjectMeta(name=template.name, namespace="default", annotations=template.annotations)
    for problem in rules.read(Placement(metadata=meta, spec=spec)).problems:
        yield ("spec",), problem


def placement_spec(template: PlacementTemplate) -> PlacementSpec:
    """What each job's placement requests, from a checked template."""
    spec, _ = fit(template.spec, PlacementSpec)
    return replace(spec, number_of_clusters=1)
