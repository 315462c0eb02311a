"""Who may see the page of a live cluster: bearer tokens that its API server knows, and what each may see there.

A token is checked by TokenReview; what its user may see by SubjectAccessReview: `list pods` of all namespaces, else of
each namespace that has jobs, and `list` of nodes and of queues. So a user sees what kubectl would show. Answers are
kept for a short time. A browser gets a cookie for its token (`POST /api/v1/login`); the token stays here.
"""

from __future__ import annotations

import asyncio
import hashlib
import secrets
import time
from collections import OrderedDict
from collections.abc import Callable, Iterable
from typing import Any

import msgspec

from fairway.errors import ApiError, NoAnswerError
from fairway.kube.client import ApiClient
from fairway.web.asking import RequestRefusedError, Viewer

KEPT = 60.0
"""Seconds that an answer of the API server is believed."""
MOST_KEPT = 1_000
MOST_SESSIONS = 1_000
SESSION = 12 * 3600.0
"""Seconds that a cookie is good for."""
MOST_NAMESPACES = 500
"""Namespaces that are asked for one by one."""
AT_ONCE = 20


class ReviewedUser(msgspec.Struct, frozen=True):
    """As TokenReview names it."""

    username: str = ""
    uid: str = ""
    groups: tuple[str, ...] = ()
    extra: dict[str, list[str]] = msgspec.field(default_factory=dict)


class _TokenStatus(msgspec.Struct):
    authenticated: bool = False
    user: ReviewedUser = ReviewedUser()
    error: str = ""


class _TokenReview(msgspec.Struct):
    status: _TokenStatus = msgspec.field(default_factory=_TokenStatus)


class _AccessStatus(msgspec.Struct):
    allowed: bool = False


class _AccessReview(msgspec.Struct):
    status: _AccessStatus = msgspec.field(default_factory=_AccessStatus)


class ClusterAccess:
    """See the module. On the event loop of the page's server."""

    cookie = "fairway"

    def __init__(
        self, client: ApiClient, namespaces: Callable[[], Iterable[str]], clock: Callable[[], float] = time.monotonic
    ) -> None:
        """`namespaces` are those that have jobs now."""
        self._client = client
        self._namespaces = namespaces
        self._clock = clock
        self._viewers: OrderedDict[bytes, tuple[float, Viewer]] = OrderedDict()
        self._sessions: OrderedDict[str, tuple[float, str]] = OrderedDict()

    async def viewer(self, bearer: str | None, cookie: str | None) -> Viewer:
        token = bearer
        if not token and cookie is not None:
            token = self._session(cookie)
        if not token:
            raise RequestRefusedError(401, "no token was given, expected a bearer token of this cluster's API server")
        key, now = hashlib.sha256(token.encode()).digest(), self._clock()
        known = self._viewers.get(key)
        if known is not None and known[0] > now:
            return known[1]
        found = await self._reviewed(token)
        self._viewers[key] = now + KEPT, found
        self._viewers.move_to_end(key)
        while len(self._viewers) > MOST_KEPT:
            self._viewers.popitem(last=False)
        return found

    async def login(self, token: str) -> str:
        await self.viewer(token, None)
        value = secrets.token_urlsafe(32)
        self._sessions[value] = self._clock() + SESSION, token
        while len(self._sessions) > MOST_SESSIONS:
            self._sessions.popitem(last=False)
        return value

    def _session(self, cookie: str) -> str | None:
        until, token = self._sessions.get(cookie, (0.0, ""))
        if until > self._clock():
            return token
        self._sessions.pop(cookie, None)
        return None

    # -- what the API server says ----------------------------------------------------------------------------------

    async def _reviewed(self, token: str) -> Viewer:
        status = (await self._ask("tokenreviews", {"token": token}, _TokenReview, "authentication.k8s.io")).status
        if not status.authenticated:
            raise RequestRefusedError(401, "the API server does not know this token")
        user = status.user
        everywhere, nodes, queues = await asyncio.gather(
            self._may(user, "pods"), self._may(user, "nodes"), self._may(user, "queues", "scheduling.volcano.sh")
        )
        seen = None if everywhere else await self._visible(user)
        return Viewer(user.username, seen, nodes, queues, token)

    async def _visible(self, user: ReviewedUser) -> frozenset[str]:
        names = sorted(set(self._namespaces()))[:MOST_NAMESPACES]
        turns = asyncio.Semaphore(AT_ONCE)

        async def ask(name: str) -> bool:
            async with turns:
                return await self._may(user, "pods", namespace=name)

        allowed = await asyncio.gather(*map(ask, names))
        return frozenset(name for name, may in zip(names, allowed, strict=True) if may)

    async def _may(self, user: ReviewedUser, resource: str, group: str = "", namespace: str = "") -> bool:
        wanted = {"verb": "list", "resource": resource, "group": group, "namespace": namespace}
        spec = {
            "user": user.username,
            "uid": user.uid,
            "groups": list(user.groups),
            "extra": user.extra,
            "resourceAttributes": wanted,
        }
        found = await self._ask("subjectaccessreviews", spec, _AccessReview, "authorization.k8s.io")
        return bool(found.status.allowed)

    async def _ask(self, resource: str, spec: dict[str, Any], form: type[Any], group: str) -> Any:
        kind = {"tokenreviews": "TokenReview", "subjectaccessreviews": "SubjectAccessReview"}[resource]
        body = {"apiVersion": f"{group}/v1", "kind": kind, "spec": spec}
        try:
            return msgspec.json.decode(
                await self._client.request("POST", f"/apis/{group}/v1/{resource}", body), type=form
            )
        except (ApiError, NoAnswerError, msgspec.DecodeError) as error:
            raise RequestRefusedError(503, f"the API server cannot say who you are: {error}") from None
