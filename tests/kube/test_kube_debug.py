"""What operators can look into: `/debug`, pods that wait, recordings of live cycles."""

from __future__ import annotations

import contextlib
import io
import json
import urllib.error
import urllib.request
from pathlib import Path
from typing import Any

import pytest
from prometheus_client import CollectorRegistry, Gauge

from fairway.app.live.debugging import refusal
from fairway.app.live.observing import PendingPods
from fairway.app.live.recorder import LiveRecorder
from fairway.cli.main import main
from fairway.clock import SECOND
from fairway.drive.scheduler_loop import Rhythm
from fairway.errors import InputError
from fairway.state.cluster import Deleted, Upserted
from kube.cluster import Cluster, eventually
from kube.live import Live
from kube.stage import LoopStage
from support.objects import node, pod


def asked(live: Live, path: str, **headers: str) -> tuple[int, Any]:
    url = f"http://127.0.0.1:{live.scheduler.health.port}{path}"
    try:
        with urllib.request.urlopen(urllib.request.Request(url, headers=headers), timeout=30) as found:
            return found.status, json.loads(found.read())
    except urllib.error.HTTPError as error:
        return error.code, json.loads(error.read())


def test_the_state_and_the_plan_are_shown_on_the_loopback_address(cluster: Cluster) -> None:
    cluster.node("n", cpu=1)
    with Live(cluster) as live:
        cluster.pod("small")
        eventually(lambda: cluster.places() == {"small": "n"})
        cluster.pod("large", cpu="9")
        eventually(lambda: live.on_loop(lambda: len(live.scheduler._scheduler.state.waiting)))
        code, found = asked(live, "/debug/state")
        assert code == 200
        assert (found["leads"], found["isComplete"], found["waitingJobs"]) == (True, True, 1)
        assert found["objects"]["Node"] >= 1
        assert found["lastCycle"]["number"] >= 0
        code, listed = asked(live, f"/debug/state?kind=Pod&namespace={cluster.namespace}")
        assert {item["metadata"]["name"] for item in listed["items"]} == {"small", "large"}
        code, found = asked(live, "/debug/plan")
        own = [entry["job"] for entry in found["plan"]["pending"] if entry["job"].startswith(f"{cluster.namespace}/")]
        assert own == [f"{cluster.namespace}/large"]
        assert asked(live, "/debug/state?kind=Secret") == (
            400,
            {"error": "kind is 'Secret', expected a supported kind, such as Pod"},
        )
        assert asked(live, "/debug/plan", Origin="http://elsewhere.example")[0] == 403
        assert asked(live, "/debug/plan", Host="fairway.example")[0] == 403


@pytest.mark.parametrize(
    ("peer", "host", "origin", "allowed"),
    [
        ("127.0.0.1", "localhost:8080", None, True),
        ("::1", "[::1]:8080", "http://localhost:8080", True),
        ("::ffff:127.0.0.1", "127.0.0.1", None, True),
        ("10.0.0.7", "127.0.0.1", None, False),
        ("", "127.0.0.1", None, False),
        ("127.0.0.1", "fairway.example", None, False),
        ("127.0.0.1", "127.0.0.1.example", None, False),
        ("127.0.0.1", "localhost", "http://page.example", False),
        ("127.0.0.1", "localhost", "null", False),
    ],
)
def test_only_this_machine_may_look(peer: str, host: str, origin: str | None, allowed: bool) -> None:
    assert (refusal(peer, host, origin) == "") is allowed


def counts(pending: PendingPods) -> dict[str, float]:
    gauge = Gauge("g", "", ["queue"], registry=CollectorRegistry())
    pending.show(gauge)
    return {sample.labels["queue"]: sample.value for metric in gauge.collect() for sample in metric.samples}


