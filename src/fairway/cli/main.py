"""The `fairway` command: the table of commands, and the exit status of a run.

A new command is one line in COMMANDS and a module `fairway.cli.<name>` with a click command named `command`. Small
commands that belong together share a module (MODULES), each as a function of its own name. `--help` and shell
completion read the table alone; a module is imported when its command runs, and imports what it needs inside the
command, so that `--help` stays instant.

Exit status:

    0    success; pending jobs are not an error
    1    a check failed, or objects were set aside (--skip-invalid)
    2    invalid input, wrong usage, or an unusable file or disk; nothing was done
    70   an error in Fairway itself
    130  interrupted by the user (Ctrl-C)
    141  the reader of the output is gone, as with `head`
"""

from __future__ import annotations

import difflib
import io
import os
import sys
import threading
from collections.abc import Mapping, Sequence
from contextlib import suppress
from importlib import import_module

import click
from click.shell_completion import CompletionItem

from fairway import __version__
from fairway.cli.invocation import CheckFailed, Options, accept_common_options
from fairway.cli.output import echo, last_words

COMMANDS = {
    "plan": "Run one scheduling cycle on manifests and print the plan",
    "explain": "Explain why a job is pending and what would start it",
    "queue": "List pending jobs with position, reason and estimated start",
    "order": "Explain a job's queue position, key by key",
    "queues": "Show the shares of queues and namespaces after one cycle",
    "classes": "List device classes, their devices and the pods using them",
    "place": "Select clusters for placements, with scores and reasons",
    "clusters": "List the clusters of a fleet with free capacity and taints",
    "run": "Run the scheduler on a cluster",
    "agent": "Run the node agent, which publishes and prepares devices",
    "fleet": "Run the fleet placer on a hub",
    "install": "Print the manifests that install Fairway on a cluster",
    "sandbox": "Run an embedded cluster with the real scheduler",
    "apply": "Create or update objects in the sandbox",
    "delete": "Delete jobs and other objects from the sandbox",
    "get": "List jobs, queues, nodes, events and other objects",
    "simulate": "Simulate a scenario or trace and report the results",
    "diff": "Compare two policies on the same jobs",
    "sweep": "Run one scenario under many policies in parallel",
    "record": "Save the scheduler's view of a cluster to files",
    "web": "Serve the web page of a recorded run or a live scheduler",
    "replay": "Replay a recorded cycle, with its own or another policy",
    "compare": "Compare two resource lists in all nine ways",
    "policy": "Check, show and import policy files",
    "completion": "Print the shell completion script",
    "version": "Print the version and the commit it was built from",
}

MODULES = {
    "queue": "queues",
    "order": "queues",
    "clusters": "place",
    "apply": "changes",
    "delete": "changes",
    "record": "recordings",
    "replay": "recordings",
    "completion": "version",
}
"""Commands that share a module with others."""

START = """\
Fairway {version}: a fair batch scheduler for Kubernetes that explains why a job
is pending, when it will start and what a policy change would do.

Try:
  fairway sandbox
      run an embedded cluster with the real scheduler in this terminal
  fairway plan -f examples/cluster
      show what would be placed where, what stays pending, and why
  fairway explain team-language/pretrain -f examples/cluster
      explain why this job is pending and what would start it now
  fairway policy show
      show the built-in policy, setting by setting

Run `fairway --help` for all commands, `fairway COMMAND --help` for examples.\
"""

VERSION = "Print the version and the commit, and exit."

PROGRAM = "fairway"

CHECK_FAILED = 1
BAD_INPUT = 2
INTERNAL_ERROR = 70
INTERRUPTED = 130
PIPE_CLOSED = 141

LAST_FLUSH = 1.0
"""Seconds for writing buffered output after a stop was requested."""


class LazyGroup(click.Group):
    """Imports the module of a command when it is used. `texts` are the one-line descriptions by name."""

    def __init__(self, *, texts: Mapping[str, str], **rest: object) -> None:
        super().__init__(**rest)  # type: ignore[arg-type]
        self._texts = texts
        accept_common_options(self)

    def list_commands(self, ctx: click.Context) -> list[str]:
        return list(self._texts)

    def get_command(self, ctx: click.Context, cmd_name: str) -> click.Command | None:
        if cmd_name not in self._texts:
            return None
        module = import_module(f"fairway.cli.{MODULES.get(cmd_name, cmd_name)}")
        command = getattr(module, cmd_name if cmd_name in MODULES else "command")
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


def _print_version(context: click.Context, _: click.Parameter, given: bool) -> None:
    if given and not context.resilient_parsing:
        from fairway.cli.version import commit_of, version_text

        echo(version_text(commit_of()))
        context.exit()


