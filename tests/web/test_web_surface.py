"""What other packages may use of the page, and what that costs them."""

from __future__ import annotations

import subprocess
import sys

import pytest

import fairway.web


@pytest.mark.parametrize("name", fairway.web.__all__)
def test_each_public_name_can_be_imported(name: str) -> None:
    assert getattr(fairway.web, name) is not None


def test_no_other_name_is_there() -> None:
    with pytest.raises(AttributeError, match="has no attribute 'nothing'"):
        _ = fairway.web.nothing


def test_writing_a_report_loads_no_web_server() -> None:
    loaded = "[name for name in ('starlette', 'uvicorn') if name in sys.modules]"
    script = f"import sys; from fairway.web import write_page; print({loaded})"
    done = subprocess.run([sys.executable, "-c", script], capture_output=True, text=True, check=True)
    assert done.stdout == "[]\n"
