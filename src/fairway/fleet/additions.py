"""What a Placement requests beyond OCM's fields, where it cannot stand in the spec: in annotations.

On a hub the API server removes fields that OCM's definition of a Placement does not have. An annotation stays, and says
the same: it takes the place of the field.
"""

from __future__ import annotations

from typing import Any

import msgspec

from fairway.api.fleet import Placement, PlacementSpec
from fairway.api.shape import fit, path_text
from fairway.fleet.names import REPLICA_STRATEGY, REPLICAS, REQUIREMENTS

_NAMES = frozenset({REQUIREMENTS, REPLICAS, REPLICA_STRATEGY})
_FIELDS = {REQUIREMENTS: "requirements", REPLICAS: "replicas", REPLICA_STRATEGY: "replicaStrategy"}


def merged(placement: Placement) -> Placement:
    """The placement with what its annotations add; an annotation that cannot be read adds nothing."""
    if _NAMES.isdisjoint(placement.metadata.annotations):
        return placement
    found, _ = _read(placement)
    changes: dict[str, Any] = {}
    if "requirements" in found:
        changes["requirements"] = found["requirements"].requirements
    if "replicas" in found:
        changes["replicas"] = found["replicas"].replicas
    if "replicaStrategy" in found:
        changes["replica_strategy"] = found["replicaStrategy"].replica_strategy
    return msgspec.structs.replace(placement, spec=msgspec.structs.replace(placement.spec, **changes))


def problems(placement: Placement) -> list[str]:
    """What is wrong with the annotations."""
    return [] if _NAMES.isdisjoint(placement.metadata.annotations) else _read(placement)[1]


def _read(placement: Placement) -> tuple[dict[str, PlacementSpec], list[str]]:
    """Each annotation as a spec that has just that field."""
    found: dict[str, PlacementSpec] = {}
    wrong: list[str] = []
    for name, field in _FIELDS.items():
        text = placement.metadata.annotations.get(name)
        if text is None:
            continue
        try:
            spec, findings = fit({field: msgspec.json.decode(text)}, PlacementSpec)
        except (msgspec.DecodeError, RecursionError) as error:
            wrong.append(f"annotation {name}: not JSON: {error}")
            continue
        if findings:
            path, message = findings[0]
            wrong.append(f"annotation {name}: {path_text(path)}: {message}")
        elif isinstance(spec, PlacementSpec):
            found[field] = spec
    return found, wrong
