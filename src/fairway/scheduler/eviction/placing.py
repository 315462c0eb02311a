"""Placing the pods of a claimant on a statement, to see whether they fit."""

from __future__ import annotations

from fairway.scheduler.eviction.claim import Place
from fairway.scheduler.framework.job_run import TaskRun
from fairway.scheduler.framework.statement import Statement


def place(statement: Statement, runs: list[TaskRun]) -> tuple[list[Place], TaskRun | None]:
    """Place what can be placed; returns where, and what of the first run that got stuck is left."""
    placed: list[Place] = []
    for run in runs:
        left = run.tasks
        while left:
            rows = statement.nodes.kernel.choose(run.shape, len(left))
            if not rows:
                return placed, TaskRun(run.shape, run.role, left)
            statement.occupy(run.shape, left[: len(rows)], rows)
            placed += zip(left, rows, strict=False)
            left = left[len(rows) :]
    return placed, None
