"""How the answers of several plugins become one, as the table of hooks says.

Columns are combined where the nodes are looked at (`placement`), and victims where they are chosen (`eviction`): these
go through many answers at once, and keep what each said for the reasons.
"""

from __future__ import annotations

from collections.abc import Callable, Sequence
from typing import Any

from fairway.api.hooks import Combination
from fairway.scheduler.framework.hooks import Key
from fairway.scheduler.verdict import STAGE, YES, Reason, Verdict

Hooks = Sequence[Callable[..., Any]]


def _told(hooks: Hooks) -> Callable[..., None]:
    def tell(*arguments: Any) -> None:
        for hook in hooks:
            hook(*arguments)

    return tell


def _in_order(hooks: Hooks) -> Callable[..., list[Key]]:
    return lambda what: [key(what) for key in hooks]


def _any(hooks: Hooks) -> Callable[..., bool]:
    return lambda *arguments: any(hook(*arguments) for hook in hooks)


def _all(hooks: Hooks) -> Callable[..., bool]:
    def ask(*arguments: Any) -> bool:
        for hook in hooks:  # noqa: SIM110 - asked several times for every step
            if not hook(*arguments):
                return False
        return True

    return ask


def _least(hooks: Hooks) -> Callable[..., int]:
    """The last argument is what was asked for; each plugin is asked for what those before it left."""

    def ask(*arguments: Any) -> int:
        *about, count = arguments
        for hook in hooks:
            count = min(count, hook(*about, count))
        return int(count)

    return ask


def _each_allows(hooks: Hooks) -> Callable[..., Verdict]:
    """The refusal that stands first in the table of reasons."""

    def ask(*arguments: Any) -> Verdict:
        refusals = [verdict for verdict in (hook(*arguments) for hook in hooks) if not verdict.ok]
        return min(refusals, key=lambda verdict: STAGE[verdict.reason or Reason.PLUGIN_FAILED]) if refusals else YES

    return ask


def _first(hooks: Hooks) -> Callable[..., Any]:
    """None where no plugin has the hook."""
    return hooks[0] if hooks else lambda *_: None


def _each(hooks: Hooks) -> Callable[..., list[Any]]:
    return lambda *arguments: [hook(*arguments) for hook in hooks]


COMBINERS: dict[Combination, Callable[[Hooks], Callable[..., Any]]] = {
    Combination.TOLD: _told,
    Combination.IN_ORDER: _in_order,
    Combination.ANY: _any,
    Combination.ALL: _all,
    Combination.LEAST: _least,
    Combination.EACH_ALLOWS: _each_allows,
    Combination.FIRST: _first,
    Combination.EACH: _each,
}
