"""One run of the command line: the options that every command accepts, and the result of a failed check."""

from __future__ import annotations

import click


class Options:
    """Values of the options that every command accepts."""

    def __init__(self) -> None:
        self.verbose = False
        self.color = True
        self.skip_invalid = False
        self.strict = False
        """Treat unknown fields in manifests as errors."""
        self.reads_cluster = False
        """Read objects from the live cluster that `kubeconfig` and `context` name."""
        self.kubeconfig: str | None = None
        self.context: str | None = None
        self.stopped = False
        """A stop was requested: output that nobody reads must not delay it."""
        self.set_aside = 0
        """Number of objects that `--skip-invalid` has set aside so far."""


class CheckFailed(Exception):  # noqa: N818 - a result, not an error
    """A check that the user requested has failed; the text says why."""


def _set_verbose(context: click.Context, _: click.Parameter, given: bool) -> None:
    context.ensure_object(Options).verbose |= given


def _set_color(context: click.Context, _: click.Parameter, given: bool) -> None:
    if given:
        context.ensure_object(Options).color = False


def _common_options() -> list[click.Option]:
    verbose_help = "Print more detail, and the traceback of an unexpected error."
    color_help = "Disable colours; NO_COLOR=1 does the same."
    return [
        click.Option(["-v", "--verbose"], is_flag=True, expose_value=False, callback=_set_verbose, help=verbose_help),
        click.Option(["--no-color"], is_flag=True, expose_value=False, callback=_set_color, help=color_help),
    ]


def accept_common_options(command: click.Command) -> click.Command:
    """Add the common options to a command and its subcommands, once."""
    if not any(parameter.name == "no_color" for parameter in command.params):
        command.params.extend(_common_options())
    if isinstance(command, click.Group):
        for below in command.commands.values():
            accept_common_options(below)
    return command
