"""Asks a sandbox from another process. What it refuses, and its absence, are errors of the user's with words."""

from __future__ import annotations

import http.client
from collections.abc import Sequence
from typing import Any, TypeVar
from urllib.parse import parse_qsl, quote, urlsplit

import msgspec

from fairway.api.kinds import ApiObject
from fairway.app.explain.model import Explanation, Forecast
from fairway.app.records import SandboxEvent, written
from fairway.app.sandbox import place
from fairway.app.view.frame import Frame, JobRow, NodeUse, WaitingJob
from fairway.app.view.job_order import JobOrder
from fairway.app.view.models.commands import ObjectName
from fairway.app.view.models.jobs import JobExplanation, JobPlaceInOrder, JobStart
from fairway.errors import InputError

PREFIX = "/api/v1"
TIMEOUT = 120.0
"""Seconds to wait for an answer: an explanation may take its time."""

T = TypeVar("T")


class Result(msgspec.Struct):
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
        """At the address given, else where the sandbox that was started last listens. An address may have the token
        in it, as the terminal prints it; else the one is taken that this user's last sandbox left.
        """
        running = place.running()
        if not url:
            return cls(running.url, running.token)
        given, _, fragment = url.partition("#")
        token = dict(parse_qsl(fragment)).get("token", "")
        return cls(given.rstrip("/"), token or running.token)

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
        """Without its forecast, which may take longer: see `start`."""
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

    def apply(self, objects: Sequence[ApiObject]) -> list[Result]:
        return self._change("apply", {"objects": [written(thing) for thing in objects]})

    def delete(self, names: Sequence[ObjectName]) -> list[Result]:
        return self._change("delete", {"objects": list(names)})

    def _change(self, verb: str, document: Any) -> list[Result]:
        found = self._ask("POST", verb, _Items, msgspec.json.encode(document))
        return [msgspec.json.decode(item, type=Result) for item in found.items]

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
                "start one with `fairway sandbox`, or say where it is with --sandbox"
            ) from None
        finally:
            connection.close()
        try:
            if response.status != 200:
                raise InputError(msgspec.json.decode(data, type=_Error).error)
            return msgspec.json.decode(data, type=kind)
        except msgspec.DecodeError:
            raise InputError(f"what answers at {self.url} is no sandbox of this version") from None
