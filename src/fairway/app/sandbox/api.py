"""The sandbox over HTTP, as plain functions: a request in, a status and a document out.

    GET  /v1/frame                              all there is to see now
    GET  /v1/jobs | nodes | events | outcomes   as rows
    GET  /v1/waiting                            jobs that wait, with reason and estimated start
    GET  /v1/objects/KIND[/[NAMESPACE/]NAME]    objects as manifests
    GET  /v1/explain/NAMESPACE/NAME             why, what would help, when (or just NAME)
    GET  /v1/order/NAMESPACE/NAME               where it stands, key by key (or just NAME)
    POST /v1/apply   {"objects": [...]}         all or none
    POST /v1/delete  {"objects": [{"kind", "namespace", "name"}]}

An answer that is an error is `{"error": "what is wrong"}` with the status that fits.
"""

from __future__ import annotations

from collections.abc import Callable
from threading import Semaphore
from typing import Any, NamedTuple, TypeVar

import msgspec

from fairway.api import kinds
from fairway.api.manifests import parse_object
from fairway.app.records import written
from fairway.app.sandbox.engine import Sandbox
from fairway.app.view.jobs import job_rows
from fairway.app.view.models.commands import ObjectName
from fairway.errors import InputError, StoreError

T = TypeVar("T")

MOST_OBJECTS = 10_000
"""Objects of one request."""
MOST_ROWS = 1_000
"""Events and outcomes of one answer."""
PREFIX = "/v1/"
SHORT_NAMES = {
    "po": "pod",
    "no": "node",
    "ns": "namespace",
    "pg": "podgroup",
    "q": "queue",
    "pc": "priorityclass",
    "pdb": "poddisruptionbudget",
    "quota": "resourcequota",
    "pv": "persistentvolume",
    "pvc": "persistentvolumeclaim",
    "sc": "storageclass",
    "hn": "hypernode",
    "rsv": "reservation",
    "resclass": "resourceclass",
    "ev": "event",
}
"""As kubectl and Volcano have them where they have one."""


class HttpAnswer(NamedTuple):
    status: int
    document: Any


class _Apply(msgspec.Struct, forbid_unknown_fields=True):
    objects: list[dict[str, Any]]


class _Delete(msgspec.Struct, forbid_unknown_fields=True):
    objects: list[ObjectName]


