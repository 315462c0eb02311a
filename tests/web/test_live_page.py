"""The page of a live scheduler: what the feed writes is what the page shows, and the feed never waits."""

import socket
import stat
import time
from contextlib import contextmanager
from pathlib import Path

import pytest

from fairway.api.policy import default_policy
from fairway.app.live import viewer_feed
from fairway.app.live.observing import RunMetrics
from fairway.app.live.viewer_feed import FeedHead, ViewerFeed, program_facts
from fairway.app.logs import RunLog
from fairway.app.view.behind import CALM
from fairway.app.view.scheduler_page import NO_FACTS
from fairway.errors import InputError
from fairway.scheduler.plugins.installed import default_registry
from fairway.state.cluster import Upserted
from fairway.web.answers.views import session
from fairway.web.asking import Asked, Viewer
from fairway.web.live_page import LivePage, LivePageSettings
from fairway.web.live_process import split_address
from fairway.web.sandbox_page import sandbox_watch
from support.browsing import eventually
from support.objects import gang, node, pod, queue
from support.sandboxes import after, made


class FedBy:
    """A feed without a loop's thread: what would be handed over to it is called at once."""

    def __init__(self, folder, objects=list, **more):
        self.path = str(folder / "feed.sock")
        self.lost: list[str] = []
        head = FeedHead("https://cluster", ("fairway",))
        more = {"facts": lambda: NO_FACTS, **more}
        self.feed = ViewerFeed(self.path, head, objects, hand_over=lambda call: call(), lost=self.lost.append, **more)

    def __enter__(self):
        self.feed.start(default_policy(default_registry().catalog))
        return self

    def __exit__(self, *error):
        self.feed.stop()

    def connect(self):
        page = socket.socket(socket.AF_UNIX, socket.SOCK_STREAM)
        page.settimeout(20)
        page.connect(self.path)
        return page

    def lines(self, page, until):
        """What it is told, up to a line with this in it."""
        found = []
        with page.makefile("rb") as lines:
            for line in lines:
                found.append(line)
                if until in line:
                    return found
        raise AssertionError(found[-3:])


@contextmanager
def shown_by(lines):
    """A page that was told these lines."""
    page = LivePage(LivePageSettings("127.0.0.1", 0, token="t" * 30), FeedHead("test", ("fairway",)))
    try:
        for line in lines:
            page.take(line)
        yield page
    finally:
        page.server._socket.close()


def there_now(page):
    return {row.job for row in page.watch.catch_up().jobs.rows if row.state != "finished"}


def test_the_page_shows_what_the_scheduler_was_told_and_did(tmp_path):
    sandbox = made(node("n", cpu=4), queue("q"))
    metrics, log = RunMetrics(), RunLog(write=lambda line: None)
    log.warning("reading failed", error="no route")
    metrics.requests.add("POST", "201", number=3)
    metrics.requests.add("POST", "409")
    metrics.request_seconds.observe(0.02)
    watch = sandbox_watch(sandbox)
    facts = {"facts": lambda: program_facts(metrics, log, True, 7, None), "clock": lambda: sandbox.now}
    with FedBy(tmp_path, lambda: list(sandbox.objects()), **facts) as fed, fed.connect() as client:
        fed.feed.use(sandbox.policy)
        eventually(lambda: fed.feed._queue is not None, "it is fed")
        sandbox._scheduler.listeners.append(fed.feed)
        sandbox.apply(
            [*gang("g", members=2, cpu=2, queue="q"), pod("w", cpu=3, queue="q", annotations={"note": "free text"})]
        )
        after(sandbox, 60)
        fed.feed.applied([Upserted(node("last"))])
        lines = fed.lines(client, b'"last"')
        lines += fed.lines(client, b'"at"')
    with shown_by(lines) as page:
        shown, expected = page.watch.catch_up(), watch.catch_up()
        assert [(row.job, row.state, row.reason) for row in shown.jobs.rows] == [
            (row.job, row.state, row.reason) for row in expected.jobs.rows
        ]
        facts_now = page.shown.facts()
        assert (facts_now.leads, facts_now.unanswered, facts_now.api.requests, facts_now.api.failed) == (True, 7, 4, 1)
        assert [problem.text for problem in facts_now.problems] == ["reading failed: no route"]
        assert b"free text" not in b"".join(lines)
    sandbox.close()


