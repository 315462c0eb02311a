"""Ranks order names as strings do, whoever comes and goes."""

from hypothesis import given
from hypothesis import strategies as st

from fairway.state.nodes import RANK_BITS, NameRanks

names = st.text(alphabet="abn019-", min_size=1, max_size=5)


@given(st.lists(st.lists(names, unique=True, max_size=8), max_size=8), st.data())
def test_ranks_rise_with_the_names(batches, data):
    ranks, known = NameRanks(), set()
    for batch in batches:
        new = [name for name in batch if name not in known]
        ranks.add(new)
        known.update(new)
        if known and data.draw(st.booleans()):
            gone = data.draw(st.sampled_from(sorted(known)))
            ranks.remove(gone)
            known.discard(gone)
        order = [ranks[name] for name in sorted(known)]
        assert order == sorted(set(order))
        assert all(0 <= rank < 1 << RANK_BITS for rank in order)


def test_a_new_name_seldom_moves_the_others():
    ranks = NameRanks()
    ranks.add([f"n{i:04d}" for i in range(1000)])
    epoch = ranks.epoch
    before = ranks["n0500"]
    for i in range(20):
        ranks.add([f"n{i:04d}-new"])
    assert (ranks.epoch, ranks["n0500"]) == (epoch, before)


def test_names_before_the_first_and_after_the_last_move_no_others_either():
    ranks = NameRanks()
    ranks.add([f"n{i:04d}" for i in range(1000)])
    epoch = ranks.epoch
    ranks.add(["a"])
    ranks.add(["z"])
    assert ranks.epoch == epoch
    assert ranks["a"] < ranks["n0000"] < ranks["n0999"] < ranks["z"]


def test_names_squeezed_into_one_gap_make_room_for_themselves():
    ranks = NameRanks()
    ranks.add([f"n{i:03d}" for i in range(100)])
    for i in range(60):
        ranks.add(["n050" + "a" * (i + 1)])
    order = [ranks["n050" + "a" * i] for i in range(61)]
    assert order == sorted(order)


def test_when_a_gap_runs_out_ranks_stay_apart_and_the_epoch_says_that_they_moved():
    ranks = NameRanks()
    ranks.add([f"n{i:03d}" for i in range(100)])
    for i in range(60):
        before, epoch = {name: ranks[name] for name in list(ranks._ranks)}, ranks.epoch
        ranks.add(["n050" + "a" * (60 - i)])
        order = [ranks[name] for name in sorted(ranks._ranks)]
        assert order == sorted(set(order)), "no two nodes have the same rank"
        moved = any(ranks[name] != rank for name, rank in before.items())
        assert moved == (ranks.epoch != epoch)
    assert ranks.epoch > 1, "the gap did run out"
