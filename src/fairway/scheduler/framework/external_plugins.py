"""What an external plugin is given: the engine's objects to look at, with no way to change them.

Lists come as tuples, mappings and sets as ones that cannot be written to, arrays as copies, and every other object as a
`ReadOnly` that answers with the same. Methods are not there, but for a few that only tell. Built-in plugins get the
objects themselves, so none of this costs them anything.

This keeps mistakes and careless code from harming others. Python code in the same process that is bent on it can reach
anything; installing a plugin means to trust it that far.

Answers of external plugins: what is one, by kind, and what stands in for one that failed.

What a plugin answers is copied, and everything in it is plain data afterwards: nothing of it is kept.

What happens when an external plugin fails: the cycle goes on.

An order or score hook that fails drops out: the cycle is decided again without it. A hook that says what may be done
(feasible, allocatable, preemptable, reclaimable and the other verdicts) fails *closed*: nothing is placed, let in or
evicted through it. Either way the error's text is in the plan, and jobs that wait because of it say PluginFailed.

To fail is to raise (anything but KeyboardInterrupt: `sys.exit()` is a failure too), or to answer with something that is
no answer: a column of the wrong shape, NaN, a giant, a key that cannot be compared. A plugin that cannot be made or
opened fails in every hook it has. So does one that has taken too long too often (`Stopwatch`).

What a plugin is given it cannot change (`readonly`), and what it answers is copied: nothing of it is kept.

Built-in plugins are not guarded: their failing is an error that must be seen. Whether a plugin is built in is known by
where its class came from (`Registry`), never by what the class says of itself.
"""

from __future__ import annotations

import inspect
import math
from collections.abc import Callable, Collection, Iterable, Mapping, Sequence, Set
from datetime import date, timedelta
from enum import Enum
from fractions import Fraction
from itertools import islice
from numbers import Integral
from types import MappingProxyType
from typing import Any, get_args

import numpy as np
from numpy.typing import NDArray

from fairway.api.devices import DeviceStrategy
from fairway.api.hooks import HOOKS, AnswerKind, HookEntry, OnFailure
from fairway.devices.match.free_slots import Portion
from fairway.resources.columns import BoolColumn, IntColumn
from fairway.scheduler.framework.accounts import UNLIMITED
from fairway.scheduler.framework.hooks import Check, EntitledBy, FloatColumn, KeyText, OrderedBy
from fairway.scheduler.placement.node_view import NodeView
from fairway.scheduler.verdict import Reason, Verdict
from fairway.state.jobs import Task
from fairway.state.tables import PODS

_PLAIN = (str, bytes, int, float, complex, type(None), Enum, type, np.generic, date, timedelta)
_TELLING = frozenset({"left", "members", "members_by_role", "ready_by_role", "has_started", "terms"})
"""Methods that change nothing."""


class ReadOnly:
    """Stands for an object of the engine. Two that stand for the same object are equal."""

    __slots__ = ("__target",)

    def __init__(self, target: object) -> None:
        object.__setattr__(self, "_ReadOnly__target", target)

    @property  # type: ignore[misc]
    def __class__(self) -> type[Any]:
        """Of the object that it stands for, so that `isinstance` says what a plugin expects."""
        return type(self.__target)

    def __getattr__(self, name: str) -> Any:
        if name.startswith("_"):
            raise AttributeError(f"{name} is not available to plugins")
        value = getattr(self.__target, name)
        if not callable(value) or isinstance(value, type):
            return shown(value)
        if name not in _TELLING:
            raise AttributeError(f"{name}() of {type(self.__target).__name__} is not available to plugins")
        return _telling(value)

    def __setattr__(self, name: str, value: object) -> None:
        raise AttributeError(f"plugins cannot set {name} of {type(self.__target).__name__}")

    def __delattr__(self, name: str) -> None:
        raise AttributeError(f"plugins cannot delete {name} of {type(self.__target).__name__}")

    def __eq__(self, other: object) -> bool:
        return type(other) is ReadOnly and other.__target is self.__target

    def __hash__(self) -> int:
        return id(self.__target)

    def __repr__(self) -> str:
        return repr(self.__target)


def _telling(method: Callable[..., Any]) -> Callable[[], Any]:
    return lambda: shown(method())


def shown(value: Any) -> Any:
    """The value as an external plugin may have it."""
    if isinstance(value, _PLAIN):
        return value
    if isinstance(value, NodeView):
        return Nodes(value)
    if isinstance(value, np.ndarray):
        return _copied(value)
    if isinstance(value, tuple):
        return _shown_tuple(value)
    if isinstance(value, list):
        return tuple(map(shown, value))
    if isinstance(value, Mapping):
        return MappingProxyType({shown(key): shown(item) for key, item in value.items()})
    if isinstance(value, Set):
        return frozenset(map(shown, value))
    return ReadOnly(value)


def _shown_tuple(value: tuple[Any, ...]) -> tuple[Any, ...]:
    """The same tuple where nothing in it can be changed, so that requests stay cheap to look at."""
    parts = tuple(map(shown, value))
    if all(mine is theirs for mine, theirs in zip(parts, value, strict=True)):
        return value
    named = getattr(type(value), "_make", None)
    return parts if named is None else named(parts)


