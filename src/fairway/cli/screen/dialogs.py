"""What lies above the lists: the help, the details of a row, an explanation."""

from __future__ import annotations

from collections.abc import Awaitable, Callable
from typing import ClassVar

from rich.text import Text
from textual.app import ComposeResult
from textual.binding import Binding, BindingType
from textual.containers import VerticalScroll
from textual.screen import ModalScreen
from textual.widgets import Static

KEYS = (
    ("up, down, j, k", "select a row; PageUp, PageDown, Home, End, g, G"),
    ("1 2 3 4, Tab", "jobs, shares of queues and namespaces, nodes, events"),
    ("Enter", "explain the job: why it waits, what would start it, when it starts"),
    ("/", "show only rows that contain a text; Enter keeps it, Esc ends it"),
    ("space", "pause, and go on"),
    ("+ -", "twice as fast, half as fast"),
    ("w", "open the page in a browser"),
    ("Ctrl-Z", "suspend; fg resumes"),
    ("q, Ctrl-C", "stop; the state is kept"),
)
WORDS = (
    "The share of a queue is its largest fraction of any resource of the cluster, its dominant share. "
    "Amounts are allocated (+ reserved) of deserved. Of namespaces, the one with the smallest share by weight is "
    "served next. Reserved nodes are kept free for a job that starves.",
    "From another terminal: fairway queue, order JOB, get, apply -f FILE, delete JOB.",
)


class Dialog(ModalScreen[None]):
    """Lines that scroll, until Esc, Enter or q. The text may come later: `ask` is given the width that it has."""

    BINDINGS: ClassVar[list[BindingType]] = [
        Binding("escape,enter,q,question_mark", "dismiss", "close"),
        Binding("down,j", "scroll(1)", show=False),
        Binding("up,k", "scroll(-1)", show=False),
    ]
    DEFAULT_CSS = """
    Dialog { align: center middle; background: transparent; }
    Dialog VerticalScroll { width: 1fr; max-width: 110; height: auto; max-height: 100%; border: round ansi_bright_black;
        padding: 0 1; margin: 1 2; background: ansi_default; scrollbar-size-vertical: 1;
        scrollbar-color: ansi_bright_black; scrollbar-background: ansi_default; }
    Dialog Static { width: 100%; }
    """

    def __init__(self, title: str, ask: Callable[[int], Awaitable[Text]]) -> None:
        super().__init__()
        self._heading = title
        self._ask_text = ask

    def compose(self) -> ComposeResult:
        with VerticalScroll() as scroll:
            scroll.border_title = Text(self._heading)
            scroll.border_subtitle = Text("Esc closes")
            yield Static(Text("Deciding on copies of the cluster ...", style="dim"))

    def on_mount(self) -> None:
        self.query_one(VerticalScroll).focus()
        self.call_after_refresh(self._start)

    def _start(self) -> None:
        self.run_worker(self._fill(), exclusive=True)

    async def _fill(self) -> None:
        body = self.query_one(Static)
        body.update(await self._ask_text(body.size.width - 1))  # a scroll bar may come

    def action_scroll(self, by: int) -> None:
        self.query_one(VerticalScroll).scroll_relative(y=by, animate=False)


def help_text(width: int) -> Text:
    from fairway.cli.screen.cells import wrapped

    text = Text()
    for keys, what in KEYS:
        text.append(f"{keys:<16}", style="bold")
        text.append(("\n" + " " * 16).join(wrapped(what, max(width - 16, 20))) + "\n")
    for words in WORDS:
        text.append("\n" + "\n".join(wrapped(words, max(width, 20))) + "\n", style="dim")
    return text
