"""How other commands find a running sandbox, and talk to it.

A running sandbox announces its address and token in a file in the user's state directory, so that no option is needed
to find it. Whatever it rejects, and its absence, is an InputError.
"""

from __future__ import annotations

import http.client
import os
from collections.abc import Callable, Sequence
from pathlib import Path
from typing import Any, TypeVar
from urllib.parse import parse_qsl, quote, urlsplit

import msgspec

from fairway.api.kinds import ApiObject
from fairway.app.explain.model import Explanation, Forecast
from fairway.app.records import SandboxEvent, written
from fairway.app.view.frame import Frame, JobRow, NodeUse, WaitingJob
from fairway.app.view.job_order import JobOrder
from fairway.app.view.models.commands import ObjectName
from fairway.app.view.models.jobs import JobExplanation, JobPlaceInOrder, JobStart
from fairway.errors import InputError

PREFIX = "/api/v1"
TIMEOUT = 120.0
"""Seconds to wait for a response: an explanation may take long."""

T = TypeVar("T")

HOST = "127.0.0.1"
DEFAULT_PORT = 7333
MIN_TOKEN = 22
"""Shorter tokens in the file are replaced."""


class RunningSandbox(msgspec.Struct):
    """The sandbox that was started last."""

    url: str
    pid: int
    state: str
    token: str = ""
    """The token of its API."""


def state_folder() -> Path:
    base = os.environ.get("XDG_STATE_HOME")
    return (Path(base) if base else Path.home() / ".local" / "state") / "fairway"


def default_state() -> Path:
    return state_folder() / "sandbox.db"


def announce(running: RunningSandbox) -> None:
    """Tell other commands where it is. If the file cannot be written, they need --sandbox."""
    try:
        state_folder().mkdir(parents=True, exist_ok=True)
        draft = _file().with_suffix(f".{running.pid}")
        draft.touch(0o600)
        draft.write_bytes(msgspec.json.encode(running))
        draft.replace(_file())
    except OSError:
        return


def withdraw(running: RunningSandbox) -> None:
    """Remove the announcement, unless a later sandbox has already replaced it."""
    if _read() == running:
        _file().unlink(missing_ok=True)


def running() -> RunningSandbox:
    """The sandbox that was started last, or one at the default address if none was announced."""
    return _read() or RunningSandbox(f"http://{HOST}:{DEFAULT_PORT}", 0, "")


def kept_token(make: Callable[[], str]) -> str:
    """A token that is the same in every run, so that an open page stays usable; only its owner can read it."""
    file = state_folder() / "token"
    try:
        found = file.read_text().strip()
        if len(found) >= MIN_TOKEN:
            return found
    except (OSError, UnicodeDecodeError):
        pass
    made = make()
    try:
        file.parent.mkdir(parents=True, exist_ok=True)
        file.touch(0o600)
        file.chmod(0o600)
        file.write_text(made)
    except OSError:
        pass
    return made


def _file() -> Path:
    return state_folder() / "running.json"


def _read() -> RunningSandbox | None:
    try:
        return msgspec.json.decode(_file().read_bytes(), type=RunningSandbox)
    except (OSError, msgspec.DecodeError, UnicodeDecodeError):
        return None


class ObjectResult(msgspec.Struct):
    object: str
    result: str


class _Items(msgspec.Struct):
    items: list[msgspec.Raw]


class _Error(msgspec.Struct):
    error: str


class Client:
    """A sandbox at an address."""

    def __init__(self, url: str, token: str = "") -> None:
        parts = urlsplit(url)
        try:
            port = parts.port
        except ValueError:
            port = None
        if parts.scheme != "http" or not parts.hostname or port is None:
            raise InputError(f"--sandbox {url!r}: expected an address such as http://127.0.0.1:7333")
        self.url = url
        self._token = token
        self._host, self._port = parts.hostname, port

    @classmethod
    def find(cls, url: str | None) -> Client:
        """The sandbox at an address, or else the one that was started last. An address may contain the token, as the
        terminal prints it; otherwise the token of the last sandbox is used.
        """
        last = running()
        if not url:
            return cls(last.url, last.token)
        address, _, fragment = url.partition("#")
        token = dict(parse_qsl(fragment)).get("token", "")
        return cls(address.rstrip("/"), token or last.token)

    def frame(self) -> Frame:
        return self._ask("GET", "frame", Frame)

    def jobs(self) -> list[JobRow]:
        return self._rows("lists/jobs", JobRow)

    def nodes(self) -> list[NodeUse]:
        return self._rows("lists/nodes", NodeUse)

    def events(self) -> list[SandboxEvent]:
        return self._rows("lists/events", SandboxEvent)

    def objects(self, kind: str, *name: str) -> list[dict[str, Any]]:
        path = "/".join(quote(part, safe="") for part in ("objects", kind, *name))
        return self._rows(path, dict[str, Any])

    def explain(self, job: str) -> Explanation:
        """Without the forecast, which takes longer: see `start`."""
        path = "explanations/" + "/".join(quote(part, safe="") for part in job.split("/"))
        return self._ask("GET", path, JobExplanation).explanation

    def start(self, job: str) -> Forecast | None:
        path = "starts/" + "/".join(quote(part, safe="") for part in job.split("/"))
        return self._ask("GET", path, JobStart).forecast

    def order(self, job: str) -> JobOrder:
        path = "orders/" + "/".join(quote(part, safe="") for part in job.split("/"))
        return self._ask("GET", path, JobPlaceInOrder).order

    def waiting(self) -> list[WaitingJob]:
        return self._rows("lists/waiting", WaitingJob)

    def apply(self, objects: Sequence[ApiObject]) -> list[ObjectResult]:
        return self._change("apply", {"objects": [written(thing) for thing in objects]})

    def delete(self, names: Sequence[ObjectName]) -> list[ObjectResult]:
        return self._change("delete", {"objects": list(names)})

    def _change(self, verb: str, document: Any) -> list[ObjectResult]:
        found = self._ask("POST", verb, _Items, msgspec.json.encode(document))
        return [msgspec.json.decode(item, type=ObjectResult) for item in found.items]

    def _rows(self, path: str, row: type[T]) -> list[T]:
        return [msgspec.json.decode(item, type=row) for item in self._ask("GET", path, _Items).items]

    def _ask(self, method: str, path: str, kind: type[T], body: bytes | None = None) -> T:
        connection = http.client.HTTPConnection(self._host, self._port, timeout=TIMEOUT)
        headers = {"Authorization": f"Bearer {self._token}"} if self._token else {}
        if body is not None:
            headers["Content-Type"] = "application/json"
        try:
            connection.request(method, f"{PREFIX}/{path}", body, headers)
            response = connection.getresponse()
            data = response.read()
        except (OSError, http.client.HTTPException) as error:
            reason = getattr(error, "strerror", None) or str(error) or type(error).__name__
            raise InputError(
                f"no sandbox answers at {self.url} ({reason}); "
                "start one with `fairway sandbox`, or give its address with --sandbox"
            ) from None
        finally:
            connection.close()
        try:
            if response.status != 200:
                raise InputError(msgspec.json.decode(data, type=_Error).error)
            return msgspec.json.decode(data, type=kind)
        except msgspec.DecodeError:
            raise InputError(f"the server at {self.url} is not a sandbox of this version") from None
