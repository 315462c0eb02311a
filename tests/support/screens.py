"""The screen without a terminal: its keys are pressed by the test, its lines are read back."""

import asyncio
from collections.abc import Awaitable, Callable, Sequence
from fractions import Fraction

from textual.pilot import Pilot

from fairway.app.explain import Explanation
from fairway.app.records import FinishedJob
from fairway.app.sandbox.engine import Sandbox
from fairway.app.sandbox.world import demo_scenario
from fairway.app.view.frame import Frame, NodeUse
from fairway.cli.sandbox import demo_after
from fairway.cli.screen.view import ClusterScreen
from fairway.cli.simulate import read_policy

URL = "http://127.0.0.1:7333"
TURNS = 300
"""Turns of the event loop that a test waits at most for something to come to pass."""
SCROLL_BAR = "▁▂▃▄▅▆▇█"
"""What the last column of a scroll bar is painted with; it comes one refresh after the lines beside it."""


class HeldPace:
    """A pace that is not followed."""

    def __init__(self) -> None:
        self.speed = Fraction(60)
        self.paused = False
        self.failure: Exception | None = None
        self.late: str | None = None

    def behind(self) -> str | None:
        return self.late


class StillCluster:
    """What a sandbox shows at one moment, until the test says otherwise."""

    def __init__(self, sandbox: Sandbox) -> None:
        self.sandbox = sandbox
        self.shown = sandbox.frame()
        self.asked: list[str] = []

    def frame(self) -> Frame:
        return self.shown

    def nodes(self) -> Sequence[NodeUse]:
        return self.sandbox.nodes()

    def outcomes(self, last: int) -> Sequence[FinishedJob]:
        return self.sandbox.outcomes(last)

    def explain(self, job: str) -> Explanation:
        self.asked.append(job)
        return self.sandbox.explain(job)


class Watched:
    """A screen under test."""

    def __init__(self, app: ClusterScreen, pilot: Pilot[None]) -> None:
        self.app = app
        self._pilot = pilot

    def lines(self) -> list[str]:
        return [strip.text for strip in self.app.screen._compositor.render_strips()]

    def text(self) -> str:
        return "\n".join(line.rstrip() for line in self.lines())

    async def press(self, *keys: str) -> None:
        await self._pilot.press(*keys)

    async def resize(self, width: int, height: int) -> None:
        await self._pilot.resize_terminal(width, height)

    async def until(self, *texts: str, gone: str = "\0") -> str:
        """Wait until the screen shows all of these."""
        for _ in range(TURNS):
            shown = self.text()
            if all(text in shown for text in texts) and gone not in shown:
                return shown
            await self._pilot.pause(0.01)
        raise AssertionError(f"{texts} did not come to the screen:\n{self.text()}")


def demo_screen(minutes: int) -> list[str]:
    """The demo's first screen of 80 x 24 after so many minutes, as a page shows it."""
    lines: list[str] = []

    async def use(screen: Watched) -> None:
        await screen.until("q stop")
        lines.extend(line[:-1].rstrip() if line[-1:] in SCROLL_BAR else line.rstrip() for line in screen.lines())

    scenario = demo_scenario()
    sandbox = demo_after(minutes, read_policy(scenario, None))
    watch(StillCluster(sandbox), use)
    sandbox.discard()
    return lines


def watch(
    cluster: StillCluster,
    use: Callable[[Watched], Awaitable[None]],
    *,
    size: tuple[int, int] = (80, 24),
    pace: HeldPace | None = None,
) -> ClusterScreen:
    """Run the screen of a cluster with a test as its user."""
    app = ClusterScreen(cluster, "Fairway sandbox", URL, pace or HeldPace())

    async def run() -> None:
        async with app.run_test(size=size) as pilot:
            watched = Watched(app, pilot)
            while " nodes " not in watched.lines()[1]:
                await pilot.pause(0.01)
            await use(watched)

    asyncio.run(run())
    if app.failure is not None:
        raise app.failure
    return app
