"""Pages of the documentation whose commands are run: from the checkout, without colours, eighty columns wide."""

from pathlib import Path

import pytest

ROOT = Path(__file__).parents[2]


@pytest.fixture
def in_the_checkout(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.chdir(ROOT)
    for variable in ("COLUMNS", "FORCE_COLOR"):
        monkeypatch.delenv(variable, raising=False)
    monkeypatch.setenv("NO_COLOR", "1")


def plain(text: str) -> list[str]:
    return [line.rstrip() for line in text.strip().splitlines()]