@click.command(
    cls=LazyGroup,
    texts=COMMANDS,
    invoke_without_command=True,
    context_settings={"help_option_names": ["-h", "--help"]},
    epilog="Run `fairway COMMAND --help` for the options and examples of a command.",
)
@click.option("-V", "--version", is_flag=True, is_eager=True, expose_value=False, callback=_print_version, help=VERSION)
@click.pass_context
def fairway(context: click.Context) -> None:
    """A fair, explainable batch scheduler for Kubernetes, and a placer for fleets of clusters."""
    if context.invoked_subcommand is None:
        echo(START.format(version=__version__))


def run(command: click.Command, arguments: Sequence[str]) -> int:
    """Run `command` and return the exit status. Nothing is raised."""
    options, code = Options(), 0
    _open_standard_streams()
    _show_what_cannot_be_encoded()
    try:
        code = _invoke(command, list(arguments), options)
        if sys.stdout is not None:
            _flush(options, code)
    except BrokenPipeError:
        _forget_output()
        return PIPE_CLOSED
    except OSError as error:
        _forget_output()
        if code != BAD_INPUT:
            echo(f"Error: standard output: {error.strerror}", err=True)
        return BAD_INPUT
    return code


def _invoke(command: click.Command, arguments: list[str], options: Options) -> int:
    if f"_{PROGRAM.upper()}_COMPLETE" in os.environ:
        command.main(arguments, PROGRAM)
    try:
        with command.make_context(PROGRAM, arguments, obj=options) as context:
            command.invoke(context)
    except click.exceptions.Exit as leave:
        return leave.exit_code
    except click.ClickException as error:
        _show(error)
        return BAD_INPUT
    except (KeyboardInterrupt, EOFError, click.Abort):
        last_words("Interrupted.", options)
        return INTERRUPTED
    except BrokenPipeError:
        raise
    except CheckFailed as failed:
        echo(str(failed), err=True)
        return CHECK_FAILED
    except Exception as error:
        return _report(error, options)
    return _set_aside(options)


def _set_aside(options: Options) -> int:
    """The status tells that invalid objects were left out of the answer."""
    if not options.set_aside:
        return 0
    objects = "object" if options.set_aside == 1 else "objects"
    echo(f"{options.set_aside} invalid {objects} set aside; the answer covers the others only.", err=True)
    return CHECK_FAILED


def _report(error: Exception, options: Options) -> int:
    from fairway.errors import InputError, ProblemsError

    if isinstance(error, InputError):
        echo(str(error) if isinstance(error, ProblemsError) else f"Error: {error}", err=True)
        for note in getattr(error, "__notes__", ()):
            echo(note, err=True)
        return BAD_INPUT
    if isinstance(error, OSError):
        place = f"{error.filename}: " if error.filename else ""
        echo(f"Error: {place}{error.strerror or error}", err=True)
        return BAD_INPUT
    if options.verbose:
        import traceback

        echo("".join(traceback.format_exception(error)), err=True, nl=False)
    hint = "the traceback is above" if options.verbose else "run again with -v for the traceback"
    text = f"{type(error).__name__}: {error}".splitlines()[0]
    echo(f"This is an error in Fairway; please report it ({hint}).\n{text}", err=True)
    return INTERNAL_ERROR


def _show(error: click.ClickException) -> None:
    """Show a usage error of click, which repeats what the user typed and so must be escaped."""
    text = io.StringIO()
    error.show(file=text)
    echo(text.getvalue(), err=True, nl=False)


def _open_standard_streams() -> None:
    """Open /dev/null for each closed standard stream. Otherwise the next file or socket would get its number, and be
    written to or read from as if it were the stream.
    """
    for number in range(3):
        try:
            os.fstat(number)
        except OSError:
            os.open(os.devnull, os.O_RDONLY if number == 0 else os.O_WRONLY)  # gets the lowest free number
            os.set_inheritable(number, True)


def _flush(options: Options, code: int) -> None:
    """Write buffered output. A program that is stopping does not wait for a reader that does not read."""
    if not options.stopped:
        sys.stdout.flush()
        return
    flushing = threading.Thread(target=_flush_quietly, daemon=True)
    flushing.start()
    flushing.join(LAST_FLUSH)
    if flushing.is_alive():  # it holds the lock of the buffer, which a regular exit needs
        os._exit(code)


def _flush_quietly() -> None:
    with suppress(OSError, ValueError):
        sys.stdout.flush()


def _show_what_cannot_be_encoded() -> None:
    """Print the number of a character that the locale cannot encode."""
    for stream in (sys.stdout, sys.stderr):
        if isinstance(stream, io.TextIOWrapper):
            stream.reconfigure(errors="backslashreplace")


def _forget_output() -> None:
    """Drop buffered output that has no reader; otherwise the interpreter would complain at exit."""
    os.dup2(os.open(os.devnull, os.O_WRONLY), sys.stdout.fileno())


def main(arguments: Sequence[str] | None = None) -> None:
    """The entry point: runs the command and exits with its status."""
    sys.exit(run(fairway, sys.argv[1:] if arguments is None else arguments))


if __name__ == "__main__":
    main()
