"""`DryWorld`: takes changes and writes nothing. They count as made, so that each is shown once."""

from __future__ import annotations

from collections.abc import Sequence

from fairway.drive import Change


class DryWorld:
    """The world of `--dry-run`."""

    has_capacity = True
    unanswered = 0

    def carry_out(self, changes: Sequence[Change]) -> None:
        """What is really done to the objects, by another scheduler, is seen and counts."""
