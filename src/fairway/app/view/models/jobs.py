"""The table of jobs."""

from __future__ import annotations

from typing import Literal

from fairway.app.view.models.common import PageStruct

JobState = Literal["waiting", "starting", "running", "finished"]


class JobSummary(PageStruct, frozen=True, omit_defaults=True, gc=False):
    """One row. A job that has its minimum and waits for more pods is running, with the reason why the rest waits."""

    job: str
    """`namespace/name`."""
    namespace: str
    queue: str
    state: JobState
    kind: str
    """PodGroup, Controller (the pods of one), or Pod for a lone pod."""
    pods: int
    created: str | None
    """null where its objects do not say."""
    placed: int = 0
    """Pods that are on nodes."""
    minimum: int = 1
    priority: int = 0
    position: int = 0
    """Queue position from 1; 0 where it does not wait."""
    reason: str = ""
    """The dominant reason as one word, for grouping; as NotEnoughResources."""
    message: str = ""
    """The dominant reason as a sentence."""
    starving: bool = False
    held: bool = False
    """Its pods are gated: a user or a controller holds it."""
    started: str | None = None
    ended: str | None = None
    outcome: str = ""
    """Of a finished job: succeeded, failed, deleted or evicted."""
    planned_start: str | None = None
    """A start that backfill protects."""
    estimated_start: str | None = None
    """A forecast without a guarantee; absent until it is known."""
    starts_after: str | None = None
    """Where the forecast ended before this job started."""
    no_start: bool = False
    """The forecast has seen all that is known to happen, and the job still waits."""


class JobGroupCount(PageStruct, frozen=True):
    """Jobs that have the same value in the column that is grouped by."""

    value: str
    count: int
    pods: int
    waiting: int
    starting: int
    running: int
    finished: int


class FacetCount(PageStruct, frozen=True):
    value: str
    count: int


class JobFacets(PageStruct, frozen=True):
    """How many jobs there are with each value, under all filters but the facet's own: what filter menus show."""

    state: list[FacetCount]
    queue: list[FacetCount]
    namespace: list[FacetCount]
    reason: list[FacetCount]
    labels: list[str]
    """Keys of labels that jobs have, for `label=` and `group=label:KEY`; the most frequent first, at most 50."""


class JobsPage(PageStruct, frozen=True):
    """GET /jobs. Filters are repeatable: within one they are alternatives, between them all must hold."""

    revision: int
    now: str
    total: int
    """Jobs that pass the filters."""
    offset: int
    limit: int
    rows: list[JobSummary]
    groups: list[JobGroupCount] | None = None
    """With `group=`: the largest first."""
    facets: JobFacets | None = None
    """With `facets=true`."""
