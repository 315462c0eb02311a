"""Rows of jobs that run are kept from picture to picture: they are what they would be if they were made again."""

from random import Random

import pytest

from fairway.app.view.picture import picture_of
from fairway.web.sources import sandbox_watch
from fairway.web.stream import delta
from support.objects import gang, node, pod, priority_class, queue
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
