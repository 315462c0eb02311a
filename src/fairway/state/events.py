"""What can happen to a cluster. `ClusterState.apply` takes these and nothing else."""

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


@dataclass(frozen=True, slots=True)
class Assumed:
    """A driver has begun to bind a pod: from now on the room counts as taken.

    `record` are the plan's annotations for the pod, which say what devices it was given.
    """

    pod: str
    node: str
    record: tuple[tuple[str, str], ...] = ()


@dataclass(frozen=True, slots=True)
class Confirmed:
    """The binding of an assumed pod was accepted."""

    pod: str


@dataclass(frozen=True, slots=True)
class Forgotten:
    """The binding of an assumed pod failed: it waits again and its room is free."""

    pod: str


Event = Upserted | Deleted | Assumed | Confirmed | Forgotten
