"""Manifests: from files to checked objects, with every problem of a run reported at once.

    load(["cluster/", "jobs-*.yaml", "-"]) -> Manifests(objects, warnings)

All objects or none: a run with an error raises ManifestError, whose lines read `file:line: path: what is wrong, what
was expected`. With `skip_invalid`, an object with an error is set aside, with its errors, and the others are read; a
file that cannot be opened is still an error, and so is a run in which no object is left. Kinds that are not read are
skipped with one warning.

Equal parts of pods are kept once (`SharedParts`): the containers, tolerations, rules and volumes that a template gives
to a thousand pods are decoded a thousand times and stored once. That is safe because structs are frozen and nothing
writes to what is in them. Names, labels and statuses mostly differ: looking for equal ones would cost more than it
saves.
"""

from __future__ import annotations

import io
import sys
from collections import Counter
from collections.abc import Mapping, Sequence
from dataclasses import dataclass, replace
from operator import itemgetter
from typing import Any, BinaryIO, TypeVar, cast

import msgspec

from fairway.api import kinds
from fairway.api.documents import Document, PlainDocument, PlainValue, Value, read_documents, read_sources
from fairway.api.kinds import ApiObject, Kind, ObjectKey
from fairway.api.pods import Pod
from fairway.api.scheduling import MAX_QUEUE_DEPTH, Queue
from fairway.api.shape import Finding, describe, fit, path_text, unknown_fields
from fairway.api.templates import expand, is_expanded, is_template, misplaced
from fairway.api.text import TOO_DEEP, Path
from fairway.api.validation.objects import queue_levels
from fairway.errors import ManifestError, Problem

MAX_SHARED = 20_000
"""Maximum number of distinct parts that are kept; in a cluster with more, few repeat."""

T = TypeVar("T")


class SharedParts:
    """Two parts are equal if they encode to the same bytes."""

    def __init__(self) -> None:
        self._parts: dict[tuple[str, bytes], object] = {}
        self._encode = msgspec.msgpack.Encoder().encode

    def pod(self, pod: Pod) -> Pod:
        """The same pod, built from shared parts."""
        spec = pod.spec
        shared = msgspec.structs.replace(
            spec,
            containers=self._part("containers", spec.containers),
            init_containers=self._part("containers", spec.init_containers),
            node_selector=self._part("selector", spec.node_selector),
            affinity=self._part("affinity", spec.affinity),
            tolerations=self._part("tolerations", spec.tolerations),
            topology_spread_constraints=self._part("spread", spec.topology_spread_constraints),
            volumes=self._part("volumes", spec.volumes),
        )
        return Pod(shared, pod.metadata, pod.status)

    def _part(self, field: str, part: T) -> T:
        """The first part of this field with the same content."""
        if not part:
            return part
        key = field, self._encode(part)
        found = self._parts.get(key)
        if found is None:
            if len(self._parts) >= MAX_SHARED:
                self._parts.clear()
            self._parts[key] = part
            return part
        return found  # type: ignore[return-value]


MAX_PROBLEMS = 50
"""Problems shown in full; of the rest only their number."""


MAX_EXPANDED = 1_000_000
"""Maximum number of objects that the workloads of one run may expand to."""


@dataclass(frozen=True, slots=True)
class Manifests:
    """The objects in the order of the files, and warnings about the rest."""

    objects: list[ApiObject]
    warnings: list[str]
    places: Mapping[ObjectKey, tuple[Document, Path]]
    skip_invalid: bool = False
    invalid: tuple[str, ...] = ()
    """The errors of objects that were set aside, one line each."""
    set_aside: int = 0
    """The number of objects that were set aside."""

    def problem(self, obj: ApiObject, path: Path, message: str) -> Problem:
        """A problem with an object that shows only when all objects are known."""
        document, place = self.places[kinds.key(obj)]
        return Problem(document.source, document.line((*place, *path)), path_text((*place, *path)), message)

    def reject(self, found: Mapping[ObjectKey, Sequence[Problem]]) -> Manifests:
        """The manifests without these objects, whose errors show only when all objects are known."""
        if not found:
            return self
        error = ManifestError([problem for problems in found.values() for problem in problems])
        if not self.skip_invalid:
            raise error
        return replace(
            self,
            objects=[obj for obj in self.objects if kinds.key(obj) not in found],
            invalid=(*self.invalid, *str(error).splitlines()),
            set_aside=self.set_aside + len(found),
        )


