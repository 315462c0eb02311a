"""Namespaces: their labels, and their weight from ResourceQuotas (spec S1.5)."""

from __future__ import annotations

from collections.abc import Mapping

from fairway.api.core import NAMESPACE_WEIGHT, Namespace, ResourceQuota
from fairway.errors import QuantityError
from fairway.resources.quantity import parse_quantity
from fairway.state.membership import queue_named

DEFAULT_WEIGHT = 1
_NANO = 10**9
_MAX_WEIGHT = 1 << 31
_LONGEST = 64


def weight_of(text: str) -> int | None:
    """A weight is a quantity equal to a positive whole number (`3`, `1k`, `2000m`); anything else is none."""
    try:
        nanos = parse_quantity(text).nanos
    except QuantityError:
        return None
    weight, rest = divmod(nanos, _NANO)
    return weight if weight > 0 and not rest and weight <= _MAX_WEIGHT else None


def _shown(text: str) -> str:
    return repr(text if len(text) <= _LONGEST else text[:_LONGEST] + "...")


class Namespaces:
    """Labels and weights. Several quotas of a namespace: the highest weight counts."""

    def __init__(self) -> None:
        self._labels: dict[str, Mapping[str, str]] = {}
        self._queues: dict[str, str] = {}
        self._weights: dict[str, dict[str, str]] = {}

    def labels(self, namespace: str) -> Mapping[str, str]:
        """The labels; like the API server, every namespace carries its own name."""
        return {"kubernetes.io/metadata.name": namespace, **self._labels.get(namespace, {})}

    def upsert(self, namespace: Namespace) -> None:
        self._labels[namespace.metadata.name] = namespace.metadata.labels
        self._queues[namespace.metadata.name] = queue_named(namespace.metadata)

    def delete(self, name: str) -> None:
        self._labels.pop(name, None)
        self._queues.pop(name, None)

    def queue(self, namespace: str) -> str:
        """The queue of jobs that name none themselves; "" if the namespace names none either."""
        return self._queues.get(namespace, "")

    def upsert_quota(self, quota: ResourceQuota) -> None:
        text = quota.spec.hard.get(NAMESPACE_WEIGHT)
        if text is None:
            self.delete_quota(quota.metadata.namespace, quota.metadata.name)
        else:
            self._weights.setdefault(quota.metadata.namespace, {})[quota.metadata.name] = text

    def delete_quota(self, namespace: str, name: str) -> None:
        texts = self._weights.get(namespace, {})
        texts.pop(name, None)
        if not texts:
            self._weights.pop(namespace, None)

    def weight(self, namespace: str) -> int:
        texts = self._weights.get(namespace)
        if not texts:
            return DEFAULT_WEIGHT
        return max((weight_of(text) or DEFAULT_WEIGHT for text in texts.values()), default=DEFAULT_WEIGHT)

    def warnings(self) -> list[str]:
        return [
            f"resourcequota {namespace}/{name}: {NAMESPACE_WEIGHT} {_shown(text)} is not a whole number from 1 to "
            f"{_MAX_WEIGHT}, counted as {DEFAULT_WEIGHT}"
            for namespace, texts in sorted(self._weights.items())
            for name, text in sorted(texts.items())
            if weight_of(text) is None
        ]
