"""The log of the page: unexpected errors under the reference in their answer, and warnings of the web server.

Lines go to standard error, or to a file of bounded size where a screen has the terminal. No line has a secret of the
request in it: tokens and cookies are cut from whatever an error says.
"""

from __future__ import annotations

import os
import secrets
import traceback
from collections.abc import Callable, Iterable
from pathlib import Path

from starlette.requests import Request

from fairway.app.logs import RunLog, forward_library_logs, standard_error

MAX_BYTES = 1 << 20
"""Maximum size of a log file; later lines are dropped."""
SHORTEST_SECRET = 6
CUT = "(secret)"


def to_standard_error(line: str) -> None:
    standard_error(printable(line))


def to_file(path: Path, most: int = MAX_BYTES) -> Callable[[str], None]:
    """Appends lines to a file that only its owner may read, created with the first line."""

    def write(line: str) -> None:
        try:
            handle = os.open(path, os.O_WRONLY | os.O_CREAT | os.O_APPEND, 0o600)
            try:
                if os.fstat(handle).st_size < most:
                    os.write(handle, (printable(line) + "\n").encode())
            finally:
                os.close(handle)
        except OSError:  # a log that cannot be written must not end an answer
            return

    return write


def printable(line: str) -> str:
    """One line without terminal control characters."""
    return "".join(sign if sign.isprintable() else f"\\u{ord(sign):04x}" for sign in line)


def secrets_of(request: Request) -> list[str]:
    """All secrets of a request: in the header, the cookies, the body of a login, and the query of an address."""
    bearer = request.headers.get("authorization", "").partition(" ")[2].strip()
    login = str(getattr(request.state, "login_token", ""))
    found = [bearer, login, *request.cookies.values(), *request.query_params.getlist("token")]
    return [text for text in found if len(text) >= SHORTEST_SECRET]


def without(text: str, hidden: Iterable[str]) -> str:
    for secret in hidden:
        text = text.replace(secret, CUT)
    return text


def text_of(error: BaseException) -> str:
    return "".join(traceback.format_exception(error))


def report_error(log: RunLog, request: Request, error: BaseException, hidden: Iterable[str] = ()) -> str:
    """Logs an unexpected error; returns the reference for its answer."""
    reference = secrets.token_hex(6)
    lines = without(text_of(error), [*secrets_of(request), *hidden])
    path = without(request.url.path, secrets_of(request))
    log.error("error in the page", reference=reference, method=request.method, path=path, traceback=lines)
    return reference


def forward_server_logs(log: RunLog) -> None:
    """Redirects warnings of uvicorn and asyncio to the page's log."""
    forward_library_logs(log, "uvicorn.error", "asyncio")
