"""The one question that every attempt asks: would the job start now, if these objects were so?"""

from __future__ import annotations

from collections.abc import Callable, Iterator, Sequence
from typing import NamedTuple

from fairway.api.kinds import ApiObject
from fairway.api.pods import Pod
from fairway.app.explain.model import Effect, SuggestedChange
from fairway.app.explain.search import Asker
from fairway.app.explain.situation import Situation
from fairway.resources.quantity import AmountUnit, unit_of

MEBI = 1 << 20


class Question:
    """A job that waits in a situation. Each answer is one run of `decide`, and their number is limited."""

    def __init__(self, situation: Situation, job: str, queue: str, asker: Asker) -> None:
        self.situation = situation
        self.job = job
        self.queue = queue
        self.pods = situation.waiting_pods(job)
        self.group = situation.group_of(job)
        self.effect = Effect.STARTS
        """What the last change that worked would do. A search ends with the answer that it gives."""
        self._asker = asker

    def works(self, changed: Sequence[ApiObject]) -> bool:
        self._asker.spend()
        effect = self.situation.effect(self.job, changed)
        if effect is None:
            return False
        self.effect = effect
        return True

    def works_for_pods(self, edit: Callable[[Pod], Pod | None]) -> bool:
        """As `works`, with all waiting pods of the job edited; an edit that cannot be made does not work."""
        edited = [edit(pod) for pod in self.pods]
        made = [pod for pod in edited if pod is not None]
        return len(made) == len(edited) and self.works(made)

    def found(self, kind: str, text: str, size: float, pods: tuple[str, ...] = ()) -> SuggestedChange:
        return SuggestedChange(kind=kind, text=text, effect=self.effect, size=round(size, 6), pods=pods)


class Attempt(NamedTuple):
    """A kind of change: what is tried, and the search for the smallest of the kind."""

    kind: str
    text: str
    search: Callable[[Question], SuggestedChange | None]


Attempts = Iterator[Attempt]


def step_of(name: str, amount: int) -> int:
    """How finely amounts are searched: 10m of cpu, mebibytes of bytes, else whole units; small ones by hundredths."""
    step = 10 if name == "cpu" else {AmountUnit.BYTE: MEBI, AmountUnit.WHOLE: 1, AmountUnit.MILLI: 1000}[unit_of(name)]
    return step if step < amount else max(1, amount // 100)
