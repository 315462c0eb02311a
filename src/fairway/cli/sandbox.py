"""`fairway sandbox`: an embedded cluster with the real scheduler, in a terminal; no Kubernetes needed."""

from __future__ import annotations

import sys
from collections.abc import Callable
from contextlib import ExitStack, suppress
from typing import TYPE_CHECKING

import click

from fairway.cli import inputs
from fairway.cli.output import console, echo, last_words, log_line, one_line

if TYPE_CHECKING:
    from fractions import Fraction

    from fairway.api.policy import Policy
    from fairway.app.records import SandboxEvent
    from fairway.app.sandbox import InitialWorld, Runner, Sandbox
    from fairway.sim.scenario import Scenario


FRAMES = 0.25
"""Seconds between two frames."""
MOMENT = 25
"""Minutes into the demo for `--once`: the big job is pending and has its reservation."""
BIG = "language/pretrain"
OWN_POLICY = "the demo's policy"


@click.command(
    epilog="""\b
Examples:
  fairway sandbox                   two teams on a small GPU cluster
  fairway sandbox -f examples/cluster --speed 600
  fairway sandbox --once            run the demo non-interactively
  fairway apply -f job.yaml         in another terminal; also get, queue"""
)
@click.option(
    "-f",
    "--file",
    "files",
    multiple=True,
    metavar="FILE",
    help="Manifests to start with instead of the demo. Repeatable.",
)
@inputs.strict_option
@click.option("--speed", type=float, default=60.0, show_default=True, help="Simulated seconds per real second.")
@inputs.policy_option_with("Policy file. Defaults to the saved policy, or else the policy of the demo.")
@click.option(
    "--once", is_flag=True, help="Run the demo once, non-interactively: print a snapshot and the final report."
)
@click.option(
    "--out", "folder", metavar="DIR", help="With --once: directory for the report, its HTML page and the job list."
)
@click.option(
    "--state", metavar="FILE", help="File to save the state in. Defaults to a file in the user's state directory."
)
@click.option("--fresh", is_flag=True, help="Delete the saved state and start over.")
@click.option(
    "--port",
    type=click.IntRange(0, 65535),
    metavar="N",
    help="Port for the other commands and the page; 0 picks a free one.",
)
@click.option("--allow-actions", is_flag=True, help="Allow the page to cancel, hold and reprioritise jobs.")
@click.option(
    "--paranoid",
    is_flag=True,
    help="Verify all totals, and decide each cycle a second time with nothing cached (slow).",
)
def command(
    files: tuple[str, ...],
    speed: float,
    policy_file: str | None,
    once: bool,
    folder: str | None,
    state: str | None,
    fresh: bool,
    port: int | None,
    allow_actions: bool,
    paranoid: bool,
) -> None:
    """Run an embedded cluster with the real scheduler in scaled real time; no Kubernetes needed.

    The state is saved to a file, so the sandbox resumes where it stopped, even after a crash. Use apply, delete, get
    and explain from another terminal. Press Ctrl-C to stop.
    """
    if once:
        if files or state or fresh or port is not None:
            raise click.UsageError(
                "--once runs the demo and saves nothing; use `fairway simulate` for scenarios of your own"
            )

        run_once(policy_file, folder, paranoid=paranoid)
        return
    if folder is not None:
        raise click.UsageError("--out requires --once: an interactive sandbox has no end to report")
    from fractions import Fraction as Exact

    from fairway.errors import InputError

    if not 0 < speed <= 1_000_000:
        raise InputError(f"--speed {speed:g}: expected more than 0 and at most 1000000")
    sandbox = _open(files, policy_file, state, fresh)
    sandbox.be_paranoid(paranoid)
    _run(sandbox, Exact(str(speed)), port, allow_actions)


