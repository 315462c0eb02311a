"""Tables: as wide as they need to be where the output is no terminal, and never with a name in two pieces."""

from __future__ import annotations

import os
import pty
import subprocess
import sys
from collections.abc import Callable
from pathlib import Path
from typing import Any

import pytest
from hypothesis import given
from hypothesis import strategies as st

from fairway.cli.output import console, shrunk, table
from support import objects as make
from support.cli import write

Fairway = Callable[..., Any]
LONG = "a-job-with-a-name-that-is-longer-than-most-and-still-a-name-of-its-own"
TEXT = "0/3 nodes fit: 2 insufficient example.com/some-accelerator, 1 node has a taint that the pod does not tolerate"


def lines(capsys: pytest.CaptureFixture[str]) -> list[str]:
    rows = table("job", "queue", "why")
    rows.add_row(f"team/{LONG}", "a-queue", TEXT)
    console().print(rows)
    return capsys.readouterr().out.splitlines()


def test_without_a_terminal_nothing_is_wrapped_or_cut(
    capsys: pytest.CaptureFixture[str], monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.delenv("COLUMNS", raising=False)
    (row,) = [line for line in lines(capsys) if LONG in line]
    assert row.split() == [f"team/{LONG}", "a-queue", *TEXT.split()]


@pytest.mark.parametrize("columns", ["20", "80", "120"])
def test_a_name_stays_whole_however_narrow_the_terminal(
    columns: str, capsys: pytest.CaptureFixture[str], monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setenv("COLUMNS", columns)
    printed = lines(capsys)
    words = {word for line in printed for word in line.split()}
    assert {f"team/{LONG}", "a-queue", *TEXT.split()} <= words
    assert len(printed) > 4, "the text is wrapped"


def test_an_expression_may_go_on_in_the_next_line(
    capsys: pytest.CaptureFixture[str], monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setenv("COLUMNS", "60")
    rows = table("cluster", "why")
    expression = f"'matches(\"^{'x' * 90}[.]\")'"
    rows.add_row("eu-1", expression)
    console().print(rows)
    printed = capsys.readouterr().out.splitlines()
    assert max(map(len, printed)) <= 60
    assert expression in "".join(line.removeprefix("eu-1").strip() for line in printed[2:])


@given(st.lists(st.tuples(st.integers(0, 40), st.integers(0, 80)), min_size=1, max_size=6), st.integers(0, 300))
def test_widths_are_as_large_as_they_can_be(pairs: list[tuple[int, int]], free: int) -> None:
    ranges = [(min(pair), max(pair)) for pair in pairs]
    widths = shrunk(ranges, free)
    assert all(least <= width <= most for width, (least, most) in zip(widths, ranges, strict=True))
    least, most = sum(least for least, _ in ranges), sum(most for _, most in ranges)
    assert sum(widths) == max(least, min(most, free))
    cut = [width for width, (_, most) in zip(widths, ranges, strict=True) if width < most]
    able = [width for width, (least, _) in zip(widths, ranges, strict=True) if width > least]
    if cut and able:
        assert max(able) <= max(cut) + 1, "the widest gave way first"


def test_in_a_pipe_and_on_a_terminal(tmp_path: Path) -> None:
    """The program itself: a pipe has no width; a terminal has one, and is asked for it."""
    objects = [make.node("n", cpu=1), *(make.pod(f"{LONG}-{letter}", cpu=9) for letter in "ab")]
    command = [sys.executable, "-m", "fairway.cli.main", "plan", "-f", str(write(objects, tmp_path)), "--all-pods"]
    bare = {name: value for name, value in os.environ.items() if name not in ("COLUMNS", "FORCE_COLOR")}
    piped = subprocess.run(command, env=bare, capture_output=True, text=True, check=True).stdout
    assert f"default/{LONG}-a" in piped
    (row,) = [line for line in piped.splitlines() if "NeverFits" in line and f"{LONG}-a" in line]
    assert row.rstrip().endswith("insufficient cpu")
    ours, theirs = pty.openpty()
    with subprocess.Popen(command, env=bare | {"TERM": "dumb", "NO_COLOR": "1"}, stdout=theirs) as process:
        os.close(theirs)
        shown = b""
        while chunk := _read(ours):
            shown += chunk
        assert process.wait() == 0
    os.close(ours)
    assert f"default/{LONG}-a" in shown.decode()


def _read(terminal: int) -> bytes:
    try:
        return os.read(terminal, 65536)
    except OSError:  # the other end is closed
        return b""


def test_every_command_takes_o_for_the_format() -> None:
    import click

    from fairway.cli.main import COMMANDS, fairway

    context = click.Context(fairway)
    for verb in COMMANDS:
        command = fairway.get_command(context, verb)
        assert command is not None
        below = list(command.commands.values()) if isinstance(command, click.Group) else [command]
        for one in below:
            for option in (parameter for parameter in one.params if "-o" in parameter.opts):
                assert isinstance(option.type, click.Choice), f"{verb} {one.name}: {option.opts}"
                assert "json" in option.type.choices
