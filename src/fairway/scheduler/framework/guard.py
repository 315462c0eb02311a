"""What happens when an external plugin fails: the cycle goes on.

An order or score hook that fails drops out: the cycle is decided again without it. A hook that says what may be done
(feasible, allocatable, preemptable, reclaimable and the other verdicts) fails *closed*: nothing is placed, let in or
evicted through it. Either way the error's text is in the plan, and jobs that wait because of it say PluginFailed.

To fail is to raise (anything but KeyboardInterrupt: `sys.exit()` is a failure too), or to answer with something that is
no answer: a column of the wrong shape, NaN, a giant, a key that cannot be compared. A plugin that cannot be made or
opened fails in every hook it has. So does one that has taken too long too often (`Stopwatch`).

What a plugin is given it cannot change (`readonly`), and what it answers is copied: nothing of it is kept.

Built-in plugins are not guarded: their failing is a fault that must be seen. Whether a plugin is built in is known by
where its class came from (`Registry`), never by what the class says of itself.
"""

from __future__ import annotations

import math
from collections.abc import Callable, Iterable, Sequence
from fractions import Fraction
from itertools import islice
from numbers import Integral
from typing import Any

import numpy as np

from fairway.resources.columns import IntColumn
from fairway.scheduler.framework.hooks import Check, FloatColumn
from fairway.scheduler.framework.read_only import shown
from fairway.scheduler.placement.node_view import NodeView
from fairway.scheduler.verdict import Reason, Verdict
from fairway.state.tasks import Task

GIANT_SCORE = 1e6
"""A single score beyond this is no score."""

MOST_CHECKS = 1000
"""Checks that one call of a filter may give."""

LONGEST_TEXT = 500
"""Characters of a plugin's text that are shown."""

Hook = Callable[..., Any]
Nanoseconds = Callable[[], int]


class PluginDroppedError(Exception):
    """An order or score hook failed; decide again without it."""

    def __init__(self, plugin: str, hook: str, text: str) -> None:
        super().__init__(f"plugin {plugin}: {hook}: {text}")
        self.plugin = plugin
        self.hook = hook


class TooSlowError(Exception):
    """A hook has taken too long, in this cycle or in several before it."""


class Stopwatch:
    """How long the hooks of external plugins take, over all cycles of a process.

    A hook that takes more than `limit` nanoseconds in one cycle is reported; one that takes ten times as much is
    stopped in that cycle, and one that was reported in `strikes` cycles is not asked any more. The clock is handed in:
    a registry without one measures nothing, and then the same input always gives the same plan.
    """

    def __init__(self, clock: Nanoseconds, limit: int = 1_000_000_000, strikes: int = 3) -> None:
        self.clock = clock
        self.limit = limit
        self.strikes = strikes
        self.slow_cycles: dict[tuple[str, str], int] = {}

    def said(self) -> str:
        return f"more than {self.limit / 1e9:g} s in one cycle"


class Failures:
    """What failed in this cycle: the texts, once each, and the plugins that could not even be opened."""

    def __init__(self, stopwatch: Stopwatch | None = None) -> None:
        self.texts: dict[tuple[str, str], str] = {}
        self.broken: dict[str, BaseException] = {}
        self.slow: dict[tuple[str, str], str] = {}
        """Hooks that took too long but answered."""
        self._stopwatch = stopwatch
        self._spent: dict[tuple[str, str], int] = {}

    def note(self, plugin: str, hook: str, error: BaseException) -> str:
        message = f"plugin {plugin} failed in {hook}: {describe(error)}"
        return self.texts.setdefault((plugin, hook), message)

    def attempt(self, plugin: str, call: Callable[[], Any]) -> None:
        """Do something that a plugin needs before it is asked anything."""
        try:
            call()
        except KeyboardInterrupt:
            raise
        except BaseException as error:  # external code may raise anything; nothing of it may pass
            self.broken.setdefault(plugin, error)

    def timed(self, plugin: str, hook: str, call: Callable[[], Any]) -> Any:
        """Call a hook, unless it has been too slow too often."""
        watch, key = self._stopwatch, (plugin, hook)
        if watch is None:
            return call()
        if watch.slow_cycles.get(key, 0) >= watch.strikes:
            raise TooSlowError(f"it took {watch.said()}, {watch.strikes} times, and is switched off")
        begin = watch.clock()
        answer = call()
        spent = self._spent[key] = self._spent.get(key, 0) + watch.clock() - begin
        if spent > watch.limit and key not in self.slow:
            self.slow[key] = f"plugin {plugin} took {watch.said()} in {hook}"
            watch.slow_cycles[key] = watch.slow_cycles.get(key, 0) + 1
        if spent > 10 * watch.limit:
            raise TooSlowError(f"it took {watch.said()}, and more than ten times that")
        return answer


