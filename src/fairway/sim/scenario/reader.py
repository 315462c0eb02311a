"""Reads a scenario file: YAML into types, each problem with its file, line and path.

A scenario is written by hand, and a misspelt field would test another cluster: an unknown field is an error. Durations,
drawn durations and amounts are types that only scenarios have; `CUSTOM` tells the reader of hand-written files how to
read them.
"""

from __future__ import annotations

import os
import re
from collections.abc import Callable, Iterator, Mapping, Sequence
from dataclasses import dataclass, replace
from pathlib import Path
from typing import Any

from fairway.api.hand_written import HandWritten, read_document, read_text
from fairway.api.shape import CustomType, Finding, describe, path_text
from fairway.api.text import Path as Place
from fairway.api.validation.labels import check_amounts
from fairway.clock import Micros, parse_rfc3339
from fairway.errors import InputError, Problem, ProblemsError
from fairway.resources.algebra import Resource
from fairway.sim.assertions import Assertion, parse_assertion
from fairway.sim.limits import LAST_TIME, MAX_NODES
from fairway.sim.scenario import checks
from fairway.sim.scenario.checks import check_fleet, cluster_files, in_file
from fairway.sim.scenario.model import Nodes, NodeTemplate, ScenarioFile, Span
from fairway.sim.spans import Drawn, parse_drawn, parse_span

DATA_FOLDER = "FAIRWAY_DATA"

_COUNTED = re.compile(r"(?:(?<=[:,-] )|(?<=\[))\d+ x \{[^{}]*\}")
_SHORT = re.compile(r"(\d+) x (\{.*\})")


@dataclass(frozen=True, slots=True)
class Scenario:
    """A scenario that can be run."""

    path: Path
    file: ScenarioFile
    start: Micros
    assertions: tuple[Assertion, ...]
    document: HandWritten
    """The file as it was read, for the lines of problems that are found later."""
    inside: Place = ()
    """The place of the cluster, if this is one of a fleet."""
    whole: ScenarioFile | None = None
    """The file of that fleet."""

    @property
    def name(self) -> str:
        return self.file.name or self.path.stem

    @property
    def nodes(self) -> list[NodeTemplate]:
        return list(templates(self.file.cluster.nodes))

    @property
    def is_random(self) -> bool:
        """Whether another seed can give another run."""
        file = self.file
        failures = [failure for _, one in cluster_files(file) for failure in one.failures]
        drawn = [file.timing.start_delay, file.timing.provisioning, *(job.run for job in file.workload.jobs)]
        drawn += [job.every for job in file.workload.jobs if job.every is not None]
        drawn += [manifest.run for manifest in file.workload.manifests if manifest.run is not None]
        return (
            any(span.is_random for span in drawn)
            or 0 < file.timing.provisioning_failures < 1
            or any(job.load is not None for job in file.workload.jobs)
            or any(failure.every is not None or failure.lasts.is_random for failure in failures)
        )

    def clusters(self) -> list[Scenario]:
        """The scenario itself, or one for each cluster of its fleet."""
        if self.file.fleet is None:
            return [self]
        return [replace(self, file=file, inside=inside, whole=self.file) for inside, file in cluster_files(self.file)]

    def resolve(self, file: str) -> Path:
        """The path of a file that the scenario names."""
        return resolve(self.path.parent, file)

    def refused(self, findings: Sequence[Finding]) -> ProblemsError:
        """Problems that show only when the files that the scenario names are read, with their lines."""
        whole = self.whole or self.file
        return self.document.refused([(in_file(whole, self.inside, place), text) for place, text in findings])


def load_scenario(path: Path) -> Scenario:
    """The scenario in a file; ProblemsError says what is wrong with it and where."""
    return parse_scenario(read_text(path, "a scenario"), path)


def parse_scenario(text: str, path: Path) -> Scenario:
    """As `load_scenario`; files that the text names are relative to the folder of `path`."""
    problems: list[Problem] = []
    document = read_document(_COUNTED.sub(_quoted, text), str(path), problems)
    if document is None or problems:
        raise ProblemsError(problems)
    findings: list[Finding] = []
    scenario = _checked(path, document.as_struct(ScenarioFile, CUSTOM), document, findings)
    if findings:
        raise document.refused(findings)
    return scenario


def _checked(path: Path, file: ScenarioFile, document: HandWritten, findings: list[Finding]) -> Scenario:
    for inside, one in cluster_files(file):
        found = _of_cluster(one)
        where = f" in cluster {file.fleet.clusters[int(inside[-1])].name}" if file.fleet is not None else ""
        findings += (
            (in_file(file, inside, place), text + (where if place[0] == "workload" else "")) for place, text in found
        )
    check_fleet(file, findings)
    checks.check_workload(file, findings)
    start = 0
    try:
        start = parse_rfc3339(file.start)
        if not 0 <= start < LAST_TIME:
            findings.append((("start",), f"is {file.start}, expected a year from 1970 to 7999"))
    except InputError as error:
        findings.append((("start",), str(error)))
    assertions = tuple(_assertions(file.asserts, document, findings))
    return Scenario(path, file, start, assertions, document)


