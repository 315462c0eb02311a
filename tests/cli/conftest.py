"""Runs the command line in this process as a user would run it."""

from collections.abc import Callable
from dataclasses import dataclass

import pytest

from fairway.cli.main import fairway as group
from fairway.cli.main import run


@dataclass(frozen=True)
class Result:
    code: int
    out: str
    err: str


Fairway = Callable[..., Result]


@pytest.fixture
def fairway(capsys: pytest.CaptureFixture[str], monkeypatch: pytest.MonkeyPatch) -> Fairway:
    """`fairway("compare", "{}", "{}")` gives exit code, standard output and standard error."""
    for variable in ("COLUMNS", "NO_COLOR", "FORCE_COLOR"):
        monkeypatch.delenv(variable, raising=False)

    def invoke(*arguments: str) -> Result:
        capsys.readouterr()
        code = run(group, arguments)
        captured = capsys.readouterr()
        return Result(code, captured.out, captured.err)

    return invoke