def _open(files: tuple[str, ...], policy_file: str | None, state: str | None, fresh: bool) -> Sandbox:
    """The sandbox in the file, or a new one."""
    from pathlib import Path

    from fairway.app.sandbox import Sandbox, Store, create, default_state
    from fairway.errors import InputError

    path = Path(state) if state else default_state()
    if state and not path.parent.is_dir():
        raise InputError(f"--state {state}: the directory {path.parent} does not exist")
    policy = None if policy_file is None else inputs.read_policy(policy_file)
    make = _new_world(files, policy)
    store = Store(str(path), fresh=fresh)
    with store.closed_on_error():
        if files and store.now is not None:
            text = f"{path} already contains a sandbox: omit -f to resume it, or start over with --fresh"
            raise InputError(text)
        if store.now is None:
            create(store, *make())
        sandbox = Sandbox(store, policy)
    inputs.freeze_loaded()
    return sandbox


def _new_world(files: tuple[str, ...], policy: Policy | None) -> Callable[[], tuple[InitialWorld, Policy]]:
    """Reads the files at once, so that their errors are reported before anything is changed."""
    from fairway.app.sandbox import DEFAULT_POLICY, demo_scenario, demo_world, files_world
    from fairway.clock import SECOND, wall_clock

    if files:
        world = files_world(inputs.read_objects(files), wall_clock() // SECOND * SECOND)
        return lambda: (world, policy or inputs.read_policy(str(DEFAULT_POLICY)))

    def demo() -> tuple[InitialWorld, Policy]:
        scenario = demo_scenario()
        own = scenario.file.policy
        return demo_world(), policy or inputs.read_policy(None if own is None else str(scenario.resolve(own)))

    return demo


def _run(sandbox: Sandbox, speed: Fraction, port: int | None, allow_actions: bool) -> None:
    from fairway.app.sandbox import Runner, default_state
    from fairway.app.stopping import interrupt, stop_signals

    with ExitStack() as stack:
        stack.enter_context(stop_signals(interrupt))
        stack.callback(sandbox.close)
        runner = Runner(sandbox, speed)
        address = _serve(stack, sandbox, runner, port, allow_actions)
        runner.start()
        stack.callback(runner.stop)
        watch = _watch_screen if _has_screen() else _watch_lines
        with suppress(KeyboardInterrupt):
            watch(sandbox, runner, address)
    again = "" if sandbox.path == str(default_state()) else f" --state {sandbox.path}"
    last_words(f"Stopped. State saved to {sandbox.path}; run `fairway sandbox{again}` to resume.")


def _serve(stack: ExitStack, sandbox: Sandbox, runner: Runner, port: int | None, allow_actions: bool) -> str:
    """Serve the page and the other commands; returns the address of the page, "" if the extra is not installed."""
    import os
    from pathlib import Path

    from fairway.app.sandbox import DEFAULT_PORT, RunningSandbox, announce, kept_token, withdraw

    try:
        from fairway.web import SandboxActions, SandboxPage, new_token, to_file
    except ModuleNotFoundError as error:
        echo(
            f"{error.name} is not installed, so there is no page, and other commands cannot connect; run: "
            "pip install 'fairway[web]'",
            err=True,
        )
        return ""
    token = kept_token(new_token)
    history = sandbox.path if sandbox.path == ":memory:" else f"{sandbox.path}.history"
    in_file = _has_screen() and sandbox.path != ":memory:"
    log = to_file(Path(f"{sandbox.path}.page.log")) if in_file else log_line
    page = SandboxPage(sandbox, DEFAULT_PORT if port is None else port, token, history, log)
    page.paced_by(runner)
    if allow_actions:
        page.shown.actions = SandboxActions(sandbox)
    page.start()
    stack.callback(page.stop)
    running = RunningSandbox(page.url, os.getpid(), sandbox.path, token)
    announce(running)
    stack.callback(withdraw, running)
    return page.address


def _has_screen() -> bool:
    """Whether keys can be read and the cursor can be moved."""
    import os

    return sys.stdout.isatty() and sys.stdin.isatty() and os.environ.get("TERM", "") not in ("", "dumb")


def _watch_screen(sandbox: Sandbox, runner: Runner, url: str) -> None:
    from fairway.app.stopping import stop_signals
    from fairway.cli.screen.view import ClusterScreen, terminal_restorer

    shown = ClusterScreen(sandbox, "Fairway sandbox", url, runner)
    with stop_signals(shown.stop, terminal_restorer()):
        shown.run(mouse=False)  # the mouse remains the terminal's, to select and copy
    if shown.failure is not None:
        raise shown.failure


def event_line(event: SandboxEvent) -> str:
    """One event as a plain line, if there is no terminal."""
    from fairway.clock import format_rfc3339

    job = f"{event.job} " if event.job else ""
    return one_line(f"{format_rfc3339(event.at)[:19]}Z {event.kind:<9} {job}{event.text}")


def _watch_lines(sandbox: Sandbox, runner: Runner, url: str) -> None:
    """Print events as plain lines, from now on."""
    import time

    echo(f"Sandbox at {url or 'no address'}, saved to {sandbox.path}, at {float(runner.speed):g} times real time")
    seen, was_behind = sandbox.last_event(), False
    while runner.failure is None:
        behind = runner.behind()
        if was_behind != (behind is not None):
            was_behind = behind is not None
            echo(f"Behind: {behind}" if was_behind else f"No longer behind: x{float(runner.speed):g}")
        for number, event in sandbox.happenings_after(seen):
            echo(event_line(event))
            seen = number
        sys.stdout.flush()
        time.sleep(FRAMES)
    raise runner.failure


# -- the demo without a terminal -----------------------------------------------------------------------------


def run_once(policy_file: str | None, folder: str | None, *, paranoid: bool) -> None:
    """One moment of the demo, with what an operator would ask about it, and its end."""
    from dataclasses import replace

    from fairway.app.sandbox import demo_scenario
    from fairway.cli.simulate import read_policy

    scenario = demo_scenario()
    policy = read_policy(scenario, policy_file)
    if policy_file is None:
        policy = replace(policy, source=OWN_POLICY)
    _print_moment(policy)
    _print_end(scenario, policy, policy_file, folder, paranoid=paranoid)


def _print_moment(policy: Policy) -> None:
    from fairway.cli.explain_table import print_explanation
    from fairway.cli.queues import print_waiting

    sandbox = demo_after(MOMENT, policy)
    frame = sandbox.frame()
    gpus = frame.capacity.get("nvidia.com/gpu", "no")
    echo(f"The demo: {frame.nodes} nodes with {gpus} GPUs, two queues, two teams, and the real scheduler.")
    waiting = sandbox.waiting()
    echo(f"\nAfter {MOMENT} minutes, {len(frame.running)} jobs are running and these are pending (fairway queue):\n")
    print_waiting(waiting)
    if any(row.job == BIG for row in waiting):
        echo(f"\nWhy the big job is pending, and when it will start (fairway explain {BIG}):\n")
        print_explanation(sandbox.explain(BIG))
    sandbox.discard()


def demo_after(minutes: int, policy: Policy) -> Sandbox:
    """The demo in memory, some minutes after its start."""
    from fairway.app.sandbox import Sandbox, Store, create, demo_world
    from fairway.clock import SECOND

    store = Store(":memory:")
    world = demo_world()
    create(store, world, policy)
    sandbox = Sandbox(store)
    while not sandbox.advance(world.start + minutes * 60 * SECOND):
        pass
    return sandbox


def _print_end(
    scenario: Scenario, policy: Policy, policy_file: str | None, folder: str | None, *, paranoid: bool
) -> None:
    from contextlib import ExitStack

    from fairway.cli import inputs
    from fairway.cli.simulate import echo_written, origin, print_report, run, write_report

    echo("\nThe whole run, to its end (fairway simulate):\n")
    with ExitStack() as stack:
        files = None
        if folder is not None:
            from fairway.sim.report import OutputFiles

            files = stack.enter_context(OutputFiles(inputs.folder_to_write(folder)))
        result = run(scenario, policy, files, seed=None, strict=False, record=None, paranoid=paranoid)
        if files is not None:
            given = {"--policy": policy_file, "--out": folder}
            write_report(files, result, origin("sandbox", ["--once"], given.items(), [policy]))
    print_report(result)
    if files is not None:
        echo_written(files)
        return
    console(err=True).print(
        "\nInteractively: fairway sandbox. With a report as a page: fairway sandbox --once --out DIR", style="dim"
    )
