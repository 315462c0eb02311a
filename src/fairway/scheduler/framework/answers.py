"""Answers of external plugins: what is one, by kind, and what stands in for one that failed.

What a plugin answers is copied, and everything in it is plain data afterwards: nothing of it is kept.
"""

from __future__ import annotations

import math
from collections.abc import Callable, Iterable, Mapping, Sequence
from enum import Enum
from fractions import Fraction
from itertools import islice
from numbers import Integral
from typing import Any, get_args

import numpy as np

from fairway.api.classes import DeviceStrategy
from fairway.api.hooks import AnswerKind, HookEntry, OnFailure
from fairway.devices.match.capacity import Portion
from fairway.resources.columns import BoolColumn, IntColumn
from fairway.scheduler.framework.accounts import UNLIMITED
from fairway.scheduler.framework.hooks import Check, EntitledBy, FloatColumn, KeyText, OrderedBy
from fairway.scheduler.framework.read_only import shown
from fairway.scheduler.placement.node_view import NodeView
from fairway.scheduler.verdict import Reason, Verdict
from fairway.state.jobs import Task
from fairway.state.tables import PODS

GIANT_SCORE = 1e6
"""A single score beyond this is no score."""

MOST_CHECKS = 1000
"""Checks that one call of a filter may give."""

LONGEST_TEXT = 500
"""Characters of a plugin's text that are shown."""

StandIn = Callable[[str, Sequence[Any]], Any]
STRATEGIES: tuple[str, ...] = get_args(DeviceStrategy)
Checker = Callable[[Any, Sequence[Any]], Any]
"""Turns the answer to some arguments into plain data, or raises."""


def checker(kind: AnswerKind) -> Checker:
    """How answers of a kind are checked. Keys are compared with those before them, so each hook has its own."""
    return _KeyCheck() if kind is AnswerKind.KEY else _CHECKERS[kind]


def _refuse(text: str, _: Sequence[Any]) -> Verdict:
    return Verdict(False, Reason.PLUGIN_FAILED, detail=text)


def _pass_none(text: str, arguments: Sequence[Any]) -> list[Check]:
    return [Check(np.zeros(_view(arguments).size, dtype=np.bool_), text, Reason.PLUGIN_FAILED)]


def _no_units(_: str, arguments: Sequence[Any]) -> BoolColumn:
    return np.zeros(len(arguments[0].units), dtype=np.bool_)


def stand_in(hook: HookEntry) -> StandIn | None:
    """What counts as the answer where a hook has failed, given the text of the failure; None if the hook drops out."""
    return None if hook.failure is OnFailure.DROPS_OUT else _STAND_INS[hook.answer, hook.failure]


_STAND_INS: dict[tuple[AnswerKind, OnFailure], StandIn] = {
    (AnswerKind.CHECKS, OnFailure.PASSES_NOWHERE): _pass_none,
    (AnswerKind.LIMITS, OnFailure.ONE): lambda _, arguments: np.ones(_view(arguments).size, dtype=np.int64),
    (AnswerKind.YES_OR_NO, OnFailure.COUNTS_AS_YES): lambda *_: True,
    (AnswerKind.YES_OR_NO, OnFailure.COUNTS_AS_NO): lambda *_: False,
    (AnswerKind.COUNT, OnFailure.NONE): lambda *_: 0,
    (AnswerKind.VERDICT, OnFailure.REFUSES): _refuse,
    (AnswerKind.OWED, OnFailure.EXCEEDS_ALL): lambda *_: {PODS: (0, UNLIMITED)},
    (AnswerKind.ENTITLED_BY, OnFailure.NONE): lambda *_: (),
    (AnswerKind.TASKS, OnFailure.NONE): lambda *_: (),
    (AnswerKind.UNITS, OnFailure.NONE): _no_units,
}


# -- what is an answer -------------------------------------------------------------------------------------------


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


def _device(answer: Any, arguments: Sequence[Any]) -> int | None:
    request, _, node, free = arguments
    if answer is None:
        return None
    slot = _count(answer, ())
    selector = request.resolved.requests[0].options[0].selector
    if slot not in node.candidates(selector) or not free.fits(slot, Portion(milli=request.part)):
        raise ValueError(f"device {slot} does not serve the request")
    return slot


def _strategies(answer: Any, _: Sequence[Any]) -> tuple[str, ...]:
    found = tuple(islice(answer, len(STRATEGIES) + 1))
    if not found or not all(isinstance(name, str) and name in STRATEGIES for name in found):
        raise ValueError(f"expected some of {', '.join(STRATEGIES)}")
    return tuple(map(str.__str__, found))


def _deserved(answer: Any, _: Sequence[Any]) -> dict[str, list[int]]:
    if not isinstance(answer, Mapping) or not all(isinstance(name, str) for name in answer):
        raise TypeError(f"expected amounts by name of queue, got {type(answer).__name__}")
    return {str.__str__(name): [_count(amount, ()) for amount in amounts] for name, amounts in answer.items()}


def _owed(answer: Any, _: Sequence[Any]) -> dict[int, tuple[int, int]]:
    if not isinstance(answer, Mapping):
        raise TypeError(f"expected pairs of amounts by row, got {type(answer).__name__}")
    return {_count(row, ()): (_count(met, ()), _count(unmet, ())) for row, (met, unmet) in answer.items()}


def _key_texts(answer: Any, _: Sequence[Any]) -> list[KeyText]:
    found = list(islice(answer, MOST_CHECKS))
    if not all(
        isinstance(part, KeyText) and isinstance(part.key, str) and isinstance(part.text, str) for part in found
    ):
        raise TypeError("expected some KeyText")
    return [KeyText(_text(key), _kind(value)[1], _text(text)) for key, value, text in found]


def _some_of(kind: type[Enum], answer: Any) -> tuple[Enum, ...]:
    found = tuple(islice(answer, len(kind) + 1))
    if len(found) > len(kind) or not all(isinstance(one, kind) for one in found):
        raise TypeError(f"expected some {kind.__name__}, got {answer!r}")
    return found


def _units(answer: Any, arguments: Sequence[Any]) -> BoolColumn:
    column: BoolColumn = np.array(answer)
    size = len(arguments[0].units)
    if column.shape != (size,) or column.dtype != np.bool_:
        raise TypeError(f"expected {size} booleans, got {column.dtype} of shape {column.shape}")
    return column


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


_CHECKERS: dict[AnswerKind, Checker] = {
    AnswerKind.NOTHING: lambda *_: None,
    AnswerKind.YES_OR_NO: _yes_or_no,
    AnswerKind.COUNT: _count,
    AnswerKind.VERDICT: _verdict,
    AnswerKind.CHECKS: _filter,
    AnswerKind.LIMITS: _limit,
    AnswerKind.SCORES: _score,
    AnswerKind.SCORES_OR_NONE: _static_score,
    AnswerKind.BASIS: lambda answer, _: _kind(answer)[1],
    AnswerKind.DEVICE: _device,
    AnswerKind.STRATEGIES: _strategies,
    AnswerKind.DESERVED: _deserved,
    AnswerKind.OWED: _owed,
    AnswerKind.KEY_TEXTS: _key_texts,
    AnswerKind.ORDERED_BY: lambda answer, _: _some_of(OrderedBy, answer),
    AnswerKind.ENTITLED_BY: lambda answer, _: _some_of(EntitledBy, answer),
    AnswerKind.TASKS: _subset,
    AnswerKind.UNITS: _units,
}
