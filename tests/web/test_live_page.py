"""The page of a live scheduler: what the feed writes is what the page shows, and the feed never waits."""

import io
import os
import threading

import pytest

from fairway.app.live import viewer_feed
from fairway.app.live.logs import RunLog
from fairway.app.live.metrics import RunMetrics
from fairway.app.live.viewer_facts import program_facts
from fairway.app.live.viewer_feed import ViewerFeed
from fairway.app.view.scheduler_page import NO_FACTS
from fairway.errors import InputError
from fairway.state.cluster import Upserted
from fairway.web.live_page import LivePage, LivePageSettings
from fairway.web.live_process import split_address
from fairway.web.sources import sandbox_watch
from support.objects import gang, node, pod, queue
from support.sandboxes import after, made


class Kept(io.BytesIO):
    """A pipe whose lines can be read after it was closed."""

    def close(self):
        self.lines = self.getvalue().splitlines()
        super().close()


def test_the_page_shows_what_the_scheduler_was_told_and_did():
    sandbox = made(node("n", cpu=4), queue("q"))
    pipe = Kept()
    metrics, log = RunMetrics(), RunLog(write=lambda line: None)
    log.warning("reading failed", error="no route")
    metrics.requests.add("POST", "201", number=3)
    metrics.requests.add("POST", "409")
    metrics.request_seconds.observe(0.02)
    feed = ViewerFeed(pipe, lambda: program_facts(metrics, log, True, 7, None), lambda: sandbox.now)
    watch = sandbox_watch(sandbox)
    feed.start(sandbox.policy)
    feed.applied([Upserted(thing) for thing in sandbox.objects()])
    sandbox._scheduler.listeners.append(feed)
    sandbox.apply(
        [*gang("g", members=2, cpu=2, queue="q"), pod("w", cpu=3, queue="q", annotations={"note": "free text"})]
    )
    after(sandbox, 60)
    feed.stop()
    assert not feed.ended
    page = LivePage(LivePageSettings("127.0.0.1", 0, "test", token="t" * 30, scheduler_names=["fairway"]))
    try:
        for line in pipe.lines:
            page.take(line)
        shown, expected = page.watch.catch_up(), watch.catch_up()
        assert [(row.job, row.state, row.reason) for row in shown.jobs.rows] == [
            (row.job, row.state, row.reason) for row in expected.jobs.rows
        ]
        assert shown.nodes.columns == expected.nodes.columns
        facts = page.shown.facts()
        assert (facts.leads, facts.unanswered, facts.api.requests, facts.api.failed) == (True, 7, 4, 1)
        assert [problem.text for problem in facts.problems] == ["reading failed: no route"]
        assert b"free text" not in b"".join(pipe.lines)
    finally:
        page.server._socket.close()
        sandbox.close()


def test_a_page_that_does_not_read_is_left_and_scheduling_goes_on(monkeypatch):
    monkeypatch.setattr(viewer_feed, "MOST_LINES", 3)
    reading, writing = os.pipe()
    with os.fdopen(reading, "rb"), os.fdopen(writing, "wb", buffering=0) as pipe:
        feed = ViewerFeed(pipe, lambda: NO_FACTS)
        feed._thread.start()
        large = [Upserted(pod("p", annotations={"fairway.dev/x": "y" * 200_000}))]
        for _ in range(50):
            feed.applied(large)
        assert feed.ended
        assert threading.current_thread() is threading.main_thread()


def test_a_page_that_ends_is_left():
    reading, writing = os.pipe()
    os.close(reading)
    feed = ViewerFeed(os.fdopen(writing, "wb", buffering=0), lambda: NO_FACTS)
    feed._thread.start()
    feed.applied([Upserted(pod("p"))])
    feed._thread.join(10)
    assert feed.ended


@pytest.mark.parametrize("address", ["", "7333x", "host", "host:0", "host:99999", "a:b"])
def test_what_is_no_address(address):
    with pytest.raises(InputError, match="expected host:port"):
        split_address(address)


def test_addresses():
    assert split_address("127.0.0.1:7333") == ("127.0.0.1", 7333)
    assert split_address(":8443") == ("0.0.0.0", 8443)
    assert split_address("[::1]:8443") == ("::1", 8443)
