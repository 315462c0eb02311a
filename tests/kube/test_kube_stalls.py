"""A live scheduler that stands still says where, and one whose log has no reader still stops and frees its lease."""

from __future__ import annotations

import os
import signal
import subprocess
import sys
import threading
import urllib.error
import urllib.request
from contextlib import suppress
from typing import Any

import pytest

from fairway.drive import scheduler_loop as loop
from fairway.scheduler.decide import decide_and_explain
from fairway.state.jobs import Job
from kube.cluster import Cluster, eventually
from kube.live import Live


def health(live: Live) -> tuple[int, str]:
    try:
        with urllib.request.urlopen(f"http://127.0.0.1:{live.scheduler.health.port}/healthz", timeout=10) as found:
            return found.status, found.read().decode()
    except urllib.error.HTTPError as error:
        return error.code, error.read().decode()


def test_a_cycle_that_does_not_end_is_reported_and_fails_health(
    cluster: Cluster, monkeypatch: pytest.MonkeyPatch
) -> None:
    leave, slow = threading.Event(), threading.Event()

    def stuck(state: Any, *given: Any, **named: Any) -> Any:
        if slow.is_set() and len(state.waiting):
            wait_for(next(state.waiting.jobs()))
        return decide_and_explain(state, *given, **named)

    def wait_for(job: Job) -> None:
        leave.wait(300)

    monkeypatch.setattr(loop, "decide", stuck)
    cluster.node("n")
    with Live(cluster, stall_timeout=0.5, unhealthy_after=1.5) as live:
        assert health(live) == (200, "ok\n")
        slow.set()
        cluster.pod("p")
        (said, *_) = eventually(lambda: live.logged("scheduling is stalled"))
        assert said["object"] == f"job {cluster.namespace}/p"
        assert "in wait_for" in said["stack"]
        eventually(lambda: health(live)[0] == 503)
        assert "stalled" in health(live)[1]
        assert live.scheduler.metrics.registry.get_sample_value("fairway_stalls_total") == 1
        slow.clear()
        leave.set()
        eventually(lambda: cluster.places() == {"p": "n"})
        eventually(lambda: live.logged("scheduling has resumed"))
        eventually(lambda: health(live) == (200, "ok\n"))


@pytest.mark.parametrize("reader", ["gone", "full"])
def test_a_log_without_a_reader_does_not_keep_it_from_stopping(cluster: Cluster, reader: str) -> None:
    """`fairway run ... 2>&1 | tee log` and Ctrl-C: the reader ends first."""
    cluster.node("n", cpu=100)
    command = [sys.executable, "-m", "fairway.cli.main", "run", "--http-address", ""]
    command += ["--kubeconfig", str(cluster.plane.kubeconfig("scheduler")), "--log-level", "debug"]
    command += ["--scheduler-names", cluster.scheduler, "--lease-namespace", cluster.namespace]
    end, writer = os.pipe()
    run = subprocess.Popen(command, stdout=writer, stderr=writer)
    path = f"/apis/coordination.k8s.io/v1/namespaces/{cluster.namespace}/leases/fairway"
    try:
        cluster.pod("p0")
        eventually(lambda: all(cluster.places().values()))
        if reader == "gone":
            os.close(end)
        else:
            fill(writer)
        for index in range(1, 20):
            cluster.pod(f"p{index}")
        eventually(lambda: all(cluster.places().values()), "it goes on binding without a log")
        run.send_signal(signal.SIGINT)
        assert run.wait(300) == 0
        assert not cluster.get(path)["spec"].get("holderIdentity")
    finally:
        run.kill()
        run.wait()
        os.close(writer)
        if reader != "gone":
            os.close(end)


def fill(writer: int) -> None:
    os.set_blocking(writer, False)
    with suppress(BlockingIOError):
        while True:
            os.write(writer, b"x" * 512)
    os.set_blocking(writer, True)
