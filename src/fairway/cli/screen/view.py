"""The screen as a Textual program: a heading, one list at a time, a line of keys, and dialogs above them."""

from __future__ import annotations

import asyncio
import os
import select
import signal
import sys
import termios
import time
from collections.abc import Awaitable, Callable, Sequence
from contextlib import suppress
from fractions import Fraction
from typing import ClassVar, NamedTuple, Protocol

from rich.text import Text
from textual.app import App, ComposeResult, ScreenStackError
from textual.binding import Binding, BindingType
from textual.containers import VerticalScroll
from textual.screen import ModalScreen
from textual.widgets import Input, Static

from fairway.app.explain import Explanation
from fairway.app.records import FinishedJob
from fairway.app.view.frame import Frame, NodeUse
from fairway.cli.screen import rows
from fairway.cli.screen.listing import Listing
from fairway.cli.screen.rows import ScreenList, ScreenRow, clean, heading, wrapped
from fairway.cli.screen.terminal import TerminalDriver, hung_up
from fairway.errors import InputError

FRAMES = 0.25
"""Seconds between two frames; longer if frames are slow, so that drawing never takes most of the time."""
MIN_SPEED, MAX_SPEED = Fraction(1, 16), Fraction(1_000_000)
MAX_FINISHED = 200
PARTS = {"heading", "views", "columns", "keys"}
VIEWS = ("Jobs", "Shares", "Nodes", "Events")
KEYS = (
    ("up, down, j, k", "select a row; PageUp, PageDown, Home, End, g, G"),
    ("1 2 3 4, Tab", "show jobs, shares of queues and namespaces, nodes, or events"),
    ("Enter", "explain the job: why it is pending, what would start it, when it will start"),
    ("/", "filter rows by text; Enter keeps the filter, Esc clears it"),
    ("space", "pause or resume"),
    ("+ -", "double or halve the speed"),
    ("w", "open the page in a browser"),
    ("Ctrl-Z", "suspend; fg resumes"),
    ("q, Ctrl-C", "stop; the state is saved"),
)
WORDS = (
    "A queue's share is its dominant share: the largest fraction it has of any resource of the cluster. "
    "Amounts are allocated (+ reserved) of deserved. The namespace with the smallest weighted share is served next. "
    "Reserved nodes are kept free for a starving job.",
    "From another terminal: fairway queue, order JOB, get, apply -f FILE, delete JOB.",
)
LEAVE = b"\x1b[?2004l\x1b[?1004l\x1b[?25h\x1b[?1049l"
"""Disables bracketed paste and focus reports, shows the cursor, and returns to the previous screen."""


class WatchedCluster(Protocol):
    """A cluster that the screen can show; methods are called from a thread of the screen."""

    def frame(self) -> Frame: ...

    def nodes(self) -> Sequence[NodeUse]: ...

    def outcomes(self, last: int) -> Sequence[FinishedJob]: ...

    def explain(self, job: str) -> Explanation: ...


class PaceControl(Protocol):
    """Simulated time that can be paused and scaled; a live cluster has none."""

    speed: Fraction
    paused: bool
    failure: Exception | None
    """The error that stopped it."""

    def behind(self) -> str | None:
        """How far time is behind the requested speed, as text; None if it is not. Never waits for the cluster."""


class Dialog(ModalScreen[None]):
    """Scrolling text, until Esc, Enter or q. `ask` gets the available width and may take long."""

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
            yield Static(Text("Scheduling on copies of the cluster ...", style="dim"))

    def on_mount(self) -> None:
        self.query_one(VerticalScroll).focus()
        self.call_after_refresh(self._start)

    def _start(self) -> None:
        self.run_worker(self._fill(), exclusive=True)

    async def _fill(self) -> None:
        body = self.query_one(Static)
        body.update(await self._ask_text(body.size.width - 1))  # leave space for a scroll bar

    def action_scroll(self, by: int) -> None:
        self.query_one(VerticalScroll).scroll_relative(y=by, animate=False)


def help_text(width: int) -> Text:
    text = Text()
    for keys, what in KEYS:
        text.append(f"{keys:<16}", style="bold")
        text.append(("\n" + " " * 16).join(wrapped(what, max(width - 16, 20))) + "\n")
    for words in WORDS:
        text.append("\n" + "\n".join(wrapped(words, max(width, 20))) + "\n", style="dim")
    return text


class Look(NamedTuple):
    """Everything that was read for one frame."""

    frame: Frame
    nodes: Sequence[NodeUse]
    finished: Sequence[FinishedJob]


