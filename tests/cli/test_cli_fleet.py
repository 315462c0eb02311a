"""`fairway explain placement` and `fairway clusters` as a user runs them."""

from __future__ import annotations

import json

import pytest

from support.cli import invoke

FLEET = ("-f", "examples/fleet/quickstart.yaml", "--now", "2026-01-01T00:00:00Z")


def test_explain_a_placement_and_what_would_bring_a_cluster_in() -> None:
    result = invoke("explain", "placement", "shop/storefront", "--cluster", "warsaw", *FLEET)
    assert result.code == 0, result.err
    assert "What would make it select warsaw:" in result.out
    assert "1. choose 3 clusters (numberOfClusters), or give it 121 more points" in result.out
    found = json.loads(invoke("explain", "placement", "storefront", "--cluster", "lisbon", *FLEET, "-o", "json").out)
    assert found["placement"] == "shop/storefront"
    assert found["advice"]["steps"] == ["tolerate maintenance:NoSelect, or remove the taint"]


@pytest.mark.parametrize(
    ("arguments", "said"),
    [
        (("placement", "shop/other"), "placement shop/other does not exist; there are: shop/storefront"),
        (("placement", "shop/storefront", "more"), "expected the name of a job, or `placement` and a name"),
        (("some/job", "--cluster", "a"), "--cluster requires `placement`"),
        (("placement", "shop/storefront", "--cluster", "warsw"), "cluster warsw does not exist; there are: warsaw"),
    ],
)
def test_what_is_not_there_or_makes_no_sense(arguments: tuple[str, ...], said: str) -> None:
    result = invoke("explain", *arguments, *FLEET)
    assert result.code == 2
    assert said in result.err


def test_the_clusters_of_a_fleet() -> None:
    result = invoke("clusters", "-f", "examples/fleet/requirements.yaml")
    assert result.code == 0, result.err
    assert "dgx-east" in result.out
    found = json.loads(invoke("clusters", "-f", "examples/fleet/requirements.yaml", "-o", "json").out)["clusters"]
    assert [one["name"] for one in found] == ["dgx-east", "dgx-west"]
    assert found[0]["free"]["nvidia.com/gpu"] == "12"
    assert found[0]["reportAge"] is None
