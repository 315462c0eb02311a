"""Every operation of `/api/v1` in one table, from which routes and the OpenAPI document are generated."""

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
"""Largest body of any operation."""


class QueryParameter(NamedTuple):
    name: str
    text: str
    kind: Literal["string", "integer", "boolean", "number"] = "string"
    repeated: bool = False
    values: tuple[str, ...] = ()
    """Allowed values; () for any."""
    default: Any = None
    least: int | None = None
    most: int | None = None


class Operation(NamedTuple):
    name: str
    """Name of the answering function; in camel case, the operationId."""
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
    """It decides many times, so only a few are answered at once."""
    is_long: bool = False
    """It may take up to a minute."""
    most_bytes: int = 64 << 10
    """Largest body."""
    sandbox_only: bool = False
    own_words: bool = False
    """The answer is text of a user, in which names are not concealed."""
    example: str = ""
    """Path and query whose answer on the demo is the example in the document."""


_OFFSET = QueryParameter("offset", "Rows to skip.", "integer", default=0, least=0)


def _limit(default: int, most: int = MAX_ROWS) -> QueryParameter:
    return QueryParameter("limit", "Maximum number of rows.", "integer", default=default, least=0, most=most)


_FROM = QueryParameter("from", "Not before this time (RFC 3339).")
_TO = QueryParameter("to", "Not after this time (RFC 3339).")
_POINTS = QueryParameter("points", "Maximum number of times per series.", "integer", default=300, least=2, most=2000)
_JOB_FILTERS = (
    QueryParameter("queue", "Jobs of these queues.", repeated=True),
    QueryParameter("namespace", "Jobs of these namespaces.", repeated=True),
    QueryParameter("state", "Jobs in these states.", repeated=True, values=STATES),
    QueryParameter("reason", "Jobs pending for these reasons (one word, as in a row).", repeated=True),
    QueryParameter("label", "Jobs with this label: `key=value`, or `key` for any value. All must hold.", repeated=True),
    QueryParameter("search", "Text that `namespace/name` contains."),
)

