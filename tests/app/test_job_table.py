"""The table of jobs: filters, groups, facets and order, beside an obvious twin."""

import pytest
from hypothesis import given
from hypothesis import strategies as st
from msgspec.structs import replace

from fairway.app.view.job_table import GROUPS, SORTS, STATES, JobQuery, JobTable
from fairway.app.view.models.jobs import JobSummary
from fairway.errors import InputError

NAMES = st.sampled_from(["a", "b", "c"])


@st.composite
def tables(draw):
    rows, labels = [], []
    for number in range(draw(st.integers(0, 25))):
        namespace = draw(NAMES)
        rows.append(
            JobSummary(
                job=f"{namespace}/job-{number}",
                namespace=namespace,
                queue=draw(NAMES),
                state=draw(st.sampled_from(STATES)),
                kind="Pod",
                pods=draw(st.integers(1, 9)),
                created=f"2026-01-01T00:00:{draw(st.integers(10, 59))}Z",
                position=draw(st.integers(0, 9)),
                reason=draw(st.sampled_from(["", "Full", "Held"])),
                started=draw(st.sampled_from([None, "2026-01-01T00:01:00Z", "2026-01-01T00:02:00Z"])),
            )
        )
        labels.append(draw(st.dictionaries(NAMES, NAMES, max_size=2)))
    return rows, labels


QUERIES = st.builds(
    JobQuery,
    queue=st.lists(NAMES, max_size=2).map(tuple),
    namespace=st.lists(NAMES, max_size=2).map(tuple),
    state=st.lists(st.sampled_from(STATES), max_size=2).map(tuple),
    reason=st.lists(st.sampled_from(["Full", "Held", "Other"]), max_size=2).map(tuple),
    label=st.lists(st.sampled_from(["a", "a=b", "b=c", "z=z"]), max_size=2).map(tuple),
    search=st.sampled_from(["", "a/", "JOB-1", "nothing"]),
    sort=st.sampled_from([*SORTS, *(f"-{name}" for name in SORTS)]),
    group=st.sampled_from(["", *GROUPS, "label:a"]),
    facets=st.booleans(),
    offset=st.integers(0, 30),
    limit=st.integers(0, 30),
    visible=st.sampled_from([None, frozenset(), frozenset({"a", "b"})]),
)


def passes(row, labels, query, without=""):
    def one_of(name):
        wanted = getattr(query, name)
        return name == without or not wanted or getattr(row, name) in wanted

    for text in query.label:
        key, sign, value = text.partition("=")
        if key not in labels or (sign and labels[key] != value):
            return False
    if query.visible is not None and row.namespace not in query.visible:
        return False
    return all(map(one_of, ("queue", "namespace", "state", "reason"))) and query.search.lower() in row.job


@given(tables(), QUERIES)
def test_a_page_has_what_the_filters_let_through(table, query):
    rows, labels = table
    page = JobTable(7, "now", rows, labels).page(query)
    expected = [row for row, own in zip(rows, labels, strict=True) if passes(row, own, query)]
    assert page.total == len(expected)
    assert len(page.rows) == len(expected[query.offset : query.offset + query.limit])
    whole = JobTable(7, "now", rows, labels).page(replace(query, offset=0, limit=1000)).rows
    assert sorted(row.job for row in whole) == sorted(row.job for row in expected)
    assert page.rows == whole[query.offset : query.offset + query.limit]
    if query.group:
        groups = page.groups or []
        assert sum(group.count for group in groups) == len(expected)
        assert sum(group.pods for group in groups) == sum(row.pods for row in expected)
    if query.facets:
        for name in ("state", "queue", "namespace"):
            counts = {one.value: one.count for one in getattr(page.facets, name)}
            for value, count in counts.items():
                pairs = zip(rows, labels, strict=True)
                assert count == sum(passes(row, own, query, name) and getattr(row, name) == value for row, own in pairs)


@given(tables(), st.sampled_from(["created", "started", "pods", "position", "job"]), st.booleans())
def test_rows_without_a_value_come_last_in_both_directions(table, name, down):
    rows, labels = table
    page = JobTable(1, "now", rows, labels).page(JobQuery(sort=f"-{name}" if down else name, limit=1000))
    values = [getattr(row, name) or None for row in page.rows]
    have = [value for value in values if value is not None]
    assert values == [*have, *[None] * (len(values) - len(have))]
    assert have == sorted(have, reverse=down)


@pytest.mark.parametrize("query", [JobQuery(sort="size"), JobQuery(group="node"), JobQuery(state=("gone",))])
def test_what_there_is_not_is_an_error_that_says_what_there_is(query):
    with pytest.raises(InputError, match="expected one of"):
        JobTable(1, "now", [], []).page(query)
