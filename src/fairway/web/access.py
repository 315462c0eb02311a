"""Who may see the page: the token of a loopback server, or what a cluster's API server says of a bearer token."""

from __future__ import annotations

import hashlib
import hmac
import secrets
from typing import Protocol

from fairway.web.asking import RequestRefusedError, Viewer

NO_TOKEN = "no token was given: open the page by the address that the terminal prints"
WRONG_TOKEN = "the token is not the one that the terminal prints"


class Access(Protocol):
    """Says who asks."""

    @property
    def cookie(self) -> str:
        """The name of the cookie that stands for a login."""

    async def viewer(self, bearer: str | None, cookie: str | None) -> Viewer:
        """RequestRefusedError with 401 where that cannot be said."""

    async def login(self, token: str) -> str:
        """The value of a cookie that stands for a token from now on; RequestRefusedError with 401 for a wrong one."""

    async def logout(self, cookie: str | None) -> None:
        """The cookie stands for nothing any more, as far as that can be said here."""


class LoopbackAccess:
    """One user, who has the token. The cookie is made from it, so that it is good after a restart with the same token,
    and the token cannot be read from it.
    """

    def __init__(self, token: str) -> None:
        self.token = token
        self.port = 0
        """Where it listens: cookies of one host are those of all its ports."""
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
        """Who has the token may come back by it: there is nothing to take."""


def same(one: str, other: str) -> bool:
    """In a time that does not depend on how much is right."""
    return hmac.compare_digest(one.encode(), other.encode())


def new_token() -> str:
    return secrets.token_urlsafe(16)
