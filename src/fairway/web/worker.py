"""The worker process of questions that take long ("what if", and looks ahead in a large cluster): it reads one,
answers it within limits of time and memory, and ends.
"""

from __future__ import annotations

import os
import resource
import subprocess
import sys
import time
from contextlib import suppress
from pathlib import Path
from threading import Event, Thread

import msgspec

from fairway.api.policy import parse_policy
from fairway.app.explain import Forecast, PastRun, Situation
from fairway.app.records import read, written
from fairway.app.view.estimates import EstimatedStarts, StartAnswer, estimates_of, start_of
from fairway.app.view.models.what_if import WhatIfAnswer, WhatIfRequest
from fairway.app.view.what_if import answer
from fairway.clock import Micros
from fairway.errors import FairwayError, InputError
from fairway.scheduler.plugins.installed import default_registry
from fairway.sim.policies import policy_text
from fairway.web.asking import NEVER, RequestRefusedError
from fairway.web.limits import UserTurns

SECONDS = 60
"""Limit of real time and of processor time."""
MEGABYTES = 4096
CONTAINER_PART = 4
"""Part of the container's memory that one worker may use: a container beyond its limit is killed as a whole."""
AT_ONCE = 1
NICE = 5
LAST = 4_000
"""Maximum bytes kept of the output of a failed worker."""
PATIENCE = 75.0
"""Seconds to wait for a turn: longer than a question of another user may take."""
TURN = 0.25
"""Seconds between two checks whether the client is still connected."""


def container_megabytes(path: Path = Path("/sys/fs/cgroup/memory.max")) -> int:
    """Memory limit of this container; a large number without a limit."""
    try:
        return int(path.read_text()) >> 20
    except (OSError, ValueError):  # `max`, or another system
        return 1 << 30


class WorkerQuestion(msgspec.Struct):
    """A question to a worker; exactly one of its three parts is set."""

    what_if: WhatIfRequest | None = None
    start: str = ""
    """Job whose start is requested."""
    bounds: bool = False
    """Whether its earliest and latest start are requested too."""
    known: Forecast | None = None
    """Its forecast, if already computed."""
    jobs: list[str] = msgspec.field(default_factory=list)
    """Jobs whose estimated starts are requested."""


class WorkOrder(msgspec.Struct):
    """The input of a worker."""

    objects: list[bytes]
    policy: str
    now: Micros
    question: WorkerQuestion
    scheduler_names: list[str] | None = None
    past: list[PastRun] = msgspec.field(default_factory=list)


class WorkResult(msgspec.Struct):
    answer: WhatIfAnswer | None = None
    start: StartAnswer | None = None
    estimates: EstimatedStarts | None = None
    error: str = ""