def _standard_input() -> BinaryIO:
    """Empty if it is closed."""
    return io.BytesIO() if sys.stdin is None else sys.stdin.buffer


def load(
    sources: Sequence[str], *, stdin: BinaryIO | None = None, skip_invalid: bool = False, strict: bool = False
) -> Manifests:
    """Read files, folders (`*.yaml`, `*.yml`, `*.json` in them), patterns, and `-` for standard input.

    A field that the object's API does not have is a warning, with `strict` an error.
    """
    collector = _Collector(skip_invalid, strict)
    unreadable: list[Problem] = []
    for source in read_sources(sources, stdin or _standard_input(), unreadable):
        collector.unreadable(unreadable)
        for document in read_documents(source):
            collector.add(document)
    collector.unreadable(unreadable)
    manifests = collector.finish()
    manifests = manifests.reject(_too_deep(manifests))
    collector.close()
    return manifests


def parse_object(data: Mapping[str, object], where: str = "object") -> ApiObject:
    """One object from plain data, checked by the same rules; `where` is its name in error messages."""
    collector = _Collector()
    collector.add(PlainDocument(where, PlainValue(data)))
    objects = collector.finish().objects
    if len(objects) == 1:
        return objects[0]
    found = f"{data.get('kind')} ({data.get('apiVersion')})"
    raise ManifestError([Problem(where, 0, "kind", f"is {found}, expected one object of a supported kind")])


@dataclass(slots=True)
class _UnknownField:
    """An unknown field: its first occurrence, and how many more there are."""

    first: Problem
    others: int = 0

    def text(self) -> str:
        return f"{self.first} (and {self.others} more like it)" if self.others else str(self.first)


