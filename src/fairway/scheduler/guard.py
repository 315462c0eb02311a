"""What happens when a plugin of somebody else fails: the cycle goes on.

An order or score hook that fails drops out: the cycle is decided again without it. A hook that says what may be done
(feasible, allocatable, preemptable, reclaimable and the other verdicts) fails *closed*: nothing is placed, let in or
evicted through it. Either way the error's text is in the plan, and jobs that wait because of it say PluginFailed.

To fail is to raise, or to answer with something that is no answer: a column of the wrong shape, NaN, a giant, a key
that cannot be compared. A plugin that cannot be made or opened fails in every hook it has.

Our own plugins are not guarded: their failing is a fault that must be seen.
"""

from __future__ import annotations

import math
from collections.abc import Callable, Iterable, Sequence
from numbers import Integral, Real
from typing import Any

import numpy as np

from fairway.resources.columns import BoolColumn, IntColumn
from fairway.scheduler.hooks import Check, FloatColumn
from fairway.scheduler.nodes.view import NodeView
from fairway.scheduler.verdict import Reason, Verdict
from fairway.state.tasks import Task

GIANT_SCORE = 1e6
"""A single score beyond this is no score."""

Hook = Callable[..., Any]


class PluginDroppedError(Exception):
    """An order or score hook failed; decide again without it."""

    def __init__(self, plugin: str, hook: str, text: str) -> None:
        super().__init__(f"plugin {plugin}: {hook}: {text}")
        self.plugin = plugin
        self.hook = hook


class Failures:
    """What failed in this cycle: the texts, once each, and the plugins that could not even be opened."""

    def __init__(self) -> None:
        self.texts: dict[tuple[str, str], str] = {}
        self.broken: dict[str, Exception] = {}

    def note(self, plugin: str, hook: str, error: Exception) -> str:
        message = f"plugin {plugin} failed in {hook}: {describe(error)}"
        return self.texts.setdefault((plugin, hook), message)

    def attempt(self, plugin: str, call: Callable[[], Any]) -> None:
        """Do something that a plugin needs before it is asked anything."""
        try:
            call()
        except Exception as error:  # a stranger's code may raise anything; nothing of it may pass
            self.broken.setdefault(plugin, error)


def describe(error: Exception) -> str:
    return f"{type(error).__name__}: {error}"


def guarded(plugin: str, hook: str, call: Hook, failures: Failures) -> Hook:
    """The hook, its answers checked and its failing turned into what the table above says."""
    checked = _checked_by(hook)
    closed = CLOSED.get(hook)

    def ask(*arguments: Any) -> Any:
        try:
            if plugin in failures.broken:
                raise failures.broken[plugin]
            return checked(call(*arguments), arguments)
        except Exception as error:  # as above
            if closed is None:
                raise PluginDroppedError(plugin, hook, describe(error)) from error
            return closed(failures.note(plugin, hook, error), arguments)

    return ask


def _refuse(text: str, _: Sequence[Any]) -> Verdict:
    return Verdict(False, Reason.PLUGIN_FAILED, detail=text)


def _pass_none(text: str, arguments: Sequence[Any]) -> list[Check]:
    return [Check(np.zeros(_view(arguments).size, dtype=np.bool_), text, Reason.PLUGIN_FAILED)]


CLOSED: dict[str, Callable[[str, Sequence[Any]], Any]] = {
    "feasible": _pass_none,
    "feasible_static": _pass_none,
    "limit": lambda _, arguments: np.ones(_view(arguments).size, dtype=np.int64),
    "looks_around": lambda *_: True,
    "overused": lambda *_: True,
    "allocatable": lambda *_: 0,
    "enqueueable": _refuse,
    "job_valid": _refuse,
    "job_ready": lambda *_: False,
    "job_pipelined": lambda *_: False,
    "preemptable": lambda *_: (),
    "reclaimable": lambda *_: (),
}
"""What counts as the answer where a hook has failed; one that is not here drops out."""


# -- what is an answer -------------------------------------------------------------------------------------------


def _checked_by(hook: str) -> Callable[[Any, Sequence[Any]], Any]:
    if hook.endswith("_key"):
        return _KeyCheck()
    return _CHECKS.get(hook, lambda answer, _: answer)


