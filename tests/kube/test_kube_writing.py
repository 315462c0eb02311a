"""Carrying plans out on a real API server: writes that are seen, refused or not answered (spec K7, K8, K16 to K18)."""

from __future__ import annotations

import asyncio
from pathlib import Path
from typing import Any

import pytest

from fairway.kube.http.exchange import NO_ANSWER, ApiAnswer, ApiRequest
from kube.cluster import Cluster, eventually
from kube.intercepted import Fault, Faults, Send, is_settled
from kube.live import Live

PREEMPTING = """
actions: [enqueue, allocate, preempt, backfill]
tiers:
- plugins: [{name: priority}, {name: gang}, {name: drf, arguments: {priorityFirst: true}}]
- plugins: [{name: predicates}, {name: proportion}, {name: nodeorder}]
"""


@pytest.mark.parametrize("was_done", [True, False])
def test_K7_a_bind_without_an_answer_ends_by_what_the_pod_shows(cluster: Cluster, was_done: bool) -> None:
    lost = [3]

    async def fault(request: ApiRequest, send: Send) -> ApiAnswer | None:
        if request.path.endswith("/binding") and lost[0]:
            lost[0] -= 1
            if was_done:
                await send(request)
            return NO_ANSWER
        return None

    faults = Faults(fault)
    cluster.node("n", cpu=2)
    with Live(cluster, prepare=faults.install) as live:
        cluster.pod("p1")
        cluster.pod("p2")
        eventually(lambda: cluster.places() == {"p1": "n", "p2": "n"})
        eventually(lambda: is_settled(live))
        assert live.logged("refused") == []
        assert lost == [0] or was_done
        cluster.pod("p3")
        eventually(lambda: live.on_loop(lambda: f"{cluster.namespace}/p3" in live.scheduler._scheduler.state.tasks))
        assert cluster.places()["p3"] == ""


def test_K7_a_pod_is_assumed_from_the_plan_on_though_its_bind_takes_long(cluster: Cluster) -> None:
    """The second pod would come first, were the first not on the node already as far as is decided."""
    go_on = asyncio.Event()
    held: list[str] = []

    async def fault(request: ApiRequest, send: Send) -> ApiAnswer | None:
        if request.path.endswith("/first/binding"):
            held.append(request.path)
            await go_on.wait()
        return None

    cluster.node("n", cpu=1)
    urgent = priority(cluster, 1000)
    faults = Faults(fault)
    with Live(cluster, prepare=faults.install) as live:
        cluster.pod("first")
        eventually(lambda: held)
        cycles = live.cycles
        cluster.pod("second", priorityClassName=urgent)
        key = ("Pod", cluster.namespace, "second")
        eventually(lambda: live.on_loop(lambda: live.store.get(key)))
        eventually(lambda: live.cycles > cycles)
        assert faults.count("/binding") == 1
        assert cluster.places() == {"first": "", "second": ""}
        live.scheduler._sockets.call_soon_threadsafe(go_on.set)
        eventually(lambda: cluster.places() == {"first": "n", "second": ""})


def test_a_pod_that_is_deleted_and_made_again_while_it_is_bound_is_another_one(cluster: Cluster) -> None:
    """The uid in the binding is a precondition: the new pod of that name is decided about by itself."""
    once = [True]

    async def fault(request: ApiRequest, send: Send) -> ApiAnswer | None:
        if request.path.endswith("/binding") and once[0]:
            once[0] = False
            await asyncio.to_thread(recreate)
        return None

    def recreate() -> None:
        cluster.delete(f"{cluster.pods}/p")
        cluster.pod("p", cpu="2")

    cluster.node("n", cpu=2)
    with Live(cluster, prepare=Faults(fault).install) as live:
        cluster.pod("p")
        eventually(lambda: cluster.places() == {"p": "n"})
        assert eventually(lambda: live.logged("refused"))[0]["change"] == "Bind"
        eventually(lambda: is_settled(live))


def test_a_pod_that_is_deleted_while_it_is_bound_is_forgotten_and_its_room_is_free(cluster: Cluster) -> None:
    once = [True]

    async def fault(request: ApiRequest, send: Send) -> ApiAnswer | None:
        if request.path.endswith("/p/binding") and once[0]:
            once[0] = False
            await asyncio.to_thread(cluster.delete, f"{cluster.pods}/p")
        return None

    cluster.node("n", cpu=1)
    with Live(cluster, prepare=Faults(fault).install) as live:
        cluster.pod("p")
        refused = eventually(lambda: live.logged("refused"))
        assert refused[0]["why"] == "the pod is gone"
        cluster.pod("q")
        eventually(lambda: cluster.places() == {"q": "n"})


@pytest.mark.parametrize("status", [429, 500, 503])
def test_a_busy_server_slows_writes_and_loses_none(cluster: Cluster, status: int) -> None:
    busy = [5]

    async def fault(request: ApiRequest, send: Send) -> ApiAnswer | None:
        if request.path.endswith("/binding") and busy[0]:
            busy[0] -= 1
            return ApiAnswer(status, b"", 0.2 if status == 429 else None)
        return None

    faults = Faults(fault)
    cluster.node("n", cpu=20)
    for number in range(10):
        cluster.pod(f"p{number}")
    with Live(cluster, prepare=faults.install) as live:
        eventually(lambda: set(cluster.places().values()) == {"n"})
        assert live.logged("refused") == []
        assert faults.count("/binding") == 15


