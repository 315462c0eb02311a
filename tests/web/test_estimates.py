"""Estimated starts in the table of jobs: they come though nothing else happens, and are worked out once for that."""

import pytest

from fairway.app.view import watch as watching
from fairway.app.view.estimates import EstimatedStarts
from fairway.app.view.picture import Picture
from fairway.web.sandbox_page import sandbox_watch
from support.browsing import eventually
from support.objects import node, pod, queue
from support.sandboxes import after, made, running_for

KNOWN = {**running_for("10m"), "fairway.dev/expected-runtime": "10m"}


def test_a_quiet_cluster_shows_them_once(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(watching, "ESTIMATE", 0.05)
    things = [pod(name, cpu=3, queue="q", annotations=KNOWN) for name in ("first", "second")]
    sandbox = after(made(node("n", cpu=4), queue("q"), things), 5)
    watch = sandbox_watch(sandbox)
    worked_out: list[Picture] = []
    estimated = watch._estimated

    def counted(picture: Picture) -> EstimatedStarts | None:
        worked_out.append(picture)
        return estimated(picture)

    monkeypatch.setattr(watch, "_estimated", counted)
    watch.start()
    try:
        row = eventually(lambda: [row for row in watch.picture.jobs.rows if row.estimated_start], "an estimate", 20)[0]
        assert row.job == "default/second"
        revision = watch.picture.revision
        assert not watch.wait(revision, 0.6)
        assert len(worked_out) == 1
    finally:
        watch.stop()
        sandbox.close()