class _KeyCheck:
    """Keys of one hook must be comparable with each other: all of the kind of the first."""

    def __init__(self) -> None:
        self._kind: Any = None

    def __call__(self, key: Any, _: Sequence[Any]) -> Any:
        kind = _kind(key)
        if self._kind is None:
            self._kind = kind
        if kind != self._kind:
            raise TypeError(f"keys of different kinds: {kind} and {self._kind}")
        return key


def _kind(key: Any) -> Any:
    if isinstance(key, Real | np.bool_):
        if math.isnan(key):
            raise TypeError("a key is NaN")
        return "number"
    if isinstance(key, str):
        return "text"
    if isinstance(key, tuple):
        return tuple(_kind(part) for part in key)
    raise TypeError(f"expected a number, a text or a tuple of them as key, got {type(key).__name__}")


def _filter(answer: Any, arguments: Sequence[Any]) -> list[Check]:
    return [_check(check, _view(arguments).size) for check in answer]


def _check(check: Any, size: int) -> Check:
    if not isinstance(check, Check) or not isinstance(check.text, str) or not isinstance(check.reason, Reason):
        raise TypeError(f"expected a Check with a text, got {type(check).__name__}")
    passes: BoolColumn = np.asarray(check.passes)
    if passes.shape != (size,) or passes.dtype != np.bool_:
        raise TypeError(f"expected {size} booleans, got {passes.dtype} of shape {passes.shape}")
    return check._replace(passes=passes)


def _score(answer: Any, arguments: Sequence[Any]) -> FloatColumn:
    """A column of the right length without NaN, infinities and giants."""
    size = _view(arguments).size
    column: FloatColumn = np.asarray(answer, dtype=np.float64)
    if column.shape != (size,):
        raise TypeError(f"expected {size} numbers, got shape {column.shape}")
    if not (np.abs(column) <= GIANT_SCORE).all():
        raise ValueError("a score is NaN, infinite or a giant")
    return column


def _static_score(answer: Any, arguments: Sequence[Any]) -> FloatColumn | None:
    return None if answer is None else _score(answer, arguments)


def _limit(answer: Any, arguments: Sequence[Any]) -> IntColumn | None:
    if answer is None:
        return None
    size = _view(arguments).size
    column: IntColumn = np.asarray(answer)
    if column.shape != (size,) or column.dtype.kind not in "iu":
        raise TypeError(f"expected {size} whole numbers, got {column.dtype} of shape {column.shape}")
    return np.maximum(column.astype(np.int64), 1)


def _count(answer: Any, _: Sequence[Any]) -> int:
    if not isinstance(answer, Integral) or answer < 0:
        raise TypeError(f"expected how many, got {answer!r}")
    return int(answer)


def _yes_or_no(answer: Any, _: Sequence[Any]) -> bool:
    if not isinstance(answer, bool | np.bool_):
        raise TypeError(f"expected True or False, got {answer!r}")
    return bool(answer)


def _verdict(answer: Any, _: Sequence[Any]) -> Verdict:
    if not isinstance(answer, Verdict):
        raise TypeError(f"expected a Verdict, got {type(answer).__name__}")
    return answer


def _subset(answer: Iterable[Task], arguments: Sequence[Any]) -> list[Task]:
    found, candidates = list(answer), arguments[-1]
    if not set(found) <= set(candidates):
        raise ValueError("names tasks that are not among the candidates")
    return found


def _view(arguments: Sequence[Any]) -> NodeView:
    view = arguments[1]
    assert isinstance(view, NodeView)
    return view


_CHECKS: dict[str, Callable[[Any, Sequence[Any]], Any]] = {
    "feasible": _filter,
    "feasible_static": _filter,
    "score": _score,
    "score_static": _static_score,
    "reserve_score": _score,
    "limit": _limit,
    "looks_around": _yes_or_no,
    "overused": _yes_or_no,
    "allocatable": _count,
    "enqueueable": _verdict,
    "job_valid": _verdict,
    "job_ready": _yes_or_no,
    "job_pipelined": _yes_or_no,
    "preemptable": _subset,
    "reclaimable": _subset,
}
