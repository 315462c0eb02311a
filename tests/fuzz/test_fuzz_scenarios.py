"""Scenarios that mostly pass validation, with odd values in odd places: no run ends as an error of ours.

A scenario is drawn whole from values that a user may write, most of them good ones; some are then replaced by values
at and beyond the limits, of other types, or by keys that nothing knows. `make fuzz` draws new ones.
"""

from __future__ import annotations

import json
import resource
from pathlib import Path
from typing import Any

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from support.cli import invoke
from support.effort import examples

pytestmark = pytest.mark.hypothesis  # so that `make fuzz` selects tests with a property inside, too
EXAMPLES = examples(80, 4000)
MAX_GROWTH = 400_000
"""KiB that the process may grow by."""

NAMES = st.sampled_from(["a", "b", "team-x", "q.r", "x" * 63])
QUEUES = st.sampled_from(["default", "default", "a", "b", "team-x"])
SPANS = st.sampled_from(["0s", "1s", "5s", "90s", "1h30m", "2d", "0.5s", "1us", "30000d", 7, 0.25])
DRAWN = st.one_of(SPANS, st.sampled_from(["exponential 5s", "uniform 1s 9s", "uniform 0s 0s", "exponential 20000d"]))
AMOUNTS = st.dictionaries(
    st.sampled_from(["cpu", "memory", "nvidia.com/gpu", "example.com/odd"]),
    st.sampled_from([0, 1, "500m", "2", "1Gi", 3, "1n", 0.1, "8E", "9223372036854775807m"]),
    max_size=3,
)
NODES = st.fixed_dictionaries(
    {"allocatable": AMOUNTS},
    optional={
        "count": st.integers(1, 5),
        "name": NAMES,
        "labels": st.dictionaries(NAMES, NAMES, max_size=1),
        "taints": st.just([{"key": "k", "effect": "NoSchedule"}]),
    },
)
QUEUE = st.fixed_dictionaries(
    {"name": NAMES},
    optional={
        "weight": st.sampled_from([1, 2, 2**31 - 1]),
        "guarantee": AMOUNTS,
        "capability": AMOUNTS,
        "deserved": AMOUNTS,
        "parent": QUEUES,
        "reclaimable": st.booleans(),
    },
)
JOB = st.fixed_dictionaries(
    {"name": NAMES, "request": AMOUNTS, "run": DRAWN},
    optional={
        "namespace": st.sampled_from(["default", "a", "team-x"]),
        "queue": QUEUES,
        "tasks": st.integers(1, 6),
        "minimum": st.integers(1, 3),
        "priority": st.sampled_from([0, 1, -(2**31), 2**31 - 1]),
        "arrive": SPANS,
        "count": st.integers(1, 5),
        "every": DRAWN,
        "load": st.sampled_from([0.5, 0.001, 10, 1e-300]),
        "limit": SPANS,
        "nodeSelector": st.dictionaries(NAMES, NAMES, max_size=1),
    },
)
SCENARIOS = st.fixed_dictionaries(
    {
        "cluster": st.fixed_dictionaries(  # type: ignore[dict-item]
            {"nodes": st.lists(NODES, min_size=1, max_size=2)},  # type: ignore[dict-item]
            optional={
                "queues": st.lists(QUEUE, max_size=3, unique_by=lambda queue: str(queue["name"])),  # type: ignore[index]
                "namespaces": st.dictionaries(st.sampled_from(["a", "team-x"]), st.just({"weight": 3}), max_size=2),
            },
        ),
        "workload": st.fixed_dictionaries(  # type: ignore[dict-item]
            {"jobs": st.lists(JOB, min_size=1, max_size=3, unique_by=lambda job: str(job["name"]))}
        ),
        "end": st.sampled_from(["10s", "1h", "3d"]),  # type: ignore[dict-item]
    },
    optional={
        "name": st.text(max_size=5),
        "seed": st.sampled_from([0, 7, -1, 2**63 - 1]),
        "start": st.sampled_from(["1970-01-01T00:00:00Z", "2026-03-01T08:00:00+02:00", "7990-01-01T00:00:00Z"]),
        "timing": st.fixed_dictionaries(
            {},
            optional={
                "cycles": st.sampled_from(["events", "interval", "both"]),
                "interval": st.sampled_from(["10s", "1h", "30000d"]),
                "startDelay": DRAWN,
                "grace": SPANS,
            },
        ),
        "failures": st.lists(
            st.one_of(
                st.fixed_dictionaries({"every": st.sampled_from(["10m", "exponential 1h"]), "lasts": DRAWN}),
                st.fixed_dictionaries({"node": NAMES, "at": SPANS, "lasts": DRAWN}),
            ),
            max_size=1,
        ),
        "changes": st.lists(
            st.fixed_dictionaries({"at": SPANS}, optional={"join": NODES, "drain": NAMES, "remove": NAMES}), max_size=2
        ),
        "assert": st.lists(
            st.sampled_from(
                [
                    "job default/a starts before 90m",
                    "no namespace below its share for more than 1s",
                    "no queue below its guarantee for more than 5m",
                    "p95 wait of queue a < 30m",
                    "no evictions",
                ]
            ),
            max_size=2,
        ),
    },
)
ODD: st.SearchStrategy[Any] = st.sampled_from(
    [None, True, -1, 0, 2**31, 2**63, 10**30, 1e300, float("inf"), "", "x", "\x07", "é", [], {}, [[]], {"a": 1},
     "1 x {", "9 x {cpu: 1}", "default", "-5s", "1e9s", "exponential", "9999999999999999999d"]
)  # fmt: skip


