"""The placer of a hub: decisions of `fleet` carried out on its API server, as consumers of OCM read them."""

from fairway.kube.hub.decisions import Publication
from fairway.kube.hub.loop import FleetLoop
from fairway.kube.hub.turns import FairTurns

__all__ = [
    "FairTurns",
    "FleetLoop",
    "Publication",
]
