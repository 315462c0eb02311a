"""The inputs that commands share: which cluster a command is about, its policy, and the time.

A cluster is given by manifests (`-f`), by a live API server (`--kubeconfig`, `--context`), or is the running sandbox.
`manifests_options` and `cluster_options` add these options to a command and pass them as one `GivenCluster`, which
reads nothing before it is asked to.
"""

from __future__ import annotations

import gc
from collections.abc import Callable, Iterable, Iterator, Sequence
from contextlib import contextmanager
from functools import wraps
from typing import TYPE_CHECKING, Any, NamedTuple, TypeVar

import click

from fairway.cli.invocation import Options
from fairway.cli.output import echo, warn

if TYPE_CHECKING:
    from pathlib import Path

    from fairway.api.kinds import ApiObject
    from fairway.api.manifests import Manifests
    from fairway.api.policy import Policy
    from fairway.app.explain import Situation
    from fairway.app.sandbox import Client
    from fairway.clock import Micros
    from fairway.errors import InputError
    from fairway.state.cluster import ClusterState


F = TypeVar("F", bound=Callable[..., Any])

MAX_TEXT = 4 << 20
"""Maximum size of a configuration file, in bytes."""


def files_option(function: F) -> F:
    help = "Manifests: a file, a directory, a glob pattern, or - for standard input. Repeatable."
    return click.option("-f", "--file", "files", multiple=True, required=True, metavar="FILE", help=help)(function)


CLUSTER = "the cluster"
"""Stands for the live cluster in a list of files."""


def cluster_or_files_option(function: F) -> F:
    """Manifests, or a live cluster."""
    return _cluster_options(
        _files(True, "Manifests: a file, a directory, a glob pattern, or - for standard input. Repeatable.")
    )(function)


def cluster_files_or_sandbox_option(function: F) -> F:
    """Manifests, a live cluster, or by default the running sandbox."""
    return _cluster_options(
        _files(False, "Manifests to read. Defaults to the objects of the running sandbox. Repeatable.")
    )(function)


def cluster_or_files_of_group_option(function: F) -> F:
    """For a group that is also a command: it calls `required_files` itself."""
    return _cluster_options(
        _files(False, "Manifests: a file, a directory, a glob pattern, or - for standard input. Repeatable.")
    )(function)


def required_files(files: tuple[str, ...]) -> tuple[str, ...]:
    if not files:
        raise click.UsageError("Missing option '-f' / '--file', or '--kubeconfig' / '--context' for a cluster.")
    return files


def _files(required: bool, help: str) -> Callable[[F], F]:
    def given(context: click.Context, _: click.Parameter, files: tuple[str, ...]) -> tuple[str, ...]:
        options = context.ensure_object(Options)
        if not options.reads_cluster:
            return required_files(files) if required else files
        if files:
            raise click.UsageError("-f cannot be combined with --kubeconfig or --context")
        return (CLUSTER,)

    return click.option("-f", "--file", "files", multiple=True, metavar="FILE", callback=given, help=help)


def _cluster_options(files: Callable[[F], F]) -> Callable[[F], F]:
    def keep(context: click.Context, parameter: click.Parameter, value: str | None) -> None:
        if value is not None:
            options = context.ensure_object(Options)
            options.reads_cluster = True
            setattr(options, str(parameter.name), value)

    def decorate(function: F) -> F:
        for flag, metavar, help in (
            ("--context", "NAME", "Read from the live cluster in this kubeconfig context."),
            ("--kubeconfig", "FILE", "Read from the live cluster in this kubeconfig; nothing is written to it."),
        ):
            option = click.option(flag, metavar=metavar, is_eager=True, expose_value=False, callback=keep, help=help)
            function = option(function)
        return files(function)

    return decorate


def strict_option(function: F) -> F:
    help = "Reject objects with unknown fields instead of printing a warning."
    return click.option("--strict", is_flag=True, expose_value=False, callback=_set_strict, help=help)(function)


def _set_strict(context: click.Context, _: click.Parameter, given: bool) -> None:
    context.ensure_object(Options).strict |= given


def skip_invalid_option(function: F) -> F:
    help = "Skip objects that fail validation and continue with the rest; the exit status is then 1."
    return click.option("--skip-invalid", is_flag=True, expose_value=False, callback=_set_skip_invalid, help=help)(
        function
    )


def _set_skip_invalid(context: click.Context, _: click.Parameter, given: bool) -> None:
    context.ensure_object(Options).skip_invalid |= given


def policy_option(function: F) -> F:
    return policy_option_with("Policy file. Defaults to the built-in policy (see `fairway policy show`).")(function)


def policy_option_with(help: str) -> Callable[[F], F]:
    """For a command whose default is not the built-in policy."""
    return click.option("--policy", "policy_file", metavar="FILE", help=help)


def now_option(function: F) -> F:
    help = "Time of the decision, in RFC 3339 format. Defaults to the current time."
    return click.option("--now", metavar="TIME", help=help)(function)


