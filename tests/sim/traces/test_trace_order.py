"""The external sort gives what sorting in memory would, and the JSON stream what the json module would."""

from __future__ import annotations

import json
from typing import Any

from hypothesis import given
from hypothesis import strategies as st

from fairway.sim.traces import TraceJob
from fairway.sim.traces.batsim import members
from fairway.sim.traces.formats import in_submit_order


@given(st.lists(st.integers(0, 9), max_size=40), st.integers(1, 7))
def test_order_is_the_stable_sort_whatever_the_length_of_the_runs(submits: list[int], chunk: int) -> None:
    jobs = [TraceJob(f"j{index}", submit, 1, {"cpu": index}) for index, submit in enumerate(submits)]
    assert list(in_submit_order(jobs, chunk)) == sorted(jobs, key=lambda job: job.submit)


JSON = st.recursive(
    st.none() | st.booleans() | st.integers() | st.text(max_size=5),
    lambda inner: st.lists(inner, max_size=3) | st.dictionaries(st.text(max_size=3), inner, max_size=3),
    max_leaves=8,
)


@given(st.dictionaries(st.text(max_size=3), JSON, max_size=4), st.integers(1, 5), st.sampled_from([None, 2]))
def test_members_come_whole_and_arrays_item_by_item(value: dict[str, Any], size: int, indent: int | None) -> None:
    text = json.dumps(value, indent=indent)
    chunks = [text[start : start + size] for start in range(0, len(text), size)]
    expected = [
        (name, item) for name, member in value.items() for item in (member if isinstance(member, list) else [member])
    ]
    assert list(members(chunks)) == expected