def describe(error: BaseException) -> str:
    """The error in one line, whatever it does when it is asked for its text."""
    try:
        text = str(error)
    except KeyboardInterrupt:
        raise
    except BaseException:
        text = "an error without a text"
    return f"{type(error).__name__}: {text[:LONGEST_TEXT]}"


def guarded(name: str, hook: str, plugin: Any, failures: Failures) -> Hook:
    """The hook, its answers checked and its failing turned into what the table above says."""
    checked = _checked_by(hook)
    closed = CLOSED.get(hook)

    def ask(*arguments: Any) -> Any:
        try:
            if name in failures.broken:
                raise failures.broken[name]
            given = [shown(argument) for argument in arguments]
            return failures.timed(name, hook, lambda: checked(getattr(plugin, hook)(*given), arguments))
        except KeyboardInterrupt:
            raise
        except BaseException as error:  # as above
            if closed is None:
                raise PluginDroppedError(name, hook, describe(error)) from error
            return closed(failures.note(name, hook, error), arguments)

    return ask


def has(plugin: Any, what: str) -> bool:
    """`hasattr`, for classes that may do anything when asked."""
    try:
        return hasattr(plugin, what)
    except KeyboardInterrupt:
        raise
    except BaseException:
        return False


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

    def __call__(self, answer: Any, _: Sequence[Any]) -> Any:
        kind, key = _kind(answer)
        if self._kind is None:
            self._kind = kind
        if kind != self._kind:
            raise TypeError(f"keys of different kinds: {kind} and {self._kind}")
        return key


def _kind(key: Any) -> tuple[Any, Any]:
    """What a key can be compared with, and the key as plain data: a class of its own might compare as it likes."""
    if isinstance(key, int | np.bool_ | np.integer):
        return "number", int.__int__(key) if isinstance(key, int) else int(key)
    if isinstance(key, float | np.floating) or type(key) is Fraction:
        if math.isnan(key):
            raise TypeError("a key is NaN")
        return "number", key if type(key) is Fraction else float(key)
    if isinstance(key, str):
        return "text", str.__str__(key)
    if isinstance(key, tuple):
        parts = [_kind(part) for part in key]
        return tuple(kind for kind, _ in parts), tuple(part for _, part in parts)
    raise TypeError(f"expected a number, a text or a tuple of them as key, got {type(key).__name__}")


def _filter(answer: Any, arguments: Sequence[Any]) -> list[Check]:
    checks = [_check(check, _view(arguments).size) for check in islice(answer, MOST_CHECKS + 1)]
    if len(checks) > MOST_CHECKS:
        raise ValueError(f"more than {MOST_CHECKS} checks")
    return checks


def _check(check: Any, size: int) -> Check:
    if not isinstance(check, Check) or not isinstance(check.text, str) or not isinstance(check.reason, Reason):
        raise TypeError(f"expected a Check with a text, got {type(check).__name__}")
    passes = np.array(check.passes)
    if passes.shape != (size,) or passes.dtype != np.bool_:
        raise TypeError(f"expected {size} booleans, got {passes.dtype} of shape {passes.shape}")
    return Check(passes, _text(check.text), check.reason)


def _text(text: str) -> str:
    return str.__str__(text)[:LONGEST_TEXT]


def _score(answer: Any, arguments: Sequence[Any]) -> FloatColumn:
    """A column of the right length without NaN, infinities and giants."""
    size = _view(arguments).size
    column: FloatColumn = np.array(answer, dtype=np.float64)
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
    column: IntColumn = np.array(answer)
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
    if not isinstance(answer, Verdict) or not isinstance(answer.ok, bool) or not isinstance(answer.detail, str):
        raise TypeError(f"expected a Verdict with a text, got {type(answer).__name__}")
    if answer.reason is not None and not isinstance(answer.reason, Reason):
        raise TypeError(f"expected a Reason in the Verdict, got {type(answer.reason).__name__}")
    return Verdict(answer.ok, answer.reason, _text(str(answer.plugin)), _text(answer.detail))


def _subset(answer: Iterable[Any], arguments: Sequence[Any]) -> list[Task]:
    """The plugin was shown stand-ins of the candidates, and answers with some of those."""
    candidates = {shown(task): task for task in arguments[-1]}
    found = list(islice(answer, len(candidates) + 1))
    if len(found) > len(candidates) or not all(task in candidates for task in found):
        raise ValueError("names tasks that are not among the candidates")
    return [candidates[task] for task in found]


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