class _Collector:
    """The objects, problems and warnings of one run."""

    def __init__(self, skip_invalid: bool = False, strict: bool = False) -> None:
        self._skip_invalid = skip_invalid
        self._strict = strict
        self._unknown_seen: dict[tuple[str, str], _UnknownField] = {}
        self._objects: list[ApiObject] = []
        self._parts = SharedParts()
        self._places: dict[ObjectKey, tuple[Document, Path]] = {}
        self._documents: list[Document] = []
        self._unread: Counter[tuple[str, str]] = Counter()
        self._expanded = 0
        """The number of objects expanded from workloads."""
        self._problems: list[Problem] = []
        self._more = 0
        self._set_aside = 0
        self._fatal = False
        self._ignored: list[str] = []

    def finish(self) -> Manifests:
        """Raises ManifestError with every problem, unless all of them are of objects that may be set aside."""
        error = ManifestError(self._problems, self._more) if self._problems else None
        if error is not None and (self._fatal or not self._skip_invalid or not self._objects):
            raise error
        warnings = [_unread_warning(self._unread)] if self._unread else []
        warnings += self._ignored[:MAX_PROBLEMS]
        if len(self._ignored) > MAX_PROBLEMS:
            warnings.append(f"{len(self._ignored) - MAX_PROBLEMS} more fields are not honoured")
        warnings += [seen.text() for seen in self._unknown_seen.values()]
        invalid = () if error is None else tuple(str(error).splitlines())
        return Manifests(self._objects, warnings, self._places, self._skip_invalid, invalid, self._set_aside)

    def close(self) -> None:
        """Call it when no more documents follow."""
        for document in self._documents:
            document.close()

    def unreadable(self, problems: list[Problem]) -> None:
        """Files that cannot be read: no decision is made without them."""
        self._fatal |= bool(problems)
        for problem in problems:
            self._keep(problem)
        problems.clear()

    def add(self, document: Document | Problem) -> None:
        if isinstance(document, Problem):
            self._set_aside += 1
            self._keep(document)
            return
        self._documents.append(document)
        for problem in document.repeated:
            self._keep(problem)
        if document.repeated and self._skip_invalid:
            self._set_aside += 1
            return
        try:
            self._visit(document, document.value, (), None)
        except RecursionError:
            self._problem(document, (), TOO_DEEP)

    def _visit(self, document: Document, value: Value, path: Path, inherited: tuple[str, str] | None) -> None:
        """An object, or a list whose entries inherit kind and version from the list's own kind."""
        head = value.head()
        if head is None:
            self._problem(document, path, f"is {describe(value.plain())}, expected an object with a kind")
            return
        version, name = head.api_version, head.kind
        if inherited and name is None:
            version, name = inherited
        if not isinstance(name, str) or not name:
            self._problem(document, (*path, "kind"), _not_named("the kind of object, for example Pod", name))
        elif name.endswith("List") and (name == "List" or value.items() is not None):
            self._visit_items(document, value, path, version, name)
        elif version is not None and not isinstance(version, str):
            self._problem(document, (*path, "apiVersion"), _not_named("a version such as v1", version))
        elif known := kinds.find(version or "", name):
            self._take(document, value, path, known)
        elif version and is_expanded(version, name) and is_template(plain := value.plain()):
            self._expand(document, cast(Mapping[str, Any], plain), path)
        elif version or not kinds.versions_read(name):
            self._unread[name, version or ""] += 1
        else:
            expected = " or ".join(kinds.versions_read(name))
            self._problem(document, (*path, "apiVersion"), f"is missing, expected {expected}")

    def _expand(self, document: Document, workload: Mapping[str, Any], path: Path) -> None:
        """A workload stands for the objects that its controller would create."""
        expansion = expand(workload)
        if expansion.errors:
            self._problems_of(document, path, expansion.errors)
            return
        self._ignored += misplaced(workload, expansion)
        self._expanded += len(expansion.objects)
        if self._expanded > MAX_EXPANDED:
            self._problem(document, path, f"with it workloads make more than {MAX_EXPANDED} pods, expected fewer")
            return
        for place, data in expansion.objects:
            known = kinds.find(data["apiVersion"], data["kind"])
            assert known is not None
            self._take(document, PlainValue(data), (*path, *place), known)

    def _visit_items(self, document: Document, value: Value, path: Path, version: object, name: str) -> None:
        items = value.items()
        if items is None:
            self._problem(document, (*path, "items"), "is missing, expected a list of objects")
            return
        inherited = None if name == "List" else (str(version or ""), name.removesuffix("List"))
        known = kinds.find(*inherited) if inherited else None
        for index, item in enumerate(items):
            if known:
                self._take(document, item, (*path, "items", index), known)
            else:
                self._visit(document, item, (*path, "items", index), inherited)

    def _take(self, document: Document, value: Value, path: Path, kind: Kind) -> None:
        struct = value.decoded(kind.struct)
        malformed: list[Finding] = []
        if struct is None:
            struct, malformed = fit(value.plain(), kind.struct)
        obj = cast(ApiObject, struct)
        findings = kind.settle(obj)
        if value.may_have_unknown(kind.table_name, kind.struct):
            findings += self._unknown(document, value, path, kind, obj)
        if malformed or findings:
            found = malformed + _outside(findings, malformed)
            self._problems_of(document, path, [*found, *_still_used(obj)] if self._skip_invalid else found)
        else:
            known = obj if kind.converted is None else kind.converted(obj)
            self._register(document, path, known)
            if kind.not_honoured:
                self._warn_of_fields(value, kind, known)

    def _warn_of_fields(self, value: Value, kind: Kind, obj: ApiObject) -> None:
        """Warns of fields that other schedulers honour and that have no effect here."""
        plain = value.plain()
        spec = plain.get("spec") if isinstance(plain, dict) else None
        for name in sorted(kind.not_honoured.keys() & spec.keys()) if isinstance(spec, dict) else ():
            self._ignored.append(f"{_title(kinds.key(obj))}: spec.{name} is not honoured: {kind.not_honoured[name]}")

    def _unknown(self, document: Document, value: Value, path: Path, kind: Kind, obj: ApiObject) -> list[Finding]:
        """Unknown fields: findings if they are refused; otherwise one warning for all objects that have the
        same one.
        """
        findings: list[Finding] = []
        meta = obj.metadata
        who = f"{kind.name} {meta.namespace}/{meta.name}" if kind.namespaced else f"{kind.name} {meta.name}"
        for inner, meant in unknown_fields(value.plain(), kind.table_name, kind.struct):
            if len(inner) == 2 and inner[1] in kind.not_honoured:
                continue
            hint = f", did you mean {meant!r}?" if meant else ""
            if self._strict:
                findings.append((inner, f"unknown field of {who}{hint}"))
                continue
            key = kind.name, path_text(tuple(step for step in inner if isinstance(step, str)))
            if key in self._unknown_seen:
                self._unknown_seen[key].others += 1
            elif len(self._unknown_seen) < MAX_PROBLEMS:
                place = (*path, *inner)
                said = f"unknown field of {who} is ignored{hint}"
                problem = Problem(document.source, document.line(place), path_text(place), said)
                self._unknown_seen[key] = _UnknownField(problem)
        return findings

    def _problems_of(self, document: Document, path: Path, findings: list[Finding]) -> None:
        """The errors of one object, by line; only lines that are shown are computed."""
        self._set_aside += 1
        shown = findings[: MAX_PROBLEMS - len(self._problems)]
        places = [(document.line((*path, *inner)), (*path, *inner), message) for inner, message in shown]
        for line, place, message in sorted(places, key=itemgetter(0)):
            self._keep(Problem(document.source, line, path_text(place), message))
        self._more += len(findings) - len(shown)

    def _register(self, document: Document, path: Path, obj: ApiObject) -> None:
        key = kinds.key(obj)
        here = document, path
        place = self._places.setdefault(key, here)
        if place is here:
            self._objects.append(self._parts.pod(obj) if isinstance(obj, Pod) else obj)
        else:
            self._problem(document, (*path, "metadata", "name"), _repeated(key, *place))

    def _problem(self, document: Document, path: Path, message: str) -> None:
        self._problems_of(document, (), [(path, message)])

    def _keep(self, problem: Problem) -> None:
        if len(self._problems) < MAX_PROBLEMS:
            self._problems.append(problem)
        else:
            self._more += 1


