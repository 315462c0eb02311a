"""PlacementDecisions as a hub stores them, and the requests that write them.

OCM's definition has a name and a reason for each cluster and drops everything else: points are in events, replicas in
an annotation. The reason is the one for which a cluster was chosen, and stays for as long as the cluster does, so that
an unchanged decision is never written again.

All slices of a placement are one write (`Publication`): one request after the other, in the order that leaves no gap.
A retry reads what an earlier attempt, another leader or a user has done from the server; nothing of it is remembered.
"""

from __future__ import annotations

import json
import re
import threading
from collections.abc import Generator, Iterable, Mapping, Sequence
from typing import Any

import msgspec
from msgspec.structs import replace

from fairway.api.fleet import ClusterDecision, Placement, PlacementDecision, PlacementDecisionStatus
from fairway.api.meta import ApiStruct, OwnerReference
from fairway.fleet import records
from fairway.fleet.names import REPLICAS
from fairway.fleet.rules import Key
from fairway.fleet.slices import ANNOTATIONS, LABELS, Write, same, writes
from fairway.kube.http.exchange import (
    DONE,
    LONG_PAUSE,
    MERGE_PATCH,
    ApiAnswer,
    ApiRequest,
    Ending,
    Script,
    WriteResult,
    again,
    encoded,
    explained,
    plain_ending,
    refused,
)
from fairway.kube.http.paths import UNCHECKED, collection_path, object_path

PLURAL = "placementdecisions"
MAX_REASON = 1024
"""Characters of one reason: an object has a hundred of them, and a placement may weigh hundreds of scores."""
_NUMBERED = re.compile(r"(.+)-decision-\d+")
_STALE = (404, 409)
"""Answers that mean that the object is not the one that was read."""

Slices = Mapping[str, PlacementDecision]
"""By name."""
_Step = Generator[ApiRequest, ApiAnswer, Ending]


def owner_of(decision: PlacementDecision) -> Key:
    """The placement whose slice it is: by its name, which cannot be changed, or else by its label."""
    numbered = _NUMBERED.fullmatch(decision.metadata.name)
    return (decision.metadata.namespace, numbered[1]) if numbered else records.owner(decision)


def as_published(slices: Iterable[PlacementDecision], before: Iterable[PlacementDecision]) -> Slices:
    """The slices as they are written. `before` are the current ones: a cluster that stays keeps its reason."""
    reasons = {item.cluster_name: item.reason for one in before for item in one.status.decisions}
    return {one.metadata.name: _published(one, reasons) for one in slices}


def _published(one: PlacementDecision, reasons: Mapping[str, str]) -> PlacementDecision:
    items = one.status.decisions
    decisions = tuple(
        ClusterDecision(item.cluster_name, reasons.get(item.cluster_name, item.reason)[:MAX_REASON]) for item in items
    )
    replicas = {item.cluster_name: item.replicas for item in items if item.replicas is not None}
    metadata = one.metadata
    if replicas:
        text = json.dumps(replicas, separators=(",", ":"), sort_keys=True)
        metadata = replace(metadata, annotations={**metadata.annotations, REPLICAS: text})
    return PlacementDecision(metadata, PlacementDecisionStatus(decisions))


def are_same(seen: Slices, wanted: Slices) -> bool:
    """Whether a server has exactly the wanted slices of a placement."""
    return seen.keys() == wanted.keys() and all(same(seen[name], one) for name, one in wanted.items())


class _DecisionList(ApiStruct, frozen=True):
    items: tuple[PlacementDecision, ...] = ()


