"""Where a sandbox is kept and where the one that runs can be found, without an option that says so."""

from __future__ import annotations

import os
from collections.abc import Callable
from pathlib import Path

import msgspec

HOST = "127.0.0.1"
DEFAULT_PORT = 7333


LEAST_TOKEN = 22


class Running(msgspec.Struct):
    """The sandbox that was started last."""

    url: str
    pid: int
    state: str
    token: str = ""
    """What its API asks for."""


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
        draft.touch(0o600)
        draft.write_bytes(msgspec.json.encode(running))
        draft.replace(_file())
    except OSError:
        return


def withdraw(running: Running) -> None:
    """It runs no longer; a later one may already have taken its place."""
    if _read() == running:
        _file().unlink(missing_ok=True)


def running() -> Running:
    """The sandbox that was started last; one at the usual place if none has said so."""
    return _read() or Running(f"http://{HOST}:{DEFAULT_PORT}", 0, "")


def kept_token(make: Callable[[], str]) -> str:
    """A token that stays the same from run to run, so that an open page can go on; only its owner may read it."""
    file = state_folder() / "token"
    try:
        found = file.read_text().strip()
        if len(found) >= LEAST_TOKEN:
            return found
    except (OSError, UnicodeDecodeError):
        pass
    made = make()
    try:
        file.parent.mkdir(parents=True, exist_ok=True)
        file.touch(0o600)
        file.chmod(0o600)
        file.write_text(made)
    except OSError:
        pass
    return made


def _file() -> Path:
    return state_folder() / "running.json"


def _read() -> Running | None:
    try:
        return msgspec.json.decode(_file().read_bytes(), type=Running)
    except (OSError, msgspec.DecodeError, UnicodeDecodeError):
        return None
