"""`python -m tools.pages`: write what documented commands print into README.md and docs/, as they print it now, the
table of hooks into docs/plugins.md and the sandbox's screen into docs/sandbox.md.

The commands are those that `tests/docs` runs. If a page cuts an output with `...`, it keeps as many lines as before.
Read the difference before you commit it: it shows what users will see.
"""

from __future__ import annotations

import os
import subprocess
import sys
import tempfile
from collections.abc import Iterable
from pathlib import Path

from fairway.api.hooks import hooks_table

ROOT = Path(__file__).resolve().parents[1]
SHOWN = {"NO_COLOR": "1", "COLUMNS": "80"}
sys.path.insert(0, str(ROOT / "tests"))

from support.pages import CUT, PAGES, Documented, blocks, documented, plain  # noqa: E402 - found only now

PLUGINS = ROOT / "docs" / "plugins.md"
SANDBOX = ROOT / "docs" / "sandbox.md"
SCREEN_BEGIN, SCREEN_END = "<!-- screen: written by `make docs` -->", "<!-- end of screen -->"
SCREEN_AT = 25
"""Minutes into the demo."""
BEGIN, END = "<!-- hooks: written by `make docs` -->", "<!-- end of hooks -->"


def main() -> None:
    PLUGINS.write_text(with_hooks(PLUGINS.read_text()))
    SANDBOX.write_text(with_screen(SANDBOX.read_text()))
    for page in PAGES:
        lines = page.read_text().splitlines()
        with tempfile.TemporaryDirectory() as folder:
            _prepare(Path(folder), page)
            for command in reversed(list(documented(page))):
                if command.prints is not None and not command.not_run:
                    _refresh(lines, command, folder)
        text = "\n".join(lines) + "\n"
        if text != page.read_text():
            page.write_text(text)
            print(f"{page.relative_to(ROOT)}: written")


def _prepare(folder: Path, page: Path) -> None:
    """A folder for the commands of a page, with the files that it shows and the examples."""
    (folder / "examples").symlink_to(ROOT / "examples")
    for block in blocks(page):
        if block.file:
            (folder / block.file).write_text("\n".join(block.text) + "\n")


def with_hooks(page: str) -> str:
    """The page of plugins with the current table of hooks."""
    return _with(page, BEGIN, hooks_table(), END)


def with_screen(page: str) -> str:
    """The page of the sandbox with its current screen."""
    from support.screens import demo_screen

    return _with(page, SCREEN_BEGIN, [f"    {line}".rstrip() for line in demo_screen(SCREEN_AT)], SCREEN_END)


def _with(page: str, begin: str, lines: Iterable[str], end: str) -> str:
    before, rest = page.split(begin)
    return f"{before}{begin}\n\n{chr(10).join(lines)}\n\n{end}{rest.split(end)[1]}"


def _refresh(lines: list[str], command: Documented, folder: str) -> None:
    """Replace the output of each command, from the last one up, so that line numbers stay valid."""
    shown = command.prints or ()
    printed = _run(command, folder)
    if shown[-1] == CUT:
        printed = [*printed[: len(shown) - 1], CUT]
    indent = (
        lines[command.line - 1][: -len(lines[command.line - 1].lstrip())] if lines[command.line - 1][:1] == " " else ""
    )
    lines[command.line : command.line + len(shown)] = [(indent + line).rstrip() for line in printed]


def _run(command: Documented, folder: str) -> list[str]:
    kept = {name: value for name, value in os.environ.items() if name != "FORCE_COLOR"}
    arguments = [sys.executable, "-m", "fairway.cli.main", *command.arguments]
    done = subprocess.run(arguments, capture_output=True, text=True, cwd=folder, env={**kept, **SHOWN})
    if done.returncode:
        raise SystemExit(f"{command}: exit status {done.returncode}\n{done.stderr}")
    return plain(done.stdout)


if __name__ == "__main__":
    main()