class Publication:
    """One write of a placement's slices. `results` has each object as the server last showed it; None: gone."""

    def __init__(self, version: str, placement: Placement, seen: Slices, wanted: Slices) -> None:
        """`version` is the server's API version of PlacementDecisions."""
        self.key: Key = (placement.metadata.namespace, placement.metadata.name)
        self.wanted = wanted
        self.results: dict[str, PlacementDecision | None] = {}
        self._version = version
        self._placement = placement
        self._seen = seen
        self._tried = False
        self._withdrawn = threading.Event()

    def withdraw(self) -> None:
        """Write nothing more: another leader may have decided meanwhile. Callable from any thread."""
        self._withdrawn.set()

    @property
    def is_withdrawn(self) -> bool:
        return self._withdrawn.is_set()

    def script(self) -> Script:
        if self._withdrawn.is_set():
            return refused("withdrawn")
        before = dict(self._seen)
        if self._tried:
            listed = yield from self._list()
            if isinstance(listed, Ending):
                return listed
            before = listed
        self._tried = True
        for write in writes(before, tuple(self.wanted.values()), self._placement):
            if self._withdrawn.is_set():
                return refused("withdrawn")
            ending = yield from self._one(write, before.get(write.name))
            if ending is not DONE:
                return ending
        return DONE

    def _list(self) -> Generator[ApiRequest, ApiAnswer, dict[str, PlacementDecision] | Ending]:
        """The slices that exist. The whole namespace is listed: a slice that lost its label is found by its name."""
        meta = self._placement.metadata
        answer = yield ApiRequest("GET", collection_path(self._version, PLURAL, meta.namespace))
        if not answer.ok:
            return again(answer)
        try:
            items = msgspec.json.decode(answer.body, type=_DecisionList).items
        except (msgspec.DecodeError, UnicodeDecodeError):
            return again(answer)
        listed = {one.metadata.name: one for one in items if owner_of(one) == self.key}
        self.results = {**dict.fromkeys({*self.results, *self._seen}), **listed}
        return listed

    # -- one slice -------------------------------------------------------------------------------------------

    def _one(self, write: Write, before: PlacementDecision | None) -> _Step:
        """`before` is None for a slice that this publication creates."""
        if write.action == "create":
            return (yield from self._create(write.decision))
        known = self.results.get(write.name) or before
        assert known is not None
        if write.action == "delete":
            return (yield from self._delete(known))
        return (yield from self._update(known, write.decision))

    def _create(self, wanted: PlacementDecision) -> _Step:
        """Its clusters follow at once: the server accepts a status only in a request of its own."""
        path = f"{collection_path(self._version, PLURAL, wanted.metadata.namespace)}?{UNCHECKED}"
        meta = {**self._patch(wanted, None), "name": wanted.metadata.name}
        head = {"apiVersion": self._version, "kind": "PlacementDecision", "metadata": meta}
        answer = yield ApiRequest("POST", path, encoded(head))
        if answer.status == 409:
            return _stale(answer)
        if answer.status == 404:
            return refused("the namespace is gone", LONG_PAUSE)
        made = self._took(wanted.metadata.name, answer)
        if made is None:
            return plain_ending(answer) if not answer.ok else again(answer)
        return (yield from self._write_clusters(made, wanted))

    def _update(self, known: PlacementDecision, wanted: PlacementDecision) -> _Step:
        if not same(replace(known, status=wanted.status), wanted):
            meta = {**self._patch(wanted, known), "resourceVersion": known.metadata.resource_version}
            path = f"{self._path(known)}?{UNCHECKED}"
            answer = yield ApiRequest("PATCH", path, encoded({"metadata": meta}), MERGE_PATCH)
            made = self._took(known.metadata.name, answer)
            if made is None:
                return _stale_or(answer)
            known = made
        if known.status == wanted.status:
            return DONE
        return (yield from self._write_clusters(known, wanted))

    def _write_clusters(self, known: PlacementDecision, wanted: PlacementDecision) -> _Step:
        """The whole status; the server keeps the rest of the object. It is less work for the server than a patch."""
        decisions = [{"clusterName": one.cluster_name, "reason": one.reason} for one in wanted.status.decisions]
        meta = known.metadata
        head = {"name": meta.name, "namespace": meta.namespace, "uid": meta.uid}
        body = {
            "apiVersion": self._version,
            "kind": "PlacementDecision",
            "metadata": {**head, "resourceVersion": meta.resource_version},
            "status": {"decisions": decisions},
        }
        answer = yield ApiRequest("PUT", f"{self._path(known)}/status?{UNCHECKED}", encoded(body))
        return DONE if self._took(known.metadata.name, answer) is not None else _stale_or(answer)

    def _delete(self, known: PlacementDecision) -> _Step:
        preconditions = {"uid": known.metadata.uid}
        options = {"apiVersion": "v1", "kind": "DeleteOptions", "preconditions": preconditions}
        answer = yield ApiRequest("DELETE", self._path(known), encoded(options))
        if answer.ok or answer.status == 404:
            self.results[known.metadata.name] = None
            return DONE
        return _stale_or(answer)

    def _took(self, name: str, answer: ApiAnswer) -> PlacementDecision | None:
        """The object as the server now has it."""
        if not answer.ok:
            return None
        try:
            made = msgspec.json.decode(answer.body, type=PlacementDecision)
        except (msgspec.DecodeError, UnicodeDecodeError):
            return None
        self.results[name] = made
        return made

    def _patch(self, wanted: PlacementDecision, known: PlacementDecision | None) -> dict[str, Any]:
        """Our part of the metadata; entries that are no longer wanted are null."""
        meta = wanted.metadata
        old = {} if known is None else known.metadata.annotations
        notes = {name: meta.annotations.get(name) for name in ANNOTATIONS if name in meta.annotations or name in old}
        patch: dict[str, Any] = {"labels": {name: meta.labels[name] for name in LABELS if name in meta.labels}}
        if notes:
            patch["annotations"] = notes
        owners = [self._owner(one) for one in meta.owner_references if one.uid]
        return {**patch, "ownerReferences": owners} if owners else patch

    def _owner(self, one: OwnerReference) -> dict[str, Any]:
        version = one.api_version or self._version
        return {"apiVersion": version, "kind": one.kind, "name": one.name, "uid": one.uid, "controller": True}

    def _path(self, one: PlacementDecision) -> str:
        key = ("PlacementDecision", one.metadata.namespace, one.metadata.name)
        return object_path(self._version, PLURAL, key)


def _stale(answer: ApiAnswer) -> Ending:
    """The next attempt reads what exists."""
    return Ending(WriteResult.AGAIN, explained(answer))


def _stale_or(answer: ApiAnswer) -> Ending:
    if answer.ok:
        return again(answer)
    return _stale(answer) if answer.status in _STALE else plain_ending(answer)


def in_order(slices: Slices) -> Sequence[PlacementDecision]:
    """By group, then by number."""

    def place(one: PlacementDecision) -> tuple[int, str]:
        number = one.metadata.name.rpartition("-")[2]
        return (int(number) if number.isascii() and number.isdecimal() else 0, one.metadata.name)

    return sorted(slices.values(), key=place)
