"""Two replicas as processes of their own: one is killed, or cut off from the server, under load."""

from __future__ import annotations

import time
from collections.abc import Iterator
from contextlib import ExitStack
from pathlib import Path

import pytest

from kube import verdicts
from kube.cluster import Cluster, eventually
from kube.history import DirectClient, History
from kube.process import RunProcess
from kube.proxy import Asked, FaultProxy

DURATION, DEADLINE, RETRY = 5, 3, 1
SLACK = 2.0
"""Seconds beyond the lease's duration within which a standby must bind."""


class TwoReplicas:
    """Both started, the first leading."""

    def __init__(self, cluster: Cluster, folder: Path, stack: ExitStack) -> None:
        self.cluster = cluster
        self.proxies = [stack.enter_context(FaultProxy(cluster.plane)) for _ in range(2)]
        lease = {"namespace": cluster.namespace, "duration": DURATION, "renewDeadline": DEADLINE, "retry": RETRY}
        self.runs = [
            RunProcess(
                folder,
                f"replica-{number}",
                kubeconfig=str(proxy.kubeconfig(folder)),
                schedulerNames=[cluster.scheduler],
                leaderElection=lease,
            )
            for number, proxy in enumerate(self.proxies)
        ]
        client = DirectClient(cluster.plane)
        stack.callback(client.close)
        space = f"namespaces/{cluster.namespace}"
        leases = f"/apis/coordination.k8s.io/v1/{space}/leases"
        nodes = f"/api/v1/nodes?labelSelector=test%3D{cluster.namespace}"
        paths = {"Pod": f"/api/v1/{space}/pods", "Lease": leases, "Node": nodes}
        self.history = stack.enter_context(History(client, paths))
        for run in self.runs:
            stack.callback(run.kill)
        self.runs[0].start()
        eventually(lambda: self.runs[0].logged("leading"))
        self.runs[1].start()
        eventually(lambda: "Pod" in {line.get("kind") for line in self.runs[1].logged("listed")})

    def load(self, first: int, last: int) -> None:
        for number in range(first, last):
            self.cluster.pod(f"p{number}")

    def bound(self, number: int) -> list[float]:
        """When bindings of a replica were made."""
        passed = list(self.proxies[number].passed)
        return [one.at for one in passed if one.asked.path.endswith("/binding") and one.status == 201]

    def writes(self, number: int, since: float) -> list[Asked]:
        """What a replica sent since then, to the lease excepted; whatever became of it."""
        asked = list(self.proxies[number].asked)
        return [one for at, one in asked if at > since and one.is_write and "/leases" not in one.path]

    def all_bound(self) -> bool:
        return all(self.cluster.places().values())

    def only_the_leader_wrote(self) -> None:
        assert verdicts.writes_without_lease(self.history, self.proxies, DURATION - DEADLINE) == []
        assert verdicts.late_sends(self.proxies, DEADLINE) == []


@pytest.fixture(name="two")
def two_replicas(cluster: Cluster, tmp_path: Path) -> Iterator[TwoReplicas]:
    cluster.node("n", cpu=1000, pods=1000)
    with ExitStack() as stack:
        yield TwoReplicas(cluster, tmp_path, stack)


@pytest.fixture(name="narrow")
def two_replicas_and_one_small_node(cluster: Cluster, tmp_path: Path) -> Iterator[TwoReplicas]:
    cluster.node("n", cpu=1, zone="n")
    with ExitStack() as stack:
        yield TwoReplicas(cluster, tmp_path, stack)


def test_K12_when_the_leader_is_killed_under_load_the_standby_binds_within_the_lease_and_two_seconds(
    two: TwoReplicas,
) -> None:
    two.load(0, 20)
    eventually(lambda: two.bound(0))
    two.runs[0].kill()
    killed = time.monotonic()
    two.load(20, 30)
    eventually(lambda: two.bound(1))
    bound = two.bound(1)[0]
    stalled = sum(end - begin for begin, end in two.proxies[1].stalls if killed < end and begin < bound)
    assert bound - killed < DURATION + SLACK + stalled
    eventually(two.all_bound)
    two.history.reaches()
    two.only_the_leader_wrote()
    assert verdicts.moves(two.history) == []


