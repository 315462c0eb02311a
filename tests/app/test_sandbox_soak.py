"""The demo runs for ever: every arrival happens exactly once, whatever the steps, and wherever it is killed.

An ordinary run takes half a day of simulated time; `FAIRWAY_LONG=1` takes 30 days with each step, and many kills.
"""

import os
import subprocess
import sys
import time
from collections import Counter
from pathlib import Path
from typing import Any

import msgspec
import pytest
from hypothesis import HealthCheck, given, settings
from hypothesis import strategies as st

from fairway.app.records import LaterJob, SandboxEvent, written
from fairway.app.sandbox import engine
from fairway.app.sandbox.engine import Sandbox, create
from fairway.app.sandbox.store import Store
from fairway.app.sandbox.world import ROUND, InitialWorld, demo_round, demo_scenario
from fairway.clock import SECOND, Micros
from support.effort import LONG, dice, examples
from support.engine import policy
from support.objects import NOW, node, pod
from support.sandboxes import check_lives, running_for
from support.soak import DAY, opened

TESTS = Path(__file__).parents[1]
DAYS = 30 if LONG else 0.5
MAX_FILE = 40_000_000
"""Bytes of the state file: it keeps the last 10,000 events and outcomes, and does not grow beyond them."""


def job_of_arrival(arrival: LaterJob) -> str:
    meta = msgspec.json.decode(arrival.objects[0])["metadata"]
    return f"{meta['namespace']}/{meta['name']}"


