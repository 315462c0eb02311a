"""`ConnectionTable`: who may hold how many connections to the page.

A connection is anonymous until a request on it has named a user. Anonymous ones are few, and a new one is never
refused for them: the address that holds the most loses its oldest. So a client that opens connections and says nothing
only pushes out its own, while a user needs a few milliseconds from connecting to being known. Connections of known
users are limited per user and in total.
"""

from __future__ import annotations

from collections.abc import Callable, Hashable
from itertools import count

MAX_ANONYMOUS = 100
MAX_KNOWN = 500
MAX_OF_USER = 100


class Ticket:
    """One connection. `close` ends it at once."""

    __slots__ = ("address", "close", "number", "user")

    def __init__(self, address: Hashable, number: int, close: Callable[[], None]) -> None:
        self.address = address
        self.number = number
        self.close = close
        self.user: str | None = None
        """None while it is anonymous."""


class ConnectionTable:
    """See the module. On one thread."""

    def __init__(self) -> None:
        self._anonymous: dict[Hashable, dict[int, Ticket]] = {}
        """By address, the oldest first."""
        self._known: dict[str, int] = {}
        self._numbers = count()

    @property
    def anonymous(self) -> int:
        return sum(map(len, self._anonymous.values()))

    @property
    def known(self) -> int:
        return sum(self._known.values())

    def admit(self, address: Hashable, close: Callable[[], None]) -> Ticket:
        """A new connection; where there are too many anonymous ones, another one is closed for it."""
        ticket = Ticket(address, next(self._numbers), close)
        self._anonymous.setdefault(address, {})[ticket.number] = ticket
        if self.anonymous > MAX_ANONYMOUS:
            largest = max(self._anonymous.values(), key=len)
            victim = next(iter(largest.values()))
            self.leave(victim)
            victim.close()
        return ticket

    def identify(self, ticket: Ticket, user: str, limit: int = MAX_OF_USER) -> tuple[int, str] | None:
        """A request named its user; the status and text of a refusal where they hold too many. A proxy may send
        requests of several users on one connection: it counts for the last one.
        """
        if ticket.user == user:
            return None
        if self._known.get(user, 0) >= limit:
            return 429, f"{limit} connections of yours are open already; close some"
        if ticket.user is None and self.known >= MAX_KNOWN:
            return 503, "too many connections are open; try again later"
        self.leave(ticket)
        ticket.user = user
        self._known[user] = self._known.get(user, 0) + 1
        return None

    def leave(self, ticket: Ticket) -> None:
        """It was closed. Calling it twice does no harm."""
        if ticket.user is not None:
            left = self._known.pop(ticket.user) - 1
            if left:
                self._known[ticket.user] = left
            ticket.user = None
            return
        tickets = self._anonymous.get(ticket.address, {})
        if tickets.pop(ticket.number, None) is not None and not tickets:
            del self._anonymous[ticket.address]
