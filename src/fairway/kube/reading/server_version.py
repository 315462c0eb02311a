"""What a server of this version can do, where its API alone does not say it."""

from __future__ import annotations

import asyncio
import re
from random import Random

from fairway.api.meta import ApiStruct
from fairway.errors import ApiError
from fairway.kube.http.client import ApiClient
from fairway.kube.http.exchange import Backoff

CLASS_CLAIMS_FROM = (1, 36)
"""Since then kubelets use the special claims of pods with extended resources."""


class _ServerVersion(ApiStruct, frozen=True):
    major: str = ""
    minor: str = ""


async def serves_class_claims(client: ApiClient, random: Random) -> bool:
    """Whether devices by class can be told by claims. Asked until the server answers."""
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
    found = re.match(r"[0-9]{1,6}", text)
    return int(found[0]) if found else 0
