"""Sockets that notice when their other end is gone."""

from __future__ import annotations

import socket
from typing import Any

UNACKNOWLEDGED = 5_000
"""Milliseconds that the network may keep a request before the kernel gives it up: no longer than another replica waits
after the deadline of this one, so that nothing arrives under the next leader.
"""


def watched_socket(address: Any) -> socket.socket:
    """One whose other end is asked for a sign of life: a connection that is only half there must not look idle."""
    family, kind, protocol, _, _ = address
    made = socket.socket(family=family, type=kind, proto=protocol)
    made.setsockopt(socket.SOL_SOCKET, socket.SO_KEEPALIVE, 1)
    for name, value in (
        ("TCP_KEEPIDLE", 15),
        ("TCP_KEEPINTVL", 5),
        ("TCP_KEEPCNT", 3),
        ("TCP_USER_TIMEOUT", UNACKNOWLEDGED),
    ):
        if hasattr(socket, name):
            made.setsockopt(socket.IPPROTO_TCP, getattr(socket, name), value)
    return made
