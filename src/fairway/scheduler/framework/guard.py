"""What happens when an external plugin fails: the cycle goes on.

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

from collections.abc import Callable, Collection
from typing import Any

from fairway.api.hooks import HOOKS
from fairway.scheduler.framework.answers import LONGEST_TEXT, checker, stand_in
from fairway.scheduler.framework.read_only import shown

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
            f"plugin {plugin} could not be made or opened, and does nothing: {describe(error)}"
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
    """The hook, its answers checked and its failing turned into what the table of hooks says."""
    entry = HOOKS[hook]
    checked = checker(entry.answer)
    closed = stand_in(entry)

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
