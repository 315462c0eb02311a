"""What several verbs read: manifests into a state, a policy, the time."""

from __future__ import annotations

from collections.abc import Callable, Sequence
from typing import TYPE_CHECKING, Any, TypeVar

import click

if TYPE_CHECKING:
    from pathlib import Path

    from fairway.api.kinds import ApiObject
    from fairway.api.policy import Policy
    from fairway.clock import Micros
    from fairway.state.cluster import ClusterState

F = TypeVar("F", bound=Callable[..., Any])


def files_option(function: F) -> F:
    help = "Manifests: a file, a folder, a glob, or - for standard input. May be given several times."
    return click.option("-f", "--file", "files", multiple=True, required=True, metavar="FILE", help=help)(function)


def policy_option(function: F) -> F:
    help = "The policy file; without it the built-in policy applies (see: fairway policy show)."
    return click.option("--policy", "policy_file", metavar="FILE", help=help)(function)


def now_option(function: F) -> F:
    help = "Decide as of this time (RFC 3339); default the present."
    return click.option("--now", metavar="TIME", help=help)(function)


def scheduler_name_option(function: F) -> F:
    help = "Schedule only pods that name this scheduler; others use room but belong to no queue."
    return click.option("--scheduler-name", "scheduler_names", multiple=True, metavar="NAME", help=help)(function)


def read_policy(path: str | None) -> Policy:
    from fairway.api.policy import default_policy, load_policy
    from fairway.scheduler.registry import default_registry

    catalog = default_registry().catalog
    return default_policy(catalog) if path is None else load_policy(path, catalog)


def read_time(text: str | None) -> Micros:
    from fairway.clock import parse_rfc3339, wall_clock
    from fairway.errors import InputError

    if text is None:
        return wall_clock()
    try:
        return parse_rfc3339(text)
    except InputError as error:
        raise InputError(f"--now: {error}") from None


def folder_to_write(path: str) -> Path:
    """A folder for results, made where it is not there: before anything is run whose results would be lost."""
    from pathlib import Path

    from fairway.errors import InputError

    folder = Path(path)
    try:
        folder.mkdir(parents=True, exist_ok=True)
    except OSError as error:
        raise InputError(f"{path}: {error.strerror}, expected a folder that can be written to") from None
    return folder


def read_state(files: Sequence[str], scheduler_names: Sequence[str] = ()) -> ClusterState:
    """All manifests of a run, applied as events; warnings go to standard error."""
    from fairway.state.cluster import ClusterState

    state = ClusterState(scheduler_names or None)
    state.upsert(read_objects(files))
    return state


def read_objects(files: Sequence[str]) -> list[ApiObject]:
    """All objects of the manifests; classes are checked, and their bare names in requests made full ones."""
    from fairway.api.manifests import load
    from fairway.devices.shorthand import refuse_bad_classes, with_full_class_names

    manifests = load(files)
    for warning in manifests.warnings:
        click.echo(f"Warning: {warning}", err=True)
    refuse_bad_classes(manifests)
    return with_full_class_names(manifests.objects)
