"""A scenario of a fleet, cluster by cluster: each is a scenario of its own, held to the same rules."""

from __future__ import annotations

from collections.abc import Iterator, Sequence

from msgspec.structs import asdict, replace

from fairway.api.fleet import Placement, PlacementSpec
from fairway.api.meta import ObjectMeta
from fairway.api.shape import Finding, Path
from fairway.api.shape import fit as fit_object
from fairway.api.unknown_fields import unknown_fields
from fairway.api.validation.labels import check_dns_label, check_dns_subdomain, check_labels, check_unique
from fairway.fleet import rules
from fairway.sim.scenario.model import ClusterPart, FleetPart, PlacementTemplate, ScenarioFile, Span
from fairway.sim.spans import format_span

MAX_CLUSTERS = 1_000
SHORTEST_REPORT = 100_000
"""Between two reports of a cluster: 100 ms."""
_CHOSEN_HERE = {
    "numberOfClusters": "each job gets one cluster",
    "requirements": "`requiresFree: true` takes what the job requests",
    "replicas": "a job is in one cluster",
    "replicaStrategy": "a job is in one cluster",
    "decisionStrategy": "each job gets one cluster",
}


def cluster_files(file: ScenarioFile) -> list[tuple[Path, ScenarioFile]]:
    """Each cluster as the only one of a scenario, and where it stands in the file."""
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
    """With the queues and namespaces of the fleet; those of the cluster itself go first."""
    part = ClusterPart(**{name: member[name] for name in ClusterPart.__struct_fields__})  # type: ignore[arg-type]
    own = {queue.name for queue in part.queues}
    queues = (*part.queues, *(queue for queue in fleet.queues if queue.name not in own))
    return replace(part, queues=queues, namespaces={**fleet.namespaces, **part.namespaces})


def in_file(file: ScenarioFile, inside: Path, place: Path) -> Path:
    """Where something stands in the whole file that stands there in the scenario of one cluster."""
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
    """What can be said of the fleet beside its clusters."""
    fleet = file.fleet
    if fleet is None:
        return
    path: Path = ("fleet", "clusters")
    if file.cluster != ClusterPart():
        findings.append((("cluster",), "stands beside a fleet, expected one of them"))
    for name in ("failures", "changes"):
        if getattr(file, name):
            text = "stands beside a fleet, expected it under the cluster that it happens to"
            findings.append(((name,), text))
    if not 1 <= len(fleet.clusters) <= MAX_CLUSTERS:
        findings.append((path, f"{len(fleet.clusters)} clusters, expected 1 to {MAX_CLUSTERS}"))
    check_unique((member.name for member in fleet.clusters), path, "name", findings)
    for index, member in enumerate(fleet.clusters):
        check_dns_subdomain(member.name, (*path, index, "name"), findings)
        check_labels(member.labels, (*path, index, "labels"), findings)
    if fleet.report < SHORTEST_REPORT:
        expected = f"at least {format_span(Span(SHORTEST_REPORT))} between two reports of a cluster"
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
        yield ("spec", name), f"cannot be said here: {_CHOSEN_HERE[name]}"
    for place, meant in unknown_fields({"spec": template.spec}, "Placement", Placement):
        yield place, f"is an unknown field{f', did you mean {meant!r}?' if meant else ''}"
    spec, findings = fit_object(template.spec, PlacementSpec)
    if findings:
        yield from ((("spec", *place), text) for place, text in findings)
        return
    assert isinstance(spec, PlacementSpec)
    meta = ObjectMeta(name=template.name, namespace="default", annotations=template.annotations)
    for problem in rules.read(Placement(metadata=meta, spec=spec)).problems:
        yield ("spec",), problem


def placement_spec(template: PlacementTemplate) -> PlacementSpec:
    """Of a template that was checked: what each job's placement requests."""
    spec, _ = fit_object(template.spec, PlacementSpec)
    assert isinstance(spec, PlacementSpec)
    return replace(spec, number_of_clusters=1)
