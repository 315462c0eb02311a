"""The scenario file as types: a cluster, what is asked of it, by which policy, and what must then be true.

Field names are written in camelCase in the file. Spans are written `90s`, `1h30m`, or drawn: `exponential
5m`.
"""

from __future__ import annotations

from typing import Annotated, Any, Literal

import msgspec

from fairway.api.fleet import ClusterTaint
from fairway.api.meta import Int32, Positive
from fairway.api.pods import Taint
from fairway.resources.algebra import Resource
from fairway.sim.limits import MAX_JOBS, MAX_NODES, MAX_TASKS
from fairway.sim.spans import Drawn
from fairway.sim.traces import TraceColumns

NodeCount = Annotated[int, msgspec.Meta(ge=1, le=MAX_NODES)]
TaskCount = Annotated[int, msgspec.Meta(ge=1, le=MAX_TASKS)]
JobCount = Annotated[int, msgspec.Meta(ge=1, le=MAX_JOBS)]
Seed = Annotated[int, msgspec.Meta(ge=-(2**63), le=2**63 - 1)]


class Span(int):
    """Microseconds, read from a text such as `1h30m`."""


class ScenarioPart(msgspec.Struct, frozen=True, forbid_unknown_fields=True, rename="camel"):
    """The base of all: an unknown key is an error."""


class NodeTemplate(ScenarioPart, frozen=True):
    """Nodes that are alike: `{count: 500, name: gpu, allocatable: {...}}`, or in short `500 x {cpu: 64}`."""

    allocatable: Resource
    count: NodeCount = 1
    name: str = "node"
    """Nodes are called name-0, name-1 and so on; a single one just by its name where one is given."""
    labels: dict[str, str] = {}
    taints: tuple[Taint, ...] = ()


Nodes = str | NodeTemplate | tuple[str | NodeTemplate, ...]
"""As written; `500 x {...}` is a text."""


class QueueTemplate(ScenarioPart, frozen=True):
    name: str
    weight: Positive = 1
    guarantee: Resource = Resource.EMPTY
    capability: Resource | None = None
    deserved: Resource | None = None
    parent: str = ""
    reclaimable: bool | None = None


class NamespaceTemplate(ScenarioPart, frozen=True):
    weight: Positive = 1


class TraceSource(ScenarioPart, frozen=True):
    """A trace file, or a slice of it; the first job that is taken arrives when the run starts."""

    file: str
    """Relative to the scenario's folder; `$FAIRWAY_DATA` in it stands for the folder of published data."""
    format: str
    strict: bool = False
    """Refuse the file where a row is wrong; else such rows are left out and counted."""
    columns: TraceColumns | None = None
    after: Span = Span(0)
    """Leave out jobs submitted less than this after the trace's first one."""
    first: Positive | None = None
    """At most so many jobs."""
    until: Span | None = None
    """Only jobs submitted within this time after the first one taken."""
    queue: str | None = None
    """Put all jobs into this queue, whatever the trace says."""
    namespace: str | None = None
    """Likewise this namespace, for the scheduler: all jobs wait in one line. The metrics keep the trace's."""
    one_pod: bool = False
    """A job is one pod that asks for what all its tasks ask for: for machines that are one pool of processors."""
    limits: bool = True
    """Requested run times, where the trace has them, are known to the scheduler and end the job."""


class ManifestJobs(ScenarioPart, frozen=True):
    """Pods and groups from files. A pod's own annotations `sim.fairway.dev/arrive` and `/run` go first."""

    file: str
    arrive: Span = Span(0)
    run: Drawn | None = None


class JobTemplate(ScenarioPart, frozen=True):
    """Jobs that are alike: one, or `count` of them, one `every` so often (or as many as make a `load`)."""

    name: str
    request: Resource
    """Of one task."""
    run: Drawn
    namespace: str = "default"
    queue: str = "default"
    tasks: TaskCount = 1
    minimum: TaskCount | None = None
    """Tasks that must start together; all of them where this is not given."""
    priority: Int32 = 0
    arrive: Span = Span(0)
    """When the (first) job comes, after the start of the run."""
    count: JobCount = 1
    every: Drawn | None = None
    load: float | None = None
    """Instead of `every`: come so often, at random, that they ask for this part of the cluster on average."""
    limit: Span | None = None
    """The run time that the scheduler expects and after which the job is ended."""
    node_selector: dict[str, str] = {}


