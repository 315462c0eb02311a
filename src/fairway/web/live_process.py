"""Starts the process that serves the page of a live scheduler, restarts it when it exits, and stops it with the
scheduler.
"""

from __future__ import annotations

import os
import subprocess
import sys
import tempfile
from collections.abc import Iterator
from contextlib import contextmanager, suppress
from pathlib import Path
from threading import Event, Thread
from typing import Literal

import msgspec

from fairway.app.live import RunSettings
from fairway.app.logs import RunLog
from fairway.app.view.history_ring import IN_MEMORY
from fairway.errors import InputError
from fairway.web.access import new_token
from fairway.web.live_page import LivePageSettings, is_loopback

ENDING = 5.0
FIRST_PAUSE, LONGEST_PAUSE = 1.0, 60.0
"""Seconds before an exited page is restarted; doubled each time."""
MEGABYTES = 4096
"""Address space limit of a page that a scheduler starts."""


def page_settings(
    address: str,
    access: Literal["auto", "token", "cluster"] = "auto",
    *,
    hosts: tuple[str, ...] = (),
    allow_actions: bool = False,
    **rest: str | None,
) -> LivePageSettings:
    """Validated settings. Raises InputError for an invalid address or contradictory options."""
    host, port = split_address(address)
    token = ""
    if access == "token" or (access == "auto" and is_loopback(host)):
        token = os.environ.get("FAIRWAY_WEB_TOKEN") or new_token()
    if token and not is_loopback(host):
        raise InputError(f"webAccess is token, expected cluster: {host} is not a loopback address")
    if token and allow_actions:
        raise InputError(
            "allowActions: actions need the users' own tokens, expected webAccess cluster or an address that is not "
            "loopback"
        )
    if token and hosts:
        raise InputError("webHosts: not applicable to a loopback address, expected webAccess cluster")
    if bool(rest.get("certificate")) != bool(rest.get("key")):
        raise InputError("webCert and webKey must be set together: a certificate and its key")
    given = {name: value for name, value in rest.items() if value is not None}
    return msgspec.convert(
        {"host": host, "port": port, "token": token, "hosts": hosts, "allowActions": allow_actions, **given},
        LivePageSettings,
    )


def page_address(settings: LivePageSettings) -> str:
    """The address for a browser, with the token if there is one."""
    scheme = "https" if settings.certificate else "http"
    host = f"[{settings.host}]" if ":" in settings.host else settings.host
    return f"{scheme}://{host}:{settings.port}/" + (f"#token={settings.token}" if settings.token else "")


@contextmanager
def started(settings: RunSettings, log: RunLog) -> Iterator[tuple[str, str]]:
    """The path of the socket that the page connects to, and the address of the page. Raises InputError for an invalid
    address.
    """
    page = page_settings(
        settings.web or "",
        settings.web_access,
        hosts=settings.web_hosts,
        allow_actions=settings.allow_actions,
        certificate=settings.web_cert,
        key=settings.web_key,
        kubeconfig=settings.kubeconfig,
        context=settings.context,
        history=settings.web_history or IN_MEMORY,
        hub=settings.report_to,
        logFormat=settings.log_format,
        logLevel=settings.log_level,
    )
    with tempfile.TemporaryDirectory(prefix="fairway-") as folder:  # which no other user can look into
        page.feed = str(Path(folder) / "feed.sock")
        page.megabytes = MEGABYTES
        keeper = _PageKeeper(page, log)
        keeper.start()
        try:
            yield page.feed, page_address(page)
        finally:
            keeper.stop()


class _PageKeeper:
    """Keeps the process of a page running."""

    def __init__(self, settings: LivePageSettings, log: RunLog) -> None:
        self._settings = msgspec.json.encode(settings) + b"\n"
        self._log = log
        self._stopping = Event()
        self._process: subprocess.Popen[bytes] | None = None
        self._thread = Thread(target=self._keep, name="page-keeper", daemon=True)

    def start(self) -> None:
        self._thread.start()

    def stop(self) -> None:
        """Closing its standard input stops the page."""
        self._stopping.set()
        process = self._process
        if process is not None and process.stdin is not None:
            with suppress(OSError, ValueError):
                process.stdin.close()
        self._thread.join(ENDING)
        if process is not None and process.poll() is None:
            process.kill()
        self._thread.join(ENDING)

    def _keep(self) -> None:
        pause = FIRST_PAUSE
        while not self._stopping.is_set():
            code = self._run()
            if self._stopping.wait(0 if code is None else pause):
                return
            self._log.warning("the page exited and is being restarted; scheduling continues", status=code)
            pause = min(LONGEST_PAUSE, 2 * pause)

    def _run(self) -> int | None:
        try:
            command = [sys.executable, "-m", "fairway.web.live_page"]
            # In a session of its own: Ctrl-C in the terminal is for the scheduler, which then ends its page.
            self._process = subprocess.Popen(command, stdin=subprocess.PIPE, start_new_session=True)
            assert self._process.stdin is not None
            with suppress(OSError, ValueError):  # it has ended already
                self._process.stdin.write(self._settings)
                self._process.stdin.flush()
            return self._process.wait()
        except OSError as error:
            self._log.warning("the page cannot be started", why=str(error))
            return -1


def split_address(address: str) -> tuple[str, int]:
    host, _, port = address.rpartition(":")
    if not port.isascii() or not port.isdecimal() or not 0 < int(port) < 65536:
        raise InputError(f"web is {address!r}, expected host:port, such as 127.0.0.1:7333 or 0.0.0.0:8443")
    return host.strip("[]") or "0.0.0.0", int(port)
