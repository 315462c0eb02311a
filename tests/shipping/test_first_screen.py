"""`make sandbox` on a fresh clone: progress at once, the first screen soon, and only what the sandbox needs.

It installs from PyPI and looks at the clock, so it runs on a quiet machine by request: `FAIRWAY_LONG=1`.
"""

import os
import pty
import select
import shutil
import subprocess
import sys
import time
from pathlib import Path

import pytest

from support.effort import LONG

ROOT = Path(__file__).parents[2]
SCREEN = b"Fairway sandbox"
MAX_SECONDS = float(os.environ.get("FAIRWAY_SCREEN_SECONDS", "60"))


def screen_after(folder: Path, state: Path, *, cache: Path | None = None) -> tuple[float, float, bytes]:
    """Seconds until there was any output, until the screen was there, and the output; then the sandbox is left."""
    environment = {
        "PATH": "/usr/local/bin:/usr/bin:/bin", "HOME": str(state), "TERM": "xterm-256color", "COLUMNS": "120",
        "LINES": "40", "PYTHON": sys.base_prefix + "/bin/python3", "XDG_STATE_HOME": str(state),
        **{name: value for name, value in os.environ.items() if name.startswith(("PIP_", "SSL_", "REQUESTS_"))},
        **({"PIP_CACHE_DIR": str(cache)} if cache is not None else {"PIP_NO_CACHE_DIR": "1"}),
    }  # fmt: skip
    began, first, output = time.monotonic(), 0.0, b""
    pid, terminal = pty.fork()
    if pid == 0:
        os.chdir(folder)
        os.execve("/usr/bin/make", ["make", f"PYTHON={environment['PYTHON']}", "sandbox"], environment)
    try:
        while SCREEN not in output and time.monotonic() - began < 1200:
            if select.select([terminal], [], [], 1)[0]:
                output += os.read(terminal, 65536)
                first = first or time.monotonic() - began
        screen = time.monotonic() - began
        os.write(terminal, b"q")
        deadline = time.monotonic() + 60
        while time.monotonic() < deadline and os.waitpid(pid, os.WNOHANG)[0] == 0:
            if select.select([terminal], [], [], 0.2)[0]:
                try:
                    output += os.read(terminal, 65536)
                except OSError:
                    continue
        return first, screen, output
    finally:
        os.close(terminal)


@pytest.mark.skipif(not LONG, reason="installs from PyPI and measures; FAIRWAY_LONG=1 runs it")
def test_the_first_screen_is_there_within_a_minute(tmp_path: Path) -> None:
    clone = tmp_path / "clone"
    subprocess.run(["git", "clone", "--quiet", str(ROOT), str(clone)], check=True)
    for cache in (None, tmp_path / "cache", tmp_path / "cache"):  # no cache, a cold one, a warm one
        shutil.rmtree(clone / ".venv", ignore_errors=True)
        first, screen, output = screen_after(clone, tmp_path / "state", cache=cache)
        assert SCREEN in output, output[-2000:]
        print(f"first output after {first:.1f} s, screen after {screen:.1f} s")  # noqa: T201
        assert first < 5
        assert b"/26] numpy" in output or b"installing 26 packages" in output
        assert screen < MAX_SECONDS
    installed = {path.name.split("-")[0].lower() for path in clone.glob(".venv/lib/*/site-packages/*.dist-info")}
    assert not installed & {"mypy", "playwright", "pytest", "ruff", "grpcio", "hypothesis"}
