"""`.ci/run` ends with the names of all tests that needed a second attempt, whether it passes or not."""

import subprocess
from pathlib import Path

import pytest

SCRIPT = Path(__file__).parents[2] / ".ci" / "run"
HEADING = "Tests that needed a second attempt:"
FLAKY = """
FAILED tests/web/test_a.py::test_one - AssertionError: late
FAILED tests/web/test_a.py::test_two[x - y] - assert [1] == [2]
ERROR tests/web/test_b.py::test_three - OSError: [Errno 98]
3 failed, 5 passed in 9.99s
"""


def run(folder: Path, make: str) -> tuple[int, str]:
    """Run the script with a `make` of ours; each target notes that it ran."""
    for name, text in {"make": make, "chromium": ""}.items():
        (folder / name).write_text(f"#!/bin/sh\n{text}\n")
        (folder / name).chmod(0o755)
    environment = {"PATH": f"{folder}:/usr/bin:/bin", "NOTES": str(folder), "FLAKY": FLAKY}
    ended = subprocess.run([SCRIPT], env=environment, capture_output=True, text=True, timeout=60, check=False)
    return ended.returncode, ended.stdout


def last_lines(output: str) -> list[str]:
    return output.rpartition(HEADING)[2].strip("\n").split("\n")


def test_without_a_second_attempt_it_says_so(tmp_path: Path) -> None:
    status, output = run(tmp_path, 'echo "$1" ran')
    assert (status, last_lines(output)) == (0, ["  none"])


@pytest.mark.parametrize("second", [0, 1])
def test_every_test_that_failed_first_is_named_at_the_end(second: int, tmp_path: Path) -> None:
    """Also where the second attempt passes, and the run with it."""
    make = f"""
        [ "$1" = web-test ] || exit 0
        [ -n "$2" ] && exit {second}
        echo "$FLAKY"; exit 1"""
    status, output = run(tmp_path, make)
    assert status == second
    assert last_lines(output) == [
        "  tests/web/test_a.py::test_one",
        "  tests/web/test_a.py::test_two[x - y]",
        "  tests/web/test_b.py::test_three",
    ]


def test_a_target_that_fails_without_a_test_is_named_itself(tmp_path: Path) -> None:
    status, output = run(tmp_path, '[ "$1$2" = kube-test ] || exit 0; echo no space left; exit 2')
    assert status == 0
    assert last_lines(output)[0].startswith("  make kube-test (no test was named")


def test_tests_that_fail_without_a_server_get_no_second_attempt(tmp_path: Path) -> None:
    """Their examples are the same in every run: a failure is real."""
    status, output = run(tmp_path, 'echo "$1" >> "$NOTES/ran"; [ "$1" != test ]')
    assert status == 1
    assert (tmp_path / "ran").read_text().split() == ["check", "test"]
    assert last_lines(output) == ["  none"]
