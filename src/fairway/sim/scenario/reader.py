"""Reads a scenario file: YAML into types, each problem with its file, line and path."""

from __future__ import annotations

import os
import re
from collections.abc import Iterator, Sequence
from dataclasses import dataclass, replace
from pathlib import Path

from fairway.api.marked_yaml import Marked, read_marked
from fairway.clock import Micros, parse_rfc3339
from fairway.errors import InputError, Problem, ProblemsError
from fairway.sim.assertions import Assertion, parse_assertion
from fairway.sim.limits import LAST_TIME, MAX_NODES
from fairway.sim.scenario import checks, shape
from fairway.sim.scenario.checks import check_fleet, cluster_files, in_file
from fairway.sim.scenario.model import Nodes, NodeTemplate, ScenarioFile
from fairway.sim.scenario.shape import Finding, path_text
from fairway.sim.scenario.shape import Path as Place

DATA_FOLDER = "FAIRWAY_DATA"
MAX_PROBLEMS = 50
"""Errors shown in full; of the rest only their number."""

_COUNTED = re.compile(r"(?:(?<=[:,-] )|(?<=\[))\d+ x \{[^{}]*\}")
_SHORT = re.compile(r"(\d+) x (\{.*\})")


@dataclass(frozen=True, slots=True)
class Scenario:
    """A scenario that can be run."""

    path: Path
    file: ScenarioFile
    start: Micros
    assertions: tuple[Assertion, ...]
    root: Marked
    """The file as it was read, to say where something stands."""
    inside: Place = ()
    """Where the cluster stands, if this is one of a fleet."""
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
        """Whether another seed can make another run."""
        file = self.file
        failures = [failure for _, one in cluster_files(file) for failure in one.failures]
        drawn = [file.timing.start_delay, *(job.run for job in file.workload.jobs)]
        drawn += [job.every for job in file.workload.jobs if job.every is not None]
        drawn += [manifest.run for manifest in file.workload.manifests if manifest.run is not None]
        return (
            any(span.is_random for span in drawn)
            or any(job.load is not None for job in file.workload.jobs)
            or any(failure.every is not None or failure.lasts.is_random for failure in failures)
        )

    def clusters(self) -> list[Scenario]:
        """The scenario, or that of each cluster of its fleet."""
        if self.file.fleet is None:
            return [self]
        return [replace(self, file=file, inside=inside, whole=self.file) for inside, file in cluster_files(self.file)]

    def resolve(self, file: str) -> Path:
        """A file that the scenario names."""
        return resolve(self.path.parent, file)

    def refused(self, findings: Sequence[Finding]) -> ProblemsError:
        """What is found wrong only when the files that it names are read, with its lines."""
        whole = self.whole or self.file
        return _refused(str(self.path), self.root, [(in_file(whole, self.inside, place), t) for place, t in findings])


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
    problems: list[Problem] = []
    root = read_marked(_COUNTED.sub(_quoted, text), str(path), problems)
    if root is None or problems:
        raise ProblemsError(problems)
    findings: list[Finding] = []
    file = shape.fit(root.plain(), ScenarioFile, findings)
    if file is None:
        raise _refused(str(path), root, findings)
    scenario = _checked(path, file, root, findings)
    if findings:
        raise _refused(str(path), root, findings)
    return scenario


def _checked(path: Path, file: ScenarioFile, root: Marked, findings: list[Finding]) -> Scenario:
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
    assertions = tuple(_assertions(file.asserts, root, findings))
    return Scenario(path, file, start, assertions, root)


def _of_cluster(file: ScenarioFile) -> list[Finding]:
    """What is wrong with one cluster, and with what is requested of it."""
    findings: list[Finding] = []
    nodes = _placed_templates(file.cluster.nodes, ("cluster", "nodes"), findings)
    joining = [
        placed
        for index, change in enumerate(file.changes)
        for placed in _placed_templates(change.join, ("changes", index, "join"), findings)
    ]
    checks.check_cluster(file, nodes, joining, findings)
    return findings


def _assertions(texts: Sequence[str], root: Marked, findings: list[Finding]) -> Iterator[Assertion]:
    for index, text in enumerate(texts):
        place: Place = ("assert", index)
        try:
            yield parse_assertion(text, line=_line(root, place))
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


def _refused(source: str, root: Marked, findings: Sequence[Finding]) -> ProblemsError:
    found = dict.fromkeys(findings)  # what is common to clusters is found in each
    problems = [Problem(source, _line(root, place), path_text(place), text) for place, text in found]
    problems.sort(key=lambda problem: problem.line)
    return ProblemsError(problems[:MAX_PROBLEMS], max(0, len(problems) - MAX_PROBLEMS))


def _line(root: Marked, place: Place) -> int:
    """The line of a place; of what is missing, that of what it is missing from."""
    here = root
    for step in place:
        if isinstance(here.value, dict) and step in here.value:
            here = here.value[str(step)]
        elif isinstance(here.value, tuple) and isinstance(step, int) and step < len(here.value):
            here = here.value[step]
        else:
            break
    return here.line


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
        raise InputError(f"{text[:60]!r} is not a template, expected for example 500 x {{cpu: 64, memory: 256Gi}}")
    if len(match[1]) > len(str(MAX_NODES)) or not 1 <= int(match[1]) <= MAX_NODES:
        raise InputError(f"{match[1][:20]} nodes, expected 1 to {MAX_NODES}")
    problems: list[Problem] = []
    findings: list[Finding] = []
    found = read_marked(match[2], "", problems)
    allocatable = None if found is None or problems else shape.amounts(found.plain(), (), findings)
    if allocatable is None:
        what = f"{path_text(findings[0][0])}: {findings[0][1]}" if findings else "not a map of amounts"
        raise InputError(f"{match[2][:60]!r}: {what.removeprefix(': ')}")
    return NodeTemplate(allocatable=allocatable, count=int(match[1]))
