"""A recorded run as a page: it is what the run was, and what is no recording is said to be none."""

import gzip

import pytest
from click.testing import CliRunner

from fairway.app.recordings import recording_to
from fairway.app.sandbox.engine import Sandbox
from fairway.cli.web import command
from fairway.errors import InputError
from fairway.web.recording import recorded
from fairway.web.sandbox_page import sandbox_watch
from support.engine import policy
from support.objects import gang, node, pod, queue
from support.sandboxes import after, made, running_for


@pytest.fixture(scope="module")
def run(tmp_path_factory):
    """The folder of a recording, and the watch of the run that was recorded."""
    folder = tmp_path_factory.mktemp("run") / "recorded"
    sandbox: Sandbox = made(node("n", cpu=4), queue("q"), with_policy=policy())
    watch = sandbox_watch(sandbox)
    with recording_to(folder, sandbox.policy) as recorder:
        recorder.applied([])
        sandbox._scheduler.listeners.append(recorder)
        for thing in sandbox.objects():
            from fairway.state.cluster import Upserted

            recorder.applied([Upserted(thing)])
        sandbox.apply(
            [*gang("g", members=2, cpu=2, queue="q", annotations=running_for("2m")), pod("w", cpu=3, queue="q")]
        )
        for minute in range(1, 6):
            after(sandbox, 60 * minute)
    picture = watch.catch_up()
    sandbox.close()
    return folder, picture


def test_the_page_of_a_recording_is_that_of_the_run(run):
    folder, live = run
    shown = recorded(folder)
    page = shown.watch.picture
    assert [(row.job, row.state) for row in page.jobs.rows] == [(row.job, row.state) for row in live.jobs.rows]
    assert page.queues.queues == live.queues.queues
    assert page.nodes.columns == live.nodes.columns
    assert shown.kind == "recording"
    assert shown.history is not None
    assert shown.history.kept().samples >= 2


def test_a_cycle_of_it(run):
    folder, _ = run
    first, _ = recorded(folder).cycles or (0, 0)
    page = recorded(folder, first).watch.picture
    assert [row.state for row in page.jobs.rows].count("finished") == 0
    with pytest.raises(InputError, match=r"there is no cycle 10000, its cycles are \d+ to \d+"):
        recorded(folder, 10_000)


def test_what_is_no_recording(run, tmp_path):
    with pytest.raises(InputError, match="cannot be read: No such file"):
        recorded(tmp_path / "none")
    with pytest.raises(InputError, match="is not a recording, expected a folder with"):
        recorded(tmp_path)
    broken = tmp_path / "broken"
    broken.mkdir()
    (broken / "policy.json").write_bytes((run[0] / "policy.json").read_bytes())
    (broken / "events.jsonl.gz").write_bytes(gzip.compress(b'{"upsert": "Pod"}\n'))
    with pytest.raises(InputError, match=r"events.jsonl.gz:1: not a line of a recording"):
        recorded(broken)
    (broken / "events.jsonl.gz").write_bytes(gzip.compress(b""))
    with pytest.raises(InputError, match="has no cycle"):
        recorded(broken)


@pytest.mark.parametrize("name", ["report.html", "diff.html"])
def test_a_report_is_a_page_already(tmp_path, name):
    page = tmp_path / name
    page.write_text("<!doctype html>")
    for given in (tmp_path, page):
        done = CliRunner().invoke(command, [str(given)])
        assert (done.exit_code, done.output) == (0, f"Report at {page.as_uri()}\n")
    with pytest.raises(InputError, match="--cycle requires a recording"):
        CliRunner().invoke(command, [str(tmp_path), "--cycle", "1"], catch_exceptions=False)