def test_pods_that_wait_are_counted_by_kube_schedulers_queues() -> None:
    stage = LoopStage()
    pending = PendingPods(["default-scheduler", "fairway"])
    stage.loop.listeners.append(pending)
    gated = pod("gated", gates=["later"])
    pending.applied([Upserted(gated), Upserted(pod("new"))])
    assert counts(pending) == {"active": 1, "unschedulable": 0, "gated": 1}
    pending.applied([Deleted(gated), Deleted(pod("new"))])
    stage.see(node("n", cpu=1), pod("small", cpu=1), pod("large", cpu=9))
    assert counts(pending) == {"active": 0, "unschedulable": 1, "gated": 0}
    stage.see(pod("large", cpu=9, node="n"))
    assert counts(pending) == {"active": 0, "unschedulable": 0, "gated": 0}


def replayed(folder: Path, number: int) -> tuple[int, str]:
    """The exit code, and what was said on standard error."""
    said = io.StringIO()
    with contextlib.redirect_stderr(said), contextlib.redirect_stdout(io.StringIO()):
        try:
            main(["replay", str(folder), "--at", str(number)])
        except SystemExit as end:
            return int(end.code or 0), said.getvalue()
    return 0, said.getvalue()


def test_a_recorded_live_cycle_is_decided_again(cluster: Cluster, tmp_path: Path) -> None:
    cluster.node("n", cpu=2)
    with Live(cluster, record=str(tmp_path / "log")) as live:
        cluster.pod("first")
        eventually(lambda: cluster.places() == {"first": "n"})
        cluster.pod("second", cpu="5")
        eventually(lambda: live.on_loop(lambda: len(live.scheduler._scheduler.state.waiting)))
        last = live.cycles - 1
    for number in range(last + 1):
        code, output = replayed(tmp_path / "log", number)
        assert code == 0, output
        assert f"Cycle {number}: the plan is identical to the recorded one." in output


def recorded(folder: Path, megabytes: int = 1) -> tuple[LoopStage, LiveRecorder, list[str]]:
    """Reasons come once in a while only, as in a live loop."""
    stage = LoopStage()
    stage.loop._rhythm = Rhythm(reasons_interval=SECOND)
    failures: list[str] = []
    recorder = LiveRecorder(folder, megabytes, stage.loop, ["fairway"], failures.append)
    stage.loop.listeners.append(recorder)
    return stage, recorder, failures


def test_a_recording_keeps_to_its_size_and_its_last_cycles_can_be_decided_again(tmp_path: Path) -> None:
    stage, recorder, failures = recorded(tmp_path / "log")
    stage.see(node("n", cpu=4))
    for number in range(40):
        stage.see([pod(f"p{number}-{index}", cpu=9, labels={"text": "x" * 50}) for index in range(50)])
        stage.see(*[pod(f"p{number}-{index}", cpu=10, labels={"text": "y" * 50}) for index in range(50)])
    recorder.close()
    parts = sorted((tmp_path / "log").iterdir())
    assert int(parts[0].name) > 0
    assert sum(file.stat().st_size for part in parts for file in part.iterdir()) < 1 << 21
    last = stage.loop.cycles - 1
    for number in range(int(parts[0].name), last + 1):
        assert replayed(tmp_path / "log", number)[0] == 0
    code, output = replayed(tmp_path / "log", 0)
    assert code == 2
    assert f"no cycle 0; the first one is {int(parts[0].name)}" in output
    assert failures == []


def test_a_full_disk_ends_the_recording_and_nothing_else(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    stage, recorder, failures = recorded(tmp_path / "log")

    def full(line: bytes) -> None:
        raise OSError(28, "No space left on device")

    monkeypatch.setattr(recorder, "_write", full)
    stage.see(node("n", cpu=4), pod("p", cpu=1))
    stage.see(pod("q", cpu=1))
    assert len(stage.world.changes) == 2
    assert len(failures) == 1
    assert "No space left on device" in failures[0]


def test_a_folder_with_a_recording_is_not_written_over(tmp_path: Path) -> None:
    (tmp_path / "00000000").mkdir()
    with pytest.raises(InputError, match="already contains a recording"):
        recorded(tmp_path)
