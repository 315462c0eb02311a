"""What-if questions: supposed changes, and the difference they would make."""

from __future__ import annotations

from typing import Annotated, Literal

import msgspec
from msgspec import Meta

from fairway.app.view.models.common import PageStruct

Count = Annotated[int, Meta(ge=1, le=10_000)]


class QuestionStruct(msgspec.Struct, rename="camel", frozen=True, forbid_unknown_fields=True):
    """The base of the parts of a question."""


class SetQueueWeight(QuestionStruct, frozen=True, tag="queueWeight", tag_field="kind"):
    queue: str
    weight: Annotated[int, Meta(ge=1, le=1_000_000)]


class SetQueueCapability(QuestionStruct, frozen=True, tag="queueCapability", tag_field="kind"):
    queue: str
    capability: dict[str, str]
    """Quantities as in manifests, `{"cpu": "16", "memory": "64Gi"}`; {} is no limit."""


class SetQueueDeserved(QuestionStruct, frozen=True, tag="queueDeserved", tag_field="kind"):
    queue: str
    deserved: dict[str, str]


class SetNamespaceWeight(QuestionStruct, frozen=True, tag="namespaceWeight", tag_field="kind"):
    namespace: str
    weight: Annotated[int, Meta(ge=1, le=1_000_000)]


class AddNodes(QuestionStruct, frozen=True, tag="addNodes", tag_field="kind"):
    count: Count
    like: str = ""
    """Name of a node to copy; alternatively `allocatable`."""
    allocatable: dict[str, str] = {}
    """Quantities as in manifests."""


class RemoveNodes(QuestionStruct, frozen=True, tag="removeNodes", tag_field="kind"):
    """Their pods are removed as well, and recreated in a simulation."""

    nodes: Annotated[list[str], Meta(min_length=1, max_length=10_000)]


class SubmitForm(QuestionStruct, frozen=True, tag="submitForm", tag_field="kind"):
    name: str
    requests: dict[str, str]
    """Requests of each pod; quantities as in manifests."""
    pods: Count = 1
    minimum: Count | None = None
    """null if all pods must start together."""
    namespace: str = "default"
    queue: str = "default"
    priority_class: str = ""
    runtime_seconds: Annotated[float, Meta(gt=0)] | None = None


class SubmitManifest(QuestionStruct, frozen=True, tag="submitManifest", tag_field="kind"):
    yaml: Annotated[str, Meta(max_length=1 << 20)]
    """Any objects that `fairway apply -f` accepts."""


class CancelJob(QuestionStruct, frozen=True, tag="cancelJob", tag_field="kind"):
    job: str
    """`namespace/name`."""


class UsePolicy(QuestionStruct, frozen=True, tag="policy", tag_field="kind"):
    text: Annotated[str, Meta(max_length=1 << 20)]
    """A policy file."""


SupposedChange = (
    SetQueueWeight
    | SetQueueCapability
    | SetQueueDeserved
    | SetNamespaceWeight
    | AddNodes
    | RemoveNodes
    | SubmitForm
    | SubmitManifest
    | CancelJob
    | UsePolicy
)


class WhatIfRequest(QuestionStruct, frozen=True):
    """POST /what-if. Changes nothing: a worker process with time and memory limits works on a copy."""

    changes: Annotated[list[SupposedChange], Meta(min_length=1, max_length=100)]
    mode: Literal["decide", "simulate"] = "decide"
    """decide: the next cycle, with and without the changes. simulate: from now until `horizonSeconds`, if nothing else
    arrives."""
    horizon_seconds: Annotated[float, Meta(gt=0, le=7 * 86_400)] = 86_400


class SupposedJob(PageStruct, frozen=True):
    """A job with a different outcome. States are waiting, starting, evicted, running or absent."""

    job: str
    queue: str
    before: str
    after: str
    message: str = ""
    """Why it is pending after the changes, if it is."""
    start_before: str | None = None
    """For a simulation."""
    start_after: str | None = None
    earlier_seconds: float | None = None
    """Seconds by which it starts earlier; negative if later."""


class SupposedQueue(PageStruct, frozen=True):
    queue: str
    resource: str
    deserved_before: float
    deserved_after: float
    allocated_before: float
    """After the next cycle, or at the end of the simulation."""
    allocated_after: float


class SupposedTotals(PageStruct, frozen=True):
    waiting: int
    started: int
    evicted: int
    mean_wait_seconds: float | None = None
    """For a simulation: mean over the jobs that started in it."""
    utilisation: dict[str, float] = {}
    """Allocated part of each resource; for a simulation, the mean over time."""


class WhatIfAnswer(PageStruct, frozen=True):
    mode: Literal["decide", "simulate"]
    sentence: str
    """The difference in one sentence."""
    before: SupposedTotals
    after: SupposedTotals
    jobs: list[SupposedJob]
    """At most 500, largest gain or loss first."""
    jobs_total: int
    queues: list[SupposedQueue]
    """Only queues that differ."""
    evictions: list[str]
    """Pods that would be evicted only with the changes."""
    warnings: list[str]
    seconds: float
    """Time taken to answer."""
    complete: bool
    """false if the simulation stopped at a limit before its horizon."""
