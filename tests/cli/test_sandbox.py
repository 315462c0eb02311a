"""The sandbox as a program of its own: it is started, asked, killed with -9 and started again."""

import json
import os
import re
import select
import signal
import subprocess
import sys
import time
from collections.abc import Callable, Iterator
from pathlib import Path
from typing import Any

import pytest

from fairway.app.sandbox.client import Client
from fairway.app.sandbox.engine import Sandbox
from fairway.app.sandbox.store import Store
from fairway.app.sandbox.world import demo_scenario
from fairway.scheduler.paranoid import check
from support.reports import embedded
from support.sandboxes import check_lives

Fairway = Callable[..., Any]
EXAMPLES = Path(__file__).parents[2] / "examples" / "sandbox"
TIMEOUT = 60.0


class Program:
    """`fairway sandbox` in a process; what it printed first says where it listens."""

    def __init__(self, folder: Path, *arguments: str) -> None:
        environment = {**os.environ, "XDG_STATE_HOME": str(folder / "home"), "PYTHONUNBUFFERED": "1"}
        command = [sys.executable, "-m", "fairway.cli.main", "sandbox", "--port", "0", *arguments]
        self.process = subprocess.Popen(
            command, env=environment, stdout=subprocess.PIPE, stderr=subprocess.PIPE, text=True
        )
        self.first = self._first_line()
        found = re.search(r"http://127\.0\.0\.1:\d+/#token=[\w-]+", self.first)
        assert found, (self.first, self.process.poll())
        self.address = found[0]
        self.client = Client.find(self.address)

    def _first_line(self) -> str:
        assert self.process.stdout is not None
        ready, _, _ = select.select([self.process.stdout], [], [], TIMEOUT)
        return self.process.stdout.readline() if ready else "nothing"

    def end(self, by: signal.Signals) -> tuple[int, str, str]:
        self.process.send_signal(by)
        out, err = self.process.communicate(timeout=TIMEOUT)
        return self.process.returncode, out, err


def wait_until(true: Callable[[], bool]) -> None:
    end = time.monotonic() + TIMEOUT
    while not true():
        assert time.monotonic() < end, "it did not come to pass"
        time.sleep(0.05)


Start = Callable[..., Program]


@pytest.fixture
def start(tmp_path: Path) -> Iterator[Start]:
    programs: list[Program] = []

    def started(*arguments: str) -> Program:
        programs.append(Program(tmp_path, "--state", str(tmp_path / "s.db"), *arguments))
        return programs[-1]

    yield started
    for program in programs:
        if program.process.poll() is None:
            program.process.kill()
        program.process.communicate()


def test_killed_in_mid_run_it_goes_on_and_nothing_is_lost_or_done_twice(start: Start, tmp_path: Path) -> None:
    finished: set[str] = set()
    seen = 0
    for _ in range(3):
        program = start("--speed", "3000")
        client = program.client
        done = len(finished)
        wait_until(lambda client=client, done=done: client.frame().finished >= done + 12)  # type: ignore[misc]
        seen = len(client.events())
        finished |= {job.job for job in client.jobs() if job.phase == "finished"}
        code, _, _ = program.end(signal.SIGKILL)
        assert code == -signal.SIGKILL
    assert len(finished) >= 36
    sandbox = Sandbox(Store(str(tmp_path / "s.db")))
    check(sandbox.state, sandbox.policy, sandbox.now)
    happenings = sandbox.happenings(10_000)
    assert len(happenings) >= seen
    check_lives(happenings)
    outcomes = [outcome.job for outcome in sandbox.outcomes(10_000)]
    assert len(outcomes) == len(set(outcomes))
    assert finished <= set(outcomes)
    alive = {job.job for job in sandbox.frame().running} | {job.job for job in sandbox.frame().waiting}
    assert not alive & finished
    submitted = [one.job for one in happenings if one.kind == "submitted"]
    assert len(submitted) == len(set(submitted))
    assert set(submitted) == alive | set(outcomes)
    sandbox.close()


def test_what_was_applied_is_there_after_a_kill(start: Start) -> None:
    program = start("--speed", "0.001")
    objects = [path for path in sorted(EXAMPLES.glob("*.yaml")) if path.name != "more-nodes.yaml"]
    from fairway.api.manifests import load

    program.client.apply(load([str(path) for path in objects]).objects)
    program.end(signal.SIGKILL)
    again = start("--speed", "0.001")
    assert {"language/giant", "vision/four", "vision/hello"} <= {job.job for job in again.client.jobs()}


@pytest.mark.parametrize("by", [signal.SIGINT, signal.SIGTERM])
def test_it_leaves_cleanly(start: Start, tmp_path: Path, by: signal.Signals) -> None:
    program = start("--speed", "600")
    announced = tmp_path / "home" / "fairway" / "running.json"
    wait_until(announced.exists)
    assert json.loads(announced.read_text())["url"] == program.client.url
    wait_until(lambda: program.client.frame().finished > 0)
    code, out, err = program.end(by)
    kept = tmp_path / "s.db"
    assert (code, err) == (0, f"Stopped. State saved to {kept}; run `fairway sandbox --state {kept}` to resume.\n")
    assert not announced.exists()
    assert re.search(r"^2026-01-01T00:\d\d:\d\dZ placed    \S+ 1 pod on \S+$", out, re.MULTILINE)


