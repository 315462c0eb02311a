"""Reads a scenario file: YAML into types, each fault with its file, line and path."""

from __future__ import annotations

import os
import re
from collections.abc import Callable, Iterator
from dataclasses import dataclass
from functools import partial
from pathlib import Path
from typing import Any, TypeVar

import msgspec
import yaml

from fairway.api.marked_yaml import Marked, read_marked
from fairway.clock import Micros, parse_rfc3339
from fairway.errors import Fault, FaultsError, InputError
from fairway.resources.algebra import Resource
from fairway.sim.assertions import Assertion, parse_assertion
from fairway.sim.scenario.model import (
    Change,
    Failure,
    JobTemplate,
    Nodes,
    NodeTemplate,
    ScenarioFile,
    Span,
    TraceSource,
)
from fairway.sim.spans import Drawn, parse_drawn, parse_span
from fairway.sim.traces.columns import check_unit
from fairway.sim.traces.formats import check_format, check_node_format

A = TypeVar("A")
B = TypeVar("B")
Place = tuple[str | int, ...]
"""The keys and positions that lead to a value in the file."""

DATA_FOLDER = "FAIRWAY_DATA"
MAX_NODES = 1_000_000
_COUNTED = re.compile(r"(?:(?<=[:,-] )|(?<=\[))\d+ x \{[^{}]*\}")
_SHORT = re.compile(r"(\d+) x (\{.*\})")
_ERROR = re.compile(r"(?P<message>.*?)(?: - at `(?P<path>\$.*)`)?", re.DOTALL)
_STEP = re.compile(r"\.([^.\[]+)|\[(\d+)\]|\[\.\.\.\]")


@dataclass(frozen=True, slots=True)
class Scenario:
    """A scenario that can be run."""

    path: Path
    file: ScenarioFile
    start: Micros
    assertions: tuple[Assertion, ...]

    @property
    def name(self) -> str:
        return self.file.name or self.path.stem

    @property
    def nodes(self) -> list[NodeTemplate]:
        return list(templates(self.file.cluster.nodes))

    @property
    def is_random(self) -> bool:
        """Whether another seed can make another run."""
        file = self.file
        drawn = [file.timing.start_delay, *(job.run for job in file.workload.jobs)]
        drawn += [job.every for job in file.workload.jobs if job.every is not None]
        drawn += [manifest.run for manifest in file.workload.manifests if manifest.run is not None]
        return (
            any(span.is_random for span in drawn)
            or any(job.load is not None for job in file.workload.jobs)
            or any(failure.every is not None or failure.lasts.is_random for failure in file.failures)
        )

    def resolve(self, file: str) -> Path:
        """A file that the scenario names."""
        return resolve(self.path.parent, file)


def load_scenario(path: Path) -> Scenario:
    """The scenario in a file; FaultsError says what is wrong with it and where."""
    try:
        text = path.read_text(encoding="utf-8-sig")
    except OSError as error:
        raise InputError(f"{path}: cannot be read: {error.strerror}") from None
    except UnicodeDecodeError as error:
        raise InputError(f"{path}: not a text file: {error.reason} at byte {error.start}") from None
    return parse_scenario(text, path)


def parse_scenario(text: str, path: Path) -> Scenario:
    """As `load_scenario`; files that the text names are relative to the folder of `path`."""
    faults: list[Fault] = []
    root = read_marked(_COUNTED.sub(_quoted, text), str(path), faults)
    if root is None or faults:
        raise FaultsError(faults)
    try:
        file = msgspec.convert(root.plain(), ScenarioFile, dec_hook=_decode)
    except msgspec.ValidationError as error:
        raise FaultsError([_fault(str(path), root, str(error))]) from None
    checker = _Checker(str(path), root)
    scenario = checker.check(path, file)
    if checker.faults:
        raise FaultsError(sorted(checker.faults, key=lambda fault: fault.line))
    return scenario


def resolve(folder: Path, file: str) -> Path:
    """A named file, with the folder of published data put in, relative to `folder`."""
    if file.startswith(f"${DATA_FOLDER}"):
        data = os.environ.get(DATA_FOLDER)
        if not data:
            raise InputError(f"{file}: the environment does not say where {DATA_FOLDER} is")
        file = data + file.removeprefix(f"${DATA_FOLDER}")
    return folder / file


def templates(nodes: Nodes) -> Iterator[NodeTemplate]:
    """The node templates that are meant, short texts read."""
    for entry in nodes if isinstance(nodes, tuple) else (nodes,):
        yield _short_template(entry) if isinstance(entry, str) else entry


def _quoted(match: re.Match[str]) -> str:
    """`500 x {cpu: 64}` is no YAML value as it stands: it must be a text."""
    return "'" + match[0].replace("'", "''") + "'"


def _short_template(text: str) -> NodeTemplate:
    match = _SHORT.fullmatch(text.strip())
    if not match:
        raise InputError(f"{text!r} is not a template, expected for example 500 x {{cpu: 64, memory: 256Gi}}")
    try:
        amounts = yaml.safe_load(match[2])
    except yaml.YAMLError:
        raise InputError(f"{match[2]!r} is not a map of amounts, expected for example {{cpu: 64}}") from None
    return NodeTemplate(allocatable=_resource(amounts), count=int(match[1]))


