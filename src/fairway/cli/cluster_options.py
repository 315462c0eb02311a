"""Which cluster a command is about: that of manifests or a live one, with policy and time, or the sandbox."""

from __future__ import annotations

from collections.abc import Callable, Sequence
from functools import wraps
from typing import TYPE_CHECKING, Any, NamedTuple, TypeVar

import click

from fairway.cli import inputs
from fairway.cli.lazy import Options
from fairway.cli.output import echo, print_structured

if TYPE_CHECKING:
    from fairway.api.policy import Policy
    from fairway.app.explain import Situation
    from fairway.app.sandbox.client import Client, Result
    from fairway.clock import Micros

F = TypeVar("F", bound=Callable[..., Any])


class GivenCluster(NamedTuple):
    """The options as they were given. Nothing is read before it is asked for."""

    files: tuple[str, ...]
    policy_file: str | None
    now: str | None
    scheduler_names: tuple[str, ...]
    all_pods: bool
    sandbox: str | None = None

    def own_schedulers(self) -> tuple[str, ...] | None:
        """The schedulers whose pods are scheduled; None is every pod's."""
        from fairway.api.pods import DEFAULT_SCHEDULER
        from fairway.errors import InputError

        if self.all_pods and self.scheduler_names:
            raise InputError("--all-pods and --scheduler-name exclude each other")
        return None if self.all_pods else self.scheduler_names or (DEFAULT_SCHEDULER,)

    def policy_and_time(self) -> tuple[Policy, Micros]:
        return inputs.read_policy(self.policy_file), inputs.read_time(self.now)

    def situation(self) -> Situation:
        """The cluster of the manifests, for questions to copies of it."""
        from fairway.app.explain import Situation

        names = self.own_schedulers()
        policy, moment = self.policy_and_time()
        objects = inputs.read_objects(self.files)
        if names is not None:
            inputs.warn_of_others(objects, names)
        return Situation(objects, policy, moment, names)

    def client(self) -> Client:
        """The sandbox that runs; options that are about manifests have no meaning for it."""
        if self.policy_file or self.now or self.scheduler_names or self.all_pods:
            raise click.UsageError(
                "--policy, --now, --scheduler-name and --all-pods go with -f: the sandbox has its own"
            )
        if click.get_current_context().ensure_object(Options).skip_invalid:
            raise click.UsageError("--skip-invalid goes with -f: the sandbox always sets such objects aside")
        from fairway.app.sandbox.client import Client

        return Client.find(self.sandbox)


def manifests_options(function: F) -> F:
    """The cluster of manifests, or a live one, as the parameter `given`."""
    return _with_options(function, inputs.cluster_or_files_option, *_ABOUT_MANIFESTS)


def cluster_options(function: F) -> F:
    """The cluster of manifests, a live one, or the sandbox that runs, as the parameter `given`."""
    return _with_options(function, inputs.cluster_files_or_sandbox_option, *_ABOUT_MANIFESTS, sandbox_option)


def sandbox_option(function: F) -> F:
    help = "Address of the sandbox. Defaults to the most recently started one."
    return click.option("--sandbox", metavar="URL", envvar="FAIRWAY_SANDBOX", help=help)(function)


def print_results(results: Sequence[Result], output: str) -> None:
    """One line for each object, and what became of it."""
    if output != "table":
        print_structured({"items": list(results)}, output)
        return
    for result in results:
        echo(f"{result.object} {result.result}")


_ABOUT_MANIFESTS: tuple[Callable[[Any], Any], ...] = (
    inputs.strict_option,
    inputs.skip_invalid_option,
    inputs.policy_option,
    inputs.now_option,
    inputs.scheduler_name_option,
)


def _with_options(function: F, *options: Callable[[Any], Any]) -> F:
    @wraps(function)
    def command(**values: Any) -> Any:
        given = {name: values.pop(name) for name in GivenCluster._fields if name in values}
        return function(given=GivenCluster(**given), **values)

    made: Any = command
    for option in reversed(options):
        made = option(made)
    typed: F = made
    return typed