def _of_cluster(file: ScenarioFile) -> list[Finding]:
    """The findings about one cluster, and about what is requested of it."""
    findings: list[Finding] = []
    nodes = _placed_templates(file.cluster.nodes, ("cluster", "nodes"), findings)
    joining = [
        placed
        for index, change in enumerate(file.changes)
        for placed in _placed_templates(change.join, ("changes", index, "join"), findings)
    ]
    checks.check_cluster(file, nodes, joining, findings)
    return findings


def _assertions(texts: Sequence[str], document: HandWritten, findings: list[Finding]) -> Iterator[Assertion]:
    for index, text in enumerate(texts):
        place: Place = ("assert", index)
        try:
            yield parse_assertion(text, line=document.line(place))
        except InputError as error:
            findings.append((place, str(error)))


def _placed_templates(nodes: Nodes, path: Place, findings: list[Finding]) -> list[tuple[Place, NodeTemplate]]:
    found: list[tuple[Place, NodeTemplate]] = []
    for index, entry in enumerate(nodes if isinstance(nodes, tuple) else (nodes,)):
        place = (*path, index) if isinstance(nodes, tuple) else path
        try:
            found.append((place, _short_template(entry) if isinstance(entry, str) else entry))
        except InputError as error:
            findings.append((place, str(error)))
    return found


def resolve(folder: Path, file: str) -> Path:
    """A file name, with `$FAIRWAY_DATA` replaced, relative to `folder`."""
    if file.startswith(f"${DATA_FOLDER}"):
        data = os.environ.get(DATA_FOLDER)
        if not data:
            raise InputError(f"{file}: the environment does not say where {DATA_FOLDER} is")
        file = data + file.removeprefix(f"${DATA_FOLDER}")
    return folder / file


def templates(nodes: Nodes) -> Iterator[NodeTemplate]:
    """The node templates, with short forms parsed."""
    for entry in nodes if isinstance(nodes, tuple) else (nodes,):
        yield _short_template(entry) if isinstance(entry, str) else entry


def _quoted(match: re.Match[str]) -> str:
    """`500 x {cpu: 64}` is not a YAML value, so it is quoted."""
    return "'" + match[0].replace("'", "''") + "'"


def _short_template(text: str) -> NodeTemplate:
    match = _SHORT.fullmatch(text.strip())
    if not match:
        raise InputError(f"{text[:60]!r} is not a template, expected for example 500 x {{cpu: 64, memory: 256Gi}}")
    if len(match[1]) > len(str(MAX_NODES)) or not 1 <= int(match[1]) <= MAX_NODES:
        raise InputError(f"{match[1][:20]} nodes, expected 1 to {MAX_NODES}")
    problems: list[Problem] = []
    findings: list[Finding] = []
    amounts = read_document(match[2], "", problems)
    allocatable = None if amounts is None or problems else _amounts(amounts.data, (), findings)
    if allocatable is None:
        what = f"{path_text(findings[0][0])}: {findings[0][1]}" if findings else "not a map of amounts"
        raise InputError(f"{match[2][:60]!r}: {what.removeprefix(': ')}")
    return NodeTemplate(allocatable=allocatable, count=int(match[1]))


def _amounts(value: object, path: Place, findings: list[Finding]) -> Resource | None:
    """A map of quantities; None if it is not one."""
    if not isinstance(value, Mapping):
        findings.append((path, f"is {describe(value)}, expected {_EXPECTED_AMOUNTS}"))
        return None
    texts: dict[str, str] = {}
    before = len(findings)
    for name, amount in value.items():
        if isinstance(amount, str) or (isinstance(amount, int | float) and not isinstance(amount, bool)):
            texts[name] = amount if isinstance(amount, str) else repr(amount)
        elif amount is not None:
            findings.append(((*path, name), f"is {describe(amount)}, expected a quantity such as 2, 500m or 1Gi"))
    check_amounts(texts, path, findings)
    return Resource.parse(texts) if len(findings) == before else None


def _read_by(parse: Callable[[Any], object]) -> Callable[[Any, Place, list[Finding]], object]:
    def read(value: Any, path: Place, findings: list[Finding]) -> object:
        try:
            return parse(value)
        except InputError as error:
            findings.append((path, str(error)))
            return None

    return read


_EXPECTED_AMOUNTS = "amounts, for example {cpu: 64, memory: 256Gi}"
CUSTOM = {
    Resource: CustomType(_amounts, _EXPECTED_AMOUNTS, Resource.EMPTY),
    Span: CustomType(_read_by(lambda value: Span(parse_span(value))), "a duration such as 90s, 1h30m or 2d", Span(0)),
    Drawn: CustomType(
        _read_by(parse_drawn),
        "a duration such as 90s, or exponential 5m, or uniform 1m 10m",
        Drawn("fixed", 0, 0),
    ),
}
"""The types of scenarios."""
