"""A sandbox goes on from its file: nothing lost, nothing done twice, whenever it was stopped."""

import sqlite3
from pathlib import Path

import pytest
from hypothesis import HealthCheck, given, settings
from hypothesis import strategies as st

from fairway.api.policy import parse_policy
from fairway.api.scheduling import Reservation
from fairway.app.sandbox.engine import Sandbox, create
from fairway.app.sandbox.store import Store
from fairway.app.sandbox.world import ROUND, demo_world
from fairway.clock import SECOND
from fairway.errors import InputError
from fairway.scheduler.plugins.installed import default_registry
from support.effort import examples
from support.engine import flat, policy
from support.objects import NOW, gang, node, pod, queue
from support.sandboxes import after, check_lives, made, phases, reopened, running_for, story

BUSY = """
actions: [enqueue, {name: reserve, arguments: {starvingJobTimeThreshold: 60}}, allocate, preempt, reclaim, backfill]
"""


def busy_policy() -> object:
    return parse_policy(BUSY, "test", default_registry().catalog)


def test_every_stage_of_a_life_survives(tmp_path: Path) -> None:
    sandbox = made(
        node("n", cpu=4),
        pod("runs", cpu=2, annotations=running_for("1m")),
        pod("later", cpu=1, annotations={"sim.fairway.dev/arrive": "90s"}),
        pod("waits", cpu=4, annotations=running_for("30s")),
        path=tmp_path / "s.db",
    )
    for second in (0, 1, 2, 3, 40, 61, 62, 63, 80, 91, 93, 95, 120):
        sandbox = reopened(after(sandbox, second))
    assert story(sandbox, "placed", "finished") == [
        (0, "placed", "runs"),
        (62, "finished", "runs"),
        (62, "placed", "waits"),
        (94, "finished", "waits"),
        (94, "placed", "later"),
    ]
    assert phases(sandbox) == {"runs": "finished", "waits": "finished", "later": "running"}


def test_a_leaving_pod_and_its_successor_survive(tmp_path: Path) -> None:
    borrowed = [pod(f"r{i}", queue="r", cpu=1) for i in range(4)]
    reclaim = policy(actions="enqueue, allocate, reclaim")
    sandbox = made(node("n", cpu=4), queue("q"), queue("r"), borrowed, path=tmp_path / "s.db", with_policy=reclaim)
    after(sandbox, 1)
    sandbox.apply([pod("q0", queue="q", cpu=1)])
    sandbox = after(reopened(after(sandbox, 2)), 5)
    assert phases(sandbox)["q0"] == "WaitingForRelease"
    assert len(story(sandbox, "evicted")) == 1
    sandbox = reopened(after(sandbox, 12))
    assert phases(sandbox)["q0"] == "running"
    assert story(sandbox, "evicted") == [(1, "evicted", "")]


def test_reservations_survive_and_end(tmp_path: Path) -> None:
    small = [pod(f"s{i}", cpu=1, created=0, annotations=running_for(f"{100 + 40 * i}s")) for i in range(2)]
    sandbox = made(node("n", cpu=2), small, pod("big", cpu=2), path=tmp_path / "s.db", with_policy=busy_policy())
    sandbox = reopened(after(sandbox, 70))
    assert [held.job for held in sandbox.frame().reservations] == ["default/big"]
    assert story(sandbox, "reserved") == [(60.000001, "reserved", "big")]
    sandbox.apply([pod("rival", cpu=1)])
    sandbox = reopened(after(sandbox, 120))
    assert phases(sandbox)["rival"] == "NodeResourceReserved"
    sandbox = reopened(after(sandbox, 150))
    assert phases(sandbox)["big"] == "running"
    assert [held.job for held in sandbox.frame().reservations] == ["default/rival"]  # it starves by now, too
    assert [job for _, _, job in story(sandbox, "reserved")] == ["big", "rival"]


def test_a_reservation_that_ends_with_the_restart_is_deleted(tmp_path: Path) -> None:
    """The new policy reserves nothing: what the old one wrote must not stay there."""
    busy = pod("busy", cpu=2, created=0)
    sandbox = after(
        made(node("n", cpu=2), busy, pod("big", cpu=2), path=tmp_path / "s.db", with_policy=busy_policy()), 70
    )
    assert [thing.metadata.name for thing in sandbox.objects() if isinstance(thing, Reservation)] == ["pod-big"]
    sandbox.discard()
    sandbox = after(Sandbox(Store(sandbox.path), policy()), 71)
    assert not [thing for thing in sandbox.objects() if isinstance(thing, Reservation)]
    assert Sandbox(_closed(sandbox)).policy == policy()


