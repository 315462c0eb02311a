"""Which of the kinds that a scheduler reads a server has, and under which path (spec K3).

A server is asked for the resources of each API version, never guessed at: a cluster may have no Volcano, no devices, an
older PodGroup. What it does not have is looked for again from time to time.
"""

from __future__ import annotations

from collections.abc import Iterable
from dataclasses import dataclass, replace
from typing import Literal

from fairway.api.kinds import KINDS, OTHER_FORMS, Kind
from fairway.api.meta import ApiStruct
from fairway.errors import ApiError
from fairway.kube.http.client import ApiClient

_NOT_FOUND = 404
_FOR_FLEETS = "cluster.open-cluster-management.io/"

SCHEDULER_KINDS: tuple[Kind, ...] = tuple(
    kind for kind in (*KINDS, *OTHER_FORMS) if not kind.api_versions[0].startswith(_FOR_FLEETS)
)
"""What `decide` reads, PodGroups of three APIs among them: where two have one name, the first counts."""

_JUDGED = ("ManagedCluster", "Placement")
FLEET_KINDS: tuple[Kind, ...] = tuple(
    replace(kind, check=None) if kind.name in _JUDGED else kind
    for kind in KINDS
    if kind.api_versions[0].startswith(_FOR_FLEETS)
)
"""What `place` reads. Clusters that report nonsense and placements that request it are read all the same: the fleet
package sets aside what is wrong, and a condition on the object says so.
"""


@dataclass(frozen=True, slots=True)
class ServedKind:
    """A kind as a server has it."""

    kind: Kind
    api_version: str
    plural: str

    @property
    def path(self) -> str:
        """Of all objects of the kind, in all namespaces."""
        return f"{version_path(self.api_version)}/{self.plural}"


class _ServedResource(ApiStruct, frozen=True):
    name: str = ""
    kind: str = ""
    verbs: tuple[str, ...] = ()


class _ServedResources(ApiStruct, frozen=True):
    """Of one version of an API. Its kind is required: what else is answered with 200 says nothing of what there is."""

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
    """For each kind the version to read it in, the one named first if there are several; None: there is none."""
    known: dict[str, _ServedResources] = {}
    found: dict[Kind, ServedKind | None] = {}
    for kind in kinds:
        found[kind] = None
        for version in kind.api_versions:
            if version not in known:
                known[version] = await _resources(client, version)
            plural = _plural(known[version], kind.name)
            if plural:
                found[kind] = ServedKind(kind, version, plural)
                break
    return found


async def _resources(client: ApiClient, api_version: str) -> _ServedResources:
    try:
        return await client.read(version_path(api_version), _ServedResources)
    except ApiError as error:
        if error.status == _NOT_FOUND and await _is_absent(client, api_version):
            return _NONE
        raise


async def _is_absent(client: ApiClient, api_version: str) -> bool:
    """Whether the server itself says that it does not have an API. A gateway without a server behind it answers 404 to
    everything: taken for the truth, that would be the end of all objects of a kind.
    """
    try:
        groups = await client.read("/apis", _ServedGroups)
    except ApiError as error:
        if error.status == _NOT_FOUND:
            raise ApiError(0, "NotFound", "this is no API server: it has no list of its APIs") from None
        raise
    return "/" in api_version and all(
        version.group_version != api_version for group in groups.groups for version in group.versions
    )


def _plural(served: _ServedResources, name: str) -> str:
    """Subresources have the kind of what they return and a slash in their name."""
    names = (one.name for one in served.resources if one.kind == name and {"list", "watch"} <= set(one.verbs))
    return next((name for name in names if "/" not in name), "")
