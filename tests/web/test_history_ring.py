"""The ring: bounded, and what it keeps is what was."""

from fairway.app.view.history_ring import HistoryRing, evenly
from fairway.web.sandbox_page import sandbox_watch
from support.objects import node, pod, queue
from support.sandboxes import after, made, running_for


def filled(ring: HistoryRing, steps: int) -> HistoryRing:
    sandbox = made(node("n", cpu=4), queue("q"), pod("p", cpu=1, queue="q", annotations=running_for("10h")))
    watch = sandbox_watch(sandbox)
    watch.drawn = ring.take
    for step in range(1, steps + 1):
        sandbox.apply([pod(f"more-{step}", cpu=9, queue="q")] if step < 3 else [])
        sandbox.advance(sandbox.now + 11_000_000)
        watch.begin([])
        watch.catch_up()
    sandbox.close()
    return ring


def test_the_oldest_go_when_it_is_full(tmp_path, monkeypatch):
    import fairway.app.view.history_ring as module

    monkeypatch.setattr(module, "CHECKED_EVERY", 5)
    ring = filled(HistoryRing(tmp_path / "h.db", most_bytes=32 << 10), 150)
    kept = ring.kept()
    assert kept.bytes <= (32 << 10) + (16 << 10)
    assert 10 < kept.samples < 150
    (_, last) = ring.samples(None, None, 2)[-1]
    assert (last.running, last.waiting) == (1, 2)
    ring.close()


def test_it_goes_on_after_a_restart(tmp_path):
    ring = filled(HistoryRing(tmp_path / "h.db"), 5)
    before = ring.kept().samples
    ring.close()
    again = HistoryRing(tmp_path / "h.db")
    assert again.kept().samples == before == 5
    assert len(again.waits(None, None)) == 1
    again.close()


def test_points_are_chosen_evenly_and_the_last_is_among_them():
    assert evenly(list(range(100)), 4) == [0, 33, 66, 99]
    assert evenly([1, 2], 4) == [1, 2]


def test_one_sample_in_the_interval(tmp_path):
    sandbox = after(made(node("n", cpu=4)), 1)
    ring = HistoryRing()
    watch = sandbox_watch(sandbox)
    watch.drawn = ring.take
    for second in range(2, 12):
        sandbox.apply([node(f"n{second}", cpu=4)])
        after(sandbox, second)
        watch.catch_up()
    assert ring.kept().samples == 1
