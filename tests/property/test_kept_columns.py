"""Columns are kept within a bound, share what does not follow from the request, and decide nothing."""

from __future__ import annotations

from pathlib import Path

import pytest
from hypothesis import HealthCheck, given, settings
from hypothesis import strategies as st

from fairway.api.kinds import ApiObject
from fairway.api.policy import Policy
from fairway.app.live.settings import read_settings
from fairway.cli.run import _settings
from fairway.errors import InputError
from fairway.scheduler.decide import decide_and_explain
from fairway.scheduler.framework.session import Session
from fairway.scheduler.paranoid import check
from fairway.scheduler.placement.kernel import INFEASIBLE
from fairway.scheduler.placement.node_view import SINGLES, KeptColumns
from fairway.scheduler.plugins.installed import default_registry
from fairway.state.cluster import COLUMN_BYTES, ClusterState, Deleted, Event, Upserted
from support import clusters
from support import objects as make
from support.effort import examples
from support.engine import policy as make_policy

some = settings(max_examples=examples(40), suppress_health_check=list(HealthCheck))


def kept_bytes(state: ClusterState) -> int:
    kept = state.derived.kept(KeptColumns)
    assert kept is not None
    return sum(column.keys.nbytes for column in kept._columns._columns.values())


@some
@given(clusters.clusters(), clusters.policies(), st.data())
def test_a_bound_changes_no_plan(objects: list[ApiObject], policy: Policy, data: st.DataObject) -> None:
    states = [ClusterState(), ClusterState(column_bytes=1)]
    for state in states:
        state.upsert(objects)
    for _ in range(3):
        free, bound = (decide_and_explain(state, policy, make.NOW).document() for state in states)
        assert free == bound
        thing = data.draw(st.sampled_from(objects))
        event: Event = Deleted(thing) if data.draw(st.booleans()) else Upserted(thing)
        for state in states:
            state.apply(event)
            check(state, policy, make.NOW)


@some
@given(clusters.clusters(), clusters.policies())
def test_a_single_pod_has_capacity_where_its_column_says_so(objects: list[ApiObject], policy: Policy) -> None:
    state = ClusterState()
    state.upsert(objects)
    kernel = Session(state, policy, make.NOW, default_registry()).nodes.kernel
    for shape in [run.shape for template in state.waiting.templates() for run in template.runs]:
        found = kernel.has_capacity(shape)
        assert found == bool(kernel.column(shape).keys.min(initial=INFEASIBLE) < INFEASIBLE)


def test_shapes_share_what_is_static_only_if_nothing_but_the_request_differs() -> None:
    taints = {"taints": ["t=x:NoSchedule"]}
    nodes = [make.node("a", cpu=8, labels={"pool": "a"}), make.node("t", cpu=8, **taints), make.node("b", cpu=4)]
    tolerant = {"tolerations": [{"key": "t", "operator": "Exists"}]}
    state = ClusterState()
    state.upsert(
        [
            *nodes,
            *(
                make.pod(f"{name}{cpu}", cpu=cpu, spec=spec)
                for cpu in (5, 6)
                for name, spec in (("plain", {}), ("tolerant", tolerant), ("chosen", {"nodeSelector": {"pool": "b"}}))
            ),
        ]
    )
    kernel = Session(state, make_policy(), make.NOW, default_registry()).nodes.kernel
    found = {}
    for template in state.waiting.templates():
        for job_class in template.classes.values():
            shape = template.runs[0].shape
            has_capacity = kernel.has_capacity(shape)
            rows = kernel.feasible_rows(shape).tolist()
            assert has_capacity == bool(rows)
            found[job_class.jobs[0].job.key.removeprefix("default/")] = [state.nodes.names[row] for row in rows]
    expected = {"plain": ["a"], "tolerant": ["a", "t"], "chosen": []}
    assert found == {f"{name}{cpu}": rows for cpu in (5, 6) for name, rows in expected.items()}


def distinct(count: int, pods: int) -> list[ApiObject]:
    """So many requests that differ, each of so many pods."""
    return [make.pod(f"p{index}-{number}", cpu=f"{index + 1}m") for index in range(count) for number in range(pods)]


def test_memory_is_bounded_inside_one_cycle() -> None:
    state = ClusterState(column_bytes=2_000)
    state.upsert([*(make.node(f"n{index}", cpu=8) for index in range(50)), *distinct(100, 2)])
    assert decide_and_explain(state, make_policy(), make.NOW).placed == 200
    assert 0 < kept_bytes(state) <= 2_000


def test_run_takes_the_bound_as_a_setting(tmp_path: Path) -> None:
    path = tmp_path / "run.yaml"
    path.write_text("apiVersion: fairway.dev/v1alpha1\nkind: FairwayConfiguration\ncolumnMemory: 64\n")
    assert read_settings(None, {}).column_memory << 20 == COLUMN_BYTES
    assert read_settings(str(path), {}).column_memory == 64
    assert read_settings(str(path), _settings({"column_memory": 8})).column_memory == 8
    for wrong in (0, -1, 1 << 30, "much"):
        with pytest.raises(InputError, match="columnMemory"):
            read_settings(None, {"columnMemory": wrong})


def test_single_pods_keep_few_columns() -> None:
    state = ClusterState()
    state.upsert([*(make.node(f"n{index}", cpu=8) for index in range(50)), *distinct(100, 1)])
    assert decide_and_explain(state, make_policy(), make.NOW).placed == 100
    assert kept_bytes(state) <= SINGLES * 50 * 8
