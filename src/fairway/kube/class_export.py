"""ResourceClasses published as DeviceClasses of the same names, and kept in step with them.

A DeviceClass that was made here is owned by its class, so that Kubernetes deletes it with the class; a class that was
made again under its name has it changed. Those of others are never touched. A class is published only if nothing else
is selected by it then, and by no one else: one with `allowedNamespaces` is not, for a DeviceClass is open to all.
"""

from __future__ import annotations

from collections.abc import Iterator
from typing import Any, Literal, NamedTuple

import msgspec

from fairway.api.devices import DeviceClass, ResourceClass
from fairway.api.meta import ApiStruct, ObjectMeta
from fairway.devices.select.cel_export import NOT_EXPORTED, export
from fairway.devices.select.selectors import Finding
from fairway.errors import ApiError, InputError
from fairway.kube.http.client import ApiClient
from fairway.kube.http.exchange import JSON, MERGE_PATCH, ApiAnswer, ApiRequest, encoded, explained
from fairway.kube.http.paths import DEVICES, FAIRWAY, collection_path, object_path

Result = Literal["created", "changed", "unchanged", "deleted", "left out", "refused"]
GOOD: tuple[Result, ...] = ("created", "changed", "unchanged", "deleted")
_CLASSES, _DEVICE_CLASSES = collection_path(FAIRWAY, "resourceclasses"), collection_path(DEVICES, "deviceclasses")
_PAGE = 500
_ROUNDS = 5


class PublishedClass(NamedTuple):
    """What became of one class. `findings` is what its DeviceClass does not say."""

    name: str
    result: Result
    findings: tuple[Finding, ...] = ()
    why: str = ""

    @property
    def complete(self) -> bool:
        """Whether the DeviceClass is there and says all that the class does."""
        return self.result in GOOD and all(finding.reason != NOT_EXPORTED for finding in self.findings)


class _NamedClass(ApiStruct, frozen=True):
    metadata: ObjectMeta


class _PageMeta(ApiStruct, frozen=True):
    continue_: str = msgspec.field(default="", name="continue")


class _ClassPage(ApiStruct, frozen=True):
    items: tuple[msgspec.Raw, ...] = ()
    metadata: _PageMeta = msgspec.field(default_factory=_PageMeta)