class ClusterScreen(App[None]):
    ENABLE_COMMAND_PALETTE = False
    CSS = """
    Screen { background: ansi_default; color: ansi_default; }
    Static { height: auto; width: 100%; }
    #filter { height: 1; border: none; padding: 0; background: ansi_default; display: none; }
    #filter.-open { display: block; }
    """
    BINDINGS: ClassVar[list[BindingType]] = [
        Binding("q,ctrl+c,ctrl+q", "quit", priority=False),
        Binding("question_mark,h,f1", "help"),
        Binding("slash", "filter"),
        Binding("escape", "clear"),
        Binding("space,p", "pause"),
        Binding("w", "page"),
        Binding("plus,equals_sign", "faster(2)"),
        Binding("minus", "faster(-2)"),
        Binding("tab", "next(1)", priority=True),
        Binding("shift+tab", "next(-1)", priority=True),
        *(Binding(str(number), f"view('{name}')") for number, name in enumerate(VIEWS, 1)),
    ]

    def __init__(self, cluster: WatchedCluster, name: str, address: str = "", pace: PaceControl | None = None) -> None:
        super().__init__(driver_class=TerminalDriver, ansi_color=True)
        self.failure: Exception | None = None
        """The error that ended the screen, if any."""
        self._cluster = cluster
        self._heading_name = name
        self._address = address
        self._pace = pace
        self._last_look: Look | None = None
        self._listed = VIEWS[0]
        self._word = ""
        self._event_loop: asyncio.AbstractEventLoop | None = None

    def stop(self) -> None:
        """Close the screen; from a signal handler."""
        if self._event_loop is None:  # not shown yet
            raise KeyboardInterrupt
        if isinstance(self._driver, TerminalDriver):
            self._driver.output.abandon()
        self._event_loop.call_soon_threadsafe(self.exit)

    def compose(self) -> ComposeResult:
        yield Static(Text(f"{self._heading_name}: starting ..."), id="heading")
        yield Static(id="views")
        yield Static(id="columns")
        yield Listing()
        yield Input(id="filter", placeholder="text to search for in rows", compact=True, select_on_focus=False)
        yield Static(id="keys")

    def on_mount(self) -> None:
        self.theme = "ansi-dark"
        self.query_one(Listing).focus()
        self._event_loop = asyncio.get_running_loop()
        with suppress(ValueError, NotImplementedError, RuntimeError):  # not in the main thread
            self._event_loop.add_signal_handler(signal.SIGHUP, self.exit)
        self.run_worker(self._watch(), exit_on_error=False)

    def _handle_exception(self, error: Exception) -> None:
        """Report an error as any other command does; Textual would print a page of local variables."""
        self.failure = self.failure or error
        super().exit(return_code=1)

    # -- drawing ------------------------------------------------------------------------------------------

    async def _watch(self) -> None:
        while True:
            if isinstance(self._driver, TerminalDriver) and hung_up(self._driver.fileno):
                self.exit()  # nobody is watching any more, and no signal tells unless it was the controlling terminal
                return
            begin = time.perf_counter()
            try:
                if self._pace is not None and self._pace.failure is not None:
                    raise self._pace.failure
                self._last_look = await asyncio.to_thread(self._read)
                self._draw()
            except Exception as error:  # reported once the terminal is restored
                self.failure = error
                self.exit()
                return
            took = time.perf_counter() - begin
            await asyncio.sleep(max(FRAMES, 3 * took))

    def _read(self) -> Look:
        nodes = self._cluster.nodes() if self._listed == "Nodes" else ()
        finished = self._cluster.outcomes(MAX_FINISHED) if self._listed == "Jobs" else ()
        return Look(self._cluster.frame(), nodes, finished)

    def _draw(self, *, keep: bool = True) -> None:
        look = self._last_look
        if look is None or not self._is_there():
            return
        width = self.size.width
        self._draw_heading()
        self.query_one("#views", Static).update(self._views(look.frame, width))
        listing = self.query_one(Listing)
        listing.show(self._filtered(self._rows(look)), keep=keep)
        columns = listing.heading()
        columns.truncate(width, overflow="ellipsis")
        self.query_one("#columns", Static).update(columns)
        self.query_one("#keys", Static).update(self._keys(width))

    def _draw_heading(self) -> None:
        look = self._last_look
        if look is None or not self._is_there():
            return
        width, height = self.size
        head = heading(look.frame, self._heading_name, self._pace_text(), self._address, width, max(1, height // 5))
        self.query_one("#heading", Static).update(Text("\n").join(head))

    def _is_there(self) -> bool:
        """Whether all parts are on the screen; not while it is being made or taken down."""
        try:
            return {widget.id for widget in self.query(Static)} >= PARTS and bool(self.query(Listing))
        except ScreenStackError:
            return False

    def _rows(self, look: Look) -> ScreenList:
        made: dict[str, Callable[[], ScreenList]] = {
            "Jobs": lambda: rows.jobs(look.frame, look.finished),
            "Shares": lambda: rows.shares(look.frame),
            "Nodes": lambda: rows.nodes(look.frame, look.nodes),
            "Events": lambda: rows.events(look.frame),
        }
        return made[self._listed]()

    def _filtered(self, shown: ScreenList) -> ScreenList:
        if not self._word:
            return shown
        word = self._word.lower()
        found = [row for row in shown.rows if row.has(word)]
        return shown._replace(rows=found, empty=f"No row contains {clean(self._word)!r}.")

    def _views(self, frame: Frame, width: int) -> Text:
        counts = {
            "Jobs": f"{len(frame.waiting)} waiting, {len(frame.running)} running",
            "Nodes": str(frame.nodes),
        }
        line = Text(no_wrap=True, overflow="crop")
        for number, name in enumerate(VIEWS, 1):
            text = f" {number} {name}: {counts[name]} " if name in counts else f" {number} {name} "
            line.append(text, style="reverse" if name == self._listed else "").append(" ")
        line.truncate(width, overflow="ellipsis")
        return line

    def _keys(self, width: int) -> Text:
        if self._word:
            text = Text(f" filter: {clean(self._word)!r}  ", style="yellow", no_wrap=True)
            text.append("Esc clears it", style="bold")
            text.truncate(width, overflow="ellipsis")
            return text
        keys = [("Enter", "explain"), ("/", "filter")]
        if self._pace is not None:
            keys += [("space", "resume" if self._pace.paused else "pause"), ("+ -", "speed")]
        keys += [("Tab", "view"), ("?", "help"), ("q", "stop")]
        line = Text(" ", no_wrap=True, overflow="crop")
        for key, what in keys:
            line.append(key, style="bold").append(f" {what}  ", style="dim")
        line.truncate(width, overflow="ellipsis")
        return line

    def _pace_text(self) -> Text:
        if self._pace is None:
            return Text()
        behind = self._pace.behind()
        if self._pace.paused or behind is not None:
            return Text("paused" if self._pace.paused else f"Behind: {behind}", style="bold yellow")
        return Text(f"x{float(self._pace.speed):g}")

    # -- keys ----------------------------------------------------------------------------------------------

    async def action_quit(self) -> None:
        self.exit()

    def action_help(self) -> None:
        async def ask(width: int) -> Text:
            return help_text(width)

        self.push_screen(Dialog("Keys", ask))

    def action_view(self, name: str) -> None:
        if self._is_typing():
            return
        self._listed = name
        self._refresh()

    def action_next(self, by: int) -> None:
        self.action_view(VIEWS[(VIEWS.index(self._listed) + by) % len(VIEWS)])

    def action_page(self) -> None:
        """Open the page in a browser, if there is one."""
        if self._address:
            import webbrowser

            self.run_worker(lambda: webbrowser.open(self._address), thread=True, exit_on_error=False)

    def action_pause(self) -> None:
        if self._pace is not None:
            self._pace.paused = not self._pace.paused
            self._draw()

    def action_faster(self, by: int) -> None:
        if self._pace is not None:
            wanted = self._pace.speed * 2 if by > 0 else self._pace.speed / 2
            self._pace.speed = min(max(wanted, MIN_SPEED), MAX_SPEED)
            self._draw()

    def action_filter(self) -> None:
        box = self.query_one("#filter", Input)
        box.add_class("-open")
        box.focus()

    def action_clear(self) -> None:
        self._close_filter("")

    def on_input_changed(self, event: Input.Changed) -> None:
        self._word = event.value.strip()
        self._draw()

    def on_input_submitted(self, event: Input.Submitted) -> None:
        self._close_filter(event.value.strip())

    def on_listing_opened(self, event: Listing.Opened) -> None:
        row = event.row
        if row.job:
            self.push_screen(Dialog(clean(row.job), lambda width: self._explained(row.job, width)))
        else:
            self.push_screen(Dialog(clean(row.cells[0]).strip(), lambda width: _details(row, width)))

    def on_resize(self) -> None:
        self._draw()

    def _refresh(self) -> None:
        """Read the data of the new list at once, so that its first frame is complete."""

        async def refresh() -> None:
            self._last_look = await asyncio.to_thread(self._read)
            self._draw(keep=False)

        self.run_worker(refresh(), exit_on_error=False)

    def _close_filter(self, word: str) -> None:
        box = self.query_one("#filter", Input)
        box.remove_class("-open")
        self._word = word
        with self.prevent(Input.Changed):
            box.value = word
        self.query_one(Listing).focus()
        self._draw()

    def _is_typing(self) -> bool:
        return isinstance(self.focused, Input) or isinstance(self.screen, Dialog)

    async def _explained(self, job: str, width: int) -> Text:
        from fairway.cli.explain_table import explanation_lines

        try:
            said = await asyncio.to_thread(self._cluster.explain, job)
        except InputError as error:
            return Text("\n".join(wrapped(clean(str(error)), width)))
        return Text("\n").join(explanation_lines(said, width))


async def _details(row: ScreenRow, width: int) -> Text:
    lines = [line for part in row.details or (*row.cells, row.text) for line in wrapped(clean(part), width)]
    return Text("\n".join(lines))


def terminal_restorer() -> Callable[[], None]:
    """Saves the mode of the terminal; the returned function restores it without ever blocking."""
    terminal = sys.stdin.fileno()
    mode = termios.tcgetattr(terminal)

    def restore() -> None:
        termios.tcsetattr(terminal, termios.TCSANOW, mode)
        if select.select([], [terminal], [], 0)[1]:  # output may be stopped with Ctrl-S
            os.write(terminal, LEAVE)

    return restore