class QuestionWorker:
    """Answers questions, one at a time, each in a process of its own."""

    def __init__(self, seconds: float = SECONDS, megabytes: int = MEGABYTES, nice: int = NICE) -> None:
        self._seconds = seconds
        self._megabytes = min(megabytes, container_megabytes() // CONTAINER_PART)
        self._nice = nice
        self.turns = UserTurns(AT_ONCE)

    def put(self, situation: Situation, question: WorkerQuestion, gone: Event = NEVER, user: str = "") -> WorkResult:
        """Answers a question. Raises RequestRefusedError beyond a limit of time or memory, and InputError for an
        invalid question. Stops when `gone` is set.
        """
        self.turns.take(user, PATIENCE, gone)
        try:
            return self._put(situation, question, gone)
        finally:
            self.turns.give_back()

    def _put(self, situation: Situation, question: WorkerQuestion, gone: Event) -> WorkResult:
        names = situation.scheduler_names
        order = WorkOrder(
            [bytes(written(thing)) for thing in situation.objects.values()],
            policy_text(situation.policy),
            situation.now,
            question,
            None if names is None else list(names),
            list(situation.past),
        )
        limits = (int(self._seconds), self._megabytes, self._nice)
        command = [sys.executable, "-m", "fairway.web.worker", *map(str, limits)]
        result = self._result(self._run(command, msgspec.msgpack.encode(order), gone))
        if result.error:
            raise InputError(result.error)
        return result

    def _run(self, command: list[str], work: bytes, gone: Event) -> subprocess.CompletedProcess[bytes]:
        pipe, ended = subprocess.PIPE, Event()
        with subprocess.Popen(command, stdin=pipe, stdout=pipe, stderr=pipe) as process:
            Thread(target=_end_with, args=(process, gone, ended), daemon=True).start()
            try:
                out, error = process.communicate(work, timeout=self._seconds)
            except subprocess.TimeoutExpired:
                raise RequestRefusedError(504, f"the answer takes more than {self._seconds:g} seconds") from None
            finally:
                process.kill()
                ended.set()
        if gone.is_set():
            raise RequestRefusedError(503, "the client disconnected")
        return subprocess.CompletedProcess(command, process.returncode, out, error)

    def _result(self, done: subprocess.CompletedProcess[bytes]) -> WorkResult:
        """Raises RequestRefusedError for a worker that met a limit, and RuntimeError for one that failed."""
        try:
            return msgspec.msgpack.decode(done.stdout, type=WorkResult)
        except msgspec.DecodeError:
            last = done.stderr[-LAST:].decode(errors="replace")
        if done.returncode < 0 or "MemoryError" in last:
            limits = f"{self._megabytes} MiB, {self._seconds:g} seconds"
            raise RequestRefusedError(507, f"the question exceeds the limits of a worker ({limits})")
        raise RuntimeError(f"a worker ended with {done.returncode}: {last}")


class WhatIfWorker(QuestionWorker):
    """Answers a what-if question."""

    def ask(self, situation: Situation, request: WhatIfRequest, gone: Event = NEVER, user: str = "") -> WhatIfAnswer:
        begin = time.perf_counter()
        found = self.put(situation, WorkerQuestion(what_if=request), gone, user).answer
        assert found is not None
        return msgspec.structs.replace(found, seconds=round(time.perf_counter() - begin, 3))


def _end_with(process: subprocess.Popen[bytes], gone: Event, ended: Event) -> None:
    """Waits for a worker, and kills it if the client disconnects."""
    while not ended.wait(TURN):
        if gone.is_set():
            process.kill()
            return


def _answered(situation: Situation, question: WorkerQuestion) -> WorkResult:
    if question.what_if is not None:
        return WorkResult(answer(situation, question.what_if))
    if question.start:
        return WorkResult(start=start_of(situation, question.start, bounds=question.bounds, known=question.known))
    return WorkResult(estimates=estimates_of(situation, question.jobs))


def main() -> None:
    seconds, megabytes, nice = map(int, sys.argv[1:])
    resource.setrlimit(resource.RLIMIT_CPU, (seconds, seconds + 1))
    memory = megabytes << 20
    _, hard = resource.getrlimit(resource.RLIMIT_AS)
    if hard != resource.RLIM_INFINITY:  # of the page that it works for
        memory = min(memory, hard)
    resource.setrlimit(resource.RLIMIT_AS, (memory, memory))
    os.nice(nice)
    with suppress(OSError):  # where memory ends, the worker ends before anything else does
        Path("/proc/self/oom_score_adj").write_text("1000")
    order = msgspec.msgpack.decode(sys.stdin.buffer.read(), type=WorkOrder)
    try:
        policy = parse_policy(order.policy, "the policy in force", default_registry().catalog)
        objects = [read(raw) for raw in order.objects]
        situation = Situation(objects, policy, order.now, order.scheduler_names, order.past)
        result = _answered(situation, order.question)
    except FairwayError as error:
        result = WorkResult(error=str(error))
    sys.stdout.buffer.write(msgspec.msgpack.encode(result))


if __name__ == "__main__":
    main()