def _closed(sandbox: Sandbox) -> Store:
    sandbox.close()
    return Store(sandbox.path)


Job = tuple[int, int, int, int]


@settings(max_examples=examples(15), deadline=None, suppress_health_check=[HealthCheck.function_scoped_fixture])
@given(
    st.lists(st.tuples(st.integers(1, 3), st.integers(1, 3), st.integers(1, 200), st.integers(0, 150)), max_size=12),
    st.sets(st.integers(1, 60), max_size=12),
)
def test_stopped_or_not_the_same_things_happen(tmp_path: Path, jobs: list[Job], stops: set[int]) -> None:
    """One that is killed now and then, and one that is not, tell the same story."""
    objects = [node("n", cpu=4), node("m", cpu=4), queue("q"), queue("r", 2)]
    for number, (members, cpu, run, arrive) in enumerate(jobs):
        notes = {"sim.fairway.dev/run": f"{run}s", "sim.fairway.dev/arrive": f"{arrive}s"}
        queue_name = "qr"[number % 2]
        objects += flat([gang(f"g{number}", members=members, queue=queue_name, cpu=cpu, annotations=notes)])
    path = tmp_path / "stopped.db"
    path.unlink(missing_ok=True)
    calm = made(objects, with_policy=busy_policy())
    stopped = made(objects, path=path, with_policy=busy_policy())
    for step in range(1, 61):
        calm.advance(NOW + step * 20 * SECOND)
        stopped.advance(NOW + step * 20 * SECOND)
        if step in stops:
            stopped = reopened(stopped)
    after(stopped, 1200)
    assert told(stopped) == told(calm)
    assert sorted(map(repr, stopped.outcomes(10_000))) == sorted(map(repr, calm.outcomes(10_000)))
    assert sorted(map(repr, stopped.objects())) == sorted(map(repr, calm.objects()))
    check_lives(stopped.happenings(10_000))
    stopped.close()


def told(sandbox: Sandbox) -> list[tuple[object, ...]]:
    """What happened; of several runs that end at one instant it is not told which ended first."""
    return sorted((one.at, one.kind, one.job, one.text) for one in sandbox.happenings(10_000))


def test_the_demo_goes_on_for_ever_under_new_names(tmp_path: Path) -> None:
    store, world = Store(str(tmp_path / "demo.db")), demo_world()
    create(store, world, policy())
    sandbox = Sandbox(store)
    first = sandbox.frame().coming
    sandbox.advance(world.start + ROUND // 2)
    sandbox = reopened(sandbox)
    sandbox.advance(world.start + ROUND + 1200 * SECOND)
    frame = sandbox.frame()
    assert any(job.job.startswith("vision/r2-sweep") for job in frame.running)
    assert 0 < frame.coming < first
    check_lives(sandbox.happenings(10_000))
    sandbox.close()


def test_a_file_belongs_to_one_sandbox(tmp_path: Path) -> None:
    sandbox = made(node("n"), path=tmp_path / "s.db")
    with pytest.raises(InputError, match="another sandbox is running on it"):
        Store(str(tmp_path / "s.db"))
    sandbox.close()
    Store(str(tmp_path / "s.db")).close()


def test_files_of_others_are_left_alone(tmp_path: Path) -> None:
    text = tmp_path / "notes.txt"
    text.write_text("not a database, but long enough to be taken for one" * 50)
    with pytest.raises(InputError, match="not the state of a sandbox"):
        Store(str(text))
    assert text.read_text().startswith("not a database")
    other = tmp_path / "other.db"
    connection = sqlite3.connect(other)
    connection.execute("CREATE TABLE mine (a)")
    connection.commit()
    connection.close()
    with pytest.raises(InputError, match="the database belongs to another program"):
        Store(str(other))
    with pytest.raises(InputError, match="contains no sandbox yet"):
        Sandbox(Store(str(tmp_path / "new.db")))


def test_a_newer_format_is_refused(tmp_path: Path) -> None:
    made(node("n"), path=tmp_path / "s.db").close()
    connection = sqlite3.connect(tmp_path / "s.db")
    connection.execute("UPDATE settings SET value = '99' WHERE name = 'format'")
    connection.commit()
    connection.close()
    with pytest.raises(InputError, match="has format 99, expected 1; start again with --fresh"):
        Store(str(tmp_path / "s.db"))


def test_what_is_written_half_is_not_written(tmp_path: Path) -> None:
    store = Store(str(tmp_path / "s.db"))

    def write_half() -> None:
        with store.transaction():
            store.set("now", "5")
            raise ZeroDivisionError

    with pytest.raises(ZeroDivisionError):
        write_half()
    assert store.now is None
    store.close()
