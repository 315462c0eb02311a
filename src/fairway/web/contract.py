"""Every operation of `/api/v1`, as one table: routes and the OpenAPI document are made from it."""

from __future__ import annotations

from typing import Any, Literal, NamedTuple

from fairway.app.view.frame import Frame
from fairway.app.view.job_table import GROUPS, MAX_ROWS, SORTS, STATES
from fairway.app.view.models.cluster import DevicesPage, FitAnswer, FleetPage, NodeDetail, NodesMap, QueuesPage
from fairway.app.view.models.commands import (
    ApplyRequest,
    CommandResults,
    DeleteRequest,
    EventItems,
    JobItems,
    NodeItems,
    ObjectItems,
    WaitingItems,
)
from fairway.app.view.models.history import (
    EvictionsPage,
    FeedPage,
    HistoryPage,
    NodesTimeline,
    QueueHistory,
    ReservationsPage,
    SchedulerPage,
)
from fairway.app.view.models.jobs import (
    JobActionAnswer,
    JobActionRequest,
    JobDetail,
    JobExplanation,
    JobManifest,
    JobPlaceInOrder,
    JobsPage,
    JobStart,
)
from fairway.app.view.models.runs import ReportView
from fairway.app.view.models.session import ClusterSummary, PaceSetting, SessionInfo, StreamEvent
from fairway.app.view.models.what_if import WhatIfAnswer, WhatIfRequest

PREFIX = "/api/v1"
EMBEDDED = (ReportView,)
"""Models that the page reads from a self-contained file instead of an answer; the document describes them as well."""
MAX_BYTES = 16 << 20
"""Of any body."""


class QueryParameter(NamedTuple):
    name: str
    text: str
    kind: Literal["string", "integer", "boolean", "number"] = "string"
    repeated: bool = False
    values: tuple[str, ...] = ()
    """Those that it may have; () is any."""
    default: Any = None
    least: int | None = None
    most: int | None = None


class Operation(NamedTuple):
    name: str
    """Of the method that answers it, and its operationId in camel case."""
    method: Literal["GET", "POST"]
    path: str
    """Below the prefix. A job or object is `namespace/name`, with its slash."""
    answer: Any
    text: str
    query: tuple[QueryParameter, ...] = ()
    body: Any = None
    tag: str = "views"
    streams: bool = False
    is_slow: bool = False
    """It decides many times: see `answers.questions`."""
    is_long: bool = False
    """It may take up to a minute."""
    most_bytes: int = 64 << 10
    """Of its body."""
    sandbox_only: bool = False
    own_words: bool = False
    """The answer is what a user wrote: names in it are not looked for."""
    example: str = ""
    """A path with a query whose answer, on the demo, is the example in the document."""


_OFFSET = QueryParameter("offset", "Rows to skip.", "integer", default=0, least=0)


def _limit(default: int, most: int = MAX_ROWS) -> QueryParameter:
    return QueryParameter("limit", "Rows in the answer, at most.", "integer", default=default, least=0, most=most)


_FROM = QueryParameter("from", "Not before this time (RFC 3339).")
_TO = QueryParameter("to", "Not after this time (RFC 3339).")
_POINTS = QueryParameter("points", "Times in each series, at most.", "integer", default=300, least=2, most=2000)
_JOB_FILTERS = (
    QueryParameter("queue", "Jobs of these queues.", repeated=True),
    QueryParameter("namespace", "Jobs of these namespaces.", repeated=True),
    QueryParameter("state", "Jobs in these states.", repeated=True, values=STATES),
    QueryParameter("reason", "Jobs that wait for these reasons (one word, as in a row).", repeated=True),
    QueryParameter("label", "Jobs with this label: `key=value`, or `key` for any value. All must hold.", repeated=True),
    QueryParameter("search", "A part of `namespace/name`."),
)

