"""Exact amounts: Kubernetes quantities, resource lists and their comparisons."""

from fairway.resources.algebra import Resource
from fairway.resources.comparison import NAMES as COMPARISONS
from fairway.resources.comparison import Comparison, Default
from fairway.resources.quantity import (
    INT64_MAX,
    AmountUnit,
    Format,
    Quantity,
    check_amount,
    format_amount,
    parse_amount,
    parse_quantity,
    unit_of,
)

__all__ = [
    "COMPARISONS",
    "INT64_MAX",
    "AmountUnit",
    "Comparison",
    "Default",
    "Format",
    "Quantity",
    "Resource",
    "check_amount",
    "format_amount",
    "parse_amount",
    "parse_quantity",
    "unit_of",
]
