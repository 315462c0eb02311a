"""What a cluster writes about itself is read, or said to be wrong; it never costs the cluster its place."""

from __future__ import annotations

import json

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from fairway.api import fleet as api
from fairway.api.meta import ObjectMeta
from fairway.fleet import FleetState, facts, reports
from fairway.fleet.names import FREE, REPORTED_UNTIL, SHAPES, USAGE
from fairway.fleet.overview import overview
from support.effort import examples

SCALARS = st.none() | st.booleans() | st.integers() | st.floats() | st.text(max_size=8)
JSON = st.recursive(
    SCALARS, lambda inner: st.lists(inner, max_size=3) | st.dictionaries(st.text(max_size=4), inner, max_size=3)
)


def noted(**notes: str) -> api.ManagedCluster:
    return api.ManagedCluster(ObjectMeta(name="c", annotations=notes))


@settings(max_examples=examples(100))
@given(JSON, JSON)
def test_no_report_sets_its_cluster_aside(free: object, usage: object) -> None:
    cluster = noted(**{FREE: json.dumps(free), USAGE: json.dumps(usage)})
    state = FleetState([cluster])
    assert len(state.aside) == 0
    read = facts.read(cluster)
    assert all(amount >= 0 for amount in (read.free or {}).values())
    sound = isinstance(free, dict) and all(isinstance(one, str | int | float) for one in free.values())
    assert sound or any(FREE in warning for warning in read.warnings)


@pytest.mark.parametrize(
    ("text", "said"),
    [
        ('{"cpu": {"a": 1}}', "fairway.dev/free.cpu: invalid quantity \"{'a': 1}\": expected a number or a text"),
        ('{"cpu": [1]}', "fairway.dev/free.cpu: invalid quantity '[1]': expected a number or a text"),
        ('{"cpu": "1", "cpu": "2"}', "fairway.dev/free: 'cpu' is given twice; treated as not reported"),
        ("{", "fairway.dev/free: not JSON: "),
        (f'{{"cpu": {"9" * 5000}}}', "fairway.dev/free: Exceeds the limit (4300 digits)"),
    ],
)
def test_what_is_wrong_is_said(text: str, said: str) -> None:
    (warning,) = facts.read(noted(**{FREE: text})).warnings
    assert f"cluster c: annotation {said}" in warning


def test_an_end_that_is_no_time_has_passed_and_is_said() -> None:
    cluster = noted(**{FREE: '{"cpu": "1"}', REPORTED_UNTIL: "tomorrow"})
    assert FREE not in reports.trusted(cluster, 5).metadata.annotations
    (said,) = reports.problems(cluster)
    assert said.startswith("annotation fairway.dev/report-until: expected a time such as")
    assert reports.problems(noted(**{FREE: "{}", REPORTED_UNTIL: "1970-01-01T00:00:00Z"})) == []


def test_clusters_are_shown_with_all_that_is_wrong_with_their_reports() -> None:
    things = [
        noted(**{FREE: '{"cpu": "1"}', REPORTED_UNTIL: "tomorrow"}),
        noted(**{FREE: '{"cpu": "NaN"}', SHAPES: '[{"request": {"cpu": "1"}, "fits": -5}]'}),
    ]
    ended, odd = overview(things, 5)
    assert ended.report_ended
    assert [text.partition(":")[2][:36] for text in ended.problems] == [" annotation fairway.dev/report-until:"[:36]]
    assert odd.shapes == ()
    assert [text.split(": ")[1].partition(".cpu")[0] for text in odd.problems] == [
        "annotation fairway.dev/free",
        "annotation fairway.dev/shapes",
    ]
