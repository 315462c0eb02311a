"""Where a run of the command line ends: what goes wrong becomes a text on standard error and an exit code.

0    done; jobs that wait are not an error
1    a check failed, or objects were set aside (--skip-invalid)
2    bad input, wrong usage, or a file or disk that cannot be used; nothing was done
70   an error in Fairway itself
130  stopped by the user (Ctrl-C)
141  the reader of the output went away, as `head` does
"""

from __future__ import annotations

import io
import os
import sys
import threading
from collections.abc import Sequence
from contextlib import suppress

import click

from fairway.cli.lazy import Options
from fairway.cli.output import echo, last_words

PROGRAM = "fairway"

CHECK_FAILED = 1
BAD_INPUT = 2
INTERNAL_ERROR = 70
INTERRUPTED = 130
PIPE_CLOSED = 141

LAST_FLUSH = 1.0
"""Seconds for buffered output of a program that was told to stop."""


class CheckFailed(Exception):  # noqa: N818 - a verdict on what was checked
    """What the user asked to have checked does not hold; the text says why."""


def run(command: click.Command, arguments: Sequence[str]) -> int:
    """Run `command` and return the exit code. Nothing is raised."""
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
    """What was done leaves out objects that were not valid: the status says so."""
    if not options.set_aside:
        return 0
    objects = "object" if options.set_aside == 1 else "objects"
    echo(f"{options.set_aside} {objects} set aside: the answer is about the others.", err=True)
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
    hint = "the traceback is above" if options.verbose else "run it again with -v for the traceback"
    text = f"{type(error).__name__}: {error}".splitlines()[0]
    echo(f"This is an error in Fairway, please report it ({hint}).\n{text}", err=True)
    return INTERNAL_ERROR


def _show(error: click.ClickException) -> None:
    """What click says of a wrong usage, which repeats what was typed."""
    text = io.StringIO()
    error.show(file=text)
    echo(text.getvalue(), err=True, nl=False)


def _open_standard_streams() -> None:
    """A standard stream that is closed gets /dev/null: the next file or socket would take its number otherwise, and be
    written to or read from as if it were the stream.
    """
    for number in range(3):
        try:
            os.fstat(number)
        except OSError:
            os.open(os.devnull, os.O_RDONLY if number == 0 else os.O_WRONLY)  # the lowest number that is free
            os.set_inheritable(number, True)


def _flush(options: Options, code: int) -> None:
    """Write what is buffered. A program that was told to stop does not wait for a reader that does not read."""
    if not options.stopped:
        sys.stdout.flush()
        return
    flushing = threading.Thread(target=_flush_quietly, daemon=True)
    flushing.start()
    flushing.join(LAST_FLUSH)
    if flushing.is_alive():  # it holds the lock of the buffer, which the interpreter needs at a regular exit
        os._exit(code)


def _flush_quietly() -> None:
    with suppress(OSError, ValueError):
        sys.stdout.flush()


def _show_what_cannot_be_encoded() -> None:
    """Where the locale has no letter for what is printed, its number is printed."""
    for stream in (sys.stdout, sys.stderr):
        if isinstance(stream, io.TextIOWrapper):
            stream.reconfigure(errors="backslashreplace")


def _forget_output() -> None:
    """What is still buffered has no reader; without this the interpreter would complain about it at exit."""
    os.dup2(os.open(os.devnull, os.O_WRONLY), sys.stdout.fileno())