def test_cycles_pause_while_too_many_binds_are_not_answered(cluster: Cluster) -> None:
    go_on = asyncio.Event()

    async def fault(request: ApiRequest, send: Send) -> ApiAnswer | None:
        if request.path.endswith("/binding"):
            await go_on.wait()
        return None

    cluster.node("n", cpu=20)
    for number in range(4):
        cluster.pod(f"p{number}")
    with Live(cluster, prepare=Faults(fault).install, max_in_flight_binds=3) as live:
        eventually(lambda: live.scheduler._world.unanswered == 4)
        cycles = live.cycles
        cluster.pod("later")
        eventually(lambda: live.on_loop(lambda: live.store.get(("Pod", cluster.namespace, "later"))))
        assert live.cycles == cycles
        live.scheduler._sockets.call_soon_threadsafe(go_on.set)
        eventually(lambda: set(cluster.places().values()) == {"n"})
        assert live.cycles > cycles


# -- evictions -----------------------------------------------------------------------------------------------------


@pytest.fixture(name="policy")
def a_preempting_policy(tmp_path: Path) -> str:
    path = tmp_path / "policy.yaml"
    path.write_text(PREEMPTING)
    return str(path)


def priority(cluster: Cluster, value: int) -> str:
    name = f"{cluster.namespace}-{value}"
    path = "/apis/scheduling.k8s.io/v1/priorityclasses"
    cluster.make(path, {"metadata": {"name": name}, "value": value})
    return name


def start_victim(cluster: Cluster, **metadata: Any) -> None:
    """A pod that runs, and takes its time to leave."""
    cluster.pod("low", cpu="2", metadata=metadata, terminationGracePeriodSeconds=30)
    eventually(lambda: cluster.places() == {"low": "n"})
    cluster.runs("low")


def test_a_victim_is_evicted_with_its_reason_and_its_node_goes_to_the_claimant(cluster: Cluster, policy: str) -> None:
    node = cluster.node("n", cpu=2)
    with Live(cluster, policy=policy):
        start_victim(cluster)
        cluster.pod("high", cpu="2", priorityClassName=priority(cluster, 1000))
        low = f"{cluster.pods}/low"

        def targeted() -> dict[str, Any] | None:
            found = cluster.get(low)
            conditions = found["status"].get("conditions", []) if found["metadata"].get("deletionTimestamp") else []
            by_reason = {one.get("reason"): one for one in conditions}
            return by_reason.get("PreemptionByScheduler")

        condition = eventually(targeted)
        assert (condition["type"], condition["status"]) == ("DisruptionTarget", "True")
        assert f"preempt for {cluster.namespace}/high" in condition["message"]
        nominated = eventually(lambda: cluster.get(f"{cluster.pods}/high")["status"].get("nominatedNodeName"))
        assert nominated == node
        assert cluster.places()["high"] == ""
        cluster.delete(low)
        eventually(lambda: cluster.places() == {"high": "n"})


def test_a_budget_that_forbids_an_eviction_is_heeded_until_it_changes(cluster: Cluster, policy: str) -> None:
    """The server refuses while a budget's status is older than the budget, whatever the status says."""

    async def fault(request: ApiRequest, send: Send) -> ApiAnswer | None:
        return None

    faults = Faults(fault)
    cluster.node("n", cpu=2)
    with Live(cluster, policy=policy, prepare=faults.install) as live:
        start_victim(cluster, labels={"app": "x"})
        budgets = f"/apis/policy/v1/namespaces/{cluster.namespace}/poddisruptionbudgets"
        spec = {"minAvailable": 0, "selector": {"matchLabels": {"app": "x"}}}
        cluster.make(budgets, {"metadata": {"name": "b"}, "spec": spec})
        counts = {"disruptionsAllowed": 1, "currentHealthy": 1, "desiredHealthy": 0, "expectedPods": 1}
        status = f"{budgets}/b/status"
        cluster.plane.call("PATCH", status, {"status": {**counts, "observedGeneration": 0}}, kind="merge")
        key = ("PodDisruptionBudget", cluster.namespace, "b")

        def allowed() -> Any:
            found: Any = live.on_loop(lambda: live.store.get(key))
            return found and found.status.disruptions_allowed

        eventually(lambda: allowed() == 1)
        cluster.pod("high", cpu="2", priorityClassName=priority(cluster, 1000))
        refused = eventually(lambda: live.logged("refused"))
        assert "PodDisruptionBudget forbids" in refused[0]["why"]
        eventually(lambda: is_settled_but_budget(live))
        assert allowed() == 0
        asked = faults.count("/eviction")
        assert asked == 1
        cluster.plane.call("PATCH", status, {"status": {**counts, "observedGeneration": 1}}, kind="merge")
        eventually(lambda: cluster.get(f"{cluster.pods}/low")["metadata"].get("deletionTimestamp"))
        cluster.delete(f"{cluster.pods}/low")
        eventually(lambda: cluster.places() == {"high": "n"})


