"""What a member cluster reports to its hub, and when."""

from __future__ import annotations

import asyncio
import json
from typing import Any

import pytest
from hypothesis import given
from hypothesis import strategies as st

from fairway.app.live.reporting import MAX_BYTES, HubReporter
from fairway.app.live.settings import read_settings
from fairway.app.logs import RunLog
from fairway.clock import SECOND
from fairway.drive.member import MAX_PLACEMENTS, PlacementPods, member_report
from fairway.errors import InputError
from fairway.fleet.names import FREE, SHAPES, USAGE, WAITS
from fairway.kube.http.exchange import NO_ANSWER, ApiAnswer, ApiRequest
from fairway.state.cluster import ClusterState, Deleted, Upserted
from support.objects import expression, node, node_affinity, pod, queue

OWNED = {"fairway.dev/placement-namespace": "ns", "fairway.dev/placement-name": "p"}


class Member:
    """A state and its listener, told the same."""

    def __init__(self, *things: Any) -> None:
        self.state = ClusterState(None)
        self.pods = PlacementPods()
        for thing in things:
            self.see(thing)

    def see(self, thing: Any) -> None:
        self.state.apply(Upserted(thing))
        self.pods.applied([Upserted(thing)])

    def gone(self, thing: Any) -> None:
        self.state.apply(Deleted(thing))
        self.pods.applied([Deleted(thing)])

    def says(self, name: str, now: int = 0) -> Any:
        self.state.refresh()
        return json.loads(member_report(self.state, self.pods, now)[name])


def test_free_is_what_nodes_that_take_pods_can_still_take() -> None:
    member = Member(
        node("n1", cpu=8, memory="16Gi", **{"nvidia.com/gpu": 8}),
        node("n2", cpu=4, memory="8Gi"),
        node("cordoned", cpu=100, unschedulable=True),
        node("lost", cpu=100, ready=False),
        pod("a", cpu=3, node="n1", phase="Running", **{"nvidia.com/gpu": 8}),
    )
    free = member.says(FREE)
    assert (free["cpu"], free["memory"], free["nvidia.com/gpu"]) == ("9", "24Gi", "0")


def test_more_used_than_there_is_leaves_nothing_free_and_takes_nothing_from_other_nodes() -> None:
    member = Member(node("n1", cpu=1), node("n2", cpu=4), pod("a", cpu=3, node="n1", phase="Running"))
    assert member.says(FREE)["cpu"] == "4"


def test_how_many_more_pods_of_the_sizes_that_are_asked_for_fit_at_once() -> None:
    gpu = "nvidia.com/gpu"
    member = Member(
        *[node(f"n{number}", cpu=64, **{gpu: 8}) for number in range(4)],
        pod("runs", cpu=1, node="n0", phase="Running", **{gpu: 5}),
        pod("whole", cpu=1, **{gpu: 8}),
        *[pod(f"small{number}", cpu=1, **{gpu: 1}) for number in range(3)],
    )
    found = {shape["request"].get(gpu): shape["fits"] for shape in member.says(SHAPES)}
    assert (found["8"], found["1"]) == (3, 27)


def test_only_nodes_whose_labels_and_taints_let_pods_in_count_for_them() -> None:
    tolerating = {"tolerations": [{"key": "gpu", "operator": "Exists"}]}
    member = Member(
        node("east", cpu=4, labels={"zone": "east"}),
        node("west", cpu=4, labels={"zone": "west"}),
        node("tainted", cpu=4, taints=["gpu=yes:NoSchedule"], labels={"zone": "west"}),
        node("liked-less", cpu=4, taints=["slow=yes:PreferNoSchedule"]),
        *[pod(f"any{number}", cpu=1) for number in range(4)],
        *[pod(f"east{number}", cpu=2, spec={"nodeSelector": {"zone": "east"}}) for number in range(3)],
        *[pod(f"west{number}", cpu=1, spec=node_affinity([expression("zone", "In", "west")])) for number in range(2)],
        pod("tolerates", cpu=2, spec=tolerating),
    )
    found = [(one["request"]["cpu"], one.get("nodeSelector"), one["fits"]) for one in member.says(SHAPES)]
    assert found == [("1", None, 12), ("2", {"zone": "east"}, 2), ("1", None, 4), ("2", None, 8)]


