"""Pods that wait with claims made for them from templates, by what their requests rest on."""

from __future__ import annotations

from collections.abc import Iterator

from fairway.api.pods import Pod


class ClaimingPods:
    """A pod asks by its template as long as the claim that was made for it says the same, so that pods of one template
    are alike. It has to be read again when either changes.
    """

    def __init__(self) -> None:
        self._pods: dict[str, Pod] = {}
        self._of: dict[str, dict[str, None]] = {}
        """Pods by the claim (`namespace/name`), and by the template."""

    def note(self, key: str, pod: Pod) -> None:
        for name in _rests_on(pod):
            self._of.setdefault(name, {})[key] = None
            self._pods[key] = pod

    def forget(self, key: str) -> None:
        pod = self._pods.pop(key, None)
        for name in _rests_on(pod) if pod is not None else ():
            keys = self._of.get(name)
            if keys is not None:
                keys.pop(key, None)
                if not keys:
                    del self._of[name]

    def of(self, name: str) -> list[Pod]:
        return [self._pods[key] for key in self._of.get(name, ())]


def _rests_on(pod: Pod) -> Iterator[str]:
    """Claims and templates of one name are not told apart: a pod is only read once too often."""
    namespace = pod.metadata.namespace
    made = {status.name: status.resource_claim_name for status in pod.status.resource_claim_statuses}
    for entry in pod.spec.resource_claims:
        if entry.resource_claim_template_name is not None and (own := made.get(entry.name)):
            yield f"{namespace}/{own}"
            yield f"{namespace}/{entry.resource_claim_template_name}"
