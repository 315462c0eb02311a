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
    """The base of all parts: an unknown key is an error."""


class NodeTemplate(ScenarioPart, frozen=True):
    """Equal nodes: `{count: 500, name: gpu, allocatable: {...}}`, or in short `500 x {cpu: 64}`."""

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
    """Refuse the file if a row is wrong; otherwise wrong rows are skipped and counted."""
    columns: TraceColumns | None = None
    after: Span = Span(0)
    """Skip jobs submitted less than this after the trace's first one."""
    first: Positive | None = None
    """Maximum number of jobs."""
    until: Span | None = None
    """Only jobs submitted within this time after the first one taken."""
    queue: str | None = None
    """Put all jobs into this queue, whatever the trace has."""
    namespace: str | None = None
    """Put all jobs into this namespace for the scheduler, so that they form one queue. The metrics keep the trace's."""
    one_pod: bool = False
    """A job is one pod that requests what all its tasks request: for machines that are one pool of processors."""
    limits: bool = True
    """Requested run times, if the trace has them, are known to the scheduler and end the job."""


class ManifestJobs(ScenarioPart, frozen=True):
    """Pods and groups from files. A pod's own annotations `sim.fairway.dev/arrive` and `/run` take precedence."""

    file: str
    arrive: Span = Span(0)
    run: Drawn | None = None


class JobTemplate(ScenarioPart, frozen=True):
    """Equal jobs: one, or `count` of them, one `every` so often (or as many as make a `load`)."""

    name: str
    request: Resource
    """Of one task."""
    run: Drawn
    namespace: str = "default"
    queue: str = "default"
    tasks: TaskCount = 1
    minimum: TaskCount | None = None
    """Tasks that must start together; by default all of them."""
    priority: Int32 = 0
    arrive: Span = Span(0)
    """When the (first) job comes, after the start of the run."""
    count: JobCount = 1
    every: Drawn | None = None
    load: float | None = None
    """Instead of `every`: arrive at random, so often that they request this fraction of the cluster on average."""
    limit: Span | None = None
    """The run time that the scheduler expects, and after which the job is ended."""
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
    """From an eviction to the end of the pod; by default the pod's own grace period."""


class Failure(ScenarioPart, frozen=True):
    """A node fails: `node` at the time `at`, or a random one `every` so often."""

    lasts: Drawn
    node: str | None = None
    at: Span | None = None
    every: Drawn | None = None


class ClusterChange(ScenarioPart, frozen=True):
    """A planned change: nodes join, or one is drained (its pods are evicted, and it accepts no new ones) or removed."""

    at: Span
    join: Nodes = ()
    drain: str | None = None
    remove: str | None = None


SCALES = (0.001, 1000)
"""The smallest and the largest factor."""


class ScaledRunTimes(ScenarioPart, frozen=True):
    """Real run times multiplied by a factor: simulates how far off users' estimates are."""

    scale: Annotated[float, msgspec.Meta(ge=SCALES[0], le=SCALES[1])]


Estimate = Literal["requested", "user-history", "clairvoyant"] | ScaledRunTimes


class MemberCluster(ClusterPart, frozen=True, kw_only=True):
    """A cluster of a fleet: its parts, its labels and claims on the hub, and events of its nodes."""

    name: str
    labels: dict[str, str] = {}
    claims: dict[str, str] = {}
    taints: tuple[ClusterTaint, ...] = ()
    failures: tuple[Failure, ...] = ()
    changes: tuple[ClusterChange, ...] = ()


class PlacementTemplate(ScenarioPart, frozen=True):
    """How clusters are chosen for the jobs of some namespaces: each job gets its own Placement from this template."""

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
    """Minimum time between two reports of free capacity from a cluster to the hub."""


class ScenarioFile(ScenarioPart, frozen=True):
    workload: WorkloadPart
    cluster: ClusterPart = ClusterPart()
    fleet: FleetPart | None = None
    """Instead of `cluster`."""
    name: str = ""
    policy: str | None = None
    """A policy file, relative to the scenario's folder; by default the built-in policy."""
    estimate: Estimate | None = None
    """What backfill takes for the run time of a job; by default what the policy says."""
    start: str = "2026-01-01T00:00:00Z"
    end: Span | None = None
    """How long the run lasts; by default until everything is done."""
    seed: Seed = 0
    timing: TimingPart = TimingPart()
    failures: tuple[Failure, ...] = ()
    changes: tuple[ClusterChange, ...] = ()
    asserts: tuple[str, ...] = msgspec.field(default=(), name="assert")
