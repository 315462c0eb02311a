"""The kinds of objects that the scheduler and the placer read.

They are also what `fairway install` grants access to, so they stand apart from the code that reads them: printing
manifests needs no HTTP client.
"""

from __future__ import annotations

from dataclasses import replace

from fairway.api.kinds import KINDS, OTHER_FORMS, Kind

_FOR_FLEETS = "cluster.open-cluster-management.io/"

SCHEDULER_KINDS: tuple[Kind, ...] = tuple(
    kind for kind in (*KINDS, *OTHER_FORMS) if not kind.api_versions[0].startswith(_FOR_FLEETS)
)
"""The kinds that `decide` reads, PodGroups of three APIs among them: if two have the same name, the first counts."""

_CHECKED_LATER = ("ManagedCluster", "Placement")
FLEET_KINDS: tuple[Kind, ...] = tuple(
    replace(kind, check=None) if kind.name in _CHECKED_LATER else kind
    for kind in KINDS
    if kind.api_versions[0].startswith(_FOR_FLEETS)
)
"""The kinds that `place` reads. Clusters and placements with implausible values are read all the same: the fleet
package sets these values aside, and a condition on the object says so.
"""
