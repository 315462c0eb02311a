"""Which of the kinds that are read a server has, under which path (spec K3), and what its version can do.

A server is asked for the resources of each API version, never guessed at: a cluster may have no Volcano, no devices, an
older PodGroup. A missing kind is looked for again from time to time.
"""

from __future__ import annotations

import asyncio
import re
from collections.abc import Iterable
from dataclasses import dataclass
from random import Random
from typing import Literal

from fairway.api.kinds import Kind
from fairway.api.meta import ApiStruct
from fairway.errors import ApiError
from fairway.kube.http.client import ApiClient
from fairway.kube.http.exchange import Backoff

_NOT_FOUND = 404


@dataclass(frozen=True, slots=True)
class ServedKind:
    """A kind as a server has it."""

    kind: Kind
    api_version: str
    plural: str

    @property
    def path(self) -> str:
        """The path of all objects of the kind, in all namespaces."""
        return f"{version_path(self.api_version)}/{self.plural}"


class _ServedResource(ApiStruct, frozen=True):
    name: str = ""
    kind: str = ""
    verbs: tuple[str, ...] = ()


class _ServedResources(ApiStruct, frozen=True):
    """The resources of one API version. Its kind is required: any other body with status 200 proves nothing."""

    kind: Literal["APIResourceList"]
    resources: tuple[_ServedResource, ...] = ()


class _ServedVersion(ApiStruct, frozen=True):
    group_version: str = ""


class _ServedGroup(ApiStruct, frozen=True):
    versions: tuple[_ServedVersion, ...] = ()


class _ServedGroups(ApiStruct, frozen=True):
    kind: Literal["APIGroupList"]
    groups: tuple[_ServedGroup, ...] = ()


_NONE = _ServedResources("APIResourceList")


def version_path(api_version: str) -> str:
    return f"/apis/{api_version}" if "/" in api_version else f"/api/{api_version}"


async def find_served(client: ApiClient, kinds: Iterable[Kind]) -> dict[Kind, ServedKind | None]:
    """For each kind the version to read it in, the first of several; None if the server has none."""
    resources: dict[str, _ServedResources] = {}
    served: dict[Kind, ServedKind | None] = {}
    for kind in kinds:
        served[kind] = None
        for version in kind.api_versions:
            if version not in resources:
                resources[version] = await _resources(client, version)
            plural = _plural(resources[version], kind.name)
            if plural:
                served[kind] = ServedKind(kind, version, plural)
                break
    return served


async def _resources(client: ApiClient, api_version: str) -> _ServedResources:
    try:
        return await client.read(version_path(api_version), _ServedResources)
    except ApiError as error:
        if error.status == _NOT_FOUND and await _is_absent(client, api_version):
            return _NONE
        raise


async def _is_absent(client: ApiClient, api_version: str) -> bool:
    """Whether the server itself says that it does not have an API. A gateway without a server behind it answers 404 to
    everything: taken at face value, that would delete all objects of a kind.
    """
    try:
        groups = await client.read("/apis", _ServedGroups)
    except ApiError as error:
        if error.status == _NOT_FOUND:
            raise ApiError(0, "NotFound", "not an API server: it has no list of its APIs") from None
        raise
    return "/" in api_version and all(
        version.group_version != api_version for group in groups.groups for version in group.versions
    )


def _plural(served: _ServedResources, name: str) -> str:
    """Subresources have a kind too, but a slash in their name."""
    names = (one.name for one in served.resources if one.kind == name and {"list", "watch"} <= set(one.verbs))
    return next((name for name in names if "/" not in name), "")


CLASS_CLAIMS_FROM = (1, 36)
"""The version since which kubelets use the special claims of pods with extended resources."""


class _ServerVersion(ApiStruct, frozen=True):
    major: str = ""
    minor: str = ""


async def serves_class_claims(client: ApiClient, random: Random) -> bool:
    """Whether claims can name devices by class to kubelets. Retried until the server answers."""
    backoff = Backoff(random)
    while True:
        try:
            version = await client.read("/version", _ServerVersion)
        except ApiError as error:
            await asyncio.sleep(backoff.next(error.retry_after))
            continue
        return (_number(version.major), _number(version.minor)) >= CLASS_CLAIMS_FROM


def _number(text: str) -> int:
    """Some providers write `36+`."""
    digits = re.match(r"[0-9]{1,6}", text)
    return int(digits[0]) if digits else 0
