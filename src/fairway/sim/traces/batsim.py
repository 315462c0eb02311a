"""Batsim's workload format: one JSON object with `nb_res` hosts, `jobs`, and `profiles` that hold run times.

Only profiles whose length does not depend on a platform are understood: those with a `delay` (or `runtime`). A job of
`res` hosts is that many tasks of one CPU, on hosts of one CPU each. Both spellings of the format's fields are read
(`subtime` and `submission_time`). The object may be large: it is read member by member, and its arrays item by item.
"""

from __future__ import annotations

import json
from collections.abc import Iterable, Iterator
from pathlib import Path
from typing import Any

from fairway.clock import Micros
from fairway.errors import InputError
from fairway.sim.spans import shown
from fairway.sim.traces.trace_file import (
    TraceJob,
    TraceNode,
    TraceProblems,
    check_nodes,
    count,
    numbered,
    plain_name,
    read_chunks,
    seconds,
)

_MAX_DIGITS = 1000


def _whole(text: str) -> int | str:
    """A number that is too long stays text, which costs nothing."""
    return int(text) if len(text) <= _MAX_DIGITS else text


_DECODER = json.JSONDecoder(parse_float=str, parse_int=_whole)
"""Numbers with a fraction stay text, so that their digits are read exactly."""

_BLANKS = " \t\r\n"
MAX_VALUE = 16 * 1024 * 1024
"""Characters of one member or item; a longer one means that the file is not in this format."""


class NotJsonError(ValueError):
    """The text is not a JSON object."""


def members(chunks: Iterable[str]) -> Iterator[tuple[str, Any]]:
    """(name, value) of each member; an array gives one pair for each of its items."""
    stream = _Stream(chunks)
    stream.expect("{")
    while not stream.take("}"):
        name = stream.value()
        if not isinstance(name, str):
            raise NotJsonError("a member's name is not a text")
        stream.expect(":")
        if not stream.take("["):
            yield name, stream.value()
        else:
            while not stream.take("]"):
                yield name, stream.value()
                stream.take(",")
        stream.take(",")


class _Stream:
    def __init__(self, chunks: Iterable[str]) -> None:
        self._chunks = iter(chunks)
        self._text = ""
        self._at = 0

    def take(self, sign: str) -> bool:
        """Skips `sign` if it comes next."""
        found = self._next() == sign
        self._at += found
        return found

    def expect(self, sign: str) -> None:
        if not self.take(sign):
            raise NotJsonError(f"{self._next()!r} where {sign!r} was expected")

    def value(self) -> Any:
        self._next()
        while True:
            try:
                value, end = _DECODER.raw_decode(self._text, self._at)
            except json.JSONDecodeError as error:
                if not self._twice_as_much():
                    raise NotJsonError(f"{error.msg} after {self._text[self._at :][:40]!r}") from None
                continue
            except RecursionError:
                raise NotJsonError("nested too deeply") from None
            # A number at the very end of what was read may go on in the next chunk.
            if end < len(self._text) or not self._more():
                self._at = end
                return value

    def _next(self) -> str:
        while True:
            while self._at < len(self._text):
                if self._text[self._at] not in _BLANKS:
                    return self._text[self._at]
                self._at += 1
            if not self._more():
                raise NotJsonError("the text ends too early")

    def _twice_as_much(self) -> bool:
        """Doubles what is read, so that repeated attempts cost no more than reading."""
        wanted = 2 * (len(self._text) - self._at)
        found = self._more()
        while found and len(self._text) - self._at < wanted and self._more():
            pass
        return found

    def _more(self) -> bool:
        chunk = next(self._chunks, None)
        if chunk is None:
            return False
        self._text = self._text[self._at :] + chunk
        self._at = 0
        if len(self._text) > MAX_VALUE:
            raise NotJsonError(f"a value of more than {MAX_VALUE} characters")
        return True


_HOST = {"cpu": 1000}


def read_batsim(path: Path, problems: TraceProblems) -> Iterator[TraceJob]:
    """The jobs in the order of the file, which is read twice: first for the profiles, then for the jobs."""
    profiles = _profiles(path)
    index = 0
    for name, job in _members(path):
        if name != "jobs":
            continue
        try:
            yield _job(job, profiles)
        except InputError as error:
            problems.add(0, str(error), f"jobs[{index}]")
        index += 1


def read_batsim_nodes(path: Path) -> Iterator[TraceNode]:
    """`nb_res` hosts, named so that their order by name is their order by number."""
    found = next((value for name, value in _members(path) if name == "nb_res"), None)
    if found is None:
        raise InputError(f"{path}: nb_res is missing, the number of hosts is not known")
    hosts = check_nodes(path, count(str(found), "nb_res"))
    width = len(str(max(hosts - 1, 0)))
    return (TraceNode(f"host-{index:0{width}d}", dict(_HOST)) for index in range(hosts))


def _members(path: Path) -> Iterator[tuple[str, Any]]:
    try:
        yield from members(read_chunks(path))
    except NotJsonError as error:
        raise InputError(f"{path}: not a Batsim workload: {error}") from None


def _profiles(path: Path) -> dict[str, Micros]:
    for name, value in _members(path):
        if name == "profiles" and isinstance(value, dict):
            return {key: _length(path, key, profile) for key, profile in value.items()}
    raise InputError(f"{path}: profiles is missing, run times are not known")


def _length(path: Path, name: str, profile: Any) -> Micros:
    length = profile.get("delay", profile.get("runtime")) if isinstance(profile, dict) else None
    if length is None:
        raise InputError(f"{path}: profile {shown(name)}: only profiles with a delay are read")
    try:
        return seconds(str(length))
    except InputError as error:
        raise InputError(f"{path}: profile {shown(name)}: {error}") from None


def _name(number: Any) -> str:
    if isinstance(number, int) and not isinstance(number, bool) and number >= 0:
        return numbered("job", number)
    return plain_name(f"job-{number}")


def _job(job: Any, profiles: dict[str, Micros]) -> TraceJob:
    if not isinstance(job, dict):
        raise InputError(f"{shown(job)} is not a job, expected an object")
    profile = job.get("profile")
    if not isinstance(profile, str) or profile not in profiles:
        raise InputError(f"profile: {shown(profile)} is not among the profiles")
    tasks = count(str(job.get("res")), "res")
    if not tasks:
        raise InputError("res: 0 hosts, expected at least 1")
    walltime = job.get("walltime")
    return TraceJob(
        name=_name(job.get("id")),
        submit=seconds(str(job.get("subtime", job.get("submission_time")))),
        run=profiles[profile],
        limit=None if walltime is None or str(walltime).startswith("-") else seconds(str(walltime)),
        tasks=tasks,
        request=dict(_HOST),
    )
