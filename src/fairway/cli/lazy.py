"""A click group whose commands are modules that are imported only when used.

What `fairway --help` and shell completion show comes from a table of names and one-line texts, so neither
costs an import of anything but click.
"""

from __future__ import annotations

import difflib
from collections.abc import Mapping
from importlib import import_module

import click
from click.shell_completion import CompletionItem


class Options:
    """What the options that every command takes were set to."""

    def __init__(self) -> None:
        self.verbose = False
        self.color = True
        self.skip_invalid = False
        self.strict = False
        """Unknown fields in manifests are errors."""
        self.asks_cluster = False
        """The objects are those of a live cluster: `kubeconfig` and `context` say which."""
        self.kubeconfig: str | None = None
        self.context: str | None = None
        self.stopped = False
        """The program was told to stop: output that nobody reads must not keep it."""
        self.set_aside = 0
        """Objects that `--skip-invalid` has set aside so far."""


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
    """Let a command, and those below it, take what every command takes; doing so twice changes nothing."""
    if not any(parameter.name == "no_color" for parameter in command.params):
        command.params.extend(_common_options())
    if isinstance(command, click.Group):
        for below in command.commands.values():
            accept_common_options(below)
    return command


class LazyGroup(click.Group):
    """`texts` maps the name of a command to its one-line text; the module `<package>.<name>` has it as `command`."""

    def __init__(self, *, package: str, texts: Mapping[str, str], **rest: object) -> None:
        super().__init__(**rest)  # type: ignore[arg-type]
        self._package = package
        self._texts = texts
        accept_common_options(self)

    def list_commands(self, ctx: click.Context) -> list[str]:
        return list(self._texts)

    def get_command(self, ctx: click.Context, cmd_name: str) -> click.Command | None:
        if cmd_name not in self._texts:
            return None
        command = import_module(f"{self._package}.{cmd_name}").command
        assert isinstance(command, click.Command)
        return accept_common_options(command)

    def resolve_command(
        self, ctx: click.Context, args: list[str]
    ) -> tuple[str | None, click.Command | None, list[str]]:
        if args and args[0] not in self._texts and not args[0].startswith("-"):
            near = difflib.get_close_matches(args[0], self._texts, n=1)
            hint = f"did you mean {near[0]!r}?" if near else f"expected one of {', '.join(self._texts)}"
            ctx.fail(f"unknown command {args[0]!r}, {hint}")
        return super().resolve_command(ctx, args)

    def format_commands(self, ctx: click.Context, formatter: click.HelpFormatter) -> None:
        with formatter.section("Commands"):
            formatter.write_dl(list(self._texts.items()))

    def shell_complete(self, ctx: click.Context, incomplete: str) -> list[CompletionItem]:
        known = self._texts.items()
        names = [CompletionItem(name, help=text) for name, text in known if name.startswith(incomplete)]
        return names + click.Command.shell_complete(self, ctx, incomplete)