OPERATIONS = (
    Operation("session", "GET", "/session", SessionInfo, "What is shown, to whom, and what may be done.",
              example="/session"),
    Operation("overview", "GET", "/overview", ClusterSummary, "The cluster in figures.", example="/overview"),
    Operation(
        "events", "GET", "/events", StreamEvent,
        "Server-sent events: `hello` first, then `delta` whenever something changed, at most a few per second. Each "
        "has an `id`; with `Last-Event-ID` (or `lastEventId=`) a client that reconnects gets the deltas that it "
        "missed, or `reset` where they are no longer kept. A client that reads too slowly gets `goodbye`.",
        (QueryParameter("lastEventId", "As the header Last-Event-ID."),),
        streams=True,
    ),
    Operation(
        "jobs", "GET", "/jobs", JobsPage, "A page of the table of jobs, filtered and sorted here.",
        (
            *_JOB_FILTERS,
            QueryParameter("sort", "A column, with - before it for descending. Rows without a value come last. "
                           f"One of: {', '.join(SORTS)}; `order` is the order of consideration.", default="order"),
            QueryParameter("group", f"Count by {', '.join(GROUPS)}, or by `label:KEY`."),
            QueryParameter("facets", "Count the values of each filter.", "boolean", default=False),
            _OFFSET, _limit(100),
        ),
        example="/jobs?limit=3&facets=true&group=queue",
    ),
    Operation("job", "GET", "/jobs/{job:path}", JobDetail, "One job: where it stands, its pods, its history.",
              example="/jobs/language/pretrain"),
    Operation("explanation", "GET", "/explanations/{job:path}", JobExplanation,
              "Why a job waits, and what would start it now. When it starts is asked for by itself, see /starts.",
              is_slow=True, example="/explanations/language/pretrain"),
    Operation("start", "GET", "/starts/{job:path}", JobStart,
              "When a waiting job starts if nothing else arrives. Takes up to half a minute in a large cluster.",
              (QueryParameter("bounds", "Also between which times: two looks ahead more.", "boolean", default=False),),
              is_long=True, example="/starts/language/pretrain?bounds=true"),
    Operation("order", "GET", "/orders/{job:path}", JobPlaceInOrder,
              "Where a waiting job stands in the order of consideration, key by key. 422 where it does not wait.",
              is_slow=True, example="/orders/language/pretrain"),
    Operation("manifest", "GET", "/manifests/{job:path}", JobManifest, "A job's objects as YAML.",
              own_words=True, example="/manifests/vision/sweep-25"),
    Operation("act", "POST", "/actions/{job:path}", JobActionAnswer,
              "Cancel, reprioritise, hold or release a job, with the user's own rights.", body=JobActionRequest,
              tag="changes"),
    Operation("queues", "GET", "/queues", QueuesPage, "The tree of queues with shares, and who borrows from whom.",
              example="/queues"),
    Operation("queue_history", "GET", "/queues/{name}/history", QueueHistory, "A queue over time.",
              (_FROM, _TO, _POINTS), example="/queues/research/history?points=5"),
    Operation("nodes", "GET", "/nodes", NodesMap, "All nodes as columns.", example="/nodes"),
    Operation(
        "fit", "GET", "/nodes/fit", FitAnswer, "How many gangs of a shape fit now: what fragmentation leaves.",
        (
            QueryParameter("pods", "Pods of a gang.", "integer", default=1, least=1, most=100_000),
            QueryParameter("request", "What each pod requests, as `cpu=8`, `nvidia.com/gpu=4`.", repeated=True),
        ),
        example="/nodes/fit?pods=2&request=nvidia.com/gpu=4&request=cpu=8",
    ),
    Operation("node", "GET", "/nodes/{name}", NodeDetail, "One node: its pods, devices and reservations.",
              example="/nodes/gpu-0"),
    Operation(
        "devices", "GET", "/devices", DevicesPage, "Device classes, devices and which pods have them.",
        (
            QueryParameter("class", "Devices that this class selects."),
            QueryParameter("node", "Devices of this node."),
            QueryParameter("kind", "Devices of this kind."),
            QueryParameter("holder", "Devices that a pod has whose `namespace/name` has this part."),
            _OFFSET, _limit(200),
        ),
        example="/devices?limit=3",
    ),
    Operation("evictions", "GET", "/evictions", EvictionsPage, "Evictions, the newest first.",
              (QueryParameter("before", "Only older ones than this id.", "integer"), _limit(100)),
              example="/evictions?limit=3"),
    Operation("reservations", "GET", "/reservations", ReservationsPage, "Reservations and planned starts.",
              example="/reservations"),
    Operation(
        "feed", "GET", "/feed", FeedPage, "What happened, the newest first.",
        (
            QueryParameter("before", "Only older entries than this id.", "integer"),
            QueryParameter("kind", "Only entries of these kinds.", repeated=True),
            QueryParameter("job", "Only entries of this job."),
            _limit(100),
        ),
        example="/feed?limit=3",
    ),
    Operation(
        "timeline", "GET", "/timeline", NodesTimeline, "Nodes over time: what ran, runs, is reserved and planned.",
        (
            _FROM, _TO, QueryParameter("search", "A part of the node's name."),
            QueryParameter("pool", "Nodes of this pool."), _OFFSET, _limit(100),
        ),
        example="/timeline?limit=2",
    ),
    Operation("history", "GET", "/history", HistoryPage, "Waits, utilisation, evictions and shares over time.",
              (_FROM, _TO, _POINTS), example="/history?points=5"),
    Operation("scheduler", "GET", "/scheduler", SchedulerPage, "How the scheduler itself does.", example="/scheduler"),
    Operation("what_if", "POST", "/what-if", WhatIfAnswer,
              "What would change if: decided or simulated on a copy in a worker process. Changes nothing. 503 where "
              "others wait already, 504 where it takes too long.", body=WhatIfRequest, is_long=True,
              most_bytes=2 << 20),
    Operation("fleet", "GET", "/fleet", FleetPage, "Clusters and placements of the hub; 404 where none is connected.",
              example="/fleet"),
    Operation("pace", "POST", "/pace", PaceSetting, "The speed of a sandbox.", body=PaceSetting, tag="changes"),
    Operation("apply", "POST", "/apply", CommandResults, "Make or change objects of a sandbox, all or none.",
              body=ApplyRequest, tag="changes", most_bytes=MAX_BYTES, sandbox_only=True),
    Operation("delete", "POST", "/delete", CommandResults, "Delete objects of a sandbox, all or none.",
              body=DeleteRequest, tag="changes", most_bytes=MAX_BYTES, sandbox_only=True),
    # What the other commands of `fairway` ask.
    Operation("frame", "GET", "/frame", Frame, "All that the terminal shows, at once.", tag="commands"),
    Operation("job_rows", "GET", "/lists/jobs", JobItems, "Jobs as `fairway get jobs` lists them.", tag="commands"),
    Operation("node_rows", "GET", "/lists/nodes", NodeItems, "Nodes as `fairway get nodes` lists them.",
              tag="commands"),
    Operation("event_rows", "GET", "/lists/events", EventItems, "What was carried out.", tag="commands"),
    Operation("waiting_rows", "GET", "/lists/waiting", WaitingItems, "Jobs that wait, with estimated starts.",
              tag="commands", is_slow=True),
    Operation("objects", "GET", "/objects/{which:path}", ObjectItems,
              "Objects as manifests: KIND, KIND/NAME or KIND/NAMESPACE/NAME.", tag="commands"),
)  # fmt: skip
