"""Pages of the documentation whose commands are run: from the checkout, without colours, eighty columns wide.

A *command* is a line of a code block that begins with `fairway` or `$ fairway`. What follows a `$` line, up to the next
one, is what it prints; `...` as a last line stands for the rest. Two marks, both invisible where the page is shown:

    <!-- not run: it needs a Dask cluster -->     before a block: its commands are not run, and why
    ```yaml file=day.yaml                         the block is a file that the page's commands find in their folder
"""

import re
import shlex
from collections.abc import Iterator
from dataclasses import dataclass, field, replace
from pathlib import Path
from textwrap import dedent

import pytest

ROOT = Path(__file__).parents[2]
PAGES = [ROOT / "README.md", *sorted((ROOT / "docs").glob("*.md"))]
CUT = "..."
_NOT_RUN = re.compile(r"<!-- not run: (.+?) -->")
_FENCE = re.compile(r"```(\w*)(?: file=(\S+))?")
_COMMAND = re.compile(r"(\$ )?fairway ")


@dataclass
class Block:
    """A code block of a page; `line` is that of its first line of text."""

    line: int
    file: str = ""
    not_run: str = ""
    text: list[str] = field(default_factory=list)


@dataclass(frozen=True)
class Documented:
    """A command that a page shows; `prints` is None where the page does not say what it prints."""

    page: Path
    line: int
    arguments: tuple[str, ...]
    prints: tuple[str, ...] | None
    not_run: str

    def __str__(self) -> str:
        return f"{self.page.name}:{self.line}: {' '.join(self.arguments)}"


def blocks(page: Path) -> Iterator[Block]:
    """Fenced and indented code blocks, in order."""
    lines = page.read_text().splitlines()
    block: Block | None = None
    fenced, not_run = False, ""
    for number, line in enumerate([*lines, ""], 1):
        if fenced and block is not None:
            if line.startswith("```"):
                fenced, not_run = False, ""
                yield block
                block = None
            else:
                block.text.append(line)
        elif match := _FENCE.match(line):
            block, fenced = Block(number + 1, match[2] or "", not_run), True
        elif line.startswith("    ") and (block is not None or not lines[number - 2].strip()):
            block = block or Block(number, "", not_run)
            block.text.append(line)
        elif block is not None and line.strip():
            yield _dedented(block)
            block, not_run = None, ""
        if match := _NOT_RUN.fullmatch(line):
            not_run = match[1]
        elif block is not None and not fenced and not line.strip():
            block.text.append("")
    if block is not None:
        yield _dedented(block)


def _dedented(block: Block) -> Block:
    """A block that is indented, also below an entry of a list."""
    return replace(block, text=dedent("\n".join(block.text)).split("\n"))


def documented(page: Path) -> Iterator[Documented]:
    """The commands of a page, in order."""
    for block in blocks(page):
        starts = [index for index, line in enumerate(block.text) if _COMMAND.match(line)]
        if block.file or not starts:
            continue
        for start, end in zip(starts, [*starts[1:], len(block.text)], strict=True):
            line = block.text[start]
            prints = tuple(plain("\n".join(block.text[start + 1 : end]))) if line.startswith("$ ") else None
            words = shlex.split(line.removeprefix("$ "), comments=True)
            yield Documented(page, block.line + start, tuple(words[1:]), prints or None, block.not_run)


@pytest.fixture
def in_the_checkout(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.chdir(ROOT)
    plain_terminal(monkeypatch)


def plain_terminal(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.delenv("FORCE_COLOR", raising=False)
    monkeypatch.setenv("NO_COLOR", "1")
    monkeypatch.setenv("COLUMNS", "80")


def plain(text: str) -> list[str]:
    return [line.rstrip() for line in text.strip().splitlines()]
