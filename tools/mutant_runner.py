"""Run tests repeatedly in fresh processes that start quickly: modules that no mutant touches are imported once.

Reads a list of tests as JSON from each line of its input, forks, runs them in the child until one fails, and answers
with pytest's status (-1 if they took longer than allowed) and the test that failed. `tools.mutants` starts one in each
copy of the tree.
"""

from __future__ import annotations

import json
import os
import signal
import sys
import time

import hypothesis.strategies
import msgspec
import numpy
import pytest
import rich.console
import yaml
from hypothesis import Phase, settings

LIMIT = 120
"""Seconds for the tests of one mutant; a mutant that hangs counts as noticed."""

OPTIONS = (
    *("-x", "-q", "-p", "no:cacheprovider", "-p", "no:xdist", "-p", "no:cov"),
    *("-W", "ignore::pytest.PytestAssertRewriteWarning"),  # of what is imported already
)

NOT_TOUCHED = (hypothesis.strategies, msgspec, numpy, rich.console, yaml)
"""Modules imported before forking."""


class FirstFailure:
    """A plugin of pytest that remembers which test failed."""

    name = ""

    def pytest_runtest_logreport(self, report: pytest.TestReport) -> None:
        if report.failed and not self.name:
            self.name = report.nodeid


def run(tests: list[str]) -> tuple[int, str]:
    """Pytest's status, and the test that failed; -1 if they took too long."""
    answer, told = os.pipe()
    child = os.fork()
    if not child:
        _be_quiet()
        seen = FirstFailure()
        status = pytest.main([*OPTIONS, *tests], plugins=[seen])
        os.write(told, seen.name.encode())
        os._exit(status)
    os.close(told)
    try:
        return _status(child), os.read(answer, 10_000).decode()
    finally:
        os.close(answer)


def _be_quiet() -> None:
    os.setsid()
    null = os.open(os.devnull, os.O_RDWR)
    for stream in (0, 1, 2):
        os.dup2(null, stream)


def _status(child: int) -> int:
    for _ in range(20 * LIMIT):
        done, status = os.waitpid(child, os.WNOHANG)
        if done:
            return os.waitstatus_to_exitcode(status)
        time.sleep(0.05)
    os.killpg(child, signal.SIGKILL)
    os.waitpid(child, 0)
    return -1


def main() -> None:
    first_failure = (Phase.explicit, Phase.generate)  # not the smallest one
    settings.register_profile("mutants", derandomize=True, deadline=None, database=None, phases=first_failure)
    settings.load_profile("mutants")
    for line in sys.stdin:
        print(json.dumps(run(json.loads(line))), flush=True)


if __name__ == "__main__":
    main()