def scheduler_name_option(function: F) -> F:
    """Which pods are scheduled: those with certain scheduler names, or all."""
    names = "Schedule pods with this schedulerName; other pods use capacity but belong to no queue. Repeatable."
    every = "Schedule all pods, regardless of their schedulerName, as a what-if analysis."
    function = click.option("--all-pods", is_flag=True, help=every)(function)
    return click.option(
        "--scheduler-name", "scheduler_names", multiple=True, metavar="NAME", help=f"{names}  [default: fairway]"
    )(function)


def read_text(path: str) -> str:
    """A text file, or standard input for `-`; InputError if it is far too long."""
    import sys
    from pathlib import Path

    from fairway.errors import InputError

    try:
        if path == "-":
            raw = sys.stdin.buffer.read(MAX_TEXT + 1)
        else:
            with Path(path).open("rb") as file:
                raw = file.read(MAX_TEXT + 1)
        text = raw.decode("utf-8-sig")
    except OSError as error:
        raise InputError(f"{path}: cannot be read: {error.strerror}") from None
    except UnicodeDecodeError as error:
        raise InputError(f"{path}: not a text file: {error.reason} at byte {error.start}") from None
    if len(raw) > MAX_TEXT:
        raise InputError(f"{path}: larger than {MAX_TEXT} bytes, expected a configuration file")
    return text


def missing_extra(error: ModuleNotFoundError, extra: str) -> InputError:
    """The error of a command that needs an extra which is not installed."""
    from fairway.errors import InputError

    return InputError(f"{error.name} is not installed; run: pip install 'fairway[{extra}]'")


def read_policy(path: str | None) -> Policy:
    from fairway.api.policy import default_policy, load_policy
    from fairway.scheduler.plugins.installed import default_registry

    catalog = default_registry().catalog
    if path is None:
        return default_policy(catalog)
    policy = load_policy(path, catalog)
    for warning in policy.warnings:
        warn(warning)
    return policy


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
    """A folder for results, created if it does not exist. Called before the run, whose results would be lost."""
    from pathlib import Path

    from fairway.errors import InputError

    folder = Path(path)
    try:
        folder.mkdir(parents=True, exist_ok=True)
    except OSError as error:
        raise InputError(f"{path}: {error.strerror}, expected a writable directory") from None
    return folder


def read_state(files: Sequence[str], scheduler_names: Sequence[str] | None = None) -> ClusterState:
    """The state of all manifests; warnings go to standard error. Without scheduler names, every pod is scheduled."""
    from fairway.state.cluster import ClusterState
    from fairway.state.reader import arrival_order

    state = ClusterState(scheduler_names)
    objects = read_objects(files)
    if tuple(files) != (CLUSTER,):
        warn_of_old_objects(objects)
    if scheduler_names is not None:
        warn_of_others(objects, scheduler_names)
    state.upsert(arrival_order(objects))
    freeze_loaded()
    return state


OLD = 3600
"""Seconds after which objects in files are probably from another day."""


def warn_of_old_objects(objects: Iterable[ApiObject]) -> None:
    """Suggest --now for an old dump: decided as of today, all pending jobs in it would be starving."""
    from fairway.clock import SECOND, format_rfc3339, from_datetime, wall_clock

    context = click.get_current_context(silent=True)
    if context is None or "now" not in context.params or context.params["now"] is not None:
        return
    times = [thing.metadata.creation_timestamp for thing in objects]
    newest = max((from_datetime(time) for time in times if time is not None), default=None)
    if newest is not None and wall_clock() - newest > OLD * SECOND:
        when = format_rfc3339(newest)
        warn(f"the newest object was created at {when}, but the current time is used; --now {when} decides as of then")


def freeze_loaded() -> None:
    """Exclude loaded objects from garbage collection: they stay until the command ends."""
    gc.freeze()
    context = click.get_current_context(silent=True)
    if context is not None:
        context.find_root().call_on_close(gc.unfreeze)


def warn_of_others(objects: Iterable[ApiObject], scheduler_names: Sequence[str]) -> None:
    """Warn of pending pods with another scheduler name, which are left out: usually the name was just forgotten."""
    from fairway.api.pods import Pod

    left_out: dict[str, int] = {}
    for thing in objects:
        if isinstance(thing, Pod) and thing.is_waiting and thing.spec.scheduler_name not in scheduler_names:
            left_out[thing.spec.scheduler_name] = left_out.get(thing.spec.scheduler_name, 0) + 1
    for name, count in sorted(left_out.items()):
        pods = "1 pending pod has" if count == 1 else f"{count} pending pods have"
        echo(
            f"Warning: {pods} schedulerName {name!r}, not {' or '.join(map(repr, scheduler_names))}, and "
            f"{'is' if count == 1 else 'are'} left out; set spec.schedulerName, or use --scheduler-name or --all-pods",
            err=True,
        )


def read_objects(files: Sequence[str]) -> list[ApiObject]:
    """All objects of the manifests, with classes checked and short class names in requests expanded."""
    from fairway.devices.select.shorthand import reject_bad_classes, with_full_class_names

    manifests = read_manifests(files, reject_bad_classes)
    for warning in manifests.warnings:
        warn(warning)
    return with_full_class_names(manifests.objects)


