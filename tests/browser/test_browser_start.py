"""A browser that dies at its start is started again: what it shows is tested, not how busy the machine is."""

from __future__ import annotations

from pathlib import Path

import pytest

from support.browsing import ATTEMPTS, browser, chromium


def dying(folder: Path, times: int) -> str:
    """A browser that ends at once, so many times."""
    starts = folder / "starts"
    program = folder / "chromium"
    lines = ("#!/bin/sh", f"echo . >> {starts}", f"[ $(wc -l < {starts}) -gt {times} ] || exit 1")
    program.write_text("\n".join((*lines, f'exec {chromium()} "$@"', "")))
    program.chmod(0o755)
    return str(program)


@pytest.fixture(autouse=True)
def without_pauses(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr("support.browsing.PAUSE", 0)


def test_it_is_started_again(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv("FAIRWAY_CHROMIUM", dying(tmp_path, ATTEMPTS - 1))
    with browser() as started:
        assert started.is_connected()


def test_the_last_error_is_shown(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv("FAIRWAY_CHROMIUM", dying(tmp_path, ATTEMPTS))
    with pytest.raises(Exception, match="has been closed"), browser():
        pass
    assert len((tmp_path / "starts").read_text().splitlines()) == ATTEMPTS
