"""Who may see the page of a live cluster: bearer tokens that its API server knows, and what each may see there.

A token is checked by TokenReview; what its user may see by SubjectAccessReview: `list pods` of all namespaces, else of
each namespace that has jobs, and `list` of nodes and of queues. So a user sees what kubectl would show. Answers are
kept for a short time; a namespace that has its first job meanwhile is asked about at once. A browser gets a cookie for
its token (`POST /api/v1/login`); the token stays here.
"""

from __future__ import annotations

import asyncio
import hashlib
import secrets
import time
from collections import OrderedDict
from collections.abc import Callable, Iterable
from typing import Any, NamedTuple

import msgspec

from fairway.errors import ApiError, NoAnswerError
from fairway.kube.http import ApiClient
from fairway.web.asking import RequestRefusedError, Viewer

KEPT = 60.0
"""Seconds for which an answer of the API server is cached."""
MAX_KEPT = 1_000
"""Maximum number of tokens with cached answers, in total and per user:"""
MAX_KEPT_OF_ONE = 20
MAX_SESSIONS = 2_000
MAX_SESSIONS_OF_ONE = 20
SESSION = 12 * 3600.0
"""Lifetime of a cookie in seconds."""
MAX_TOKEN = 16 << 10
"""Maximum length of a token: sessions store it."""
MAX_NAMESPACES = 500
"""Maximum number of namespaces reviewed one by one."""
AT_ONCE = 20
"""Maximum number of concurrent reviews, so that no number of wrong tokens overloads the API server."""


class ReviewedUser(msgspec.Struct, frozen=True):
    """The user name of the TokenReview."""

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


class _KnownViewer(NamedTuple):
    """The API server's answers about a token."""

    until: float
    viewer: Viewer
    user: ReviewedUser
    asked: frozenset[str]
    """Namespaces that were reviewed."""


class _Session(NamedTuple):
    until: float
    token: str
    user: str


class ClusterAccess:
    """Reviews tokens and permissions, and keeps sessions. Runs on the event loop of the page's server."""

    cookie = "fairway"

    def __init__(
        self, client: ApiClient, namespaces: Callable[[], Iterable[str]], clock: Callable[[], float] = time.monotonic
    ) -> None:
        """`namespaces` returns the namespaces that have jobs."""
        self._client = client
        self._namespaces = namespaces
        self._clock = clock
        self._viewers: OrderedDict[bytes, _KnownViewer] = OrderedDict()
        self._reviews: dict[bytes, asyncio.Future[_KnownViewer]] = {}
        self._turns = asyncio.Semaphore(AT_ONCE)
        self._sessions: OrderedDict[str, _Session] = OrderedDict()
        """Sessions by cookie, the oldest first."""

    async def viewer(self, bearer: str | None, cookie: str | None) -> Viewer:
        token = bearer
        if not token and cookie is not None:
            token = self._session(cookie)
        if not token:
            raise RequestRefusedError(401, "no token, expected a bearer token of this cluster's API server")
        if len(token) > MAX_TOKEN:
            raise RequestRefusedError(401, f"the token has more than {MAX_TOKEN} characters")
        key, now = hashlib.sha256(token.encode()).digest(), self._clock()
        known = self._viewers.get(key)
        if known is None or known.until <= now:
            known = await self._reviewed_once(key, token, now + KEPT)
        known = self._viewers[key] = await self._with_all_namespaces(known)
        self._viewers.move_to_end(key)
        self._forget_viewers(known.viewer.name)
        return known.viewer

    def _forget_viewers(self, user: str) -> None:
        """A user with many tokens evicts only cached answers of their own."""
        own = [key for key, known in self._viewers.items() if known.viewer.name == user]
        for key in own[:-MAX_KEPT_OF_ONE]:
            del self._viewers[key]
        while len(self._viewers) > MAX_KEPT:
            self._viewers.popitem(last=False)

    async def login(self, token: str) -> str:
        user = (await self.viewer(token, None)).name
        self._make_room(user)
        value = secrets.token_urlsafe(32)
        self._sessions[value] = _Session(self._clock() + SESSION, token, user)
        return value

    def _make_room(self, user: str) -> None:
        """Makes room for a session: the oldest of the same user ends, never one of another user."""
        now = self._clock()
        for cookie in [cookie for cookie, session in self._sessions.items() if session.until <= now]:
            del self._sessions[cookie]
        own = [cookie for cookie, session in self._sessions.items() if session.user == user]
        if len(own) >= MAX_SESSIONS_OF_ONE or (own and len(self._sessions) >= MAX_SESSIONS):
            del self._sessions[own[0]]
        elif len(self._sessions) >= MAX_SESSIONS:
            raise RequestRefusedError(503, "too many users are signed in; try again later, or send a bearer token")

    async def logout(self, cookie: str | None) -> None:
        self._sessions.pop(cookie or "", None)

    def _session(self, cookie: str) -> str | None:
        session = self._sessions.get(cookie)
        if session is not None and session.until > self._clock():
            return session.token
        self._sessions.pop(cookie, None)
        return None

    # -- what the API server says ----------------------------------------------------------------------------------

    async def _reviewed_once(self, key: bytes, token: str, until: float) -> _KnownViewer:
        """Concurrent requests share one review: a page sends several at once."""
        review = self._reviews.get(key)
        if review is None:
            review = self._reviews[key] = asyncio.ensure_future(self._reviewed(token, until))
            review.add_done_callback(lambda done: self._end_review(key, done))
        return await asyncio.shield(review)

    def _end_review(self, key: bytes, review: asyncio.Future[_KnownViewer]) -> None:
        self._reviews.pop(key, None)
        if not review.cancelled():
            review.exception()  # who asked may be gone: it is said to whoever still waits

    async def _reviewed(self, token: str, until: float) -> _KnownViewer:
        """The permissions without single namespaces."""
        status = (await self._ask("tokenreviews", {"token": token}, _TokenReview, "authentication.k8s.io")).status
        if not status.authenticated:
            raise RequestRefusedError(401, "the API server rejects this token")
        user = status.user
        everywhere, nodes, queues = await asyncio.gather(
            self._may(user, "pods"), self._may(user, "nodes"), self._may(user, "queues", "scheduling.volcano.sh")
        )
        seen = None if everywhere else frozenset[str]()
        return _KnownViewer(until, Viewer(user.username, seen, nodes, queues, token), user, frozenset())

    async def _with_all_namespaces(self, known: _KnownViewer) -> _KnownViewer:
        """Reviews namespaces with their first job at once: a user's first job must not stay hidden until the cache
        expires.
        """
        seen = known.viewer.namespaces
        if seen is None:
            return known
        new = sorted(set(self._namespaces()) - known.asked)[: MAX_NAMESPACES - len(known.asked)]
        if not new:
            return known
        allowed = await asyncio.gather(*(self._may(known.user, "pods", namespace=name) for name in new))
        seen |= {name for name, may in zip(new, allowed, strict=True) if may}
        return known._replace(viewer=known.viewer._replace(namespaces=seen), asked=known.asked.union(new))

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
            async with self._turns:
                found = await self._client.request("POST", f"/apis/{group}/v1/{resource}", body)
            return msgspec.json.decode(found, type=form)
        except (ApiError, NoAnswerError, msgspec.DecodeError) as error:
            raise RequestRefusedError(503, f"the API server cannot review the token: {error}") from None