def places(value: Any, path: tuple[Any, ...] = ()) -> list[tuple[Any, ...]]:
    """Where values stand in a document."""
    inner = value.items() if isinstance(value, dict) else enumerate(value) if isinstance(value, list) else ()
    return [path, *(found for key, item in inner for found in places(item, (*path, key)))]


def replaced(value: Any, path: tuple[Any, ...], by: Any) -> Any:
    if not path:
        return by
    copy = dict(value) if isinstance(value, dict) else list(value)
    copy[path[0]] = replaced(copy[path[0]], path[1:], by)
    return copy


@st.composite
def documents(draw: st.DrawFn) -> Any:
    """Mostly right; every third has one or two values that are odd."""
    made = draw(SCENARIOS)
    for _ in range(draw(st.sampled_from([0, 0, 1, 2]))):
        made = replaced(made, draw(st.sampled_from(places(made))), draw(ODD))
    return made


def test_no_scenario_ends_as_an_error_of_ours(tmp_path: Path) -> None:
    path = tmp_path / "s.yaml"
    before = resource.getrusage(resource.RUSAGE_SELF).ru_maxrss
    seen = {0: 0, 2: 0}

    @settings(max_examples=EXAMPLES, deadline=None)
    @given(documents())
    def runs(document: Any) -> None:
        path.write_text(json.dumps(document))
        result = invoke("simulate", str(path))
        assert result.code in (0, 2), (result.err, document)
        seen[result.code] += 1
        if result.code == 2:
            assert result.err.strip()
            for word in ("msgspec", "Expected `", "Traceback", "Object contains"):
                assert word not in result.err

    runs()
    assert seen[0] > EXAMPLES // 20, f"too few of them run: {seen}"
    assert resource.getrusage(resource.RUSAGE_SELF).ru_maxrss - before < MAX_GROWTH


def test_any_text_is_a_scenario_or_refused(tmp_path: Path) -> None:
    path = tmp_path / "s.yaml"
    good = "cluster: {nodes: 2 x {cpu: 4}}\nworkload: {jobs: [{name: a, request: {cpu: 1}, run: 5s}]}\n"

    @settings(max_examples=EXAMPLES, deadline=None)
    @given(st.binary(max_size=60), st.integers(0, len(good)))
    def runs(data: bytes, at: int) -> None:
        path.write_bytes(good[:at].encode() + data + good[at:].encode())
        result = invoke("simulate", str(path))
        assert result.code in (0, 2), (result.err, data, at)

    runs()