def read_manifests(
    files: Sequence[str], check: Callable[[Manifests], Manifests] = lambda manifests: manifests
) -> Manifests:
    """The manifests of a run; objects that `--skip-invalid` sets aside are printed and counted."""
    from fairway.api.manifests import load
    from fairway.errors import InputError

    if tuple(files) == (CLUSTER,):
        return live_manifests()
    with naming_skip_invalid() as options:
        manifests = check(load(files, skip_invalid=options.skip_invalid, strict=options.strict))
    if not manifests.objects:
        why = "; ".join(manifests.warnings) or "no objects"
        raise InputError(f"{', '.join(files)[:200]}: {why}, expected at least one object")
    report_set_aside(manifests.invalid, manifests.set_aside)
    return manifests


def read_fleet(files: Sequence[str]) -> Manifests:
    """The objects of a fleet, from manifests or from a live hub, where only these are read."""
    return live_manifests(of_fleet=True) if tuple(files) == (CLUSTER,) else read_manifests(files)


def live_manifests(*, of_fleet: bool = False) -> Manifests:
    """The objects of the live cluster that the options name."""
    from fairway.api.manifests import Manifests

    try:
        from fairway.kube.kinds import FLEET_KINDS
        from fairway.kube.reading import ALL_KINDS, read_cluster
        from fairway.kube.server import find_connection
    except ModuleNotFoundError as error:
        raise missing_extra(error, "kube") from None
    options = click.get_current_context().ensure_object(Options)
    wanted = FLEET_KINDS if of_fleet else ALL_KINDS
    reading = read_cluster(find_connection(options.kubeconfig, options.context), wanted)
    return Manifests(reading.objects, [f"left out: {text}" for text in reading.left_out], {})


@contextmanager
def naming_skip_invalid() -> Iterator[Options]:
    """Add a hint to errors in manifests, if the command has --skip-invalid."""
    from fairway.errors import ManifestError

    context = click.get_current_context()
    options = context.ensure_object(Options)
    try:
        yield options
    except ManifestError as error:
        can = any("--skip-invalid" in parameter.opts for parameter in context.command.params)
        if can and not options.skip_invalid:
            error.add_note("Nothing was done. With --skip-invalid, such objects are set aside and the rest is used.")
        raise


def report_set_aside(invalid: Sequence[str], count: int) -> None:
    """Report objects that were set aside, which is why the exit status will be 1."""
    for line in invalid:
        echo(f"Set aside: {line}", err=True)
    click.get_current_context().ensure_object(Options).set_aside += count


class GivenCluster(NamedTuple):
    """The options that select a cluster. Nothing is read before a method is called."""

    files: tuple[str, ...]
    policy_file: str | None
    now: str | None
    scheduler_names: tuple[str, ...]
    all_pods: bool
    sandbox: str | None = None

    def own_schedulers(self) -> tuple[str, ...] | None:
        """Scheduler names of the pods that are scheduled; None for all pods."""
        from fairway.api.pods import DEFAULT_SCHEDULER
        from fairway.errors import InputError

        if self.all_pods and self.scheduler_names:
            raise InputError("--all-pods cannot be combined with --scheduler-name")
        return None if self.all_pods else self.scheduler_names or (DEFAULT_SCHEDULER,)

    def policy_and_time(self) -> tuple[Policy, Micros]:
        return read_policy(self.policy_file), read_time(self.now)

    def situation(self) -> Situation:
        """The cluster of the manifests, to try changes on."""
        from fairway.app.explain import Situation

        names = self.own_schedulers()
        policy, moment = self.policy_and_time()
        objects = read_objects(self.files)
        if names is not None:
            warn_of_others(objects, names)
        return Situation(objects, policy, moment, names)

    def client(self) -> Client:
        """The running sandbox; UsageError for options that apply only to manifests."""
        if self.policy_file or self.now or self.scheduler_names or self.all_pods:
            raise click.UsageError(
                "--policy, --now, --scheduler-name and --all-pods require -f; the sandbox has its own"
            )
        if click.get_current_context().ensure_object(Options).skip_invalid:
            raise click.UsageError("--skip-invalid requires -f; the sandbox always sets invalid objects aside")
        from fairway.app.sandbox import Client

        return Client.find(self.sandbox)


def manifests_options(function: F) -> F:
    """Manifests or a live cluster, as the parameter `given`."""
    return _with_options(function, cluster_or_files_option, *_ABOUT_MANIFESTS)


def cluster_options(function: F) -> F:
    """Manifests, a live cluster, or the running sandbox, as the parameter `given`."""
    return _with_options(function, cluster_files_or_sandbox_option, *_ABOUT_MANIFESTS, sandbox_option)


def sandbox_option(function: F) -> F:
    help = "Address of the sandbox. Defaults to the most recently started one."
    return click.option("--sandbox", metavar="URL", envvar="FAIRWAY_SANDBOX", help=help)(function)


_ABOUT_MANIFESTS: tuple[Callable[[Any], Any], ...] = (
    strict_option,
    skip_invalid_option,
    policy_option,
    now_option,
    scheduler_name_option,
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