def test_the_page_says_that_it_is_behind(tmp_path):
    facts = {"facts": lambda: program_facts(RunMetrics(), RunLog(write=lambda line: None), True, 0, None, 40.0)}
    with FedBy(tmp_path, lambda: [pod("a")], **facts) as fed, fed.connect() as client:
        lines = fed.lines(client, b'"facts"')
    asked = Asked(Viewer("you"), {}, {}, None)

    def behind(page):
        return session(page.shown, asked).behind

    with shown_by(lines) as page:
        page.watch.catch_up()
        assert behind(page) == "no cycle finished for 40 s"
        page._heard -= 41
        assert behind(page) == "nothing received from the scheduler for 41 s"
        page.take(b'{"facts": {}}')
        page.take(b'{"cycle": {"number": 1, "now": 1767225600000000, "nanoseconds": 12000000000}}')
        assert behind(page) == "the last cycle took 12.0 s"
        page._cycle_at -= 3600
        page.watch._waits_since -= 9
        assert behind(page) == "the view is 9 s old"
        page.watch.catch_up()
        assert behind(page) is not None, "until all has been well for a while"
        page.shown.notice._well_since -= CALM
        assert behind(page) is None


def test_a_page_that_connects_later_or_again_is_told_everything(tmp_path):
    there = [node("n", cpu=4), pod("a"), pod("b")]
    with FedBy(tmp_path, lambda: list(there)) as fed:
        with fed.connect() as first:
            lines = fed.lines(first, b'"whole"')
            fed.feed.applied([Upserted(pod("late"))])
            lines += fed.lines(first, b'"late"')
        assert b'"begin"' in lines[0]
        there[1:] = [pod("b"), pod("c")]
        eventually(lambda: fed.lost == ["it is gone"], "the feed notices that it is gone")
        with fed.connect() as second:
            again = fed.lines(second, b'"whole"')
    with shown_by([*lines, *again]) as page:  # as one page that lost its scheduler for a while
        assert there_now(page) == {"default/b", "default/c"}
    with shown_by(again) as page:
        assert there_now(page) == {"default/b", "default/c"}


def test_a_beginning_that_broke_off_is_forgotten(tmp_path):
    with FedBy(tmp_path, lambda: [pod("a"), pod("b")]) as fed, fed.connect() as client:
        lines = fed.lines(client, b'"whole"')
    part = [line for line in lines if b'"a"' not in line]
    with shown_by([*lines[:4], *part]) as page:  # cut off after the first pod, then told again without it
        assert there_now(page) == {"default/b"}


def test_a_page_that_does_not_read_is_dropped_and_the_scheduler_never_waits(tmp_path, monkeypatch):
    monkeypatch.setattr(viewer_feed, "MAX_BATCHES", 20)
    monkeypatch.setattr(viewer_feed, "STALLED", 0.5)
    large = [Upserted(pod("p", annotations={"fairway.dev/x": "y" * 200_000}))]
    with FedBy(tmp_path) as fed, fed.connect():
        eventually(lambda: fed.feed._queue is not None, "it is fed")
        slowest = 0.0
        for _ in range(500):
            begin = time.perf_counter()
            fed.feed.applied(large)
            slowest = max(slowest, time.perf_counter() - begin)
        assert slowest < 0.5
        eventually(lambda: fed.lost == ["it does not read"], "it is dropped")
        eventually(lambda: fed.feed._queue is None, "nothing is kept for it")


def test_without_a_page_nothing_is_kept(tmp_path):
    with FedBy(tmp_path) as fed:
        for _ in range(100):
            fed.feed.applied([Upserted(pod("p"))])
        assert fed.feed._queue is None


def test_only_its_own_user_can_reach_the_socket(tmp_path):
    with FedBy(tmp_path) as fed:
        assert stat.S_IMODE(Path(fed.path).stat().st_mode) == 0o600
        with pytest.raises(InputError, match="another scheduler is listening on it"):
            viewer_feed.listen(fed.path)
    assert not Path(fed.path).exists()


def test_where_no_socket_can_be(tmp_path):
    (tmp_path / "file").write_text("notes")
    with pytest.raises(InputError, match="is a file"):
        viewer_feed.listen(str(tmp_path / "file"))
    for path in (tmp_path / "none" / "x", tmp_path / ("x" * 200)):
        with pytest.raises(InputError, match="feedSocket"):
            viewer_feed.listen(str(path))
    viewer_feed.listen(str(tmp_path / "left")).close()  # a scheduler that was killed leaves its socket
    viewer_feed.listen(str(tmp_path / "left")).close()


@pytest.mark.parametrize("address", ["", "7333x", "host", "host:0", "host:99999", "a:b"])
def test_what_is_no_address(address):
    with pytest.raises(InputError, match="expected host:port"):
        split_address(address)


def test_addresses():
    assert split_address("127.0.0.1:7333") == ("127.0.0.1", 7333)
    assert split_address(":8443") == ("0.0.0.0", 8443)
    assert split_address("[::1]:8443") == ("::1", 8443)
