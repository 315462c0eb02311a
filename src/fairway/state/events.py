"""What happens to objects, as a state is told: one of them was added or modified, or is gone."""

from __future__ import annotations

import msgspec

from fairway.api.kinds import ApiObject


class Upserted(msgspec.Struct, frozen=True):
    """An object was added or modified; the state finds out which."""

    object: ApiObject


class Deleted(msgspec.Struct, frozen=True):
    """An object is gone."""

    object: ApiObject


Event = Upserted | Deleted
