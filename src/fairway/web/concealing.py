"""What users without access to all namespaces see of other namespaces.

Each answer leaves out what it can by its fields. Texts (reasons, histories, suggested changes, errors) name jobs and
pods as `namespace/name`: `conceal` replaces those of namespaces that the user may not see in whatever is sent, so that
no answer can be forgotten.
"""

from __future__ import annotations

import re
from collections.abc import Container

from msgspec.structs import replace

from fairway.app.view.details import HIDDEN
from fairway.app.view.job_order import JobOrder
from fairway.app.view.models.cluster import NodeDevice, QueuesPage
from fairway.app.view.models.common import TimeSeries
from fairway.app.view.models.history import (
    EvictionEntry,
    HistoryPage,
    QueueHistory,
    ReservationEntry,
    SchedulerPage,
    WaitGroup,
)
from fairway.app.view.models.jobs import JobDetail, JobPlaceInOrder, JobStart
from fairway.app.view.models.session import ClusterSummary, JobCounts
from fairway.app.view.picture import Picture
from fairway.web.asking import Viewer

_NAMED = re.compile(
    # After a sign of JSON such as \n a name may begin at once.
    rb"(\\[nrtbf]|(?<![A-Za-z0-9_./\\-]))([a-z0-9](?:[-a-z0-9]*[a-z0-9])?)/[A-Za-z0-9][-A-Za-z0-9_.]*(?:/[-A-Za-z0-9_.]+)*"
)


def conceal(text: bytes, viewer: Viewer, namespaces: Container[str]) -> bytes:
    """The JSON without names from those of `namespaces` that the viewer may not see."""
    seen = viewer.namespaces
    if seen is None:
        return text

    def hide(found: re.Match[bytes]) -> bytes:
        namespace = found[2].decode()
        return found[0] if namespace in seen or namespace not in namespaces else found[1] + HIDDEN.encode()

    return _NAMED.sub(hide, text)


def summary_for(picture: Picture, viewer: Viewer) -> ClusterSummary:
    """The head of the page: counts of visible jobs, and of nodes if the user may list them."""
    whole, seen = picture.summary, viewer.namespaces
    if seen is None:
        return whole
    counts, waiting, running = picture.jobs.totals(seen)
    return replace(
        whole,
        nodes=whole.nodes if viewer.nodes else 0,
        nodes_ready=whole.nodes_ready if viewer.nodes else 0,
        resources=whole.resources if viewer.nodes else [],
        jobs=JobCounts(**counts),
        waiting_pods=waiting,
        running_pods=running,
        reservations=len({entry.job for entry in picture.reservations.rows if viewer.sees(entry.job)}),
        evictions=sum(number for name, number in picture.evicted.items() if name in seen),
        coming=0,
        warnings=[],
    )


def eviction_for(entry: EvictionEntry, viewer: Viewer) -> EvictionEntry:
    if viewer.namespaces is None:
        return entry
    if not viewer.sees(entry.job):
        queue, node = (entry.queue if viewer.queues else ""), (entry.node if viewer.nodes else "")
        entry = replace(entry, pod=HIDDEN, job=HIDDEN, queue=queue, node=node)
    if not viewer.sees(entry.for_job):
        entry = replace(entry, for_job=HIDDEN, reason="", for_queue=entry.for_queue if viewer.queues else "")
    return entry


def reservations_for(rows: list[ReservationEntry], viewer: Viewer) -> list[ReservationEntry]:
    """Reservations of other namespaces show the node only, and only to users who may list nodes."""
    if viewer.namespaces is None:
        return rows
    return [
        row if viewer.sees(row.job) else replace(row, job=HIDDEN, pod=HIDDEN, queue=row.queue if viewer.queues else "")
        for row in rows
        if viewer.nodes or viewer.sees(row.job)
    ]


def device_for(device: NodeDevice, viewer: Viewer) -> NodeDevice:
    seen = {name: amount for name, amount in device.holders.items() if viewer.sees(name)}
    hidden = sum(amount for name, amount in device.holders.items() if not viewer.sees(name))
    return replace(device, holders=seen | {HIDDEN: hidden} if hidden else seen)


def job_for(found: JobDetail, viewer: Viewer) -> JobDetail:
    causes = found.causes if viewer.nodes else [replace(cause, examples=[]) for cause in found.causes]
    return replace(
        found,
        causes=causes,
        victims=[eviction_for(entry, viewer) for entry in found.victims],
        evicted_by=[eviction_for(entry, viewer) for entry in found.evicted_by],
    )


def start_for(found: JobStart, viewer: Viewer) -> JobStart:
    """Jobs of others are counted, not named."""
    if found.forecast is None:
        return found
    ends = tuple(one for one in found.forecast.unknown_ends if viewer.sees(one.pod))
    return replace(found, forecast=replace(found.forecast, unknown_ends=ends))


def order_for(found: JobPlaceInOrder, viewer: Viewer) -> JobPlaceInOrder:
    """A neighbour from another namespace is listed without its values."""
    order: JobOrder = found.order
    for side in ("before", "after"):
        other = getattr(order, side)
        if other is not None and not viewer.sees(other):
            keys = tuple(replace(key, **{side: None}) for key in order.keys)
            order = replace(order, keys=keys, **{side: HIDDEN})
    return replace(found, order=order)


def queues_for(page: QueuesPage, viewer: Viewer) -> QueuesPage:
    seen = viewer.namespaces
    if seen is None:
        return page
    rows = [replace(row, namespaces=[one for one in row.namespaces if one.namespace in seen]) for row in page.queues]
    return replace(page, queues=rows)


def history_for(page: HistoryPage, viewer: Viewer) -> HistoryPage:
    seen = viewer.namespaces
    if seen is None:
        return page
    waits: list[WaitGroup] = [group for group in page.waits_by_namespace if group.group in seen]
    return replace(page, namespaces=_lines(page.namespaces, seen), waits_by_namespace=waits)


def queue_history_for(page: QueueHistory, viewer: Viewer) -> QueueHistory:
    seen = viewer.namespaces
    return page if seen is None else replace(page, namespaces=_lines(page.namespaces, seen))


def _lines(series: TimeSeries, seen: Container[str]) -> TimeSeries:
    return replace(series, lines=[line for line in series.lines if line.name in seen])


def scheduler_for(page: SchedulerPage, viewer: Viewer) -> SchedulerPage:
    """Without errors and differences, which concern all namespaces, and without the text of the policy, which is in a
    ConfigMap.
    """
    if viewer.namespaces is None:
        return page
    return replace(page, problems=[], shadow=[], policy=replace(page.policy, text=""))
