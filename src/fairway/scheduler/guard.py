"""What happens when a plugin of somebody else fails: the cycle goes on.

An order or score hook that fails drops out: the cycle is decided again without it. A hook that says what may be done
(feasible, allocatable, preemptable, reclaimable and the other verdicts) fails *closed*: nothing is placed, let in or
evicted through it. Either way the error's text is in the plan, and jobs that wait because of it say PluginFailed.

Our own plugins are not guarded: their failing is a fault that must be seen.
"""

from __future__ import annotations

from collections.abc import Callable, Iterable
from typing import Any

import numpy as np

from fairway.resources.columns import BoolColumn
from fairway.scheduler.hooks import Check, FloatColumn
from fairway.scheduler.verdict import Reason, Verdict
from fairway.scheduler.view import NodeView
from fairway.state.shapes import Shape

GIANT_SCORE = 1e6
"""A single score beyond this is no score."""


class PluginDroppedError(Exception):
    """An order or score hook failed; decide again without it."""

    def __init__(self, plugin: str, hook: str, text: str) -> None:
        super().__init__(f"plugin {plugin}: {hook}: {text}")
        self.plugin = plugin
        self.hook = hook


class Failures:
    """The texts of what failed in this cycle, once each."""

    def __init__(self) -> None:
        self.texts: dict[tuple[str, str], str] = {}

    def note(self, plugin: str, hook: str, text: str) -> str:
        message = f"plugin {plugin} failed in {hook}: {text}"
        return self.texts.setdefault((plugin, hook), message)


def guarded(plugin: str, hook: str, call: Callable[..., Any], failures: Failures) -> Callable[..., Any]:
    """The hook, with its failing turned into what the table above says."""
    if hook in ("feasible", "feasible_static"):
        return _guard_filter(plugin, hook, call, failures)
    if hook in ("score", "score_static", "reserve_score"):
        return _guard_score(plugin, hook, call)
    if hook in CLOSED:
        return _guard_closed(plugin, hook, call, failures)
    return _guard_dropped(plugin, hook, call)


CLOSED: dict[str, Callable[[str], Any]] = {
    "overused": lambda _: True,
    "allocatable": lambda _: 0,
    "enqueueable": lambda text: Verdict(False, Reason.PLUGIN_FAILED, detail=text),
    "job_valid": lambda text: Verdict(False, Reason.PLUGIN_FAILED, detail=text),
    "job_ready": lambda _: False,
    "job_pipelined": lambda _: False,
    "preemptable": lambda _: (),
    "reclaimable": lambda _: (),
}


def describe(error: Exception) -> str:
    return f"{type(error).__name__}: {error}"


def _guard_closed(plugin: str, hook: str, call: Callable[..., Any], failures: Failures) -> Callable[..., Any]:
    def ask(*arguments: Any) -> Any:
        try:
            return call(*arguments)
        except Exception as error:  # a stranger's code may raise anything; nothing of it may pass
            return CLOSED[hook](failures.note(plugin, hook, describe(error)))

    return ask


def _guard_dropped(plugin: str, hook: str, call: Callable[..., Any]) -> Callable[..., Any]:
    def ask(*arguments: Any) -> Any:
        try:
            return call(*arguments)
        except Exception as error:  # as above
            raise PluginDroppedError(plugin, hook, describe(error)) from error

    return ask


def _guard_filter(
    plugin: str, hook: str, call: Callable[..., Iterable[Check]], failures: Failures
) -> Callable[[Shape, NodeView], list[Check]]:
    def ask(shape: Shape, nodes: NodeView) -> list[Check]:
        try:
            return [_checked(check, nodes.size) for check in call(shape, nodes)]
        except Exception as error:  # as above
            text = failures.note(plugin, hook, describe(error))
            return [Check(np.zeros(nodes.size, dtype=np.bool_), text, Reason.PLUGIN_FAILED)]

    return ask


def _guard_score(plugin: str, hook: str, call: Callable[..., FloatColumn | None]) -> Callable[..., FloatColumn | None]:
    def ask(shape: Shape, nodes: NodeView, *more: Any) -> FloatColumn | None:
        try:
            score = call(shape, nodes, *more)
            return None if score is None and hook == "score_static" else checked_score(score, nodes.size)
        except Exception as error:  # as above
            raise PluginDroppedError(plugin, hook, describe(error)) from error

    return ask


def _checked(check: Check, size: int) -> Check:
    passes: BoolColumn = np.asarray(check.passes)
    if passes.shape != (size,) or passes.dtype != np.bool_:
        raise TypeError(f"expected {size} booleans, got {passes.dtype} of shape {passes.shape}")
    return check._replace(passes=passes)


def checked_score(score: Any, size: int) -> FloatColumn:
    """A column of the right length without NaN, infinities and giants; one product finds all three."""
    column: FloatColumn = np.asarray(score, dtype=np.float64)
    if column.shape != (size,):
        raise TypeError(f"expected {size} numbers, got shape {column.shape}")
    if size and not np.dot(column, column) <= GIANT_SCORE**2 * size:
        raise ValueError("a score is NaN, infinite or a giant")
    return column