def _copied(column: NDArray[Any]) -> NDArray[Any]:
    copy = column.copy()
    copy.flags.writeable = False
    return copy


class Nodes:
    """A `NodeView` to look at: the columns are copies that cannot be written to, made when first asked for."""

    __slots__ = ("__made", "__view", "size")

    def __init__(self, view: NodeView) -> None:
        self.__view = view
        self.__made: dict[str, NDArray[Any]] = {}
        self.size = view.size

    @property
    def idle(self) -> NDArray[np.int64]:
        return self._once("idle", lambda: self.__view.idle)

    def free(self, resource: int) -> IntColumn:
        found: IntColumn = self.idle[resource]
        return found

    @property
    def allocatable(self) -> NDArray[np.int64]:
        return self._once("allocatable", lambda: self.__view.allocatable)

    @property
    def rows(self) -> IntColumn | None:
        rows = self.__view.rows
        return None if rows is None else self._once("rows", lambda: rows)

    def _once(self, name: str, column: Callable[[], NDArray[Any]]) -> NDArray[Any]:
        if name not in self.__made:
            self.__made[name] = _copied(column())
        return self.__made[name]

    def percent(self, resource: int) -> NDArray[np.float64]:
        return _copied(self.__view.percent(resource))

    def row(self, resource: str) -> int | None:
        return self.__view.row(resource)

    def labels(self, key: str) -> list[str | None]:
        return self.__view.labels(key)

    def names(self) -> list[str]:
        return self.__view.names()

    def all_rows(self) -> IntColumn:
        return _copied(self.__view.all_rows())


GIANT_SCORE = 1e6
"""A single score beyond this is no score."""

MAX_CHECKS = 1000
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
    checks = [_check(check, _view(arguments).size) for check in islice(answer, MAX_CHECKS + 1)]
    if len(checks) > MAX_CHECKS:
        raise ValueError(f"more than {MAX_CHECKS} checks")
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
        raise ValueError("a score is NaN, infinite or too large")
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
        raise TypeError(f"expected a count, got {answer!r}")
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
    found = list(islice(answer, MAX_CHECKS))
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

    def __init__(self, stopwatch: Stopwatch | None = None, dropped: Collection[tuple[str, str]] = ()) -> None:
        self._dropped = dropped
        """Hooks that failed in an earlier attempt at this cycle, which says so already."""
        self.texts: dict[tuple[str, str], str] = {}
        self.broken: dict[str, BaseException] = {}
        self.slow: dict[tuple[str, str], str] = {}
        """Hooks that took too long but answered."""
        self._stopwatch = stopwatch
        self._spent: dict[tuple[str, str], int] = {}

    def note(self, plugin: str, hook: str, error: BaseException) -> str:
        message = f"plugin {plugin} failed in {hook}: {describe(error)}"
        return self.texts.setdefault((plugin, hook), message)

    def warnings(self) -> list[str]:
        """What went wrong, each once."""
        said = {plugin for plugin, _ in (*self.texts, *self._dropped)}
        unopened = [
            f"plugin {plugin} could not be created or opened, and is ignored: {describe(error)}"
            for plugin, error in self.broken.items()
            if plugin not in said
        ]
        return [*self.texts.values(), *self.slow.values(), *unopened]

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
            raise TooSlowError(f"it took {watch.said()}, {watch.strikes} times, and is disabled")
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
    """The hook, its answers checked and its failing turned into what the table of hooks says."""
    entry = HOOKS[hook]
    checked = checker(entry.answer)
    closed = stand_in(entry)
    leaves_out = _left_out(plugin, entry) if entry.optional else 0

    def ask(*arguments: Any) -> Any:
        try:
            if name in failures.broken:
                raise failures.broken[name]
            given = [shown(argument) for argument in arguments[: len(arguments) - leaves_out]]
            return failures.timed(name, hook, lambda: checked(getattr(plugin, hook)(*given), arguments))
        except KeyboardInterrupt:
            raise
        except BaseException as error:  # as above
            if closed is None:
                raise PluginDroppedError(name, hook, describe(error)) from error
            return closed(failures.note(name, hook, error), arguments)

    return ask


def _left_out(plugin: Any, entry: HookEntry) -> int:
    """How many of the hook's last arguments the plugin's method does not have."""
    try:
        parameters = inspect.signature(getattr(plugin, entry.name)).parameters.values()
    except KeyboardInterrupt:
        raise
    except BaseException:  # it gets all of them, and fails where failures are counted
        return 0
    if any(parameter.kind is parameter.VAR_POSITIONAL for parameter in parameters):
        return 0
    taken = [p for p in parameters if p.kind in (p.POSITIONAL_ONLY, p.POSITIONAL_OR_KEYWORD)]
    return min(entry.optional, max(0, len(entry.given.split(", ")) - len(taken)))


def has(plugin: Any, what: str) -> bool:
    """`hasattr`, for classes that may do anything when asked."""
    try:
        return hasattr(plugin, what)
    except KeyboardInterrupt:
        raise
    except BaseException:
        return False
