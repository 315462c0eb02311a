"""Equal parts of pods, each kept once.

Pods come in few shapes and many copies: the containers, tolerations, rules and volumes that a template gives them are
the same for all, and decoded anew for each. Structs are frozen, and what is in them is not written on, so that one may
stand in many pods. Names, labels and statuses mostly differ, and are left as they are: to look for equals costs more
there than it saves.
"""

from __future__ import annotations

from typing import TypeVar

import msgspec
from msgspec.structs import replace

from fairway.api.pods import Pod

MAX_SHARED = 20_000
"""Different parts that are remembered; a cluster with more has few that repeat."""

T = TypeVar("T")


class SharedParts:
    """Parts are told apart by what they look like encoded."""

    def __init__(self) -> None:
        self._parts: dict[tuple[str, bytes], object] = {}
        self._encode = msgspec.msgpack.Encoder().encode

    def pod(self, pod: Pod) -> Pod:
        """The same pod, of parts that others have too."""
        spec = pod.spec
        shared = replace(
            spec,
            containers=self._part("containers", spec.containers),
            init_containers=self._part("containers", spec.init_containers),
            node_selector=self._part("selector", spec.node_selector),
            affinity=self._part("affinity", spec.affinity),
            tolerations=self._part("tolerations", spec.tolerations),
            topology_spread_constraints=self._part("spread", spec.topology_spread_constraints),
            volumes=self._part("volumes", spec.volumes),
        )
        return Pod(shared, pod.metadata, pod.status)

    def _part(self, field: str, part: T) -> T:
        """The first part of this field that looks the same."""
        if not part:
            return part
        key = field, self._encode(part)
        found = self._parts.get(key)
        if found is None:
            if len(self._parts) >= MAX_SHARED:
                self._parts.clear()
            self._parts[key] = part
            return part
        return found  # type: ignore[return-value]
