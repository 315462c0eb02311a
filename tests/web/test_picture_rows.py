"""Rows of jobs that run are kept from picture to picture: they are what they would be if they were made again."""

from contextlib import closing
from random import Random

import pytest

from fairway.app.view.history_ring import HistoryRing
from fairway.app.view.job_table import JobQuery
from fairway.app.view.mirror import Mirror
from fairway.app.view.picture import picture_of
from fairway.clock import SECOND
from fairway.state.cluster import Deleted, Upserted
from fairway.web.sandbox_page import sandbox_watch
from fairway.web.stream import delta
from support.engine import policy
from support.objects import NOW, at, gang, node, pod, priority_class, queue
from support.sandboxes import after, made, running_for


@pytest.mark.parametrize("seed", range(4))
def test_kept_rows_are_those_that_would_be_made(seed):
    random = Random(seed)
    nodes = [node(f"n{number}", cpu=4) for number in range(3)]
    sandbox = made(nodes, queue("q"), queue("r"), priority_class("high", 5))
    watch = sandbox_watch(sandbox)
    last = watch.catch_up()
    for step in range(12):
        name, lasting = f"j{step}", running_for(f"{random.randint(5, 60)}s")
        chosen = random.choice(["q", "r"])
        match random.randrange(5):
            case 0:
                sandbox.apply(gang(name, members=2, cpu=1, queue=chosen, annotations=lasting))
            case 1 if last.jobs.rows:
                row = random.choice(last.jobs.rows)
                if row.state != "finished":
                    namespace, _, job = row.job.partition("/")
                    sandbox.delete([("Job", namespace, job)])
            case 2:
                sandbox.apply([priority_class("high", random.randint(1, 90))])
            case _:
                sandbox.apply(
                    [pod(name, cpu=random.randint(1, 3), queue=chosen, annotations=lasting, labels={"a": name})]
                )
        after(sandbox, 10 * (step + 1))
        newest = watch.catch_up()
        with watch.mirror() as mirror:
            mirror.rows.clear()
            anew = picture_of(mirror)
        assert newest.jobs.rows == anew.jobs.rows
        assert newest.jobs._labels == anew.jobs._labels
        changed = {row.job for row in delta(last, newest).jobs}
        before = last.jobs.by_name
        assert changed == {row.job for row in anew.jobs.rows if before.get(row.job) != row}
        last = newest
    sandbox.close()


def test_no_time_of_creation_is_invented():
    mirror = Mirror(policy(), NOW)
    waits, runs = pod("waits", cpu=8), pod("runs", cpu=1, node="n")
    mirror.apply([Upserted(one) for one in (node("n", cpu=4), waits, runs, pod("known", cpu=8, created=0))], NOW)
    rows = {row.job: row.created for row in picture_of(mirror).jobs.rows}
    assert rows == {"default/waits": None, "default/runs": None, "default/known": at(0)}
    mirror.apply([Deleted(waits), Deleted(runs)], NOW + 5 * SECOND)
    shown = picture_of(mirror)
    assert [row.created for row in shown.jobs.rows if row.state == "finished"] == [None, None]
    assert shown.jobs.page(JobQuery(sort="created")).rows[0].job == "default/known", "unknown comes last"
    with closing(HistoryRing()) as ring:
        ring.take(mirror, shown)
        assert ring._database.execute("SELECT count(*) FROM waits").fetchone() == (0,), "and no wait is invented"