def test_the_verbs_work_from_a_second_terminal(start: Start, fairway: Fairway, monkeypatch: pytest.MonkeyPatch) -> None:
    program = start("--speed", "0.001")
    monkeypatch.setenv("FAIRWAY_SANDBOX", program.address)
    applied = fairway("apply", "-f", str(EXAMPLES / "capped-queue.yaml"))
    assert (applied.code, applied.out) == (0, "Queue students created\nPod vision/four created\n")
    again = fairway("apply", "-f", str(EXAMPLES / "capped-queue.yaml"))
    assert again.out == "Queue students unchanged\nPod vision/four unchanged\n"
    why = fairway("explain", "vision/four")
    assert why.code == 0
    assert "raise the capability of queue students from 2 to 4 nvidia.com/gpu" in why.out
    jobs = fairway("get")
    assert re.search(r"^vision/four +students +waiting +1 +0s +QueueCapability", jobs.out, re.MULTILINE), jobs.out
    assert json.loads(fairway("get", "jobs", "four", "-o", "json").out)["items"][0]["reason"] == "QueueCapability"
    assert re.search(r"^gpu-2 +Ready", fairway("get", "nodes").out, re.MULTILINE)
    assert re.search(r"^students +1 +Open", fairway("get", "queues").out, re.MULTILINE)
    assert "submitted" in fairway("get", "events").out
    pods = json.loads(fairway("get", "pods", "-n", "vision", "-o", "json").out)["items"]
    assert "four" in {thing["metadata"]["name"] for thing in pods}
    assert fairway("get", "pod", "vision/nobody").err == "Error: there is no Pod vision/nobody\n"
    assert fairway("delete", "job", "vision/four").out == "Pod vision/four deleted\n"
    assert fairway("delete", "-f", str(EXAMPLES / "capped-queue.yaml")).code == 2
    assert fairway("delete", "queue", "students").out == "Queue students deleted\n"
    assert fairway("delete", "job").code == 2


def test_files_of_ones_own_begin_a_sandbox_and_are_not_mixed_into_another(
    start: Start, tmp_path: Path, fairway: Fairway
) -> None:
    mine = tmp_path / "mine.yaml"
    mine.write_text(
        "{apiVersion: v1, kind: Node, metadata: {name: only}, status: {allocatable: {cpu: '1'}}}\n---\n"
        "{apiVersion: v1, kind: Pod, metadata: {name: p}, spec: {containers: [{name: c, resources:"
        " {requests: {cpu: '1'}}}]}}\n"
    )
    program = start("-f", str(mine))
    wait_until(lambda: [job.phase for job in program.client.jobs()] == ["running"])
    assert [node.name for node in program.client.nodes()] == ["only"]
    busy = fairway("sandbox", "--state", str(tmp_path / "s.db"), "--port", "0")
    assert (busy.code, busy.err) == (2, f"Error: {tmp_path / 's.db'}: another sandbox is running on it\n")
    program.end(signal.SIGINT)
    mixed = fairway("sandbox", "-f", str(mine), "--state", str(tmp_path / "s.db"))
    assert mixed.code == 2
    assert "already contains a sandbox: omit -f to resume it, or start over with --fresh" in mixed.err
    fresh = start("--fresh", "--speed", "0.001")
    assert len(fresh.client.nodes()) == 6


@pytest.mark.usefixtures("built_page")
def test_once_shows_a_job_that_waits_for_its_reservation_and_the_end_of_all(fairway: Fairway, tmp_path: Path) -> None:
    result = fairway("sandbox", "--once", "--out", str(tmp_path))
    assert result.code == 0
    waits, rest = result.out.split("Why the big job is pending", 1)
    why, end = rest.split("The whole run", 1)
    assert re.search(r"research +\d+ +language/pretrain +2 +17m +\d+m, planned +InsufficientResources, starving", waits)
    assert re.search(r"it is planned to start at 2026-01-01T00:\d\d:\d\dZ\n", why)
    assert re.search(r"reserved +gpu-\d \(reserved\), gpu-\d \(reserved\)", why)
    assert re.search(r"starts at 2026-01-01T00:\d\d:\d\dZ \(in \d+m\)", why)
    jobs = sum(job.count for job in demo_scenario().file.workload.jobs)
    assert f"{jobs} of {jobs}" in end
    assert "2 assertions held" in end
    assert "Failed:" not in end
    page = embedded(tmp_path / "report.html")
    assert page["command"].startswith("fairway sandbox --once --out")
    assert {"kind": "passed", "text": "job language/pretrain starts before 1h"} in page["runs"][0]["notices"]


@pytest.mark.parametrize("wrong", [("--once", "--fresh"), ("--out", "x")])
def test_options_that_do_not_go_together(fairway: Fairway, wrong: tuple[str, ...]) -> None:
    assert fairway("sandbox", *wrong).code == 2


@pytest.mark.parametrize("speed", ["0", "-1", "nan", "inf", "1e9"])
def test_a_speed_that_is_none(fairway: Fairway, speed: str, tmp_path: Path) -> None:
    result = fairway("sandbox", "--speed", speed, "--state", str(tmp_path / "x.db"))
    assert result.code == 2
    assert "expected more than 0 and at most 1000000" in result.err
    assert not (tmp_path / "x.db").exists()


def test_a_state_folder_that_is_not_there_is_an_error(fairway: Fairway, tmp_path: Path) -> None:
    result = fairway("sandbox", "--state", str(tmp_path / "tpyo" / "s.db"))
    assert result.code == 2
    assert f"the directory {tmp_path / 'tpyo'} does not exist" in result.err
    assert not (tmp_path / "tpyo").exists()


def test_faults_of_files_are_told_before_anything_is_touched(fairway: Fairway, tmp_path: Path) -> None:
    bad = tmp_path / "bad.yaml"
    bad.write_text("apiVersion: v1\nkind: Pod\nmetadata: {name: x}\nspec: {containers: 3}\n")
    result = fairway("sandbox", "-f", str(bad), "--state", str(tmp_path / "x.db"), "--fresh")
    assert result.code == 2
    assert f"{bad}:4: spec.containers:" in result.err
    assert not (tmp_path / "x.db").exists()