def test_a_size_that_no_node_has_fits_nowhere() -> None:
    member = Member(node("n", cpu=4), pod("a", cpu=1, **{"example.com/tpu": 1}))
    assert [shape["fits"] for shape in member.says(SHAPES)] == [0]


def test_usage_is_of_pods_on_nodes_with_both_labels_whoever_scheduled_them() -> None:
    member = Member(
        node("n", cpu=20),
        pod("a", cpu=3, node="n", phase="Running", labels=OWNED),
        pod("b", cpu=2, node="n", phase="Running", labels=OWNED, spec={"schedulerName": "another"}),
        pod("waits", cpu=5, labels=OWNED),
        pod("other", cpu=4, node="n", phase="Running", labels={"fairway.dev/placement-name": "p"}),
    )
    assert member.says(USAGE)["ns/p"]["cpu"] == "5"
    member.gone(pod("a", cpu=3, node="n", phase="Running", labels=OWNED))
    assert member.says(USAGE)["ns/p"]["cpu"] == "2"
    member.see(pod("b", cpu=2, node="n", phase="Running", spec={"schedulerName": "another"}))
    assert member.says(USAGE) == {}


def test_labels_and_selectors_of_users_cannot_make_a_report_too_large_for_the_hub() -> None:
    """Else one user of the cluster could silence it."""
    labels = [{**OWNED, "fairway.dev/placement-name": f"{number:060}"} for number in range(1000)]
    selector = {"nodeSelector": {f"label-{number:050}": "x" * 60 for number in range(200)}}
    member = Member(
        node("n", cpu=20),
        *[pod(f"p{n}", cpu=1, node="n", phase="Running", labels=one) for n, one in enumerate(labels)],
        pod("a", cpu=3, node="n", phase="Running", labels=OWNED),
        pod("b", cpu=3, node="n", phase="Running", labels=OWNED),
        *[pod(f"wide{number}", cpu=2, spec=selector) for number in range(2000)],
        pod("odd", cpu=1, node="n", phase="Running", labels=OWNED, **{"example.com/none": 7}),
    )
    found = member.says(USAGE)
    assert found["ns/p"] == {"cpu": "7", "pods": "3"}  # of many pods, and of what nodes have
    assert len(found) == MAX_PLACEMENTS
    assert "example.com/none" not in member.says(FREE)
    assert all("nodeSelector" not in one for one in member.says(SHAPES))
    assert sum(map(len, member_report(member.state, member.pods, 0).values())) < MAX_BYTES


@given(st.lists(st.tuples(st.integers(0, 5), st.integers(1, 4), st.booleans(), st.booleans()), max_size=20))
def test_what_is_used_and_what_is_free_are_always_the_whole(history: list[tuple[int, int, bool, bool]]) -> None:
    member = Member(node("n", cpu=100))
    there: dict[int, Any] = {}
    for number, cpu, owned, runs in history:
        if number in there:
            member.gone(there.pop(number))
            continue
        there[number] = pod(
            f"p{number}",
            cpu=cpu,
            node="n" if runs else "",
            phase="Running" if runs else "",
            labels=OWNED if owned else {},
        )
        member.see(there[number])
    used = sum(int(task.shape.amounts[0]) for task in member.state.tasks.values() if task.node >= 0) // 1000
    assert int(member.says(FREE)["cpu"]) == 100 - used
    assert int(member.says(USAGE).get("ns/p", {}).get("cpu", "0")) <= used


def test_waits_are_told_by_queue_and_class_in_steps() -> None:
    member = Member(
        queue("q"),
        node("n", cpu=1),
        pod("a", cpu=9, queue="q", created=0),
        pod("b", cpu=9, queue="q", created=100),
    )
    begin = member.state.tasks["default/a"].created or 0
    assert member.says(WAITS, begin + 30 * SECOND) == {"q": {"": {"jobs": 2, "longestSeconds": 0}}}
    assert member.says(WAITS, begin + 400 * SECOND) == {"q": {"": {"jobs": 2, "longestSeconds": 300}}}


class HubAnswers:
    """A hub that counts, and may refuse."""

    def __init__(self) -> None:
        self.requests: list[ApiRequest] = []
        self.answer = ApiAnswer(200)

    async def send(self, request: ApiRequest, may_leave: object = None) -> ApiAnswer:
        self.requests.append(request)
        return self.answer


