"""A file that is damaged, or a disk that is full: a clear error, and what was written before is still there."""

import sqlite3
from pathlib import Path

import pytest

from fairway.app.sandbox.engine import Sandbox
from fairway.app.sandbox.store import Store
from fairway.cli.main import BAD_INPUT
from fairway.clock import SECOND
from fairway.errors import StoreError
from support.cli import invoke
from support.objects import NOW, node, pod
from support.sandboxes import after, made, phases, running_for
from support.web_pages import AskedPage

GIANT = 2**62
DAMAGE = {
    "settings: no time": "UPDATE settings SET value = 'x' WHERE name = 'now'",
    "settings: a giant time": f"UPDATE settings SET value = '{GIANT}' WHERE name = 'now'",
    "settings: a time of 5000 digits": f"UPDATE settings SET value = '{'9' * 5000}' WHERE name = 'now'",
    "settings: bytes": "UPDATE settings SET value = X'FF' WHERE name = 'now'",
    "settings: rounds": "UPDATE settings SET value = '[]' WHERE name = 'rounds'",
    "settings: cycles": "UPDATE settings SET value = '[\"x\"]' WHERE name = 'cycles'",
    "settings: policy": "UPDATE settings SET value = 'actions: 5' WHERE name = 'policy'",
    "settings: no policy": "DELETE FROM settings WHERE name = 'policy'",
    "settings: format": "UPDATE settings SET value = '7' WHERE name = 'format'",
    "settings: gone": "DROP TABLE settings",
    "objects: no JSON": "UPDATE objects SET body = X'00FF'",
    "objects: another shape": "UPDATE objects SET body = CAST('[]' AS BLOB)",
    "objects: a number": "UPDATE objects SET body = 5",
    "objects: text": "UPDATE objects SET body = 'text'",
    "objects: an unknown kind": "UPDATE objects SET kind = 'Odd'",
    "objects: gone": "DROP TABLE objects",
    "objects: other columns": "ALTER TABLE objects RENAME COLUMN body TO blob",
    "arrivals: no JSON": "UPDATE arrivals SET body = X'7B'",
    "arrivals: no time": "UPDATE arrivals SET at = 'soon'",
    "arrivals: a giant time": f"UPDATE arrivals SET at = {GIANT}",
    "arrivals: gone": "DROP TABLE arrivals",
    "happenings: no JSON": "UPDATE happenings SET body = X'FF'",
    "happenings: another shape": "UPDATE happenings SET body = CAST('{}' AS BLOB)",
    "happenings: gone": "DROP TABLE happenings",
    "outcomes: no JSON": "UPDATE outcomes SET body = X'FF'",
    "outcomes: a job without a namespace": "UPDATE outcomes SET body = CAST(REPLACE(body, '/', '') AS BLOB)",
    "outcomes: no UTF-8": """UPDATE outcomes SET body = X'7B226A6F62223A22FF22'""",
    "outcomes: gone": "DROP TABLE outcomes",
}


@pytest.fixture(scope="module")
def whole(tmp_path_factory: pytest.TempPathFactory) -> bytes:
    """The bytes of a sandbox that has something in every table."""
    path = tmp_path_factory.mktemp("whole") / "s.db"
    later = pod("later", cpu=1, annotations={"sim.fairway.dev/arrive": "1h"})
    sandbox = made(node("n", cpu=2), pod("p", cpu=1, annotations=running_for("5s")), pod("q", cpu=9), later, path=path)
    after(sandbox, 30).close()
    return path.read_bytes()


@pytest.mark.parametrize("statement", DAMAGE.values(), ids=DAMAGE)
def test_damage_is_named_and_begun_anew_with_fresh(statement: str, whole: bytes, tmp_path: Path) -> None:
    path = tmp_path / "s.db"
    path.write_bytes(whole)
    with sqlite3.connect(path) as connection:
        changed = connection.execute(statement)
        assert changed.rowcount != 0
    connection.close()
    result = invoke("sandbox", "--state", str(path), "--port", "0")
    assert result.code == BAD_INPUT, result.err
    assert str(path) in result.err
    assert "fault in Fairway" not in result.err
    if statement != "DROP TABLE settings":  # without it, the database belongs to another program
        store = Store(str(path), fresh=True)
        store.check()
        assert store.now is None
        store.close()


@pytest.mark.parametrize("cut", [0, 1, 50, 100, 2000, 4096, 5000, 9000])
def test_a_file_that_was_cut_off(cut: int, whole: bytes, tmp_path: Path) -> None:
    path = tmp_path / "s.db"
    path.write_bytes(whole[: len(whole) - cut] if cut else b"not a database at all, by far")
    try:
        sandbox = Sandbox(Store(str(path)))
    except StoreError as error:
        assert str(path) in str(error)  # noqa: PT017 - some cuts leave a file that is whole
    else:
        sandbox.close()


@pytest.mark.parametrize("at", range(0, 40_000, 1_700))
def test_bytes_that_were_overwritten(at: int, whole: bytes, tmp_path: Path) -> None:
    path = tmp_path / "s.db"
    path.write_bytes(whole[:at] + bytes(range(1, 200)) + whole[at + 199 :])
    try:
        sandbox = Sandbox(Store(str(path)))
        sandbox.advance(sandbox.now + 10 * SECOND)
        sandbox.frame()
        sandbox.close()
    except StoreError as error:
        assert str(path) in str(error)  # noqa: PT017


def full(store: Store) -> None:
    """From now on the disk has no more space."""
    ((pages,),) = store._run("PRAGMA page_count")
    store._run(f"PRAGMA max_page_count = {pages}")


def test_a_full_disk_ends_the_sandbox_and_keeps_what_was_written(tmp_path: Path) -> None:
    sandbox = made(node("n", cpu=2), pod("p", cpu=1, annotations=running_for("5s")), path=tmp_path / "s.db")
    after(sandbox, 10)
    full(sandbox._store)
    objects = [pod(f"new-{i}", cpu=1, annotations={"x": "y" * 5000}) for i in range(20)]
    with pytest.raises(StoreError, match="full"):
        sandbox.apply(objects)
    with pytest.raises(StoreError):
        sandbox.advance(NOW + 20 * SECOND)
    answer = AskedPage(sandbox).post("apply", {"objects": []})
    assert answer.status == 507
    sandbox.close()
    again = Sandbox(Store(str(tmp_path / "s.db")))
    assert again.now == NOW + 10 * SECOND
    assert phases(again) == {"p": "finished"}
    again.close()


@pytest.mark.parametrize("path", ["/dev/null/s.db", "/dev/null/deep/s.db", "/dev/full", "/proc/no/s.db"])
def test_a_place_where_no_file_can_be(path: str) -> None:
    result = invoke("sandbox", "--state", path, "--port", "0")
    assert result.code == BAD_INPUT
    assert path in result.err


def test_a_folder_is_no_file(tmp_path: Path) -> None:
    result = invoke("sandbox", "--state", str(tmp_path), "--port", "0")
    assert result.code == BAD_INPUT
    assert str(tmp_path) in result.err
