"""Where nothing can be written: one sentence and exit status 2, never a traceback, never status 0."""

import subprocess
import sys
from pathlib import Path

import pytest

ROOT = Path(__file__).parents[2]
_LIMITED = """
import os, resource, sys
most = int(sys.argv[1])
resource.setrlimit(resource.RLIMIT_FSIZE, (most, most))
os.execv(sys.argv[2], sys.argv[2:])
"""
"""Sets the limit in a process of its own: between fork and exec of one that has threads, Python code may not run."""


def fairway(*arguments: str, out: str = "/dev/null", most_bytes: int | None = None) -> tuple[int, str]:
    """A run of its own: standard output goes to a file, and no file grows beyond `most_bytes`."""
    command = [sys.executable, "-m", "fairway.cli.main", *arguments]
    if most_bytes is not None:
        command = [sys.executable, "-c", _LIMITED, str(most_bytes), *command]
    with Path(out).open("w") as stream:
        done = subprocess.run(command, cwd=ROOT, stdout=stream, stderr=subprocess.PIPE, text=True, check=False)
    return done.returncode, done.stderr


@pytest.mark.parametrize("arguments", ["plan -f examples/cluster", "plan -f examples/cluster -o json", "policy show"])
def test_standard_output_on_a_full_disk(arguments: str) -> None:
    code, said = fairway(*arguments.split(), out="/dev/full")
    assert (code, said.count("\n")) == (2, 1), said
    assert "No space left on device" in said


def test_a_report_that_does_not_fit(tmp_path: Path) -> None:
    folder = str(tmp_path / "report")
    code, said = fairway("simulate", "examples/scenarios/starving.yaml", "--out", folder, most_bytes=1000)
    assert code == 2, said
    assert "File too large" in said
    assert "Traceback" not in said


def test_a_sandbox_that_does_not_fit(tmp_path: Path) -> None:
    code, said = fairway("sandbox", "--state", str(tmp_path / "s.db"), "--port", "0", most_bytes=20_000)
    assert code == 2, said
    assert str(tmp_path / "s.db") in said
    assert "Traceback" not in said


def test_a_locale_without_the_letters(tmp_path: Path) -> None:
    done = subprocess.run(
        [sys.executable, "-m", "fairway.cli.main", "plan", "-f", "examples/cluster"],
        cwd=ROOT,
        env={"PYTHONIOENCODING": "ascii"},
        capture_output=True,
        text=True,
        check=False,
    )
    assert done.returncode == 0, done.stderr
