"""What placement reads from a ManagedCluster, parsed once when it arrives.

Whatever a cluster reports wrongly (a quantity that does not parse, more allocatable than capacity, broken
JSON) is stated as a warning and treated as not reported: one bad report must not stop the placements of a
fleet.
"""

from __future__ import annotations

import json
from collections.abc import Mapping
from dataclasses import dataclass

from fairway.api.fleet import ClusterTaint, ManagedCluster
from fairway.errors import QuantityError
from fairway.fleet.names import AVAILABLE_CONDITION, FREE, USAGE
from fairway.resources import Resource, format_amount, parse_amount

_SHOWN = 40
"""Maximum characters of a cluster's text in a warning."""


@dataclass(frozen=True, slots=True)
class ClusterFacts:
    """`free` is None if the cluster does not report it; `usage` is by placement (`namespace/name`)."""

    name: str
    labels: Mapping[str, str]
    claims: Mapping[str, str]
    taints: tuple[ClusterTaint, ...]
    available: bool
    deleting: bool
    allocatable: Mapping[str, int]
    capacity: Mapping[str, int]
    free: Mapping[str, int] | None
    usage: Mapping[str, Resource]
    warnings: tuple[str, ...] = ()

    def amounts(self, kind: str) -> Mapping[str, int]:
        """By kind of column: allocatable, capacity or free."""
        if kind == "allocatable":
            return self.allocatable
        return self.capacity if kind == "capacity" else self.free or {}


def read(cluster: ManagedCluster) -> ClusterFacts:
    name, status = cluster.metadata.name, cluster.status
    warnings: list[str] = []
    allocatable = _amounts("status.allocatable", status.allocatable, warnings)
    capacity = _amounts("status.capacity", status.capacity, warnings)
    for resource in sorted(allocatable.keys() & capacity.keys()):
        if allocatable[resource] > capacity[resource]:
            most = format_amount(resource, capacity[resource])
            more = format_amount(resource, allocatable[resource])
            warnings.append(f"{resource}: allocatable {more} is more than the capacity {most}")
    free = _json_object(FREE, cluster.metadata.annotations.get(FREE), warnings)
    usage = _json_object(USAGE, cluster.metadata.annotations.get(USAGE), warnings) or {}
    return ClusterFacts(
        name=name,
        labels=cluster.metadata.labels,
        claims={claim.name: claim.value for claim in status.cluster_claims},
        taints=cluster.spec.taints,
        available=all(c.status == "True" for c in status.conditions if c.type == AVAILABLE_CONDITION),
        deleting=cluster.metadata.deletion_timestamp is not None,
        allocatable=allocatable,
        capacity=capacity,
        free=None if free is None else _amounts(f"annotation {FREE}", free, warnings),
        usage={placement: _usage(placement, amounts, warnings) for placement, amounts in usage.items()},
        warnings=tuple(f"cluster {name}: {warning}" for warning in warnings),
    )


def read_resources(where: str, text: str, problems: list[str]) -> dict[str, Resource]:
    """A JSON annotation of quantities by name and resource; its problems are added to `problems`."""
    whole = _json_object(where, text, problems) or {}
    return {name: Resource(_amounts(f"{where}: {name}", amounts, problems)) for name, amounts in whole.items()}


def _usage(placement: str, amounts: object, warnings: list[str]) -> Resource:
    return Resource(_amounts(f"annotation {USAGE}: {placement}", amounts, warnings))


def _amounts(where: str, quantities: object, warnings: list[str]) -> dict[str, int]:
    if not isinstance(quantities, Mapping):
        warnings.append(f"{where}: expected quantities by resource name; treated as not reported")
        return {}
    amounts = {}
    for name, value in quantities.items():
        try:
            amounts[name] = parse_amount(name, _scalar(value))
        except QuantityError as error:
            warnings.append(f"{where}.{name}: {error}; treated as not reported")
    return amounts


def _scalar(value: object) -> str | int | float:
    """Checked before the cache lookup, in which a list or an object cannot be a key."""
    if isinstance(value, str | int | float):
        return value
    raise QuantityError(str(value)[:_SHOWN], "expected a number or a text such as 2, 500m or 2Gi")


def _no_duplicates(pairs: list[tuple[str, object]]) -> dict[str, object]:
    """It is ambiguous which of two values is meant: most readers take the last one, some the first."""
    found: dict[str, object] = {}
    for name, value in pairs:
        if name in found:
            raise ValueError(f"{name[:_SHOWN]!r} is given twice")
        found[name] = value
    return found


def _json_object(where: str, text: str | None, warnings: list[str]) -> dict[str, object] | None:
    if text is None:
        return None
    try:
        given = json.loads(text, object_pairs_hook=_no_duplicates)
    except (json.JSONDecodeError, RecursionError) as error:
        warnings.append(f"annotation {where}: not JSON: {error}; treated as not reported")
        return None
    except ValueError as error:  # a name given twice, a number of thousands of digits
        warnings.append(f"annotation {where}: {error}; treated as not reported")
        return None
    if not isinstance(given, dict):
        warnings.append(f"annotation {where}: expected a JSON object; treated as not reported")
        return None
    return given
