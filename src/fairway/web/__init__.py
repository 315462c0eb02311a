"""The page and its API (`/api/v1`), served over HTTP (extra `web`), and reports of runs as the same page in one file.

What other packages use is listed here. Each name is imported on first use: writing a report needs nothing that is
installed with the extra, and a command that serves no page does not pay for a web server.
"""

from importlib import import_module
from typing import TYPE_CHECKING, Any

if TYPE_CHECKING:
    from fairway.web.access import new_token
    from fairway.web.application import LoopbackPage
    from fairway.web.live_page import FeedReader
    from fairway.web.live_process import page_address, page_settings, started
    from fairway.web.page_log import to_file
    from fairway.web.recording import recorded
    from fairway.web.report_file import NOT_BUILT, write_page
    from fairway.web.sandbox_page import SandboxActions, SandboxPage

__all__ = [
    "NOT_BUILT",
    "FeedReader",
    "LoopbackPage",
    "SandboxActions",
    "SandboxPage",
    "new_token",
    "page_address",
    "page_settings",
    "recorded",
    "started",
    "to_file",
    "write_page",
]

_HOMES = {
    "FeedReader": "live_page",
    "LoopbackPage": "application",
    "NOT_BUILT": "report_file",
    "SandboxActions": "sandbox_page",
    "SandboxPage": "sandbox_page",
    "new_token": "access",
    "page_address": "live_process",
    "page_settings": "live_process",
    "recorded": "recording",
    "started": "live_process",
    "to_file": "page_log",
    "write_page": "report_file",
}


def __getattr__(name: str) -> Any:
    if name not in _HOMES:
        raise AttributeError(f"module {__name__!r} has no attribute {name!r}")
    return getattr(import_module(f"{__name__}.{_HOMES[name]}"), name)
