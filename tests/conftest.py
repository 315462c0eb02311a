"""What holds for all tests: `support` is importable from every folder, and no property test looks at the clock.

The examples of property tests are the same in every run and on every machine: a test that turns red was broken by the
change at hand. `make fuzz` draws new ones from a seed, and prints how to repeat what failed. A failure is repeated by
the seed or the printed blob, so no database of examples is kept: it would make runs depend on earlier ones.

A shell starts what runs in the background with SIGINT ignored, and programs inherit that: tests that press Ctrl-C would
wait forever.
"""

import os
import signal
from pathlib import Path
from typing import Any

import pytest
from hypothesis import HealthCheck, is_hypothesis_test, settings

pytest.register_assert_rewrite("support")

# after their asserts are to be rewritten
from support.effort import COUNT, FUZZ, LONG, MINUTES, ROUND, SEED, examples  # noqa: E402
from support.reports import write_page  # noqa: E402
from support.rounds import SIZE, Budget, Rounds, Tally  # noqa: E402

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


UNLIMITED = 1_000_000_000
budget: Budget | None = None


def again(only: str = "", round_: int | None = None) -> str:
    """The command that repeats this fuzz run, or one test of it, or one round of that test."""
    effort = [f"EXAMPLES={COUNT}"] if COUNT else ["LONG=1"] if LONG else []
    if round_ is None:
        effort += [f"MINUTES={MINUTES:g}"] if MINUTES else []
    else:
        effort += [f"ROUND={round_}"]
    return " ".join(["make fuzz", f"SEED={SEED}", *effort, *([f"ONLY='{only}'"] if only else [])])


def pytest_collection_finish(session: pytest.Session) -> None:
    """A run with a time limit shares its time among the properties that it has."""
    global budget
    if MINUTES:
        count = sum(is_hypothesis_test(getattr(item, "obj", None)) for item in session.items)
        budget = Budget(60 * MINUTES, count, int(os.environ.get("PYTEST_XDIST_WORKER_COUNT", "1")))


@pytest.hookimpl(tryfirst=True)
def pytest_pyfunc_call(pyfuncitem: pytest.Function) -> bool | None:
    """A fuzz run takes a property in rounds."""
    test = pyfuncitem.obj
    if not FUZZ or not hasattr(test, "hypothesis"):
        return None
    arguments = {name: pyfuncitem.funcargs[name] for name in pyfuncitem._fixtureinfo.argnames}
    usual = test._hypothesis_internal_use_settings.max_examples
    tally = Tally()
    rounds = Rounds(test, f"{SEED} {pyfuncitem.name}", tally)
    try:
        if ROUND is not None:
            rounds.play_one(ROUND, SIZE, arguments)
        elif budget is None:
            rounds.play(arguments, COUNT or usual)
        else:
            rounds.play(arguments, COUNT or UNLIMITED, budget.next_deadline())
    finally:
        pyfuncitem.user_properties += [("rounds", tally.rounds), ("examples", tally.examples), ("cpu", tally.cpu)]
    return True


def pytest_terminal_summary(terminalreporter: Any) -> None:
    """How many examples of each property a fuzz run has taken, and in its last lines how to repeat what failed."""
    if not FUZZ:
        return
    reports = [report for word in ("passed", "failed", "error") for report in terminalreporter.getreports(word)]
    tallies = {report.nodeid: dict(report.user_properties) for report in reports if report.user_properties}
    if COUNT or MINUTES:
        terminalreporter.section("examples of each property, and CPU milliseconds of one")
        for nodeid, tally in sorted(tallies.items()):
            each = 1000 * tally["cpu"] / max(tally["examples"], 1)
            terminalreporter.write_line(f"{tally['examples']:>9,} {each:>9.1f} ms  {nodeid}")
    failed = sorted({report.nodeid for word in ("failed", "error") for report in terminalreporter.getreports(word)})
    if not failed:
        terminalreporter.write_line(f"no failure with seed {SEED}; repeat this run with: {again()}")
        return
    terminalreporter.section("how to repeat these failures")
    for nodeid in failed:
        rounds = tallies.get(nodeid, {}).get("rounds", 0)
        terminalreporter.write_line(again(nodeid, rounds - 1 if rounds > 1 else None))
    terminalreporter.write_line(
        "or decorate the test with the @reproduce_failure printed above: it runs that one example only"
    )


@pytest.fixture
def built_page(tmp_path_factory: pytest.TempPathFactory, monkeypatch: pytest.MonkeyPatch) -> Path:
    """Reports are written as if the page was built, whether it is or not."""
    folder = write_page(tmp_path_factory.mktemp("built") / "page")
    monkeypatch.setattr("fairway.web.report_file.PAGE", folder)
    return folder
