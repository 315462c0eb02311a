"""What happens to objects, as a state is told: one of them was added or modified, or is gone."""

from __future__ import annotations

from dataclasses import dataclass

from fairway.api.kinds import ApiObject


@dataclass(frozen=True, slots=True)
class Upserted:
    """An object was added or modified; the state finds out which."""

    object: ApiObject


@dataclass(frozen=True, slots=True)
class Deleted:
    """An object is gone."""

    object: ApiObject


Event = Upserted | Deleted
