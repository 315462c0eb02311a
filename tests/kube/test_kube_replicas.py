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
        self.history = stack.enter_context(History(client, {"Pod": f"/api/v1/{space}/pods", "Lease": leases}))
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

    def all_bound(self) -> bool:
        return all(self.cluster.places().values())


@pytest.fixture(name="two")
def two_replicas(cluster: Cluster, tmp_path: Path) -> Iterator[TwoReplicas]:
    cluster.node("n", cpu=1000, pods=1000)
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
    assert verdicts.writes_without_lease(two.history, two.proxies, DURATION - DEADLINE) == []
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
    assert verdicts.writes_without_lease(two.history, two.proxies, DURATION - DEADLINE) == []
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
    assert verdicts.writes_without_lease(two.history, two.proxies, DURATION - DEADLINE) == []