def _decode(kind: type, value: Any) -> Any:
    try:
        if kind is Span:
            return Span(parse_span(value))
        if kind is Drawn:
            return parse_drawn(value)
        if kind is Resource:
            return _resource(value)
    except InputError as error:
        raise ValueError(str(error)) from None
    raise NotImplementedError(kind)


def _resource(value: object) -> Resource:
    if not isinstance(value, dict) or not all(isinstance(name, str) for name in value):
        raise InputError(f"{value!r} is not a map of amounts, expected for example {{cpu: 64}}")
    return Resource.parse(value)


def _fault(source: str, root: Marked, error: str) -> Fault:
    """msgspec's message, with the line that its path leads to."""
    match = _ERROR.fullmatch(error)
    assert match is not None
    here, path = root, ""
    for name, index in _STEP.findall(match["path"] or ""):
        if isinstance(here.value, dict) and name in here.value:
            here, path = here.value[name], f"{path}.{name}" if path else name
        elif isinstance(here.value, tuple) and index:
            here, path = here.value[int(index)], f"{path}[{index}]"
        else:
            break
    return Fault(source, here.line, path, match["message"])


class _Checker:
    """What types alone cannot say."""

    def __init__(self, source: str, root: Marked) -> None:
        self.faults: list[Fault] = []
        self._source = source
        self._root = root

    def check(self, path: Path, file: ScenarioFile) -> Scenario:
        cluster, workload = file.cluster, file.workload
        start = self._try(("start",), parse_rfc3339, file.start)
        self._try(("cluster", "nodes"), _check_nodes, cluster.nodes)
        for index, job in enumerate(workload.jobs):
            self._try(("workload", "jobs", index), _check_job, job)
        for index, failure in enumerate(file.failures):
            self._try(("failures", index), _check_failure, failure)
        for index, change in enumerate(file.changes):
            self._try(("changes", index), _check_change, change)
        if file.timing.interval <= 0:
            self._fault(("timing", "interval"), "no time passes between cycles, expected for example 1s")
        if cluster.trace is not None:
            self._try(("cluster", "trace", "format"), check_node_format, cluster.trace.format)
        if workload.trace is not None:
            self._try(("workload", "trace", "format"), check_format, workload.trace.format)
            self._columns(workload.trace)
        if not (cluster.nodes or cluster.manifests or cluster.trace):
            self._fault(("cluster",), "no nodes, expected nodes, manifests or a trace")
        if not (workload.jobs or workload.manifests or workload.trace):
            self._fault(("workload",), "no jobs, expected jobs, manifests or a trace")
        assertions = tuple(self._assertions(file.asserts))
        return Scenario(path, file, start or 0, assertions)

    def _columns(self, trace: TraceSource) -> None:
        place = ("workload", "trace")
        if trace.columns is not None:
            self._try((*place, "columns", "unit"), check_unit, trace.columns.unit)
        elif trace.format == "csv":
            self._fault(place, "a trace in CSV needs `columns`, to say which column means what")

    def _assertions(self, texts: tuple[str, ...]) -> Iterator[Assertion]:
        for index, text in enumerate(texts):
            place = ("assert", index)
            found = self._try(place, partial(parse_assertion, line=self._line(place)), text)
            if found is not None:
                yield found

    def _try(self, place: Place, attempt: Callable[[A], B], given: A) -> B | None:
        try:
            return attempt(given)
        except InputError as error:
            self._fault(place, str(error))
            return None

    def _fault(self, place: Place, message: str) -> None:
        path = "".join(f"[{step}]" if isinstance(step, int) else f".{step}" for step in place).lstrip(".")
        self.faults.append(Fault(self._source, self._line(place), path, message))

    def _line(self, place: Place) -> int:
        here = self._root
        for step in place:
            if isinstance(here.value, dict) and step in here.value:
                here = here.value[str(step)]
            elif isinstance(here.value, tuple) and isinstance(step, int):
                here = here.value[step]
        return here.line


def _check_nodes(nodes: Nodes) -> None:
    for template in templates(nodes):
        if not 0 < template.count <= MAX_NODES:
            raise InputError(f"{template.count} nodes, expected 1 to {MAX_NODES}")


def _check_change(change: Change) -> None:
    _check_nodes(change.join)
    if not (change.join or change.drain or change.remove):
        raise InputError("nothing changes, expected join, drain or remove")


def _check_job(job: JobTemplate) -> None:
    if job.tasks < 1 or job.count < 1:
        raise InputError("tasks and count must be at least 1")
    if job.minimum is not None and not 1 <= job.minimum <= job.tasks:
        raise InputError(f"minimum: {job.minimum}, expected 1 to {job.tasks}")
    if job.every is not None and job.load is not None:
        raise InputError("every and load both say how often it comes, expected one of them")
    if job.load is not None and not 0 < job.load <= 10:
        raise InputError(f"load: {job.load}, expected a part of the cluster such as 0.95")
    if job.count > 1 and job.every is None and job.load is None:
        raise InputError("count without every or load: it is not known when they come")


def _check_failure(failure: Failure) -> None:
    planned = failure.node is not None and failure.at is not None
    if planned == (failure.every is not None) or (failure.every is not None and failure.at is not None):
        raise InputError("expected either node and at, or every")
