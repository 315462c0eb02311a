"""Whatever is wrong with the data, the answer is an object or a list of faults, never a crash."""

from __future__ import annotations

import io
import json
from typing import Any

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from fairway.api.manifests import load, parse_object
from fairway.api.shape import path_text
from fairway.api.text import Path
from fairway.errors import ManifestError
from support.effort import examples

REQUIRED = "requiredDuringSchedulingIgnoredDuringExecution"
SELECTOR = {"matchLabels": {"a": "b"}, "matchExpressions": [{"key": "a", "operator": "In", "values": ["b"]}]}
NODES = {"nodeSelectorTerms": [{"matchExpressions": [{"key": "a", "operator": "Gt", "values": ["1"]}]}]}
RICH: list[dict[str, Any]] = [
    {
        "apiVersion": "v1",
        "kind": "Pod",
        "metadata": {"name": "p", "labels": {"a": "b"}, "creationTimestamp": "2026-01-01T00:00:00Z"},
        "spec": {
            "containers": [
                {
                    "name": "c",
                    "resources": {"requests": {"cpu": "1"}, "limits": {"cpu": "2"}, "claims": [{"name": "g"}]},
                    "ports": [{"containerPort": 80, "hostPort": 80}],
                }
            ],
            "affinity": {
                "nodeAffinity": {REQUIRED: NODES},
                "podAffinity": {REQUIRED: [{"topologyKey": "zone", "labelSelector": SELECTOR}]},
            },
            "tolerations": [{"key": "a", "operator": "Exists", "effect": "NoExecute", "tolerationSeconds": 3}],
            "topologySpreadConstraints": [
                {"maxSkew": 1, "topologyKey": "zone", "whenUnsatisfiable": "DoNotSchedule", "minDomains": 2}
            ],
            "resourceClaims": [{"name": "g", "resourceClaimName": "claim"}],
            "volumes": [{"name": "v", "persistentVolumeClaim": {"claimName": "x"}}],
            "priority": 3,
        },
    },
    {
        "apiVersion": "resource.k8s.io/v1",
        "kind": "ResourceSlice",
        "metadata": {"name": "s"},
        "spec": {
            "driver": "d.example.com",
            "pool": {"name": "p", "generation": 1, "resourceSliceCount": 1},
            "nodeSelector": NODES,
            "devices": [{"name": "d", "attributes": {"a": {"int": 1}}, "capacity": {"m": {"value": "1Gi"}}}],
        },
    },
    {
        "apiVersion": "policy/v1",
        "kind": "PodDisruptionBudget",
        "metadata": {"name": "b"},
        "spec": {"selector": SELECTOR, "minAvailable": "50%"},
    },
    {
        "apiVersion": "cluster.open-cluster-management.io/v1beta1",
        "kind": "Placement",
        "metadata": {"name": "x"},
        "spec": {
            "predicates": [{"requiredClusterSelector": {"labelSelector": SELECTOR}}],
            "prioritizerPolicy": {"configurations": [{"scoreCoordinate": {"builtIn": "Steady"}, "weight": 1}]},
            "requirements": {"cpu": "1"},
        },
    },
]
JUNK = st.sampled_from(
    [None, True, -1, 0, 10**30, 1.5, 1e300, "", "x", "A b", "1K", "9" * 200, [], [None], [1], {}, {"a": None}, {"": 1}]
)


def places(tree: Any, path: Path = ()) -> list[Path]:
    entries = tree.items() if isinstance(tree, dict) else enumerate(tree) if isinstance(tree, list) else ()
    found: list[Path] = []
    for step, inner in entries:
        found += [(*path, step), *places(inner, (*path, step))]
    return found


def changed(tree: Any, path: Path, value: object) -> Any:
    if not path:
        return value
    copy = tree.copy()
    copy[path[0]] = changed(copy[path[0]], path[1:], value)
    return copy


@pytest.mark.parametrize("data", RICH, ids=[data["kind"] for data in RICH])
def test_the_untouched_ones_are_good(data: dict[str, Any]) -> None:
    parse_object(data)


@settings(max_examples=examples(300))
@given(st.data())
def test_junk_anywhere_is_taken_or_named(data: st.DataObject) -> None:
    tree = data.draw(st.sampled_from(RICH))
    path = data.draw(st.sampled_from(places(tree)))
    tree = changed(tree, path, data.draw(JUNK))
    try:
        parse_object(tree)
        named = True
    except ManifestError as error:
        named = all(fault.message and not fault.message.startswith("Expected") for fault in error.problems)
    assert named
    assert outcome(tree, parse=True) == outcome(tree, parse=False)


def outcome(tree: dict[str, Any], *, parse: bool) -> object:
    """The object or the faults without their lines, from data in memory or from a JSON file."""
    try:
        if parse:
            return [parse_object(tree)]
        return load(["-"], stdin=io.BytesIO(json.dumps(tree).encode())).objects or "not read"
    except ManifestError as error:
        faults = sorted((fault.path, fault.message) for fault in error.problems)
        return "not read" if "of a supported kind" in faults[0][1] else faults


def test_paths_read_as_one_would_write_them() -> None:
    path = ("spec", "containers", 0, "resources", "requests", "nvidia.com/gpu")
    assert path_text(path) == "spec.containers[0].resources.requests[nvidia.com/gpu]"
    assert path_text(("items", 3)) == "items[3]"
    assert path_text(("a b",)) == "[a b]"


@pytest.mark.parametrize("wrong", [[], 3, True, {"all": 3}, "Both", {"all": {}, "single": {}}])
def test_a_choice_between_forms_that_fits_none_is_named(wrong: object) -> None:
    group = {
        "apiVersion": "scheduling.k8s.io/v1beta1",
        "kind": "PodGroup",
        "metadata": {"name": "g"},
        "spec": {"disruptionMode": wrong},
    }
    with pytest.raises(ManifestError, match=r"spec\.disruptionMode"):
        parse_object(group)


@pytest.mark.parametrize("status", [{"": ""}, {"allocatable": "x", "requested": None}, {"allocatable": []}])
def test_a_number_that_is_missing_or_no_number_is_named(status: dict[str, Any]) -> None:
    with pytest.raises(ManifestError) as caught:
        parse_object({"kind": "ResourceClass", "metadata": {"name": "c"}, "status": status})
    assert "status.allocatable" in str(caught.value)