class Api:
    """Answers requests by asking a sandbox."""

    def __init__(self, sandbox: Sandbox) -> None:
        self._sandbox = sandbox
        self._explaining = Semaphore(2)
        self._reads: dict[str, Callable[[list[str]], Any]] = {
            "frame": lambda _: sandbox.frame(),
            "jobs": lambda _: {"items": job_rows(sandbox.frame(), sandbox.outcomes(MOST_ROWS))},
            "nodes": lambda _: {"items": sandbox.nodes()},
            "events": lambda _: {"items": sandbox.happenings(MOST_ROWS)},
            "outcomes": lambda _: {"items": sandbox.outcomes(MOST_ROWS)},
            "objects": self._objects,
            "explain": self._explain,
            "order": self._order,
            "waiting": lambda _: {"items": self._looking_ahead(sandbox.waiting)},
        }
        self._writes: dict[str, Callable[[bytes], Any]] = {"apply": self._apply, "delete": self._delete}

    def answer(self, method: str, path: str, body: bytes = b"") -> HttpAnswer:
        """Never raises for what a user got wrong."""
        if not path.startswith(PREFIX):
            return _error(404, f"{path}: there is nothing here, expected {PREFIX}...")
        verb, *rest = [part for part in path.removeprefix(PREFIX).split("/") if part] or [""]
        try:
            if method == "GET" and verb in self._reads:
                return HttpAnswer(200, self._reads[verb](rest))
            if method == "POST" and verb in self._writes and not rest:
                return HttpAnswer(200, self._writes[verb](body))
        except NotFoundError as error:
            return _error(404, str(error))
        except BusyError as error:
            return _error(503, str(error))
        except StoreError as error:
            return _error(507, str(error))
        except InputError as error:
            return _error(422, str(error))
        if verb in self._reads or verb in self._writes:
            return _error(405, f"{method} is not for {path}, expected {'GET' if verb in self._reads else 'POST'}")
        return _error(404, f"{path}: there is nothing here, expected one of {', '.join([*self._reads, *self._writes])}")

    def _objects(self, rest: list[str]) -> dict[str, Any]:
        if not 1 <= len(rest) <= 3:
            raise NotFoundError("expected /v1/objects/KIND, /v1/objects/KIND/NAME or /v1/objects/KIND/NAMESPACE/NAME")
        kind = kind_named(rest[0])
        found = [
            thing
            for thing in self._sandbox.objects()
            if kinds.key(thing)[0] == kind.name and _matches(kinds.key(thing), rest[1:])
        ]
        if len(rest) > 1 and not found:
            raise NotFoundError(f"there is no {kind.name} {'/'.join(rest[1:])}")
        return {"items": [written(thing) for thing in sorted(found, key=kinds.key)]}

    def _explain(self, rest: list[str]) -> Any:
        if not 1 <= len(rest) <= 2:
            raise NotFoundError("expected /v1/explain/NAMESPACE/NAME or /v1/explain/NAME")
        return self._looking_ahead(lambda: self._sandbox.explain("/".join(rest)))

    def _order(self, rest: list[str]) -> Any:
        if not 1 <= len(rest) <= 2:
            raise NotFoundError("expected /v1/order/NAMESPACE/NAME or /v1/order/NAME")
        return self._looking_ahead(lambda: self._sandbox.order("/".join(rest)))

    def _looking_ahead(self, ask: Callable[[], Any]) -> Any:
        """Questions that decide many times on a copy: a few at once, so that the sandbox itself goes on."""
        if not self._explaining.acquire(timeout=30):
            raise BusyError("the sandbox is busy with other explanations, try again")
        try:
            return ask()
        finally:
            self._explaining.release()

    def _apply(self, body: bytes) -> dict[str, Any]:
        asked = _decoded(body, _Apply)
        _limit(len(asked.objects))
        objects = [parse_object(thing, f"objects[{index}]") for index, thing in enumerate(asked.objects)]
        applied = self._sandbox.apply(objects)
        return {"items": [{"object": one.object, "result": one.result} for one in applied]}

    def _delete(self, body: bytes) -> dict[str, Any]:
        asked = _decoded(body, _Delete)
        _limit(len(asked.objects))
        keys = []
        for name in asked.objects:
            namespaced = name.kind == "Job" or kind_named(name.kind).namespaced
            keys.append((name.kind, (name.namespace or kinds.DEFAULT_NAMESPACE) if namespaced else "", name.name))
        return {"items": [{"object": title, "result": "deleted"} for title in self._sandbox.delete(keys)]}


class NotFoundError(InputError):
    """What a request names is not there."""


class BusyError(InputError):
    """The request may be made again later."""


def kind_named(name: str) -> kinds.Kind:
    """The kind that a word means, as kubectl takes it: `Pod`, `pods`, `po`, `queue`."""
    word = SHORT_NAMES.get(name.lower(), name.lower())
    for kind in kinds.KINDS:
        lower = kind.name.lower()
        plural = f"{lower}es" if lower.endswith("s") else f"{lower}s"
        if word in (lower, plural):
            return kind
    known = ", ".join(kind.name for kind in kinds.KINDS)
    raise NotFoundError(f"{name}: there is no such kind, expected Job, Event or one of {known}")


def _matches(key: kinds.ObjectKey, wanted: list[str]) -> bool:
    _, namespace, name = key
    if not wanted:
        return True
    return name == wanted[-1] and (len(wanted) == 1 or namespace == wanted[0])


def _decoded(body: bytes, kind: type[T]) -> T:
    try:
        return msgspec.json.decode(body, type=kind)
    except (msgspec.DecodeError, UnicodeDecodeError) as error:
        raise InputError(f"the request cannot be read: {error}") from None
    except RecursionError:
        raise InputError("the request cannot be read: it is nested too deeply") from None


def _limit(objects: int) -> None:
    if objects > MOST_OBJECTS:
        raise InputError(f"{objects} objects in one request, expected at most {MOST_OBJECTS}")


def _error(status: int, text: str) -> HttpAnswer:
    return HttpAnswer(status, {"error": text})