class EventRecord:
    """All events of a sandbox, read from its file bit by bit: the file keeps only the last ones."""

    def __init__(self) -> None:
        self.events: list[SandboxEvent] = []
        self.seen = 0

    def read(self, store: Store) -> None:
        found = store.happenings_after(self.seen, 1_000_000)
        if found:
            assert found[0][0] == self.seen + 1, "events are missing"
            self.seen = found[-1][0]
            self.events += [event for _, event in found]

    def check(self, end: Micros) -> None:
        """Each arrival of the demo up to this time happened once, at its time, and each job ended once."""
        rounds = range((end - demo_scenario().start) // ROUND + 1)
        expected = {job_of_arrival(one): one.at for number in rounds for one in demo_round(number) if one.at <= end}
        submitted = [event for event in self.events if event.kind == "submitted"]
        assert {event.job: event.at for event in submitted} == expected
        assert [job for job, times in Counter(event.job for event in submitted).items() if times > 1] == []
        finished = Counter(event.job for event in self.events if event.kind == "finished")
        assert [job for job, times in finished.items() if times > 1] == []
        assert [job for job, at in expected.items() if at < end - DAY and job not in finished] == []
        assert [event.text for event in self.events if event.kind == "refused"] == []
        check_lives(self.events)


def check_stored(path: Path, record: EventRecord) -> None:
    """What a finished soak leaves: all events, the arrivals to come and no others, and a file that has not grown."""
    sandbox = opened(str(path))
    end = sandbox.now
    record.read(sandbox._store)
    record.check(end)
    begun = range((end - demo_scenario().start) // ROUND + 1)
    later = sorted(one.number for number in begun for one in demo_round(number) if one.at > end)
    assert sorted(one.number for one in sandbox._store.arrivals()) == later
    assert sandbox.coming == len(later)
    sandbox.close()
    assert path.stat().st_size < MAX_FILE


def test_every_arrival_happens_once_while_the_sandbox_goes_on_and_on(tmp_path: Path) -> None:
    """Rounds begin and end inside of steps; now and then the sandbox is closed without a word, and resumed."""
    path, record, random = tmp_path / "demo.db", EventRecord(), dice("soak")
    sandbox, start = opened(str(path)), demo_scenario().start
    while sandbox.now < start + DAYS * DAY:
        due = sandbox.now + 600 * SECOND
        while not sandbox.advance(due):
            pass
        record.read(sandbox._store)
        if random.random() < 0.1:
            sandbox.discard()
            sandbox = opened(str(path))
    sandbox.close()
    check_stored(path, record)


@pytest.mark.skipif(not LONG, reason="takes minutes; FAIRWAY_LONG=1 runs it")
def test_steps_get_neither_slower_nor_larger(tmp_path: Path) -> None:
    """Thirty days in one process. The scheduler's log of changed jobs keeps 131,072 entries: 19 days here."""
    path = tmp_path / "demo.db"
    ended = subprocess.run(_driver(path, 600), env=_environment(), capture_output=True, text=True, check=True)
    lines = [tuple(map(float, line.split())) for line in ended.stdout.splitlines()]
    costs = [sum(cost for day, cost, _ in lines if first < day <= first + 5) for first in range(0, 30, 5)]
    assert costs[-1] < 1.5 * costs[1], costs
    assert max(memory for _, _, memory in lines) < 300_000
    assert path.stat().st_size < MAX_FILE


def _driver(path: Path, step: int) -> list[str]:
    return [sys.executable, "-m", "support.soak", str(path), str(step), str(DAYS)]


def _environment() -> dict[str, str]:
    return {**os.environ, "PYTHONPATH": os.pathsep.join([str(TESTS), os.environ.get("PYTHONPATH", "")])}


@pytest.mark.parametrize("step", [10, 60, 600])
def test_killed_at_any_moment_every_arrival_happens_once(step: int, tmp_path: Path) -> None:
    """`kill -9` on the real process, at random times; the next one goes on from the file."""
    if not LONG and step != 600:
        pytest.skip("takes minutes; FAIRWAY_LONG=1 runs it")
    path, record, random, kills = tmp_path / "demo.db", EventRecord(), dice("kills", step), 0
    while True:
        process = subprocess.Popen(_driver(path, step), env=_environment(), stdout=subprocess.PIPE, text=True)
        assert process.stdout is not None
        for _ in range(random.randint(3, 20 if LONG else 9)):
            process.stdout.readline()
        time.sleep(random.uniform(0, 0.2))
        ended = process.poll()
        process.kill()
        process.wait()
        process.stdout.close()
        if ended is not None:
            assert ended == 0
            break
        kills += 1
        store = Store(str(path))
        record.read(store)
        store.close()
    check_stored(path, record)
    assert kills >= (20 if LONG else 1)


# -- a kill at any statement ---------------------------------------------------------------------------------------


class Killed(BaseException):
    """Stands for the end of the process."""


class KilledStore(Store):
    """A store whose process ends before a statement of a given number."""

    left = -1

    def _count(self) -> None:
        self.left -= 1
        if self.left == 0:
            raise Killed

    def _run(self, statement: str, values: Any = ()) -> list[Any]:
        self._count()
        return super()._run(statement, values)

    def _run_many(self, statement: str, rows: Any) -> None:
        self._count()
        super()._run_many(statement, rows)


SHORT_ROUND = 60 * SECOND
rounds_of_jobs = st.lists(st.lists(st.integers(0, 200 * SECOND), max_size=6), min_size=8, max_size=8)


def small_round(offsets: list[list[int]], number: int) -> list[LaterJob]:
    """Jobs that come up to three rounds late, as a round with long random gaps has them."""
    return [
        LaterJob(
            NOW + number * SHORT_ROUND + offset,
            [written(pod(f"r{number}-{place}", cpu=1, annotations=running_for("20s")))],
            number * 1000 + place,
        )
        for place, offset in enumerate(sorted(offsets[number] if number < len(offsets) else []))
    ]


@settings(max_examples=examples(40), deadline=None, suppress_health_check=[HealthCheck.function_scoped_fixture])
@given(
    rounds_of_jobs,
    st.lists(st.tuples(st.integers(1, 240 * SECOND), st.integers(0, 40)), min_size=1, max_size=30),
)
def test_killed_between_any_two_statements_every_arrival_happens_once(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch, offsets: list[list[int]], steps: list[tuple[int, int]]
) -> None:
    monkeypatch.setattr(engine, "demo_round", lambda number: small_round(offsets, number))
    monkeypatch.setattr(engine, "round_begin", lambda number: NOW + number * SHORT_ROUND)
    path = tmp_path / "killed.db"
    for file in tmp_path.glob("killed.db*"):
        file.unlink()
    store = KilledStore(str(path))
    create(store, InitialWorld(NOW, [node("n", cpu=64)], small_round(offsets, 0), demo=True), policy())
    sandbox = Sandbox(store)
    for step, statements in steps:
        store.left = statements or -1  # 0: this step is not killed
        try:
            sandbox.advance(sandbox.now + step)
        except Killed:
            store.close()
            store = KilledStore(str(path))
            sandbox = Sandbox(store)
    store.left = -1
    sandbox.advance(sandbox.now + 1)
    end = sandbox.now
    came = Counter(event.job for event in sandbox.happenings(10_000) if event.kind == "submitted")
    due = [
        f"default/r{number}-{place}" for number in range(8) for place in range(6) if _due(offsets, number, place, end)
    ]
    assert came == Counter(due)
    store.close()


def _due(offsets: list[list[int]], number: int, place: int, end: Micros) -> bool:
    return any(one.number == number * 1000 + place and one.at <= end for one in small_round(offsets, number))


def test_arrivals_that_an_earlier_version_left_behind_do_not_happen_again(tmp_path: Path) -> None:
    """Files of earlier versions hold arrivals of the past, which have happened."""
    path = str(tmp_path / "old.db")
    store = Store(path)
    create(store, InitialWorld(NOW, [node("n")], [], demo=False), policy())
    Sandbox(store).advance(NOW + 100 * SECOND)
    store.add_arrivals([LaterJob(NOW + 50 * SECOND, [written(pod("again"))], 0)])
    store.close()
    sandbox = Sandbox(Store(path))
    sandbox.advance(NOW + 200 * SECOND)
    assert [event for event in sandbox.happenings(10) if event.kind == "submitted"] == []
    assert sandbox._store.arrivals() == []
    sandbox.close()
