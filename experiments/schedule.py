"""A rigid parallel job and its start: what the references and the engine's runs are compared by."""

from __future__ import annotations

from dataclasses import dataclass

from fairway.clock import Micros


@dataclass(frozen=True, slots=True)
class Job:
    number: int
    submit: Micros
    hosts: int
    walltime: Micros
    """What its user asked for: all that the scheduler knows."""
    run: Micros
    """How long it really takes, never more than its walltime."""


@dataclass(frozen=True, slots=True)
class Start:
    """How it went for a job."""

    job: Job
    at: Micros
    hosts: tuple[int, ...]
    planned: Micros | None
    """Its first planned start, if it had one before it started."""
