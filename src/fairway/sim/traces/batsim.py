"""Batsim's workload format: one JSON object with `nb_res` hosts, `jobs`, and `profiles` that hold run times.

Only profiles whose length does not depend on a platform are understood: those with a `delay` (or `runtime`).
A job of `res` hosts is that many tasks of one CPU, on hosts of one CPU each. Both spellings of the format's
fields are read (`subtime` and `submission_time`).
"""

from __future__ import annotations

from collections.abc import Iterator
from pathlib import Path
from typing import Any

from fairway.clock import Micros
from fairway.errors import InputError
from fairway.sim.spans import shown
from fairway.sim.traces.json_stream import NotJsonError, members
from fairway.sim.traces.record import TraceJob, TraceNode, TraceProblems
from fairway.sim.traces.text import check_nodes, count, numbered, plain_name, read_chunks, seconds

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
