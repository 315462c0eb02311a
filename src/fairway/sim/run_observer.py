"""What gets the events of a virtual cluster: the recorder of a run's metrics, or the view of a live one."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from typing import Protocol

from fairway.clock import Micros
from fairway.sim.metrics import JobFacts


class RunObserver(Protocol):
    """Told in order of time; `amounts` are of all the tasks that a report is about."""

    def capacity(self, at: Micros, capacity: Mapping[str, int]) -> None: ...

    def submitted(self, at: Micros, facts: JobFacts) -> None: ...

    def placed(self, at: Micros, key: str, amounts: Mapping[str, int], tasks: int = 1) -> None: ...

    def released(self, at: Micros, key: str, amounts: Mapping[str, int], tasks: int = 1) -> None: ...

    def evicted(
        self, at: Micros, key: str, amounts: Mapping[str, int], ran: Micros, tasks: int = 1, *, failed: bool = False
    ) -> None: ...

    def finished(self, at: Micros, key: str, ran: Micros, hosts: Sequence[str] = ()) -> None: ...

    def reservations(self, at: Micros, starving: int, reserved: int) -> None: ...
