"""The fleet of a hub: clusters with free capacity, and placements with scores and reasons, decided on a copy."""

from __future__ import annotations

import time
from collections.abc import Iterable
from threading import Lock
from typing import Any

from fairway.api.kinds import ApiObject
from fairway.app.view.amounts import base_of_text
from fairway.app.view.models.cluster import (
    FittingPods,
    FleetClusterRow,
    FleetCondition,
    FleetPage,
    FleetPlacement,
    LeftOutCluster,
    PlacedCluster,
)
from fairway.clock import Micros, format_rfc3339, wall_clock
from fairway.fleet.overview import ClusterOverview, overview
from fairway.fleet.place import place
from fairway.fleet.plan import placement_document
from fairway.fleet.state import FleetState
from fairway.kube.kinds import FLEET_KINDS
from fairway.kube.reading import read_cluster
from fairway.kube.server import find_connection

KEPT = 10.0
"""Seconds for which data of the hub is cached."""


class HubFleet:
    """Reads a hub on demand. Thread-safe."""

    def __init__(self, kubeconfig: str) -> None:
        self._kubeconfig = kubeconfig
        self._lock = Lock()
        self._read_at = 0.0
        self._page: FleetPage | None = None

    def page(self) -> FleetPage:
        with self._lock:
            if self._page is None or time.monotonic() > self._read_at + KEPT:
                reading = read_cluster(find_connection(self._kubeconfig), FLEET_KINDS)
                self._page, self._read_at = fleet_page(reading.objects, wall_clock()), time.monotonic()
            return self._page


def fleet_page(objects: Iterable[ApiObject], now: Micros) -> FleetPage:
    things = list(objects)
    fleet = FleetState()
    for thing in things:
        fleet.upsert(thing)
    plan = place(fleet, now)
    return FleetPage(
        connected=True,
        now=format_rfc3339(now),
        clusters=[_cluster(one) for one in overview(things, now)],
        placements=[_placement(placement_document(outcome)) for outcome in plan.outcomes],
    )


def _cluster(one: ClusterOverview) -> FleetClusterRow:
    return FleetClusterRow(
        name=one.name,
        available=one.available,
        taints=list(one.taints),
        free=None if one.free is None else base_of_text(one.free),
        shapes=[FittingPods(shape.request, shape.fits, shape.node_selector) for shape in one.shapes],
        placements=one.placements,
        report_age=one.report_age,
        report_ended=one.report_ended,
        problems=list(one.problems),
    )


def _placement(found: dict[str, Any]) -> FleetPlacement:
    return FleetPlacement(
        placement=found["placement"],
        decisions=[
            PlacedCluster(one["cluster"], float(one["score"]), one["scores"], one["reason"])
            for one in found["decisions"]
        ],
        filtered=[LeftOutCluster(one["cluster"], one["filter"], one["reason"]) for one in found["filtered"]],
        conditions=[
            FleetCondition(one["type"], one["status"], one["reason"], one["message"]) for one in found["conditions"]
        ],
        warnings=found["warnings"],
    )