def test_K13_a_leader_that_is_cut_off_stops_writing_before_the_other_starts(two: TwoReplicas) -> None:
    """Requests that are on their way when the network breaks may arrive at any time: those too."""
    two.load(0, 10)
    eventually(two.all_bound)
    held = two.proxies[0]
    held.is_cut = True
    two.load(10, 20)  # the leader sees none of them
    eventually(two.all_bound)
    held.is_cut = False
    eventually(lambda: two.runs[0].logged("not leading"))
    two.load(20, 25)
    eventually(two.all_bound)
    two.history.reaches()
    two.only_the_leader_wrote()
    assert two.runs[1].stop() == 0
    two.load(25, 30)
    eventually(two.all_bound)  # and the first leads again


def test_K13_a_write_that_hangs_when_the_lease_ends_is_given_up_and_never_arrives(two: TwoReplicas) -> None:
    held = two.proxies[0]
    is_sent = []

    def choose(asked: Asked) -> str:
        if asked.path.endswith("/binding"):
            is_sent.append(asked)
            held.is_cut = True
            return "hang"
        return ""

    held.choose = choose
    two.load(0, 5)
    eventually(lambda: is_sent)
    eventually(two.all_bound)
    held.choose = lambda asked: ""
    held.is_cut = False
    eventually(lambda: two.runs[0].logged("not leading"))
    two.history.reaches()
    assert two.bound(0) == []
    eventually(lambda: len(two.bound(1)) == 5, "the proxy has read all answers")
    two.only_the_leader_wrote()


def test_K13_a_leader_that_was_suspended_for_longer_than_the_lease_sends_nothing_when_it_wakes_up(
    two: TwoReplicas,
) -> None:
    """Stopped in the middle of a burst of bindings: workers, answers and a plan wait for the processor."""
    two.load(0, 60)
    eventually(lambda: len(two.bound(0)) > 5)
    two.runs[0].suspend()
    two.load(60, 70)
    eventually(two.all_bound)
    assert two.runs[1].logged("leading")
    woken = time.monotonic()
    two.runs[0].resume()
    eventually(lambda: two.runs[0].logged("not leading"))
    two.load(70, 80)
    eventually(two.all_bound)
    two.history.reaches()
    assert two.writes(0, woken) == []
    two.only_the_leader_wrote()
    assert verdicts.moves(two.history) == []
    assert two.runs[1].stop() == 0
    two.load(80, 85)
    eventually(two.all_bound)  # and the first leads again
    two.only_the_leader_wrote()


@pytest.mark.parametrize("answer", ["unavailable", "no-streaming"])
def test_K13_what_was_decided_before_a_partition_is_not_done_after_it(narrow: TwoReplicas, answer: str) -> None:
    """The first leader cannot bind `old`; the second gives its node away and ends; the first leads again. It has a
    binding to try again (after a 503), or a pod to decide about (after a 400), and watches that show nothing.
    """
    cluster, cut = narrow.cluster, narrow.proxies[0]
    urgent = f"{cluster.namespace}-urgent"
    cluster.make("/apis/scheduling.k8s.io/v1/priorityclasses", {"metadata": {"name": urgent}, "value": 1000})
    there = {"test": cluster.namespace, "zone": "n"}
    cut.choose = lambda asked: answer if asked.path.endswith("/binding") else ""
    cluster.pod("old", nodeSelector=there)
    eventually(lambda: cut.injected[answer])
    cut.is_cut = True
    cluster.pod("new", nodeSelector=there, priorityClassName=urgent)
    eventually(lambda: cluster.places()["new"])
    assert narrow.runs[1].stop() == 0
    cut.silence_watches()
    cut.choose = lambda asked: ""
    cut.is_cut = False
    eventually(lambda: len(narrow.runs[0].logged("leading")) == 2)
    cluster.node("m", cpu=1, zone="m")
    cluster.pod("probe", nodeSelector={"test": cluster.namespace, "zone": "m"})
    eventually(lambda: cluster.places()["probe"])  # it decides again
    if answer == "no-streaming":
        cluster.delete(f"{cluster.pods}/new")
        eventually(lambda: cluster.places()["old"])
    narrow.history.reaches()
    assert verdicts.over_commitments(narrow.history) == []
    assert verdicts.moves(narrow.history) == []
    narrow.only_the_leader_wrote()


def test_K12_a_leader_that_was_suspended_and_that_no_other_replaced_goes_on(two: TwoReplicas) -> None:
    assert two.runs[1].stop() == 0
    two.load(0, 60)
    eventually(lambda: len(two.bound(0)) > 5)
    two.runs[0].suspend()
    two.load(60, 70)
    time.sleep(DURATION + SLACK)  # there is nothing to wait for: no process does anything
    two.runs[0].resume()
    eventually(two.all_bound)
    two.history.reaches()
    two.only_the_leader_wrote()
    assert verdicts.moves(two.history) == []
