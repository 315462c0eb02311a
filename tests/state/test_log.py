"""Logs that forget: what is read from a position is exactly what was logged since, or that it is not known any more."""

import pytest
from hypothesis import given
from hypothesis import strategies as st

from fairway.state import derived as module
from fairway.state.derived import Log, RowLog

KEPT = 4


@pytest.fixture(autouse=True, scope="module")
def _short_logs():
    """Logs that wrap after a few entries."""
    kept = module._KEPT
    module._KEPT = KEPT
    yield
    module._KEPT = kept


@pytest.mark.parametrize("kind", [Log, RowLog])
@given(st.lists(st.integers(0, 99), max_size=40))
def test_every_position_reads_what_was_logged_since_or_nothing(kind, entries):
    log, everything = kind(), []
    slices = []
    for entry in entries:
        log.add(entry)
        everything.append(entry)
        assert log.end == len(everything)
        for position in range(log.end + 1):
            found = log.since(position)
            if found is None:
                assert log.end - position > KEPT, "the younger entries are always known"
            else:
                assert list(found) == everything[position:]
        slices.append((log.since(max(0, log.end - 2)), everything[-2:]))
    assert all(list(found) == expected for found, expected in slices), "what was read stays as it is"


@given(st.lists(st.integers(0, 99), max_size=40), st.integers(1, 9))
def test_a_log_that_keeps_the_last_entries_knows_these_and_few_more(entries, count):
    log, everything = Log[int](), list[int]()
    for entry in entries:
        log.add(entry)
        everything.append(entry)
        log.keep_last(count)
        assert log.end == len(everything)
        known = [position for position in range(log.end + 1) if log.since(position) is not None]
        assert max(0, log.end - 2 * count) <= known[0] <= max(0, log.end - min(count, KEPT))
        assert all(log.since(position) == everything[position:] for position in known)


def test_a_log_of_everything_is_read_by_no_reader():
    log = RowLog()
    log.add(1)
    before = log.end
    log.add_everything()
    assert log.since(before) is None
    after = log.end
    log.add(2)
    found = log.since(after)
    assert found is not None
    assert list(found) == [2]