def _title(key: ObjectKey) -> str:
    kind, namespace, name = key
    return f"{kind.lower()} {namespace}/{name}" if namespace else f"{kind.lower()} {name}"


def _outside(findings: list[Finding], malformed: list[Finding]) -> list[Finding]:
    """The findings outside malformed places, which hold stand-ins now.

    An operator decides how the values beside it are judged, so a malformed operator silences them too.
    """
    places = {path[:-1] if path[-1:] == ("operator",) else path for path, _ in malformed}
    return [
        (path, message)
        for path, message in findings
        if not any(path[:length] in places for length in range(len(path) + 1))
    ]


def _too_deep(manifests: Manifests) -> dict[ObjectKey, list[Problem]]:
    """Queues on a level that is too deep; in each branch, only the first is reported."""
    found: dict[ObjectKey, list[Problem]] = {}
    for queue, level in queue_levels([obj for obj in manifests.objects if isinstance(obj, Queue)]):
        if level > MAX_QUEUE_DEPTH:
            below = f"is {queue.spec.parent!r}: queue {queue.metadata.name} would be on level {level} of its tree"
            text = f"{below}, expected at most {MAX_QUEUE_DEPTH} levels"
            first = level == MAX_QUEUE_DEPTH + 1
            found[kinds.key(queue)] = [manifests.problem(queue, ("spec", "parent"), text)] if first else []
    return found


def _still_used(obj: ApiObject) -> list[Finding]:
    """Setting a running pod aside makes its node look emptier than it is."""
    if not isinstance(obj, Pod) or not obj.spec.node_name or obj.status.phase in ("Succeeded", "Failed"):
        return []
    return [(("spec", "nodeName"), f"is {obj.spec.node_name!r}: the resources of the pod are not counted")]


def _not_named(expected: str, given: object) -> str:
    return f"is {'missing' if given is None else describe(given)}, expected {expected}"


def _repeated(key: ObjectKey, document: Document, path: Path) -> str:
    kind, namespace, name = key
    named = f"{kind} {namespace}/{name}" if namespace else f"{kind} {name}"
    line = document.line((*path, "metadata", "name"))
    place = f"{document.source}:{line}" if line else document.source
    return f"{named} is already at {place}, expected each object once"


def _unread_warning(unread: Counter[tuple[str, str]]) -> str:
    """`skipped 3 objects of unsupported kinds: 2 ConfigMap (v1), 1 Foo (example.com/v1)`"""
    total = unread.total()
    listed = []
    for (name, version), count in sorted(unread.items()):
        known = kinds.versions_read(name)
        instead = f"; {name} is read as {' or '.join(known)}" if known else ""
        listed.append(f"{count} {name} ({version or 'no apiVersion'}{instead})")
    objects = "object" if total == 1 else "objects"
    return f"skipped {total} {objects} of unsupported kinds: {', '.join(listed)}"
