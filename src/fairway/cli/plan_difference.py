"""What one plan does that another does not, pod by pod."""

from __future__ import annotations

from typing import TYPE_CHECKING

if TYPE_CHECKING:
    from collections.abc import Iterator, Mapping

    from fairway.scheduler.plan import Plan


def differences(first: Plan, second: Plan) -> list[str]:
    """One sentence for each pod with which `second` does something else; none where both do the same."""
    return [
        *_moved({b.pod: b.node for b in first.bindings}, {b.pod: b.node for b in second.bindings}, "bound to"),
        *_gone({e.pod for e in first.evictions}, {e.pod for e in second.evictions}, "evicted"),
        *_moved({r.pod: r.node for r in first.reservations}, {r.pod: r.node for r in second.reservations}, "reserved"),
        *_moved(
            {n.pod: n.node for n in first.nominations}, {n.pod: n.node for n in second.nominations}, "nominated to"
        ),
    ]


def _moved(first: Mapping[str, str], second: Mapping[str, str], what: str) -> Iterator[str]:
    for pod in sorted({*first, *second}):
        before, after = first.get(pod), second.get(pod)
        if before == after:
            continue
        if after is None:
            yield f"{pod}: not {what} {before}"
        else:
            yield f"{pod}: {what} {after}" + (f" instead of {before}" if before else "")


def _gone(first: set[str], second: set[str], what: str) -> Iterator[str]:
    for pod in sorted(first ^ second):
        yield f"{pod}: {what}" if pod in second else f"{pod}: not {what}"
