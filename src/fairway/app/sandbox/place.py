"""Where a sandbox is kept and where the one that runs can be found, without an option that says so."""

from __future__ import annotations

import os
from pathlib import Path

import msgspec

from fairway.app.sandbox.server import DEFAULT_PORT, HOST


class Running(msgspec.Struct):
    """The sandbox that was started last."""

    url: str
    pid: int
    state: str


def state_folder() -> Path:
    base = os.environ.get("XDG_STATE_HOME")
    return (Path(base) if base else Path.home() / ".local" / "state") / "fairway"


def default_state() -> Path:
    return state_folder() / "sandbox.db"


def announce(running: Running) -> None:
    """Let the other commands find it; where that file cannot be written, they take --sandbox."""
    try:
        state_folder().mkdir(parents=True, exist_ok=True)
        draft = _file().with_suffix(f".{running.pid}")
        draft.write_bytes(msgspec.json.encode(running))
        draft.replace(_file())
    except OSError:
        return


def withdraw(running: Running) -> None:
    """It runs no longer; a later one may already have taken its place."""
    if _read() == running:
        _file().unlink(missing_ok=True)


def running_url() -> str:
    """Where the sandbox listens that was started last; the usual place if none has said so."""
    running = _read()
    return f"http://{HOST}:{DEFAULT_PORT}" if running is None else running.url


def _file() -> Path:
    return state_folder() / "running.json"


def _read() -> Running | None:
    try:
        return msgspec.json.decode(_file().read_bytes(), type=Running)
    except (OSError, msgspec.DecodeError, UnicodeDecodeError):
        return None
