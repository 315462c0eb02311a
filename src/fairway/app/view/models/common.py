"""What several views share."""

from __future__ import annotations

from typing import Literal

import msgspec

Amounts = dict[str, float]
"""By the name of a resource, in base units: cores for cpu, bytes for memory and storage, a count for all else."""


class PageStruct(msgspec.Struct, rename="camel", frozen=True):
    """The base of all answers of the API."""


class ApiProblem(PageStruct, frozen=True):
    """Every answer other than a success has this form."""

    error: str
    """What is wrong, and what was expected."""


class ResourceInfo(PageStruct, frozen=True):
    """A resource of nodes, and the unit of its amounts."""

    name: str
    """For example `cpu` or `nvidia.com/gpu`."""
    unit: Literal["cores", "bytes", "count"]
    capacity: float
    """Capacity of all schedulable nodes."""
    allocated: float
    """Allocated to pods on nodes."""
    reserved: float
    """Set aside by reservations and nominations, not allocated yet."""


class SeriesLine(PageStruct, frozen=True):
    """The values of one line, one for each time of the series."""

    name: str
    """A queue, a namespace, a resource."""
    values: list[float | None]
    """None where nothing was recorded."""


class TimeSeries(PageStruct, frozen=True):
    """Lines over the same times, as columns."""

    title: str
    unit: Literal["share", "count", "seconds", "milliseconds", "cores", "bytes"]
    times: list[float]
    """Seconds since 1970-01-01T00:00:00Z, ascending."""
    lines: list[SeriesLine]