def is_settled_but_budget(live: Live) -> bool:
    kinds = live.on_loop(lambda: [type(change).__name__ for change in live.store.in_flight()])
    return not live.scheduler._queue.unended() and kinds == ["UsedUpBudget"]


# -- gangs ---------------------------------------------------------------------------------------------------------


def gang(cluster: Cluster, name: str, minimum: int) -> None:
    """A PodGroup of Kubernetes' own."""
    path = f"/apis/scheduling.k8s.io/v1alpha2/namespaces/{cluster.namespace}/podgroups"
    spec = {"schedulingPolicy": {"gang": {"minCount": minimum}}}
    body = {"apiVersion": "scheduling.k8s.io/v1alpha2", "kind": "PodGroup", "metadata": {"name": name}, "spec": spec}
    cluster.make(path, body)


def member(cluster: Cluster, name: str, group: str) -> None:
    cluster.pod(name, schedulingGroup={"podGroupName": group})


def test_a_gang_is_bound_whole_when_there_is_room_for_all_of_it(cluster: Cluster) -> None:
    cluster.node("n1", cpu=2)
    gang(cluster, "g", 3)
    with Live(cluster) as live:
        for number in range(3):
            member(cluster, f"g{number}", "g")
        cluster.pod("lone")
        eventually(lambda: cluster.places()["lone"] == "n1")
        assert [node for name, node in cluster.places().items() if name != "lone"] == ["", "", ""]
        cluster.node("n2", cpu=2)
        eventually(lambda: all(cluster.places().values()))
        eventually(lambda: is_settled(live))


def test_a_gang_of_which_some_have_finished_replaces_one_that_was_lost(cluster: Cluster) -> None:
    cluster.node("n", cpu=4)
    gang(cluster, "g", 2)
    with Live(cluster, gang_bind_timeout=1):
        member(cluster, "g0", "g")
        member(cluster, "g1", "g")
        eventually(lambda: set(cluster.places().values()) == {"n"})
        cluster.runs("g0", "Succeeded")
        cluster.delete(f"{cluster.pods}/g1")
        member(cluster, "g2", "g")
        eventually(lambda: cluster.places() == {"g0": "n", "g2": "n"})


def gone_at_its_bind(cluster: Cluster) -> Fault:
    """The second pod of the gang is deleted when it is about to be bound, once."""
    once = [True]

    async def fault(request: ApiRequest, send: Send) -> ApiAnswer | None:
        if request.path.endswith("/g1/binding") and once[0]:
            once[0] = False
            await asyncio.to_thread(cluster.delete, f"{cluster.pods}/g1")
        return None

    return fault


def test_K8_a_gang_whose_bind_was_refused_for_good_is_completed_by_a_new_pod(cluster: Cluster) -> None:
    cluster.node("n", cpu=4)
    gang(cluster, "g", 2)
    with Live(cluster, prepare=Faults(gone_at_its_bind(cluster)).install) as live:
        member(cluster, "g0", "g")
        member(cluster, "g1", "g")
        eventually(lambda: live.logged("refused"))
        eventually(lambda: cluster.places() == {"g0": "n"})
        member(cluster, "g2", "g")
        eventually(lambda: cluster.places() == {"g0": "n", "g2": "n"})
        assert live.logged("gang evicted because it could not be completed in time") == []


def test_K8_a_gang_that_cannot_be_completed_is_evicted_and_the_event_says_so(cluster: Cluster) -> None:
    cluster.node("n", cpu=4)
    gang(cluster, "g", 2)
    with Live(cluster, prepare=Faults(gone_at_its_bind(cluster)).install, gang_bind_timeout=3) as live:
        member(cluster, "g0", "g")
        member(cluster, "g1", "g")
        eventually(lambda: live.logged("refused"))
        eventually(lambda: cluster.places() == {})
        path = f"/apis/events.k8s.io/v1/namespaces/{cluster.namespace}/events"
        said = eventually(lambda: [one for one in cluster.get(path)["items"] if one["reason"] == "GangTimedOut"])
        assert said[0]["regarding"]["kind"] == "PodGroup"
        assert "1 of 2 pods" in said[0]["note"]


def test_K8_a_gang_that_a_crash_left_half_bound_is_completed_by_the_next_leader(cluster: Cluster) -> None:
    node = cluster.node("n", cpu=4)
    gang(cluster, "g", 3)
    for number in range(3):
        member(cluster, f"g{number}", "g")
    cluster.bind("g0", node)
    with Live(cluster):
        eventually(lambda: set(cluster.places().values()) == {"n"})


def test_K8_a_gang_that_a_crash_left_half_bound_and_that_no_longer_fits_is_evicted(cluster: Cluster) -> None:
    node = cluster.node("n", cpu=1)
    gang(cluster, "g", 2)
    member(cluster, "g0", "g")
    member(cluster, "g1", "g")
    cluster.bind("g0", node)
    with Live(cluster, gang_bind_timeout=3):
        eventually(lambda: cluster.places() == {"g1": ""})
