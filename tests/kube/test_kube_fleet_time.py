"""What time alone changes on a hub: tolerations, scores, cooldowns and reports end; the placer wakes up for each."""

from __future__ import annotations

from datetime import UTC, datetime, timedelta

from kube.cluster import eventually
from kube.hub import Hub, LiveFleet

SOON = 2
"""Seconds. Counted from when the test has seen what was before, however long that took."""


def later(seconds: float) -> str:
    return (datetime.now(UTC) + timedelta(seconds=seconds)).strftime("%Y-%m-%dT%H:%M:%SZ")


def test_a_toleration_ends(hub: Hub) -> None:
    hub.managed("a")
    hub.managed("b")
    hub.placement(
        "p",
        numberOfClusters=1,
        tolerations=[{"key": "gone", "operator": "Exists", "tolerationSeconds": SOON}],
    )
    with LiveFleet(hub):
        eventually(lambda: hub.chosen("p") == ["a"])
        hub.taint("a", {"key": "gone", "effect": "NoSelect", "timeAdded": later(0)})
        eventually(lambda: hub.chosen("p") == ["b"])
        left = eventually(lambda: [text for _, text in hub.notes("p") if "cluster a left" in text])
        assert "TaintToleration" in left[0]


def test_a_score_expires(hub: Hub) -> None:
    hub.managed("a")
    hub.managed("b")
    hub.score("a", "s", x=10)
    hub.score("b", "s", x=90)
    add_on = {"type": "AddOn", "addOn": {"resourceName": "s", "scoreName": "x"}}
    hub.placement(
        "p",
        numberOfClusters=1,
        prioritizerPolicy={"mode": "Exact", "configurations": [{"scoreCoordinate": add_on, "weight": 1}]},
    )
    with LiveFleet(hub):
        eventually(lambda: hub.chosen("p") == ["b"])
        hub.score("b", "s", until=later(SOON), x=90)
        eventually(lambda: hub.chosen("p") == ["a"])


def test_a_cooldown_ends(hub: Hub) -> None:
    hub.managed("a", {"memory": "2Gi"})
    hub.managed("b", {"memory": "1Gi"})
    memory = {"type": "BuiltIn", "builtIn": "ResourceAllocatableMemory"}
    policy = {"mode": "Exact", "configurations": [{"scoreCoordinate": memory, "weight": 1}]}
    hub.placement("p", annotations={"fairway.dev/cooldown": str(SOON)}, numberOfClusters=1, prioritizerPolicy=policy)
    with LiveFleet(hub):
        eventually(lambda: hub.chosen("p") == ["a"])
        hub.reports("b", {"memory": "9Gi"})
        eventually(lambda: hub.chosen("p") == ["b"])
        moved = hub.slices("p")[0]["metadata"]["annotations"]["fairway.dev/moved-at"]
        assert moved


def test_a_cluster_that_has_gone_silent_is_not_trusted(hub: Hub) -> None:
    hub.managed("a", annotations={"fairway.dev/free": '{"cpu": "8"}', "fairway.dev/report-until": later(600)})
    with LiveFleet(hub):
        hub.placement("first", annotations={"fairway.dev/requirements": '{"cpu": "2"}'})
        eventually(lambda: hub.chosen("first") == ["a"])
        hub.annotate("a", report_until=later(SOON))

        def overdrawn() -> bool:
            return (hub.condition("first", "PlacementOverdrawn") or ("",))[0] == "True"

        eventually(overdrawn, "what was reserved there is no longer known to be there")
        assert hub.chosen("first") == ["a"]
        hub.placement("second", annotations={"fairway.dev/requirements": '{"cpu": "2"}'})
        found = eventually(lambda: hub.condition("second"))
        assert "FreeUnknown" in found[2]
        hub.annotate("a", report_until=later(600))
        eventually(lambda: hub.chosen("second") == ["a"])
        eventually(lambda: not overdrawn())


def test_a_cluster_whose_clock_is_ahead_is_trusted_for_as_long_as_any_other(hub: Hub) -> None:
    """An hour ahead, and silent from now on: its report counts for the seconds that it said, not for the hour."""
    hub.managed("a", annotations={"fairway.dev/free": '{"cpu": "8"}', "fairway.dev/report-until": later(600)})
    with LiveFleet(hub):
        hub.placement("first", annotations={"fairway.dev/requirements": '{"cpu": "2"}'})
        eventually(lambda: hub.chosen("first") == ["a"])
        hub.annotate("a", reported_at=later(3600), report_until=later(3600 + SOON))
        eventually(lambda: (hub.condition("first", "PlacementOverdrawn") or ("",))[0] == "True")
        found = eventually(lambda: hub.condition_of("a", "FairwayReportAccepted"))
        assert (found["status"], found["reason"]) == ("False", "InvalidReport")
        assert "clock is more than 60 s ahead" in found["message"]
        hub.patch(
            hub.path("a"), {"metadata": {"labels": {"note": "x"}}}
        )  # another program writes the object: the report is no younger for that
        hub.placement("second", annotations={"fairway.dev/requirements": '{"cpu": "2"}'})
        assert "FreeUnknown" in eventually(lambda: hub.condition("second"))[2]
        hub.annotate("a", reported_at=later(0), report_until=later(600))
        eventually(lambda: hub.chosen("second") == ["a"])
        eventually(lambda: (hub.condition_of("a", "FairwayReportAccepted") or {"status": ""})["status"] == "True")
