"""Unix sockets on a node: served for its owner only, found again if someone removes them, dialled with limits."""

from __future__ import annotations

import asyncio
import os
import stat
from collections.abc import Callable, Sequence
from pathlib import Path

import grpc
import grpc.aio

from fairway.agent.limits import MAX_CALLS, MAX_MESSAGE, MAX_SOCKET_PATH
from fairway.errors import InputError

LOOK = 1.0
"""Seconds between two looks at whether a socket is still there."""
GRACE = 2.0
"""Seconds for calls to end when a socket is closed."""

_SIZES = [("grpc.max_receive_message_length", MAX_MESSAGE), ("grpc.max_send_message_length", MAX_MESSAGE)]


class UnixServer:
    """Serves handlers on a path until it is closed."""

    def __init__(self, path: Path, handlers: Sequence[grpc.GenericRpcHandler]) -> None:
        self.path = path
        self._handlers = handlers
        self._server: grpc.aio.Server | None = None
        self._inode = 0

    async def start(self) -> None:
        """InputError where there can be no socket. What is there already is replaced if it is a socket."""
        check_path(self.path)
        try:
            self.path.parent.mkdir(mode=0o700, parents=True, exist_ok=True)
            _remove_socket(self.path)
        except OSError as error:
            raise InputError(f"{self.path}: no socket can be made here: {error.strerror}") from None
        server = grpc.aio.server(options=_SIZES, maximum_concurrent_rpcs=MAX_CALLS)
        server.add_generic_rpc_handlers(tuple(self._handlers))
        try:
            _bind(server, self.path)
            await server.start()
            self._inode = self.path.stat().st_ino
        except (RuntimeError, OSError) as error:
            raise InputError(f"{self.path}: no socket can be made here: {error}") from None
        self._server = server

    async def close(self) -> None:
        server, self._server = self._server, None
        if server is not None:
            await server.stop(GRACE)

    async def keep(self, lost: Callable[[], None]) -> None:
        """Serve again whenever the socket was removed or replaced; `lost` is called before. Runs until cancelled."""
        while True:
            await asyncio.sleep(LOOK)
            if self._server is not None and not self._is_there():
                lost()
                await self.close()
                await self.start()

    def _is_there(self) -> bool:
        try:
            return self.path.stat().st_ino == self._inode
        except OSError:
            return False


def _bind(server: grpc.aio.Server, path: Path) -> None:
    """For its owner only. The mask is of the whole process: no other task may run while it stands."""
    mask = os.umask(0o177)
    try:
        server.add_insecure_port(f"unix:{path}")
    finally:
        os.umask(mask)


def dial(path: Path) -> grpc.aio.Channel:
    """A channel to a socket of another program. Go's servers refuse calls that name the path as the host."""
    options = [*_SIZES, ("grpc.default_authority", "localhost"), ("grpc.enable_retries", 0)]
    return grpc.aio.insecure_channel(f"unix:{path}", options=options)


def check_path(path: Path) -> None:
    if len(os.fsencode(path)) > MAX_SOCKET_PATH:
        raise InputError(f"{path}: longer than {MAX_SOCKET_PATH} bytes, expected a path that a socket can have")


def is_socket(path: Path) -> bool:
    try:
        return stat.S_ISSOCK(path.lstat().st_mode)
    except OSError:
        return False


def _remove_socket(path: Path) -> None:
    try:
        mode = path.lstat().st_mode
    except FileNotFoundError:
        return
    if not stat.S_ISSOCK(mode):
        raise InputError(f"{path}: is not a socket, and is left as it is; expected a socket or nothing")
    path.unlink()