class Reporting:
    """A reporter, its hub and its clock; seconds are turns of the event loop."""

    def __init__(self) -> None:
        self.hub = HubAnswers()
        self.now = 0
        self.leads = True
        self.lines: list[str] = []
        log = RunLog("text", "info", write=self.lines.append, clock=lambda: 0)
        hub: Any = self.hub
        self.reporter = HubReporter(
            hub, "c1", 120, log, may_write=lambda: self.leads, clock=lambda: self.now, interval=0
        )

    async def offer(self, *reports: dict[str, str]) -> None:
        task = asyncio.create_task(self.reporter.run())
        for one in reports:
            self.reporter.offer(one)
            for _ in range(5):
                await asyncio.sleep(0)
        task.cancel()


def test_a_report_is_written_on_change_and_again_before_it_ends() -> None:
    async def story() -> None:
        stage = Reporting()
        await stage.offer({FREE: "a"}, {FREE: "a"})
        assert len(stage.hub.requests) == 1
        request = stage.hub.requests[0]
        assert request.path == "/apis/cluster.open-cluster-management.io/v1/managedclusters/c1"
        assert json.loads(request.body or b"") == {
            "metadata": {
                "annotations": {
                    FREE: "a",
                    "fairway.dev/reported-at": "1970-01-01T00:00:00Z",
                    "fairway.dev/report-until": "1970-01-01T00:02:00Z",
                }
            }
        }
        await stage.offer({FREE: "b"})
        assert len(stage.hub.requests) == 2
        stage.now = 61 * SECOND
        await stage.offer({FREE: "b"})
        assert len(stage.hub.requests) == 3
        stage.leads = False
        await stage.offer({FREE: "c"})
        assert len(stage.hub.requests) == 3

    asyncio.run(story())


@pytest.mark.parametrize("answer", [NO_ANSWER, ApiAnswer(404), ApiAnswer(403)])
def test_a_hub_that_refuses_is_told_of_once_and_asked_again(answer: ApiAnswer) -> None:
    async def story() -> None:
        stage = Reporting()
        stage.hub.answer = answer
        await stage.offer({FREE: "a"}, {FREE: "a"})
        assert len(stage.hub.requests) == 2
        assert len(stage.lines) == 1
        stage.hub.answer = ApiAnswer(200)
        await stage.offer({FREE: "a"})
        assert stage.lines[1:] == ["1970-01-01T00:00:00Z INFO the hub accepts reports again cluster=c1"]

    asyncio.run(story())


def test_scores_are_an_object_that_is_made_where_it_is_not_there() -> None:
    async def story() -> None:
        stage = Reporting()
        missing = {
            "/apis/cluster.open-cluster-management.io/v1alpha1/namespaces/c1/addonplacementscores/fairway/status"
        }
        send = stage.hub.send

        async def answered(request: ApiRequest, may_leave: object = None) -> ApiAnswer:
            await send(request)
            if request.method == "POST":
                missing.clear()
            return ApiAnswer(404 if request.path in missing else 200)

        stage.hub.send = answered  # type: ignore[method-assign]
        task = asyncio.create_task(stage.reporter.run())
        stage.reporter.offer({FREE: "a"}, {"cpuFree": 40})
        for _ in range(8):
            await asyncio.sleep(0)
        task.cancel()
        assert [request.method for request in stage.hub.requests] == ["PATCH", "PATCH", "POST", "PATCH"]
        assert json.loads(stage.hub.requests[-1].body or b"")["status"] == {
            "scores": [{"name": "cpuFree", "value": 40}],
            "validUntil": "1970-01-01T00:02:00Z",
        }
        assert stage.reporter.written == 1

    asyncio.run(story())


def test_a_report_that_no_hub_takes_is_not_sent() -> None:
    async def story() -> None:
        stage = Reporting()
        await stage.offer({FREE: "x" * (1 << 20)})
        assert stage.hub.requests == []
        assert "bytes" in stage.lines[0]

    asyncio.run(story())


def test_a_hub_needs_a_name_for_this_cluster() -> None:
    with pytest.raises(InputError, match="reportTo and reportAs must be set together"):
        read_settings(None, {"reportTo": "hub.yaml"})
