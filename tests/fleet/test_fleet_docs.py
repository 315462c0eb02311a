"""Every example in docs/fleet.md runs and prints what the page says."""

from __future__ import annotations

import re
import shlex
from pathlib import Path

import pytest

from fairway.cli.errors import run
from fairway.cli.main import fairway
from support.pages import ROOT, in_the_checkout, plain  # noqa: F401 - a fixture

pytestmark = pytest.mark.usefixtures("in_the_checkout")

PAGE = (ROOT / "docs" / "fleet.md").read_text()
CONSOLE = re.findall(r"```console\n\$ fairway (.*?)\n(.*?)```", PAGE, re.DOTALL)
PYTHON = re.findall(r"```python\n(.*?)```", PAGE, re.DOTALL)
EXAMPLES = sorted((ROOT / "examples" / "fleet").glob("*.yaml"))


@pytest.mark.parametrize(("command", "expected"), CONSOLE, ids=[command.split()[2] for command, _ in CONSOLE])
def test_a_command_prints_what_the_page_says(command: str, expected: str, capsys: pytest.CaptureFixture[str]) -> None:
    assert run(fairway, shlex.split(command)) == 0
    assert plain(capsys.readouterr().out) == plain(expected)


def test_the_python_example_runs(capsys: pytest.CaptureFixture[str]) -> None:
    [code] = PYTHON
    exec(code, {})
    assert plain(capsys.readouterr().out) == ["['amsterdam', 'berlin']", "create storefront-decision-1", "()"]


@pytest.mark.parametrize("example", EXAMPLES, ids=lambda path: path.stem)
def test_every_example_is_on_the_page_and_loads(example: Path, capsys: pytest.CaptureFixture[str]) -> None:
    assert f"examples/fleet/{example.name}" in PAGE
    assert run(fairway, ["place", "-f", str(example), "-o", "json"]) == 0
    assert capsys.readouterr().err == ""
