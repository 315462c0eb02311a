"""Both sides on a real API server: a cluster's scheduler reports what is free and used, the hub's placer acts on it."""

from __future__ import annotations

import json
from pathlib import Path
from typing import Any

from fairway.app.live import service
from fairway.clock import SECOND, wall_clock
from kube.cluster import Cluster, eventually
from kube.hub import Hub, LiveFleet
from kube.live import Live
from kube.proxy import FaultProxy


def notes(hub: Hub, name: str) -> dict[str, Any]:
    found = hub.get(hub.path(name))["metadata"].get("annotations", {})
    own = {key: text for key, text in found.items() if "fairway" in key}
    return {key: json.loads(text) if text.startswith("{") else text for key, text in own.items()}


def test_capacity_is_reserved_consumed_and_returned(hub: Hub, cluster: Cluster, monkeypatch: Any) -> None:
    monkeypatch.setattr(service, "INTERVAL", 0.2)
    hub.managed("m")
    cluster.node("n", cpu=10)
    with (
        Live(cluster, report_to=str(hub.plane.kubeconfig()), report_as=hub.full("m")),
        LiveFleet(hub) as placer,
    ):
        eventually(lambda: notes(hub, "m").get("fairway.dev/free", {}).get("cpu"))
        free = int(notes(hub, "m")["fairway.dev/free"]["cpu"])
        assert free >= 10
        assert notes(hub, "m")["fairway.dev/report-until"]

        need = json.dumps({"cpu": str(free - 4)})
        hub.placement("train", annotations={"fairway.dev/requirements": need})
        eventually(lambda: hub.chosen("train") == ["m"])
        hub.placement("late", annotations={"fairway.dev/requirements": '{"cpu": "5"}'})
        found = eventually(lambda: hub.condition("late"))
        assert "InsufficientFree: cpu: 4 available, 5 required" in found[2]

        labels = {"fairway.dev/placement-namespace": hub.namespace, "fairway.dev/placement-name": "train"}
        cluster.pod("work", cpu="6", metadata={"labels": labels})
        key = f"{hub.namespace}/train"
        eventually(lambda: notes(hub, "m")["fairway.dev/placement-usage"].get(key, {}).get("cpu") == "6")
        eventually(lambda: notes(hub, "m")["fairway.dev/free"]["cpu"] == str(free - 6))
        placer.settle()
        assert hub.chosen("late") == []  # what was reserved was used, not freed
        books = placer.on_loop(
            lambda: [
                e for s in placer.placer.loop.state.ledger.slots() for e in placer.placer.loop.state.ledger.entries(s)
            ]
        )
        assert [(entry.placement, entry.consumed.format(), entry.remaining.format()) for entry in books] == [
            (key, {"cpu": "6"}, {"cpu": str(free - 10)})
        ]

        hub.delete(hub.placement_path("train"), grace=None)
        cluster.delete(f"{cluster.pods}/work")
        eventually(lambda: hub.chosen("late") == ["m"])


def test_a_member_that_is_cut_off_is_not_trusted_and_its_books_balance_when_it_is_back(
    hub: Hub, cluster: Cluster, tmp_path: Path, monkeypatch: Any
) -> None:
    """While the cable is pulled the cluster goes on by itself; what it took meanwhile is counted afterwards. A report
    that was on its way when the cable was pulled arrives when it is back, and has ended by then.
    """
    monkeypatch.setattr(service, "INTERVAL", 0.2)
    hub.managed("m")
    tpu = "example.com/cut-off-tpu"  # of this test alone: other nodes have cpu, too
    there = {"status": {what: {tpu: "40"} for what in ("capacity", "allocatable")}}
    hub.plane.call("PATCH", f"/api/v1/nodes/{cluster.node('n', cpu=40)}/status", there, kind="strategic")

    def pod(name: str, number: int, **labels: str) -> None:
        amounts = {"requests": {tpu: str(number)}, "limits": {tpu: str(number)}}
        containers = [{"name": "c", "image": "i", "resources": amounts}]
        cluster.pod(name, metadata={"labels": labels}, containers=containers)

    def free() -> str:
        found: str = notes(hub, "m").get("fairway.dev/free", {}).get(tpu, "")
        return found

    with (
        FaultProxy(hub.plane, user="admin") as cable,
        Live(cluster, report_to=str(cable.kubeconfig(tmp_path)), report_as=hub.full("m"), report_lifetime=3) as member,
        LiveFleet(hub) as placer,
    ):
        eventually(lambda: free() == "40")
        hub.placement("before", annotations={"fairway.dev/requirements": json.dumps({tpu: "10"})})
        eventually(lambda: hub.chosen("before") == ["m"])
        cable.is_cut = True
        _await_a_held_report(cable)
        owner = {"fairway.dev/placement-namespace": hub.namespace, "fairway.dev/placement-name": "before"}
        pod("work", 6, **owner)
        pod("own", 20)
        eventually(lambda: len(cluster.places()) == 2 and all(cluster.places().values()), "it schedules by itself")
        eventually(lambda: (hub.condition("before", "PlacementOverdrawn") or ("",))[0] == "True")
        assert hub.chosen("before") == ["m"]
        hub.placement("meanwhile", annotations={"fairway.dev/requirements": json.dumps({tpu: "12"})})
        eventually(lambda: "FreeUnknown" in (hub.condition("meanwhile") or ("", "", ""))[2])
        reporter = member.scheduler._reporter
        assert reporter is not None
        eventually(lambda: json.loads((reporter._newest or {})["fairway.dev/free"])[tpu] == "14")
        older = wall_clock()  # than this is every report on its way that says more than 14
        eventually(lambda: wall_clock() > older + 3 * SECOND)
        cable.is_cut = False
        told = f"{tpu}: 10 available, 12 required"  # 14 are free, of which 4 are still reserved
        try:
            eventually(lambda: told in (hub.condition("meanwhile") or ("", "", ""))[2], told)
        except AssertionError as error:
            found = hub.condition("meanwhile"), notes(hub, "m"), cluster.places()
            raise AssertionError(f"{error}; there is {found}") from None
        assert free() == "14"
        eventually(lambda: (hub.condition("before", "PlacementOverdrawn") or ("",))[0] == "False")
        placer.settle()
        assert hub.chosen("meanwhile") == []


def _await_a_held_report(cable: FaultProxy) -> None:
    """One that the member sent and the hub did not get."""
    eventually(lambda: sum(asked.is_write for _, asked in list(cable.asked)) > len(cable.passed))


def test_what_is_free_is_a_score_that_placements_can_weigh(hub: Hub, cluster: Cluster, monkeypatch: Any) -> None:
    """Open Cluster Management's own controller reads the same object."""
    monkeypatch.setattr(service, "INTERVAL", 0.2)
    for name in "mn":
        hub.make("/api/v1/namespaces", {"metadata": {"name": hub.managed(name)}})
    hub.score("n", "fairway", cpuFree=10)
    cluster.node("n", cpu=10)
    add_on = {"type": "AddOn", "addOn": {"resourceName": "fairway", "scoreName": "cpuFree"}}
    policy = {"mode": "Exact", "configurations": [{"scoreCoordinate": add_on, "weight": 1}]}
    with (
        Live(cluster, report_to=str(hub.plane.kubeconfig()), report_as=hub.full("m"), report_scores=True),
        LiveFleet(hub),
    ):
        hub.placement("p", numberOfClusters=1, prioritizerPolicy=policy)
        eventually(lambda: hub.chosen("p") == ["m"])
        cluster.pod("work", cpu="9")
        eventually(lambda: hub.chosen("p") == ["n"])
