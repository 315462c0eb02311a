"""Where results cannot be written, exit status 2 says why, and nothing half-written is left."""

from __future__ import annotations

import os
import subprocess
import sys
from collections.abc import Callable
from pathlib import Path

import pytest

from support.cli import invoke
from support.pages import ROOT

SCENARIO = (
    "cluster: {nodes: 2 x {cpu: 4}}\nworkload: {jobs: [{name: a, request: {cpu: 1}, run: 5s, count: 90, every: 1s}]}\n"
)
SMALL_DISK = """\
import resource, signal, sys
signal.signal(signal.SIGXFSZ, signal.SIG_IGN)
resource.setrlimit(resource.RLIMIT_FSIZE, (int(sys.argv[1]), int(sys.argv[1])))
from fairway.cli.main import run
from fairway.cli.main import fairway
sys.exit(run(fairway, sys.argv[2:]))
"""
"""No file may grow beyond so many bytes: what a full disk does, where one cannot be had."""

COMMANDS = [
    ("simulate", "--out"),
    ("simulate", "--record"),
    ("diff", "--workers", "1", "--policy", "default", "--policy", "default", "--out"),
]


@pytest.fixture
def scenario(tmp_path: Path) -> str:
    (tmp_path / "s.yaml").write_text(SCENARIO)
    return str(tmp_path / "s.yaml")


def left(folder: Path) -> list[str]:
    return sorted(path.name for path in folder.rglob("*")) if folder.is_dir() else []


@pytest.mark.parametrize("command", COMMANDS, ids=" ".join)
@pytest.mark.parametrize("size", [0, 300])
def test_a_full_disk_leaves_nothing_half_written(
    command: tuple[str, ...], size: int, scenario: str, tmp_path: Path
) -> None:
    name, *flags = command
    arguments = [name, scenario, *flags, str(tmp_path / "out")]
    environment = {**os.environ, "PYTHONPATH": str(ROOT / "src")}
    done = subprocess.run(
        [sys.executable, "-c", SMALL_DISK, str(size), *arguments], capture_output=True, text=True, env=environment
    )
    assert done.returncode == 2, done.stderr
    assert "File too large: nothing was written" in done.stderr
    assert left(tmp_path / "out") == []


def a_file(path: Path) -> None:
    path.write_text("")


def a_folder_below_a_file(path: Path) -> None:
    a_file(path.parent)


@pytest.mark.parametrize("command", COMMANDS, ids=" ".join)
@pytest.mark.parametrize("spoil", [a_file, a_folder_below_a_file])
def test_what_is_no_folder_is_refused_before_the_run(
    command: tuple[str, ...], spoil: Callable[[Path], None], scenario: str, tmp_path: Path
) -> None:
    name, *flags = command
    target = tmp_path / "x" / "out"
    if spoil is a_file:
        target.parent.mkdir()
    spoil(target)
    result = invoke(name, scenario, *flags, str(target))
    assert (result.code, result.out) == (2, "")
    assert "expected a writable directory" in result.err


@pytest.mark.parametrize(
    ("command", "name"),
    [*((COMMANDS[0], name) for name in ("report.json", "report.html", "speed.json", "jobs.csv")),
     (COMMANDS[1], "policy.json"), (COMMANDS[1], "events.jsonl.gz"), (COMMANDS[2], "diff.html")],
)  # fmt: skip
@pytest.mark.usefixtures("built_page")
def test_a_folder_in_the_place_of_a_file_is_refused(
    command: tuple[str, ...], name: str, scenario: str, tmp_path: Path
) -> None:
    (tmp_path / "out" / name).mkdir(parents=True)
    verb, *flags = command
    result = invoke(verb, scenario, *flags, str(tmp_path / "out"))
    assert result.code == 2
    assert f"{name}: is a folder, expected the name of a file" in result.err
    assert left(tmp_path / "out") == [name]


@pytest.mark.usefixtures("built_page")
def test_results_of_an_earlier_run_stay_where_a_later_one_fails(scenario: str, tmp_path: Path) -> None:
    assert invoke("simulate", scenario, "--out", str(tmp_path / "out")).code == 0
    before = (tmp_path / "out" / "jobs.csv").read_text()
    Path(scenario).write_text(SCENARIO.replace("run: 5s", "run: 6s").replace("every: 1s", "every: 30000d"))
    assert invoke("simulate", scenario, "--out", str(tmp_path / "out")).code == 2
    assert (tmp_path / "out" / "jobs.csv").read_text() == before
    assert left(tmp_path / "out") == ["jobs.csv", "report.html", "report.json", "speed.json"]
