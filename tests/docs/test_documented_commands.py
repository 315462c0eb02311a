"""Every command that README.md and the pages in docs/ show is run as it stands there and prints what they say.

The commands of one page share a folder, with the files that the page shows and the checkout's `examples`. The demo
sandbox runs for those that speak to one. See `support.pages` for how a block is marked that cannot be run here.
"""

from __future__ import annotations

from collections.abc import Iterator
from pathlib import Path

import pytest
from tools.pages import SANDBOX, with_screen

from fairway.app.sandbox.engine import Sandbox, create
from fairway.app.sandbox.store import Store
from fairway.app.sandbox.world import demo_scenario, demo_world
from fairway.cli import inputs
from support.cli import invoke
from support.pages import CUT, PAGES, ROOT, Documented, blocks, documented, plain, plain_terminal
from support.web_pages import served

WITH_COMMANDS = [page for page in PAGES if list(documented(page))]


@pytest.fixture
def sandbox(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Iterator[None]:
    """The demo, half an hour after its beginning, where the commands of a page find it."""
    store = Store(str(tmp_path / "demo.db"))
    world, scenario = demo_world(), demo_scenario()
    create(store, world, inputs.read_policy(str(scenario.resolve(scenario.file.policy or ""))))
    demo = Sandbox(store)
    demo.advance(world.start + 1800 * 1_000_000)
    with served(demo) as page:
        monkeypatch.setenv("FAIRWAY_SANDBOX", page.address)
        yield
    demo.close()


@pytest.fixture
def folder(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Path:
    made = tmp_path / "page"
    made.mkdir()
    (made / "examples").symlink_to(ROOT / "examples")
    monkeypatch.chdir(made)
    plain_terminal(monkeypatch)
    return made


@pytest.mark.usefixtures("sandbox")
@pytest.mark.parametrize("page", WITH_COMMANDS, ids=lambda page: page.stem)
def test_the_commands_of_a_page_do_what_it_says(page: Path, folder: Path) -> None:
    for block in blocks(page):
        if block.file:
            (folder / block.file).write_text("\n".join(block.text) + "\n")
    wrong = [text for command in documented(page) if not command.not_run and (text := _wrong(command))]
    assert not wrong, "\n\n".join(wrong)


def _wrong(command: Documented) -> str:
    result = invoke(*command.arguments)
    if result.code:
        return f"{command}: exit status {result.code}\n{result.err}"
    if command.prints is None:
        return ""
    shown, printed = list(command.prints), plain(result.out)
    if shown[-1] == CUT:
        shown.pop()
        printed = printed[: len(shown)]
    return "" if printed == shown else f"{command}: prints\n{result.out}"


def test_blocks_that_are_not_run_are_few_and_say_why() -> None:
    marked = {str(command): command.not_run for page in PAGES for command in documented(page) if command.not_run}
    assert all(len(reason) > 10 for reason in marked.values())
    assert len(marked) <= 16, "\n".join(marked)


def test_no_page_shows_a_command_in_a_way_that_this_test_does_not_see() -> None:
    seen = {(command.page, command.line) for page in PAGES for command in documented(page)}
    assert len(seen) >= 35
    for page in PAGES:
        for number, line in enumerate(page.read_text().splitlines(), 1):
            if line.lstrip().startswith(("$ fairway ", "fairway ")) and line != line.lstrip():
                assert (page, number) in seen or "`" in line, f"{page.name}:{number}: {line}"


def test_the_screen_of_the_sandbox_is_as_its_page_shows_it() -> None:
    page = SANDBOX.read_text()
    assert with_screen(page) == page, "run `make docs`"
