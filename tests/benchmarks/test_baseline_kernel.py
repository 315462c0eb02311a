"""The yardstick is true, and the command that measures with it works."""

import contextlib
import io
import json

import numpy as np
import pytest
from benchmarks.measure import engine
from benchmarks.timing import paired
from benchmarks.workload import Size, Workload
from hypothesis import given, settings
from hypothesis import strategies as st

from benchmarks import baseline
from fairway.api.pods import Pod
from fairway.cli.main import run
from support.cli import Result
from support.effort import examples


def measure(*arguments: str) -> Result:
    out, err = io.StringIO(), io.StringIO()
    with contextlib.redirect_stdout(out), contextlib.redirect_stderr(err):
        code = run(engine, arguments)
    return Result(code, out.getvalue(), err.getvalue())


AMOUNT = st.integers(0, 12)
TINY = ("--nodes", "5", "--pods", "20", "--queues", "2", "--namespaces", "2", "--shapes", "3", "--repeat", "1")


@settings(max_examples=examples(200))
@given(
    st.lists(st.tuples(AMOUNT, AMOUNT, AMOUNT), min_size=1, max_size=8),
    st.lists(st.tuples(AMOUNT, AMOUNT, AMOUNT), max_size=20),
)
def test_the_limit_kernel_places_as_plain_best_fit_does(nodes, pods):
    idle = np.array(nodes, dtype=np.int64).T.copy()
    requests = np.array(pods, dtype=np.int64).reshape(-1, 3)
    plain = [list(column) for column in zip(*nodes, strict=True)]
    assert baseline.place(idle, requests) == baseline.place_plainly(plain, [list(pod) for pod in pods])
    assert idle.tolist() == plain


def test_best_fit_takes_the_fullest_node_that_fits():
    idle = np.array([[4, 2, 3], [4, 2, 3]], dtype=np.int64)
    assert baseline.place(idle, np.array([[2, 2], [2, 2], [5, 0], [4, 4]])) == [1, 2, -1, 0]


def test_the_backlog_is_the_same_for_both_sides():
    workload = Workload(Size(nodes=5, pods=20, gang=4, shapes=3))
    pods = [thing for thing in workload.backlog() if isinstance(thing, Pod)]
    assert len(workload.requests()) == len(pods) == 20
    assert [f"{cpu}m" for cpu, _, _ in workload.requests().tolist()] == [
        pod.spec.containers[0].resources.requests["cpu"] for pod in pods
    ]


def test_pairs_are_compared_with_their_neighbours():
    ours, theirs = iter([4.0, 9.0]), iter([1.0, 3.0, 3.0])
    assert paired(ours.__next__, theirs.__next__, 2) == (2.5, 6.5, 3.0)


@pytest.mark.parametrize(
    "options", [("--gang", "1"), ("--gang", "4", "--score", "least"), ("--gang", "4", "--min-member", "1")]
)
def test_bench_engine_as_json(options):
    result = measure(*TINY, *options, "-o", "json")
    found = json.loads(result.out)
    assert (result.code, found["placed"]) == (0, 20)
    assert {"decisions_per_second", "limit_per_second", "ratio", "cycle_seconds"} < found.keys()
    assert found["limit_per_second"].keys() == {"before", "after"}
    assert list(found["phase_seconds"]) == [
        "apply events",
        "open session",
        "order",
        "place",
        "make the plan",
        "explain",
        "collect garbage",
    ]
    assert found["peak_memory_bytes"] > 0
    assert found["bytes_per_running_pod"] > 0


def test_bench_engine_as_a_table():
    result = measure(*TINY)
    assert result.code == 0
    assert result.out.startswith("20 of 20 pods placed on 5 nodes, gangs of 10 (at least 10 at once)")
    assert "ratio to the baseline kernel" in result.out


def test_sizes_that_make_no_sense():
    assert "expected at most 4" in measure(*TINY, "--gang", "4", "--min-member", "5").err
    assert "expected at least 40" in measure(*TINY, "--gang", "40").err
    assert measure("--nodes", "0").code == 2
