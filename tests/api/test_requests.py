"""What a pod asks for, row by row as Kubernetes adds it up."""

from __future__ import annotations

from typing import Any

import msgspec
import pytest
from hypothesis import given
from hypothesis import strategies as st

from fairway.api.pods import PodSpec, container_request, pod_request


def asked(**spec: Any) -> dict[str, str]:
    return pod_request(msgspec.convert(spec, PodSpec)).format()


def box(cpu: str | None = None, limit: str | None = None, **more: Any) -> dict[str, Any]:
    resources: dict[str, Any] = {}
    if cpu is not None:
        resources["requests"] = {"cpu": cpu}
    if limit is not None:
        resources["limits"] = {"cpu": limit}
    return {"name": "c", "resources": resources, **more}


def sidecar(cpu: str) -> dict[str, Any]:
    return box(cpu, restartPolicy="Always")


ROWS = [
    ("nothing asked", {"containers": [box()]}, {}),
    ("containers add up", {"containers": [box("1"), box("500m")]}, {"cpu": "1500m"}),
    ("a limit implies the request", {"containers": [box(limit="2")]}, {"cpu": "2"}),
    ("a request stands beside its limit", {"containers": [box("1", limit="2")]}, {"cpu": "1"}),
    (
        "the largest init container",
        {"containers": [box("1")], "initContainers": [box("3"), box("2")]},
        {"cpu": "3"},
    ),
    ("a small init container", {"containers": [box("4")], "initContainers": [box("3")]}, {"cpu": "4"}),
    (
        "a sidecar adds to the containers",
        {"containers": [box("1")], "initContainers": [sidecar("2")]},
        {"cpu": "3"},
    ),
    (
        "sidecars add to the init containers after them",
        {"containers": [box("1")], "initContainers": [sidecar("1"), box("5"), sidecar("1")]},
        {"cpu": "6"},
    ),
    (
        "sidecars do not add to the init containers before them",
        {"containers": [box("1")], "initContainers": [box("5"), sidecar("1")]},
        {"cpu": "5"},
    ),
    (
        "overhead comes on top of the larger",
        {
            "containers": [box("1")],
            "initContainers": [box("3")],
            "overhead": {"cpu": "250m", "memory": "1Mi"},
        },
        {"cpu": "3250m", "memory": "1Mi"},
    ),
    (
        "resources of the whole pod replace the sum",
        {
            "containers": [box("1"), box("1")],
            "resources": {"requests": {"cpu": "8"}},
            "overhead": {"cpu": "1"},
        },
        {"cpu": "9"},
    ),
    (
        "a limit of the whole pod counts where no container asks",
        {"containers": [box("1")], "resources": {"limits": {"cpu": "8", "memory": "1Gi"}}},
        {"cpu": "1", "memory": "1Gi"},
    ),
    ("a slot is not asked for", {"containers": [box()], "overhead": {"pods": "1"}}, {}),
]


@pytest.mark.parametrize(("spec", "expected"), [row[1:] for row in ROWS], ids=[row[0] for row in ROWS])
def test_pod_request(spec: dict[str, Any], expected: dict[str, str]) -> None:
    assert asked(**spec) == expected


def test_any_resource_is_a_dimension() -> None:
    limits = {"nvidia.com/gpu": "1", "resourceclass.fairway.dev/fast.nic": "2"}
    spec = {"containers": [{"name": "c", "resources": {"limits": limits}}]}
    assert asked(**spec) == limits


def test_like_pods_share_one_sum() -> None:
    first, second = (msgspec.convert({"containers": [box("1")]}, PodSpec) for _ in range(2))
    assert pod_request(first) is pod_request(second)


def test_one_container() -> None:
    spec = msgspec.convert({"containers": [box("1", limit="2")]}, PodSpec)
    assert container_request(spec.containers[0]).format() == {"cpu": "1"}


CORES = st.integers(0, 9)


@given(
    containers=st.lists(CORES, min_size=1, max_size=4),
    init=st.lists(st.tuples(st.booleans(), CORES), max_size=5),
)
def test_is_the_most_that_ever_runs_at_once(containers: list[int], init: list[tuple[bool, int]]) -> None:
    """The slow way: play the start of the pod and note the highest sum."""
    running, highest = 0, 0
    for stays, cores in init:
        highest = max(highest, running + cores)
        running += cores if stays else 0
    highest = max(highest, running + sum(containers))
    spec = msgspec.convert(
        {
            "containers": [box(str(cores)) for cores in containers],
            "initContainers": [(sidecar if stays else box)(str(cores)) for stays, cores in init],
        },
        PodSpec,
    )
    assert pod_request(spec).get("cpu") == highest * 1000
