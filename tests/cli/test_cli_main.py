"""The command itself: the start, help, errors, exit codes, and how little it imports."""

import os
import subprocess
import sys
from importlib import import_module

import click
import pytest

from fairway import __version__
from fairway.cli.invocation import CheckFailed
from fairway.cli.main import COMMANDS, MODULES, run
from fairway.cli.main import fairway as group
from fairway.errors import InputError, InvariantError


def test_without_arguments_a_short_friendly_start(fairway):
    result = fairway()
    assert result.code == 0
    assert result.out.startswith(f"Fairway {__version__}: a fair batch scheduler")
    assert len(result.out.splitlines()) <= 17
    assert max(map(len, result.out.splitlines())) <= 80
    assert result.err == ""


def test_help_lists_every_verb(fairway):
    for option in ("--help", "-h"):
        result = fairway(option)
        assert result.code == 0
        assert all(f"  {verb} " in result.out and text in result.out for verb, text in COMMANDS.items())


@pytest.mark.parametrize("verb", COMMANDS)
def test_each_verb_has_help_with_examples(fairway, verb):
    result = fairway(verb, "--help")
    assert result.code == 0
    assert "Examples:" in result.out
    assert "--no-color" in result.out
    assert max(map(len, result.out.splitlines())) <= 80
    if "Commands:" in result.out:
        assert "..." not in result.out.split("Commands:")[1].split("Examples:")[0], "the text of a command is cut"


def test_a_misspelt_verb(fairway):
    result = fairway("compar")
    assert (result.code, result.out) == (2, "")
    assert result.err.endswith("Error: unknown command 'compar', did you mean 'compare'?\n")
    assert f"expected one of {', '.join(COMMANDS)}" in fairway("zzz").err


def test_wrong_usage_is_2(fairway):
    assert fairway("compare", "{}").code == 2
    assert fairway("compare", "{}", "{}", "-o", "xml").code == 2
    assert fairway("--frobnicate").code == 2


HEAVY = ("numpy", "yaml", "msgspec", "rich", "fairway.api", "fairway.resources", "json", "dataclasses")


@pytest.mark.parametrize("arguments", [["--help"], []])
def test_help_and_start_import_nothing_heavy(arguments):
    program = (
        f"import sys; from fairway.cli.main import run; from fairway.cli.main import fairway;"
        f"run(fairway, {arguments!r}); print([m for m in {HEAVY!r} if m in sys.modules], file=sys.stderr)"
    )
    done = subprocess.run([sys.executable, "-c", program], capture_output=True, text=True, check=True)
    assert done.stderr.strip() == "[]"


@pytest.mark.parametrize("verb", COMMANDS)
def test_a_verbs_module_imports_nothing_heavy_by_itself(verb):
    program = f"import sys, fairway.cli.{MODULES.get(verb, verb)}; print([m for m in {HEAVY!r} if m in sys.modules])"
    done = subprocess.run([sys.executable, "-c", program], capture_output=True, text=True, check=True)
    assert done.stdout.strip() == "[]"


def raising(error: BaseException) -> click.Command:
    @click.command()
    def command() -> None:
        raise error

    return command


@pytest.mark.parametrize(
    ("error", "code", "text"),
    [
        (InputError("no such thing"), 2, "Error: no such thing\n"),
        (CheckFailed("it does not hold"), 1, "it does not hold\n"),
        (KeyboardInterrupt(), 130, "Interrupted.\n"),
        (
            ZeroDivisionError("division by zero"),
            70,
            "This is an error in Fairway; please report it (run again with -v for the traceback).\n"
            "ZeroDivisionError: division by zero\n",
        ),
    ],
)
def test_what_goes_wrong_becomes_a_text_and_an_exit_code(capsys, error, code, text):
    assert run(raising(error), []) == code
    assert capsys.readouterr() == ("", text)


def test_a_state_that_contradicts_itself_is_our_fault(capsys):
    assert run(raising(InvariantError("sums differ")), []) == 70
    assert "InvariantError: sums differ" in capsys.readouterr().err


@pytest.mark.parametrize("place", [["-v", "compare"], ["compare", "-v"]])
def test_verbose_shows_the_traceback(fairway, monkeypatch, place):
    monkeypatch.setattr("fairway.cli.compare._read", lambda *_: 1 // 0)
    result = fairway(*place, "{}", "{}")
    assert result.code == 70
    assert "Traceback (most recent call last)" in result.err
    assert "the traceback is above" in result.err


@pytest.mark.parametrize("arguments", [[], ["policy", "show"], ["policy", "reference"]])
def test_a_reader_that_goes_away_is_no_fault(arguments):
    program = f"from fairway.cli.main import main; main({arguments!r})"
    with subprocess.Popen([sys.executable, "-c", program], stdout=subprocess.PIPE, stderr=subprocess.PIPE) as process:
        process.stdout.close()
        err = process.stderr.read()
    assert (process.returncode, err) == (141, b"")


@pytest.mark.parametrize("shell", ["bash", "zsh", "fish"])
def test_completion_scripts(fairway, shell):
    result = fairway("completion", shell)
    assert result.code == 0
    assert "_FAIRWAY_COMPLETE" in result.out


def test_completing_a_verb_and_an_option():
    def complete(words: str) -> list[str]:
        environment = {
            **os.environ,
            "_FAIRWAY_COMPLETE": "bash_complete",
            "COMP_WORDS": words,
            "COMP_CWORD": str(len(words.split(" ")) - 1),
        }
        done = subprocess.run(
            [sys.executable, "-m", "fairway.cli.main"], env=environment, capture_output=True, text=True
        )
        return done.stdout.split()

    assert complete("fairway comp") == ["plain,compare", "plain,completion"]
    assert complete("fairway compare --def") == ["plain,--default"]
    assert complete("fairway policy ch") == ["plain,check"]


def test_every_verb_in_the_table_is_there():
    for verb in COMMANDS:
        module = import_module(f"fairway.cli.{MODULES.get(verb, verb)}")
        assert isinstance(getattr(module, verb if verb in MODULES else "command"), click.Command)
    assert isinstance(group, click.Group)
