"""Placement over a fleet of clusters: which clusters, in which order, why, and what capacity is reserved there.

    FleetState   fed by events (upsert, delete); remembers which placements those events affect
    place        (fleet state, now) -> FleetPlan; pure: the same inputs give the same plan
    FleetPlan    the decisions, with a score or a reason for every cluster

Carrying a plan out is a driver's work; `FleetState.apply` feeds it back.
"""

from fairway.fleet.place import place
from fairway.fleet.plan import FleetPlan
from fairway.fleet.state import FleetState

__all__ = ["FleetPlan", "FleetState", "place"]
