"""`python tools/install.py VENV LOCK...`: make an environment, install exactly the packages of these lock files there,
and then this folder, editable. Progress is shown.

Only the standard library is used: this runs before anything is installed. A lock file names every package with its
hashes, so nothing is resolved (`--no-deps`). `--no-compile` avoids compiling modules that may never be imported;
they are compiled on first import.
"""

from __future__ import annotations

import re
import subprocess
import sys
import threading
import time
from pathlib import Path

ROOT = Path(__file__).resolve().parents[1]
LEAST = (3, 11)
CLEAR = "\r\x1b[K"
TICK = 0.5
_PINNED = re.compile(r"^([A-Za-z0-9][\w.-]*)==", re.MULTILINE)
_COLLECTING = re.compile(r"(?:Collecting|Requirement already satisfied:) ([A-Za-z0-9][\w.-]*)")


class Progress:
    """A status line that is overwritten on a terminal; elsewhere one line per change."""

    def __init__(self) -> None:
        self._began = time.monotonic()
        self._text = ""
        self._live = sys.stdout.isatty()
        self._done = threading.Event()
        if self._live:
            threading.Thread(target=self._tick, daemon=True).start()

    def show(self, text: str) -> None:
        self._text = text
        if not self._live:
            print(text, flush=True)

    def end(self, text: str) -> None:
        self._done.set()
        print(f"{CLEAR if self._live else ''}{text} in {time.monotonic() - self._began:.0f} s", flush=True)

    def _tick(self) -> None:
        while not self._done.wait(TICK):
            print(f"{CLEAR}{self._text} ({time.monotonic() - self._began:.0f} s)", end="", flush=True)


def packages(locks: list[Path]) -> list[str]:
    return sorted({name.lower() for lock in locks for name in _PINNED.findall(lock.read_text())})


def install(venv: Path, locks: list[Path], progress: Progress, *options: str) -> None:
    python = venv / "bin" / "python"
    if not python.exists():
        progress.show(f"making {venv}")
        _run([sys.executable, "-m", "venv", str(venv)])
    total = len(packages(locks))
    files = [word for lock in locks for word in ("-r", str(lock))]
    pip = [str(python), "-m", "pip", "install", "--no-deps", "--disable-pip-version-check", *options]
    seen: set[str] = set()

    def follow(line: str) -> None:
        if (found := _COLLECTING.match(line)) and found[1].lower() not in seen:
            seen.add(found[1].lower())
            progress.show(f"[{min(len(seen), total)}/{total}] {found[1]}")
        elif line.startswith("Installing collected packages"):
            progress.show(f"unpacking {total} packages")

    progress.show(f"installing {total} packages into {venv}")
    _run([*pip, "--progress-bar", "off", "--require-hashes", *files], follow)
    progress.show("installing fairway itself")
    _run([*pip, "--quiet", "--no-build-isolation", "--editable", str(ROOT)])


def _run(command: list[str], follow: object = None) -> None:
    """Run a command; if it fails, print its output and exit with its status."""
    process = subprocess.Popen(command, stdout=subprocess.PIPE, stderr=subprocess.STDOUT, text=True, errors="replace")
    assert process.stdout is not None
    lines = []
    for line in process.stdout:
        lines.append(line)
        if callable(follow):
            follow(line)
    if process.wait():
        sys.stdout.flush()
        sys.exit(f"\n{' '.join(command[:5])} failed:\n{''.join(lines[-30:])}")


def main(arguments: list[str]) -> None:
    if sys.version_info < LEAST:
        sys.exit("Fairway needs Python 3.11 or newer; `make PYTHON=python3.12 ...` chooses one")
    options = [word for word in arguments if word.startswith("--")]
    venv, *locks = (Path(word) for word in arguments if word not in options)
    progress = Progress()
    install(venv, locks, progress, *options)
    progress.end(f"installed {len(packages(locks))} packages")


if __name__ == "__main__":
    main(sys.argv[1:])
