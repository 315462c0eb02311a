"""The programs in Go that tests put at the other end of the agent's sockets: built once, spoken to by lines.

    PYTHONPATH=tests python -m agent.peers

They are kept in a folder named after their sources (`$XDG_CACHE_HOME/fairway/agent-peers`).
"""

from __future__ import annotations

import hashlib
import json
import os
import queue
import shutil
import subprocess
import sys
import threading
from collections.abc import Mapping
from pathlib import Path
from types import TracebackType
from typing import Any

SOURCES = Path(__file__).parent / "go_peers"
PROGRAMS = ("plugin", "kubelet")
PATIENCE = 60.0


def cache_folder() -> Path:
    digest = hashlib.sha256()
    for path in sorted(SOURCES.rglob("*")):
        if path.is_file():
            digest.update(path.read_bytes())
    cache = Path(os.environ.get("XDG_CACHE_HOME") or Path.home() / ".cache")
    return cache / "fairway" / "agent-peers" / digest.hexdigest()[:12]


def build() -> str:
    """Build what is missing; why that cannot be, "" if it can."""
    folder = cache_folder()
    if all(os.access(folder / name, os.X_OK) for name in PROGRAMS):
        return ""
    if shutil.which("go") is None:
        return "Go is not installed"
    folder.mkdir(parents=True, exist_ok=True)
    environment = {**os.environ, "CGO_ENABLED": "0", "GOFLAGS": "-mod=readonly -trimpath -buildvcs=false"}
    for name in PROGRAMS:
        partial = folder / f".{name}.{os.getpid()}"
        command = ["go", "build", "-o", str(partial), f"./{name}"]
        done = subprocess.run(command, cwd=SOURCES, env=environment, capture_output=True, text=True)
        if done.returncode != 0:
            return f"go build: {done.stderr.strip()[-300:]}"
        partial.rename(folder / name)
    return ""


class Peer:
    """A program that is told lines and answers with lines."""

    def __init__(self, command: list[str], environment: Mapping[str, str] | None = None) -> None:
        self._command = command
        self._environment = environment
        self._lines: queue.Queue[str] = queue.Queue()

    def __enter__(self) -> Any:
        self.process = subprocess.Popen(
            self._command, stdin=subprocess.PIPE, stdout=subprocess.PIPE, text=True, env=self._environment
        )
        self._reader = threading.Thread(target=self._read, daemon=True)
        self._reader.start()
        return self

    def __exit__(
        self, kind: type[BaseException] | None, error: BaseException | None, trace: TracebackType | None
    ) -> None:
        self.kill()

    def _read(self) -> None:
        assert self.process.stdout is not None
        for line in self.process.stdout:
            self._lines.put(line.rstrip("\n"))
        self._lines.put("")

    def tell(self, line: str) -> None:
        assert self.process.stdin is not None
        self.process.stdin.write(line + "\n")
        self.process.stdin.flush()

    def line(self) -> str:
        """The next one; "" at the end."""
        return self._lines.get(timeout=PATIENCE)

    def kill(self) -> None:
        if self.process.poll() is None:
            self.process.kill()
        self.process.wait()
        self._reader.join()
        for stream in (self.process.stdin, self.process.stdout):
            assert stream is not None
            try:
                stream.close()
            except BrokenPipeError:
                continue


class GoPlugin(Peer):
    """A device plugin on Kubernetes' own package."""

    def __init__(
        self, folder: Path, resource: str = "example.com/gpu", *, count: int = 8, prefix: str = "GPU-"
    ) -> None:
        self.resource = resource
        command = [
            cache_folder() / "plugin",
            "-dir",
            folder,
            "-resource",
            resource,
            "-devices",
            count,
            "-prefix",
            prefix,
        ]
        super().__init__([*map(str, command), "-prestart"])

    def __enter__(self) -> GoPlugin:
        super().__enter__()
        assert self.line() == "registered"
        return self

    def do(self, line: str) -> None:
        """Change it; what it was asked before is left out."""
        self.tell(line)
        while self.line() != f"done {line}":
            pass

    def calls(self) -> list[str]:
        """What it was asked since the last time."""
        self.tell("nothing")
        found = []
        while (line := self.line()) != "done nothing":
            found.append(line)
        return found


class GoKubelet(Peer):
    """A DRA client on Kubernetes' own packages."""

    def __init__(self, registry: Path) -> None:
        super().__init__([str(cache_folder() / "kubelet"), "-registry", str(registry)])

    def __enter__(self) -> GoKubelet:
        super().__enter__()
        word, *self.about = self.line().split(" ")
        assert word == "registered", self.about
        return self

    def ask(self, *words: str) -> dict[str, Any]:
        self.tell(" ".join(words))
        found: dict[str, Any] = json.loads(self.line())
        return found

    def prepare(self, *claims: str) -> dict[str, Any]:
        """By uid: the devices as (request, pool/device, CDI names), or the error."""
        answer = self.ask("prepare", *claims)
        return {
            uid: one["error"]
            or [
                (",".join(each["requests"]), f"{each['pool']}/{each['device']}", tuple(each["cdi"] or ()))
                for each in one["devices"]
            ]
            for uid, one in answer.items()
        }

    def unprepare(self, *claims: str) -> dict[str, str]:
        return {uid: one["error"] for uid, one in self.ask("unprepare", *claims).items()}


if __name__ == "__main__":
    problem = build()
    sys.stderr.write(f"agent peers: {problem}\n" if problem else "")
    sys.exit(3 if problem else 0)
