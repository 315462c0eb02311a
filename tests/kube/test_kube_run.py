"""`fairway run` on a real API server: what users see."""

from __future__ import annotations

from typing import Any

from kube.cluster import Cluster, eventually
from kube.live import Live


def test_a_pod_is_bound_to_a_node_that_has_room(cluster: Cluster) -> None:
    cluster.node("small", cpu=1)
    cluster.node("large", cpu=4)
    with Live(cluster):
        cluster.pod("p", cpu="2")
        eventually(lambda: cluster.places() == {"p": "large"})
        condition = cluster.get(f"{cluster.pods}/p")["status"]["conditions"][0]
        assert (condition["type"], condition["status"]) == ("PodScheduled", "True")


def test_a_pod_that_fits_nowhere_waits_until_a_node_comes(cluster: Cluster) -> None:
    cluster.node("small", cpu=1)
    with Live(cluster) as live:
        cluster.pod("p", cpu="2")
        cluster.pod("q", cpu="1")
        eventually(lambda: cluster.places()["q"] == "small")
        cluster.node("large", cpu=2)
        eventually(lambda: cluster.places() == {"p": "large", "q": "small"})
        assert live.logged("refused") == []


def events(cluster: Cluster) -> list[dict[str, Any]]:
    found: list[dict[str, Any]] = cluster.get(f"/apis/events.k8s.io/v1/namespaces/{cluster.namespace}/events")["items"]
    return found


def test_a_pod_that_waits_says_why_and_one_that_is_bound_has_an_event(cluster: Cluster) -> None:
    cluster.node("small", cpu=1)
    with Live(cluster):
        cluster.pod("large", cpu="2")
        cluster.pod("fits", cpu="1")

        def reason() -> str:
            conditions = cluster.get(f"{cluster.pods}/large")["status"].get("conditions", [])
            return next((one["message"] for one in conditions if one["reason"] == "Unschedulable"), "")

        assert "insufficient cpu" in eventually(reason).lower()
        found = eventually(
            lambda: {event["reason"]: event for event in events(cluster)} if len(events(cluster)) > 1 else 0
        )
        assert found["Scheduled"]["regarding"]["name"] == "fits"
        assert (
            found["Scheduled"]["note"] == f"Successfully assigned {cluster.namespace}/fits to {cluster.namespace}-small"
        )
        assert found["FailedScheduling"]["regarding"]["name"] == "large"


def test_pods_that_were_there_before_are_bound_when_it_starts(cluster: Cluster) -> None:
    cluster.node("n", cpu=10)
    for number in range(10):
        cluster.pod(f"p{number}")
    with Live(cluster):
        eventually(lambda: set(cluster.places().values()) == {"n"})


def test_a_pod_of_another_scheduler_is_left_alone_and_what_it_uses_counts(cluster: Cluster) -> None:
    node = cluster.node("n", cpu=2)
    cluster.pod("other", cpu="1", schedulerName="another")
    with Live(cluster):
        cluster.pod("small", cpu="1")
        eventually(lambda: cluster.places() == {"other": "", "small": "n"})
        cluster.bind("other", node)
        cluster.delete(f"{cluster.pods}/small")
        cluster.pod("large", cpu="2")
        cluster.pod("fits", cpu="1")
        eventually(lambda: cluster.places() == {"other": "n", "large": "", "fits": "n"})
