"""`History`: everything that happened on the server, in its own order, by watches that go past Fairway and the proxy.

Revisions are those of etcd: they count over all kinds, so that what nodes and pods were at one moment can be put
together again.
"""

from __future__ import annotations

import contextlib
import http.client
import json
import ssl
import threading
import time
from collections.abc import Generator, Mapping
from types import TracebackType
from typing import Any, NamedTuple

from kube.controlplane.plane import ControlPlane

Thing = dict[str, Any]


class HistoryEntry(NamedTuple):
    revision: int
    at: float
    """When it was seen here, on the monotonic clock."""
    kind: str
    thing: Thing
    is_deleted: bool

    @property
    def name(self) -> str:
        return str(self.thing["metadata"]["name"])

    @property
    def uid(self) -> str:
        return str(self.thing["metadata"]["uid"])


class DirectClient:
    """Requests as the administrator over one connection for each thread."""

    def __init__(self, plane: ControlPlane) -> None:
        self._plane = plane
        self._context = ssl.create_default_context(cafile=str(plane.ca_file))
        self._local = threading.local()
        self._open: list[http.client.HTTPSConnection] = []

    def close(self) -> None:
        """The connections of all threads."""
        for connection in self._open:
            connection.close()

    def connect(self, seconds: float = 30) -> http.client.HTTPSConnection:
        return http.client.HTTPSConnection("127.0.0.1", self._plane.port, timeout=seconds, context=self._context)

    @property
    def headers(self) -> dict[str, str]:
        return {"Authorization": f"Bearer {self._plane.tokens['admin']}", "Content-Type": "application/json"}

    def __call__(self, method: str, path: str, body: Any = None, *, patch: str = "") -> tuple[int, Thing]:
        """The status and the answer; an error is an answer too."""
        headers = self.headers
        if patch:
            headers["Content-Type"] = f"application/{patch}+json"
        data = None if body is None else json.dumps(body).encode()
        for last in (*(False,) * 20, True):
            connection = getattr(self._local, "connection", None)
            if connection is None:
                connection = self._local.connection = self.connect()
                self._open.append(connection)
            try:
                connection.request(method, path, data, headers)
                answer = connection.getresponse()
                text = answer.read()
                if answer.status == 429 and not last:  # of a kind that was defined a moment ago
                    time.sleep(1)
                    continue
                return answer.status, json.loads(text) if text[:1] == b"{" else {"message": text.decode()}
            except (OSError, http.client.HTTPException):
                connection.close()
                self._local.connection = None
                if last:
                    raise
        raise AssertionError("unreachable")


class History:
    """`with History(client, {"Pod": path, ...}) as history:`; a path may have a selector."""

    def __init__(self, client: DirectClient, paths: Mapping[str, str]) -> None:
        self._client = client
        self._paths = dict(paths)
        self._lock = threading.Lock()
        self._entries: list[HistoryEntry] = []
        self.now: dict[str, dict[str, Thing]] = {kind: {} for kind in paths}
        """The newest version of each object, by kind and name."""
        self.errors: list[str] = []
        self._is_over = False
        self._threads = [
            threading.Thread(target=self._watch, args=(kind,), name=f"history-{kind}", daemon=True) for kind in paths
        ]
        self._from = {kind: self._list(kind) for kind in paths}

    def __enter__(self) -> History:
        for thread in self._threads:
            thread.start()
        return self

    def __exit__(
        self, kind: type[BaseException] | None, error: BaseException | None, trace: TracebackType | None
    ) -> None:
        self._is_over = True
        for thread in self._threads:
            thread.join(10)

    def entries(self, *kinds: str) -> list[HistoryEntry]:
        """In the server's order."""
        with self._lock:
            found = [entry for entry in self._entries if not kinds or entry.kind in kinds]
        return sorted(found, key=lambda entry: entry.revision)

    def snapshot(self, kind: str) -> list[Thing]:
        with self._lock:
            return list(self.now[kind].values())

    def reaches(self) -> None:
        """Wait until all that is there by now has been seen."""
        for kind, path in self._paths.items():
            end = time.monotonic() + 60
            there = self._versions(path)
            while there != {name: thing["metadata"]["resourceVersion"] for name, thing in self._copy(kind).items()}:
                assert time.monotonic() < end, f"the history of {kind} does not come to the present"
                time.sleep(0.05)
                there = self._versions(path)

    def _versions(self, path: str) -> dict[str, str]:
        _, listed = self._client("GET", path)
        return {one["metadata"]["name"]: one["metadata"]["resourceVersion"] for one in listed["items"]}

    def _copy(self, kind: str) -> dict[str, Thing]:
        with self._lock:
            return dict(self.now[kind])

    # -- on threads ------------------------------------------------------------------------------------------

    def _list(self, kind: str) -> str:
        status, listed = self._client("GET", self._paths[kind])
        assert status == 200, listed
        for thing in listed["items"]:
            self._add(kind, "ADDED", thing)
        return str(listed["metadata"]["resourceVersion"])

    def _watch(self, kind: str) -> None:
        while not self._is_over:
            try:
                with contextlib.closing(self._events(kind)) as events:
                    for event in events:
                        if event["type"] == "ERROR":
                            self.errors.append(f"{kind}: {event['object']}")
                            return
                        self._from[kind] = event["object"]["metadata"]["resourceVersion"]
                        if event["type"] != "BOOKMARK":
                            self._add(kind, event["type"], event["object"])
            except (OSError, http.client.HTTPException, ValueError):
                time.sleep(0.2)

    def _events(self, kind: str) -> Generator[Any, None, None]:
        path = self._paths[kind]
        mark = "&" if "?" in path else "?"
        query = f"watch=true&allowWatchBookmarks=true&resourceVersion={self._from[kind]}&timeoutSeconds=600"
        with contextlib.closing(self._client.connect(2)) as connection:
            connection.request("GET", f"{path}{mark}{query}", headers=self._client.headers)
            answer = connection.getresponse()
            rest = b""
            while not self._is_over:
                try:
                    chunk = answer.read1(1 << 20)
                except TimeoutError:
                    return  # nothing for a while: ask again from where it was
                if not chunk:
                    return
                *lines, rest = (rest + chunk).split(b"\n")
                for line in lines:
                    yield json.loads(line)

    def _add(self, kind: str, what: str, thing: Thing) -> None:
        meta = thing["metadata"]
        entry = HistoryEntry(int(meta["resourceVersion"]), time.monotonic(), kind, thing, what == "DELETED")
        with self._lock:
            self._entries.append(entry)
            if entry.is_deleted:
                self.now[kind].pop(meta["name"], None)
            else:
                self.now[kind][meta["name"]] = thing
