"""Who may see the page: the holder of a loopback server's token, or a user of the cluster's API server."""

from __future__ import annotations

import hashlib
import hmac
import secrets
from typing import Protocol

from fairway.web.asking import RequestRefusedError, Viewer

NO_TOKEN = "no token: open the address that the terminal prints"
WRONG_TOKEN = "wrong token: use the one that the terminal prints"


class Access(Protocol):
    """Identifies the user of a request."""

    @property
    def cookie(self) -> str:
        """Name of the session cookie."""

    async def viewer(self, bearer: str | None, cookie: str | None) -> Viewer:
        """Raises RequestRefusedError with 401 without a valid token or cookie."""

    async def login(self, token: str) -> str:
        """The value of a new session cookie for a token. Raises RequestRefusedError with 401 for a wrong token."""

    async def logout(self, cookie: str | None) -> None:
        """Invalidates the cookie, as far as that is possible here."""


class LoopbackAccess:
    """A single user, who has the token. The cookie is derived from it: it stays valid after a restart with the same
    token, and does not reveal the token.
    """

    def __init__(self, token: str) -> None:
        self.token = token
        self.port = 0
        """The port is part of the name: cookies of a host are sent to all its ports."""
        self._value = hashlib.sha256(b"fairway cookie " + token.encode()).hexdigest()

    @property
    def cookie(self) -> str:
        return f"fairway-{self.port}"

    async def viewer(self, bearer: str | None, cookie: str | None) -> Viewer:
        if bearer is not None:
            if not same(bearer, self.token):
                raise RequestRefusedError(401, WRONG_TOKEN)
        elif cookie is None:
            raise RequestRefusedError(401, NO_TOKEN)
        elif not same(cookie, self._value):
            raise RequestRefusedError(401, WRONG_TOKEN)
        return Viewer("you")

    async def login(self, token: str) -> str:
        if not same(token, self.token):
            raise RequestRefusedError(401, WRONG_TOKEN)
        return self._value

    async def logout(self, cookie: str | None) -> None:
        """Nothing to invalidate: the holder of the token may log in again."""


def same(one: str, other: str) -> bool:
    """Compares in constant time."""
    return hmac.compare_digest(one.encode(), other.encode())


def new_token() -> str:
    return secrets.token_urlsafe(16)
