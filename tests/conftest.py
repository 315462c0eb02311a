"""What holds for all tests: `support` is importable from every folder, and no property test looks at the clock.

The examples of property tests are the same in every run and on every machine: a test that turns red was broken by the
change at hand. `make fuzz` draws new ones from a seed, and prints how to repeat what failed. A failure is repeated by
the seed or the printed blob, so no database of examples is kept: it would make runs depend on earlier ones.

A shell starts what runs in the background with SIGINT ignored, and programs inherit that: tests that press Ctrl-C would
wait forever.
"""

import signal
from pathlib import Path
from typing import Any

import pytest
from hypothesis import HealthCheck, settings

pytest.register_assert_rewrite("support")

from support.effort import COUNT, FUZZ, LONG, SEED, examples  # noqa: E402  after its asserts are to be rewritten
from support.reports import write_page  # noqa: E402

common: dict[str, Any] = {
    "deadline": None,
    "database": None,
    "max_examples": examples(100),
    "suppress_health_check": [HealthCheck.too_slow],
}
settings.register_profile("fairway", derandomize=True, **common)
settings.register_profile("fuzz", derandomize=False, print_blob=True, **common)
settings.load_profile("fuzz" if FUZZ else "fairway")

if signal.getsignal(signal.SIGINT) is signal.SIG_IGN:
    signal.signal(signal.SIGINT, signal.default_int_handler)


def again(only: str = "") -> str:
    """The command that repeats this fuzz run, or one test of it."""
    effort = [f"EXAMPLES={COUNT}"] if COUNT else ["LONG=1"] if LONG else []
    return " ".join(["make fuzz", f"SEED={SEED}", *effort, *([f"ONLY='{only}'"] if only else [])])


def pytest_terminal_summary(terminalreporter: Any) -> None:
    """The commands that repeat each failure of a fuzz run, in the last lines."""
    if not FUZZ:
        return
    failed = sorted({report.nodeid for word in ("failed", "error") for report in terminalreporter.getreports(word)})
    if not failed:
        terminalreporter.write_line(f"no failure with seed {SEED}; repeat this run with: {again()}")
        return
    terminalreporter.section("how to repeat these failures")
    for nodeid in failed:
        terminalreporter.write_line(again(nodeid))
    terminalreporter.write_line(
        "or decorate the test with the @reproduce_failure printed above: it runs that one example only"
    )


@pytest.fixture
def built_page(tmp_path_factory: pytest.TempPathFactory, monkeypatch: pytest.MonkeyPatch) -> Path:
    """Reports are written as if the page was built, whether it is or not."""
    folder = write_page(tmp_path_factory.mktemp("built") / "page")
    monkeypatch.setattr("fairway.web.report_file.PAGE", folder)
    return folder
