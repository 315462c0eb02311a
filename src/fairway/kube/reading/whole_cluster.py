"""All objects of a cluster that decisions depend on, read once: for commands that answer about a live cluster.

Kinds that may not be read or are not installed, and unreadable objects, are left out and reported; nodes and pods must
be readable. Secrets are never requested.
"""

from __future__ import annotations

import asyncio
from collections.abc import Iterable
from dataclasses import dataclass, field

from fairway.api import kinds
from fairway.api.kinds import KINDS, OTHER_FORMS, ApiObject, Kind, ObjectKey
from fairway.errors import ApiError, InputError
from fairway.kube.http.client import ApiClient
from fairway.kube.reading.decoding import ObjectDecoder
from fairway.kube.reading.served import ServedKind, find_served
from fairway.kube.server.connection import Connection

ALL_KINDS: tuple[Kind, ...] = (*KINDS, *OTHER_FORMS)
PAGE = 500
AT_ONCE = 4
_NEEDED = ("Node", "Pod")
_FORBIDDEN, _NOT_FOUND, _GONE = 403, 404, 410
_TRIES = 3
_WAITING_OR_RUNNING = {"fieldSelector": "status.phase!=Succeeded,status.phase!=Failed"}


@dataclass(slots=True)
class ClusterReading:
    objects: list[ApiObject] = field(default_factory=list)
    left_out: list[str] = field(default_factory=list)
    """What was left out, and why."""


def read_cluster(connection: Connection, wanted: Iterable[Kind] = ALL_KINDS) -> ClusterReading:
    """InputError if the cluster cannot be reached, or its nodes and pods cannot be read."""
    try:
        return asyncio.run(_read(connection, tuple(wanted)))
    except ApiError as error:
        raise InputError(f"{connection.server}: {error}") from None


async def _read(connection: Connection, wanted: tuple[Kind, ...]) -> ClusterReading:
    client = ApiClient(connection)
    try:
        served = await find_served(client, wanted)
        limit = asyncio.Semaphore(AT_ONCE)
        installed = [kind for kind in served.values() if kind is not None]
        lists = await asyncio.gather(*(_list(client, kind, limit) for kind in installed))
    finally:
        await client.close()
    reading, keys = ClusterReading(), set[ObjectKey]()
    for objects, left_out in lists:
        reading.left_out += left_out
        for thing in objects:
            key = kinds.key(thing)
            if key not in keys:  # two APIs have a PodGroup of one name: the first counts, as it does for the scheduler
                keys.add(key)
                reading.objects.append(thing)
    return reading


async def _list(client: ApiClient, served: ServedKind, limit: asyncio.Semaphore) -> tuple[list[ApiObject], list[str]]:
    async with limit:
        for last in (False,) * (_TRIES - 1) + (True,):
            try:
                return await _pages(client, served)
            except ApiError as error:
                if error.status == _NOT_FOUND:
                    return [], []
                if error.status == _FORBIDDEN and served.kind.name not in _NEEDED:
                    return [], [f"{served.plural}: may not be listed, left out"]
                if error.status != _GONE or last:
                    raise
    raise AssertionError("unreachable")


async def _pages(client: ApiClient, served: ServedKind) -> tuple[list[ApiObject], list[str]]:
    decoder = ObjectDecoder(served)
    objects: list[ApiObject] = []
    left_out: list[str] = []
    query = {"limit": str(PAGE), **(_WAITING_OR_RUNNING if served.kind.name == "Pod" else {})}
    while True:
        page = decoder.page(await client.request("GET", served.path, query=query))
        objects += page.things
        left_out += [f"{one.key[0].lower()} {_name(one.key)}: {one.why}" for one in page.unreadable]
        if not page.more:
            return objects, left_out
        query["continue"] = page.more


def _name(key: ObjectKey) -> str:
    return f"{key[1]}/{key[2]}" if key[1] else key[2]