class ClassPublisher:
    """Publishes all classes, or one, when it is told to."""

    def __init__(self, client: ApiClient, only: str | None = None) -> None:
        self._client = client
        self._only = only

    async def publish(self) -> list[PublishedClass]:
        """By name. InputError if the server does not let classes or DeviceClasses be read, or has none of the name."""
        try:
            classes = {_name(raw): raw for raw in await self._listed(_CLASSES)}
            there = {_name(raw): raw for raw in await self._listed(_DEVICE_CLASSES)}
        except ApiError as error:
            raise InputError(str(error)) from None
        if self._only is not None and self._only not in classes:
            raise InputError(f"--class: there is no class {self._only} on the server")
        found = [
            await self._publish(name, raw, there.get(name))
            for name, raw in sorted(classes.items())
            if self._only in (None, name)
        ]
        gone = [name for name, raw in there.items() if name not in classes and _owner_uid(_device_class(raw))]
        found += [await self._withdraw(name, there[name]) for name in sorted(gone) if self._only is None]
        return sorted(found, key=lambda one: one.name)

    async def _listed(self, path: str) -> list[msgspec.Raw]:
        found: list[msgspec.Raw] = []
        query = {"limit": str(_PAGE)}
        while True:
            page = await self._client.read(path, _ClassPage, query)
            found += page.items
            if not page.metadata.continue_:
                return found
            query["continue"] = page.metadata.continue_

    async def _publish(self, name: str, raw: msgspec.Raw, there: msgspec.Raw | None) -> PublishedClass:
        try:
            known = msgspec.json.decode(raw, type=ResourceClass)
        except msgspec.DecodeError as error:
            return PublishedClass(name, "left out", why=f"the class cannot be read: {error}")
        exported = export(known.spec)
        if exported.expression is None or known.spec.allowed_namespaces is not None:
            if there is not None and _owner_uid(_device_class(there)):
                gone = await self._withdraw(name, there)
                if gone.result != "deleted":
                    return gone._replace(findings=exported.findings)
            return PublishedClass(name, "left out", exported.findings)
        result, why = await self._write(known, exported.expression, there)
        return PublishedClass(name, result, exported.findings, why)

    async def _write(self, known: ResourceClass, expression: str, there: msgspec.Raw | None) -> tuple[Result, str]:
        name, answer = known.metadata.name, ApiAnswer(0)
        path = object_path(DEVICES, "deviceclasses", ("DeviceClass", "", name))
        body = _body(known, expression)
        for _ in range(_ROUNDS):
            if there is None:
                answer = await self._client.send(ApiRequest("POST", _DEVICE_CLASSES, encoded(body)))
                if answer.ok:
                    return "created", ""
            else:
                now = _device_class(there)
                if not _owner_uid(now):
                    return "refused", "a DeviceClass of this name that Fairway did not make is there"
                if _says(now, known, expression):
                    return "unchanged", ""
                meta = {**body["metadata"], "resourceVersion": now.metadata.resource_version, "uid": now.metadata.uid}
                patch = {"metadata": meta, "spec": body["spec"]}
                answer = await self._client.send(ApiRequest("PATCH", path, encoded(patch), MERGE_PATCH))
                if answer.ok:
                    return "changed", ""
            if answer.status not in (404, 409):
                break
            look = await self._client.send(ApiRequest("GET", path))
            there = msgspec.Raw(look.body) if look.ok else None
        return "refused", explained(answer)

    async def _withdraw(self, name: str, there: msgspec.Raw) -> PublishedClass:
        body = {"preconditions": {"uid": _device_class(there).metadata.uid}}
        path = object_path(DEVICES, "deviceclasses", ("DeviceClass", "", name))
        answer = await self._client.send(ApiRequest("DELETE", path, encoded(body), JSON))
        if answer.ok or answer.status == 404:
            return PublishedClass(name, "deleted")
        return PublishedClass(name, "refused", why=explained(answer))


def lines(published: PublishedClass) -> Iterator[str]:
    """What there is to say about one class, besides its result."""
    yield from (f"spec.{finding} ({finding.reason})" for finding in published.findings)
    if published.why:
        yield published.why


def _name(raw: msgspec.Raw) -> str:
    return msgspec.json.decode(raw, type=_NamedClass).metadata.name


def _device_class(raw: msgspec.Raw) -> DeviceClass:
    return msgspec.json.decode(raw, type=DeviceClass)


def _body(known: ResourceClass, expression: str) -> dict[str, Any]:
    owner = {
        "apiVersion": FAIRWAY,
        "kind": "ResourceClass",
        "name": known.metadata.name,
        "uid": known.metadata.uid,
        "controller": True,
    }
    return {
        "apiVersion": DEVICES,
        "kind": "DeviceClass",
        "metadata": {"name": known.metadata.name, "ownerReferences": [owner]},
        "spec": {"selectors": [{"cel": {"expression": expression}}]},
    }


def _owner_uid(there: DeviceClass) -> str:
    """That of the ResourceClass from which it was made; "" if it was made by others."""
    owners = (one for one in there.metadata.owner_references if one.controller and one.kind == "ResourceClass")
    return next((one.uid for one in owners if one.api_version.partition("/")[0] == FAIRWAY.partition("/")[0]), "")


def _says(there: DeviceClass, known: ResourceClass, expression: str) -> bool:
    texts = [selector.cel.expression if selector.cel else None for selector in there.spec.selectors]
    return texts == [expression] and _owner_uid(there) == known.metadata.uid