class ClusterPart(ScenarioPart, frozen=True):
    nodes: Nodes = ()
    manifests: tuple[str, ...] = ()
    trace: TraceSource | None = None
    queues: tuple[QueueTemplate, ...] = ()
    namespaces: dict[str, NamespaceTemplate] = {}


class WorkloadPart(ScenarioPart, frozen=True):
    jobs: tuple[JobTemplate, ...] = ()
    manifests: tuple[ManifestJobs, ...] = ()
    trace: TraceSource | None = None


class TimingPart(ScenarioPart, frozen=True):
    """When the scheduler decides, and how long things take on the cluster."""

    cycles: Literal["events", "interval", "both"] = "events"
    interval: Span = Span(1_000_000)
    start_delay: Drawn = Drawn("fixed", 0, 0)
    """From the binding of a pod to the start of its run: images, devices."""
    provisioning: Drawn = Drawn("fixed", 0, 0)
    """From the selection of a node for a claim to its volume; the pod is bound then."""
    provisioning_failures: Annotated[float, msgspec.Meta(ge=0, le=1)] = 0.0
    """The part of attempts in which the provisioner gives up, and the pod is placed again."""
    grace: Span | None = None
    """From an eviction to the end of the pod; the pod's own grace period where this is not given."""


class Failure(ScenarioPart, frozen=True):
    """A node fails: `node` at the time `at`, or one chosen at random `every` so often."""

    lasts: Drawn
    node: str | None = None
    at: Span | None = None
    every: Drawn | None = None


class ClusterChange(ScenarioPart, frozen=True):
    """The cluster changes on purpose: nodes join, or one is drained (its pods go, it takes no new)."""

    at: Span
    join: Nodes = ()
    drain: str | None = None
    remove: str | None = None


SCALES = (0.001, 1000)
"""The least and the largest factor."""


class ScaledRunTimes(ScenarioPart, frozen=True):
    """Run times as they will be, times a factor: how wrong users are."""

    scale: Annotated[float, msgspec.Meta(ge=SCALES[0], le=SCALES[1])]


Estimate = Literal["requested", "user-history", "clairvoyant"] | ScaledRunTimes


class MemberCluster(ClusterPart, frozen=True, kw_only=True):
    """A cluster of a fleet: what it is made of, how the hub knows it, and what happens to its nodes."""

    name: str
    labels: dict[str, str] = {}
    claims: dict[str, str] = {}
    taints: tuple[ClusterTaint, ...] = ()
    failures: tuple[Failure, ...] = ()
    changes: tuple[ClusterChange, ...] = ()


class PlacementTemplate(ScenarioPart, frozen=True):
    """How clusters are chosen for the jobs of some namespaces: each job gets a Placement of its own, made from this."""

    name: str
    namespaces: tuple[str, ...] = ()
    """Of all that no other placement names, where this is not given."""
    spec: dict[str, Any] = {}
    """As in a Placement; it chooses one cluster for each job."""
    annotations: dict[str, str] = {}
    requires_free: bool = False
    """Only clusters that report all that the job requests as free; it is reserved there until the job has started."""


class FleetPart(ScenarioPart, frozen=True):
    """Several clusters with placements in front of them."""

    clusters: tuple[MemberCluster, ...]
    queues: tuple[QueueTemplate, ...] = ()
    """In every cluster, before those of its own; likewise below."""
    namespaces: dict[str, NamespaceTemplate] = {}
    placements: tuple[PlacementTemplate, ...] = ()
    report: Span = Span(10_000_000)
    """A cluster tells the hub what is free there at most so often."""


class ScenarioFile(ScenarioPart, frozen=True):
    workload: WorkloadPart
    cluster: ClusterPart = ClusterPart()
    fleet: FleetPart | None = None
    """Instead of `cluster`."""
    name: str = ""
    policy: str | None = None
    """A policy file, relative to the scenario's folder; the built-in policy where this is not given."""
    estimate: Estimate | None = None
    """What backfill takes for the run time of a job; what the policy says where this is not given."""
    start: str = "2026-01-01T00:00:00Z"
    end: Span | None = None
    """How long the run lasts; until everything is done where this is not given."""
    seed: Seed = 0
    timing: TimingPart = TimingPart()
    failures: tuple[Failure, ...] = ()
    changes: tuple[ClusterChange, ...] = ()
    asserts: tuple[str, ...] = msgspec.field(default=(), name="assert")
