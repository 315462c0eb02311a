"""Starts the process that serves the page of a live scheduler, and ends it with the scheduler."""

from __future__ import annotations

import os
import subprocess
import sys
from collections.abc import Iterator
from contextlib import contextmanager, suppress
from typing import BinaryIO

import msgspec

from fairway.app.live.settings import RunSettings
from fairway.app.view.history_ring import IN_MEMORY
from fairway.errors import InputError
from fairway.web.access import new_token
from fairway.web.live_page import LivePageSettings, is_loopback

ENDING = 5.0


@contextmanager
def started(settings: RunSettings, server: str) -> Iterator[tuple[BinaryIO, str]]:
    """Its pipe, and the address of the page. InputError where that is not an address."""
    host, port = split_address(settings.web or "")
    token = ""
    if settings.web_access == "token" or (settings.web_access == "auto" and is_loopback(host)):
        token = os.environ.get("FAIRWAY_WEB_TOKEN") or new_token()
    _check(settings, host, token)
    told = LivePageSettings(
        host=host,
        port=port,
        title=server,
        token=token,
        scheduler_names=list(settings.scheduler_names),
        kubeconfig=settings.kubeconfig,
        context=settings.context,
        allow_actions=settings.allow_actions,
        history=settings.web_history or IN_MEMORY,
        hosts=list(settings.web_hosts),
        hub=settings.report_to,
        log_format=settings.log_format,
        log_level=settings.log_level,
    )
    process = subprocess.Popen([sys.executable, "-m", "fairway.web.live_page"], stdin=subprocess.PIPE)
    assert process.stdin is not None
    pipe: BinaryIO = process.stdin  # type: ignore[assignment]
    try:
        pipe.write(msgspec.json.encode(told) + b"\n")
        pipe.flush()
        yield pipe, f"http://{host}:{port}/" + (f"#token={token}" if token else "")
    finally:
        with suppress(OSError, ValueError):
            pipe.close()
        try:
            process.wait(ENDING)
        except subprocess.TimeoutExpired:
            process.kill()
            process.wait()


def _check(settings: RunSettings, host: str, token: str) -> None:
    if token and not is_loopback(host):
        raise InputError(f"webAccess is token, expected cluster: {host} is not a loopback address")
    if token and settings.allow_actions:
        raise InputError(
            "allowActions: users act with tokens of their own, expected webAccess cluster or an address that is not "
            "loopback"
        )
    if token and settings.web_hosts:
        raise InputError("webHosts: a loopback address is answered under its own names, expected webAccess cluster")


def split_address(address: str) -> tuple[str, int]:
    host, _, port = address.rpartition(":")
    if not port.isascii() or not port.isdecimal() or not 0 < int(port) < 65536:
        raise InputError(f"web is {address!r}, expected host:port, as 127.0.0.1:7333 or 0.0.0.0:8443")
    return host.strip("[]") or "0.0.0.0", int(port)
