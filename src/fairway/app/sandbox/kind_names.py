"""The words by which users mean kinds, as kubectl takes them."""

from __future__ import annotations

from fairway.api import kinds
from fairway.errors import InputError

SHORT_NAMES = {
    "po": "pod",
    "no": "node",
    "ns": "namespace",
    "pg": "podgroup",
    "q": "queue",
    "pc": "priorityclass",
    "pdb": "poddisruptionbudget",
    "quota": "resourcequota",
    "pv": "persistentvolume",
    "pvc": "persistentvolumeclaim",
    "sc": "storageclass",
    "hn": "hypernode",
    "rsv": "reservation",
    "resclass": "resourceclass",
    "ev": "event",
}
"""As kubectl and Volcano have them where they have one."""


class UnknownKindError(InputError):
    """A word that means no kind."""


def kind_named(name: str) -> kinds.Kind:
    """The kind that a word means: `Pod`, `pods`, `po`, `queue`."""
    word = SHORT_NAMES.get(name.lower(), name.lower())
    for kind in kinds.KINDS:
        lower = kind.name.lower()
        plural = f"{lower[:-1]}ies" if lower.endswith("y") else f"{lower}es" if lower.endswith("s") else f"{lower}s"
        if word in (lower, plural):
            return kind
    known = ", ".join(kind.name for kind in kinds.KINDS)
    raise UnknownKindError(f"{name}: there is no such kind, expected Job, Event or one of {known}")
