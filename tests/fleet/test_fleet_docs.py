"""Every example of docs/fleet.md is on the page and loads; its commands are run by tests/docs."""

from __future__ import annotations

import re
from pathlib import Path

import pytest

from fairway.cli.main import fairway, run
from support.pages import ROOT, in_the_checkout, plain  # noqa: F401 - a fixture

pytestmark = pytest.mark.usefixtures("in_the_checkout")

PAGE = (ROOT / "docs" / "fleet.md").read_text()
PYTHON = re.findall(r"```python\n(.*?)```", PAGE, re.DOTALL)
EXAMPLES = sorted((ROOT / "examples" / "fleet").glob("*.yaml"))


def test_the_python_example_runs(capsys: pytest.CaptureFixture[str]) -> None:
    [code] = PYTHON
    exec(code, {})
    assert plain(capsys.readouterr().out) == ["['amsterdam', 'berlin']", "create storefront-decision-1", "()"]


@pytest.mark.parametrize("example", EXAMPLES, ids=lambda path: path.stem)
def test_every_example_is_on_the_page_and_loads(example: Path, capsys: pytest.CaptureFixture[str]) -> None:
    assert f"examples/fleet/{example.name}" in PAGE
    assert run(fairway, ["place", "-f", str(example), "-o", "json"]) == 0
    assert capsys.readouterr().err == ""
