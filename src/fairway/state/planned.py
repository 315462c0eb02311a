"""Planned starts that the state carries from cycle to cycle, as backfill wrote them down."""

from __future__ import annotations

from typing import NamedTuple

from fairway.clock import Micros


class PlannedRecord(NamedTuple):
    """When a job is planned to start and, by pod, on which node."""

    start: Micros
    hard: bool
    nodes: dict[str, str]
    since: Micros | None = None
    """When it was planned, or last moved."""
    runs: int | None = None
    """On one job of all: how many pods were on nodes when planned starts were last looked at. Where there are fewer
    now, runs have ended since, and planned starts are compressed."""


class OverrunRecord(NamedTuple):
    """A job was evicted because it outlived its expected run time."""

    after: tuple[str, str] | None
    """Kind and key of the job that it was evicted for, as long as that one has not started."""
