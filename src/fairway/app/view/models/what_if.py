"""Questions about changes that are not made."""

from __future__ import annotations

from typing import Annotated, Literal

import msgspec
from msgspec import Meta

from fairway.app.view.models.common import PageStruct

Count = Annotated[int, Meta(ge=1, le=10_000)]


class QuestionStruct(msgspec.Struct, rename="camel", frozen=True, forbid_unknown_fields=True):
    """The base of what a question is made of."""


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
    """The name of a node that they are like; or give `allocatable`."""
    allocatable: dict[str, str] = {}
    """Quantities as in manifests."""


class RemoveNodes(QuestionStruct, frozen=True, tag="removeNodes", tag_field="kind"):
    """Their pods are gone too, and are recreated where a simulation is asked for."""

    nodes: Annotated[list[str], Meta(min_length=1, max_length=10_000)]


class SubmitForm(QuestionStruct, frozen=True, tag="submitForm", tag_field="kind"):
    name: str
    requests: dict[str, str]
    """Of each pod; quantities as in manifests."""
    pods: Count = 1
    minimum: Count | None = None
    """null: all pods at once."""
    namespace: str = "default"
    queue: str = "default"
    priority_class: str = ""
    runtime_seconds: Annotated[float, Meta(gt=0)] | None = None


class SubmitManifest(QuestionStruct, frozen=True, tag="submitManifest", tag_field="kind"):
    yaml: Annotated[str, Meta(max_length=1 << 20)]
    """Any objects that `fairway apply -f` takes."""


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
    """POST /what-if. Nothing is changed: a worker process with limits of time and memory works on a copy."""

    changes: Annotated[list[SupposedChange], Meta(min_length=1, max_length=100)]
    mode: Literal["decide", "simulate"] = "decide"
    """decide: the next cycle, with and without the changes. simulate: from now on until `horizonSeconds`, if nothing
    else arrives."""
    horizon_seconds: Annotated[float, Meta(gt=0, le=7 * 86_400)] = 86_400


class SupposedJob(PageStruct, frozen=True):
    """A job that fares otherwise. States are waiting, starting, evicted, running or absent."""

    job: str
    queue: str
    before: str
    after: str
    message: str = ""
    """Why it waits after the changes, if it does."""
    start_before: str | None = None
    """Of a simulation."""
    start_after: str | None = None
    earlier_seconds: float | None = None
    """How much earlier it starts; negative is later."""


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
    """Of a simulation: of jobs that started in it."""
    utilisation: dict[str, float] = {}
    """Allocated part of each resource; of a simulation on average."""


class WhatIfAnswer(PageStruct, frozen=True):
    mode: Literal["decide", "simulate"]
    sentence: str
    """The difference in one sentence."""
    before: SupposedTotals
    after: SupposedTotals
    jobs: list[SupposedJob]
    """At most 500, those that gain or lose most first."""
    jobs_total: int
    queues: list[SupposedQueue]
    """Only those that differ."""
    evictions: list[str]
    """Pods that would be evicted with the changes, and would not without."""
    warnings: list[str]
    seconds: float
    """That the answer took."""
    complete: bool
    """false: the simulation ended at its limit before its horizon."""
