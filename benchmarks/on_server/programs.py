"""The measured programs, each in a process of its own, whose CPU time and memory are its cost."""

from __future__ import annotations

import asyncio
import json
import os
import socket
import sys
from collections import deque
from collections.abc import Coroutine, Sequence
from contextlib import suppress
from pathlib import Path
from typing import Any

from benchmarks.on_server.cluster import NAMESPACE, SCHEDULER
from kube.controlplane.build import cache_folder
from kube.controlplane.plane import ControlPlane

_TICKS = os.sysconf("SC_CLK_TCK")
_LOOK, _CALM, _PATIENCE = 0.5, 0.05, 60
"""A program is calm if it used less than this share of a core in so many seconds; so many looks at most."""
_PAGE = os.sysconf("SC_PAGE_SIZE")


class Program:
    """A running process."""

    def __init__(self, process: asyncio.subprocess.Process) -> None:
        assert process.stderr is not None
        self._process = process
        self._last: deque[bytes] = deque(maxlen=20)
        self._drain = asyncio.create_task(self._read(process.stderr))
        self.first = 0.0
        """CPU seconds when it was ready to start: its imports."""
        self.first_memory = 0

    @property
    def pid(self) -> int:
        return self._process.pid

    def cpu(self) -> float:
        """CPU seconds since it was ready to start."""
        return cpu_of(self.pid) - self.first

    def total_cpu(self) -> float:
        """CPU seconds since the start of its process."""
        return cpu_of(self.pid)

    async def cpu_when_calm(self) -> float:
        """The same, once it is idle: statuses and events are written after the bindings."""
        spent = self.cpu()
        for _ in range(_PATIENCE):
            await asyncio.sleep(_LOOK)
            before, spent = spent, self.cpu()
            if spent - before < _CALM * _LOOK:
                break
        return spent

    def memory(self) -> int:
        """Resident memory in bytes."""
        return int(Path(f"/proc/{self.pid}/statm").read_text().split()[1]) * _PAGE

    async def until(self, done: Coroutine[Any, Any, None]) -> None:
        """Wait for something that the program does; RuntimeError if it ends in between, and not well."""
        work, end = asyncio.create_task(done), asyncio.create_task(self._process.wait())
        await asyncio.wait({work, end}, return_when=asyncio.FIRST_COMPLETED)
        if not work.done() and self._process.returncode:
            work.cancel()
            await self._drain
            raise RuntimeError(f"it ended with {self._process.returncode}:\n" + b"".join(self._last).decode())
        await work
        end.cancel()

    async def _read(self, stream: asyncio.StreamReader) -> None:
        while line := await stream.readline():
            self._last.append(line)

    async def stop(self) -> None:
        with suppress(ProcessLookupError):
            self._process.terminate()
        await self._process.wait()
        await self._drain


async def start(command: Sequence[str], *, waits_for_line: bool = False) -> Program:
    """With `waits_for_line` it is ready when it has written a line to standard error."""
    process = await asyncio.create_subprocess_exec(
        *command, stdout=asyncio.subprocess.DEVNULL, stderr=asyncio.subprocess.PIPE, limit=1 << 20
    )
    assert process.stderr is not None
    if waits_for_line:
        await process.stderr.readline()
    program = Program(process)
    if waits_for_line:
        program.first = cpu_of(process.pid)
        program.first_memory = program.memory()
    return program


async def fairway(plane: ControlPlane, *flags: str, scheduler: str = SCHEDULER, user: str = "admin") -> Program:
    """Its imports are done when it logs that its policy is in use."""
    command = [sys.executable, "-m", "fairway.cli.main", "run", "--kubeconfig", str(plane.kubeconfig(user))]
    command += ["--scheduler-names", scheduler, "--http-address", f"127.0.0.1:{free_port()}"]
    return await start([*command, "--lease-namespace", NAMESPACE, *flags], waits_for_line=True)


async def bind_loop(plane: ControlPlane, nodes: int) -> Program:
    """The bare loop, with its own lines read by `bind_loop` itself."""
    command = [sys.executable, "-m", "benchmarks.bind_loop", str(plane.kubeconfig()), str(nodes)]
    return await start(command, waits_for_line=True)


async def kube_scheduler(plane: ControlPlane, *, scheduler: str = SCHEDULER) -> Program:
    """With its defaults, but for limits of its own on requests and for the lease."""
    config = {
        "apiVersion": "kubescheduler.config.k8s.io/v1",
        "kind": "KubeSchedulerConfiguration",
        "leaderElection": {"leaderElect": False},
        "clientConnection": {"kubeconfig": str(plane.kubeconfig()), "qps": 5000, "burst": 5000},
        "profiles": [{"schedulerName": scheduler}],
    }
    path = plane.folder / "kube-scheduler.json"
    path.write_text(json.dumps(config))
    command = [str(cache_folder() / "kube-scheduler"), f"--config={path}", "--bind-address=127.0.0.1"]
    command += [f"--secure-port={free_port()}", f"--cert-dir={plane.folder / 'certs-scheduler'}"]
    for what in ("authentication", "authorization"):
        command.append(f"--{what}-kubeconfig={plane.kubeconfig()}")
    return await start(command)


async def volcano(plane: ControlPlane, binary: str, *, scheduler: str = SCHEDULER) -> Program:
    """Volcano's scheduler, built elsewhere, with its defaults and no limit of its own on requests."""
    command = [binary, f"--kubeconfig={plane.kubeconfig()}", f"--scheduler-name={scheduler}", "--leader-elect=false"]
    command += ["--kube-api-qps=5000", "--kube-api-burst=5000", f"--listen-address=127.0.0.1:{free_port()}"]
    command += [f"--healthz-address=127.0.0.1:{free_port()}", "--default-queue=default", "--enable-metrics=false"]
    return await start(command)


def cpu_of(pid: int) -> float:
    fields = Path(f"/proc/{pid}/stat").read_text().rpartition(")")[2].split()
    return (int(fields[11]) + int(fields[12])) / _TICKS


def free_port() -> int:
    with socket.create_server(("127.0.0.1", 0)) as made:
        port: int = made.getsockname()[1]
        return port