OPERATIONS = (
    Operation("session", "GET", "/session", SessionInfo, "What is shown, to which user, and what the user may do.",
              example="/session"),
    Operation("overview", "GET", "/overview", ClusterSummary, "The cluster in figures.", example="/overview"),
    Operation(
        "events", "GET", "/events", StreamEvent,
        "Server-sent events: `hello` first, then a `delta` after each change, at most a few per second. Each has an "
        "`id`; a client that reconnects with `Last-Event-ID` (or `lastEventId=`) gets the deltas that it missed, or "
        "`reset` if they are no longer kept. A client that reads too slowly gets `goodbye`.",
        (QueryParameter("lastEventId", "Same as the header Last-Event-ID."),),
        streams=True,
    ),
    Operation(
        "jobs", "GET", "/jobs", JobsPage, "One page of the table of jobs, filtered and sorted by the server.",
        (
            *_JOB_FILTERS,
            QueryParameter("sort", "A column; with a leading - in descending order. Rows without value come last. "
                           f"One of: {', '.join(SORTS)}; `order` is the order of consideration.", default="order"),
            QueryParameter("group", f"Count by {', '.join(GROUPS)}, or by `label:KEY`."),
            QueryParameter("facets", "Count the jobs for each value of each filter.", "boolean", default=False),
            _OFFSET, _limit(100),
        ),
        example="/jobs?limit=3&facets=true&group=queue",
    ),
    Operation("job", "GET", "/jobs/{job:path}", JobDetail, "One job: its state, pods and history.",
              example="/jobs/language/pretrain"),
    Operation("explanation", "GET", "/explanations/{job:path}", JobExplanation,
              "Why a job is pending, and what would start it now. For when it starts, see /starts.",
              is_slow=True, example="/explanations/language/pretrain"),
    Operation("start", "GET", "/starts/{job:path}", JobStart,
              "When a pending job starts if nothing else arrives. Takes up to half a minute in a large cluster.",
              (QueryParameter("bounds", "Also compute the earliest and latest start.", "boolean", default=False),),
              is_long=True, example="/starts/language/pretrain?bounds=true"),
    Operation("order", "GET", "/orders/{job:path}", JobPlaceInOrder,
              "Queue position of a pending job, key by key. 422 if the job is not pending.",
              is_slow=True, example="/orders/language/pretrain"),
    Operation("manifest", "GET", "/manifests/{job:path}", JobManifest, "A job's objects as YAML.",
              own_words=True, example="/manifests/vision/sweep-25"),
    Operation("act", "POST", "/actions/{job:path}", JobActionAnswer,
              "Cancel, reprioritise, hold or release a job, with the user's own permissions.", body=JobActionRequest,
              tag="changes"),
    Operation("queues", "GET", "/queues", QueuesPage, "The tree of queues with shares, and who borrows from whom.",
              example="/queues"),
    Operation("queue_history", "GET", "/queues/{name}/history", QueueHistory, "A queue over time.",
              (_FROM, _TO, _POINTS), example="/queues/research/history?points=5"),
    Operation("nodes", "GET", "/nodes", NodesMap, "All nodes as columns.", example="/nodes"),
    Operation(
        "fit", "GET", "/nodes/fit", FitAnswer, "How many gangs of a shape fit into the free capacity now.",
        (
            QueryParameter("pods", "Number of pods of the gang.", "integer", default=1, least=1, most=100_000),
            QueryParameter("request", "Request of each pod, such as `cpu=8` or `nvidia.com/gpu=4`.", repeated=True),
        ),
        example="/nodes/fit?pods=2&request=nvidia.com/gpu=4&request=cpu=8",
    ),
    Operation("node", "GET", "/nodes/{name}", NodeDetail, "One node: its pods, devices and reservations.",
              example="/nodes/gpu-0"),
    Operation(
        "devices", "GET", "/devices", DevicesPage, "Device classes, devices, and the pods that have them.",
        (
            QueryParameter("class", "Devices that this class selects."),
            QueryParameter("node", "Devices of this node."),
            QueryParameter("kind", "Devices of this kind."),
            QueryParameter("holder", "Devices of pods whose `namespace/name` contains this text."),
            _OFFSET, _limit(200),
        ),
        example="/devices?limit=3",
    ),
    Operation("evictions", "GET", "/evictions", EvictionsPage, "Evictions, the newest first.",
              (QueryParameter("before", "Only evictions older than this id.", "integer"), _limit(100)),
              example="/evictions?limit=3"),
    Operation("reservations", "GET", "/reservations", ReservationsPage, "Reservations and planned starts.",
              example="/reservations"),
    Operation(
        "feed", "GET", "/feed", FeedPage, "Events, the newest first.",
        (
            QueryParameter("before", "Only events older than this id.", "integer"),
            QueryParameter("kind", "Only events of these kinds.", repeated=True),
            QueryParameter("job", "Only events of this job."),
            _limit(100),
        ),
        example="/feed?limit=3",
    ),
    Operation(
        "timeline", "GET", "/timeline", NodesTimeline, "Past and running pods, reservations and planned starts.",
        (
            _FROM, _TO, QueryParameter("search", "Text that the name of the node contains."),
            QueryParameter("pool", "Nodes of this pool."), _OFFSET, _limit(100),
        ),
        example="/timeline?limit=2",
    ),
    Operation("history", "GET", "/history", HistoryPage, "Waits, utilisation, evictions and shares over time.",
              (_FROM, _TO, _POINTS), example="/history?points=5"),
    Operation("scheduler", "GET", "/scheduler", SchedulerPage,
              "Cycle times, backlog, API latency, errors and policy of the scheduler.", example="/scheduler"),
    Operation("what_if", "POST", "/what-if", WhatIfAnswer,
              "The effect of supposed changes, decided or simulated on a copy in a worker process. Changes nothing. "
              "503 if too many questions are queued, 504 if it takes too long.", body=WhatIfRequest, is_long=True,
              most_bytes=2 << 20),
    Operation("fleet", "GET", "/fleet", FleetPage, "Clusters and placements of the hub; 404 if none is connected.",
              example="/fleet"),
    Operation("pace", "POST", "/pace", PaceSetting, "The speed of a sandbox.", body=PaceSetting, tag="changes"),
    Operation("apply", "POST", "/apply", CommandResults, "Create or change objects of a sandbox, all or none.",
              body=ApplyRequest, tag="changes", most_bytes=MAX_BYTES, sandbox_only=True),
    Operation("delete", "POST", "/delete", CommandResults, "Delete objects of a sandbox, all or none.",
              body=DeleteRequest, tag="changes", most_bytes=MAX_BYTES, sandbox_only=True),
    # Used by the other commands of `fairway`.
    Operation("frame", "GET", "/frame", Frame, "Everything that the terminal screen shows.", tag="commands"),
    Operation("job_rows", "GET", "/lists/jobs", JobItems, "Jobs as `fairway get jobs` lists them.", tag="commands"),
    Operation("node_rows", "GET", "/lists/nodes", NodeItems, "Nodes as `fairway get nodes` lists them.",
              tag="commands"),
    Operation("event_rows", "GET", "/lists/events", EventItems, "Events of the sandbox.", tag="commands"),
    Operation("waiting_rows", "GET", "/lists/waiting", WaitingItems, "Pending jobs, with estimated starts.",
              tag="commands", is_slow=True),
    Operation("objects", "GET", "/objects/{which:path}", ObjectItems,
              "Objects as manifests: KIND, KIND/NAME or KIND/NAMESPACE/NAME.", tag="commands"),
)  # fmt: skip
