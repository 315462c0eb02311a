"""An expectation of an experiment, with the measured value. One that is not met fails the command."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass

from rich.table import Table


@dataclass(frozen=True, slots=True)
class Expectation:
    """`what` is expected to be as `expected` says; it is `found`."""

    what: str
    expected: str
    found: str
    met: bool


def at_most(what: str, found: float, limit: float, unit: str = "") -> Expectation:
    return Expectation(what, f"at most {limit:g}{unit}", f"{found:.4g}{unit}", found <= limit)


def exactly(what: str, found: int, expected: int) -> Expectation:
    return Expectation(what, f"{expected}", f"{found}", found == expected)


def expectations_table(name: str, expectations: Sequence[Expectation]) -> Table:
    table = Table(f"{name} expects", "expected", "found", "")
    for entry in expectations:
        table.add_row(entry.what, entry.expected, entry.found, "met" if entry.met else "NOT MET")
    return table
