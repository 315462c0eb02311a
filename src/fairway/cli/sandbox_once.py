"""`fairway sandbox --once`: the demo without a terminal. One moment, as an operator asks about it, and its end."""

from __future__ import annotations

from dataclasses import replace
from typing import TYPE_CHECKING

from fairway.cli.output import console, echo

if TYPE_CHECKING:
    from fairway.api.policy import Policy
    from fairway.app.sandbox.engine import Sandbox
    from fairway.sim.scenario import Scenario

MOMENT = 25
"""Minutes after the beginning: the big job waits, and has its reservation."""
BIG = "language/pretrain"
OWN_POLICY = "the demo's policy"


def run_once(policy_file: str | None, folder: str | None, *, paranoid: bool) -> None:
    from fairway.app.sandbox.world import demo_scenario
    from fairway.cli.simulate import read_policy

    scenario = demo_scenario()
    policy = read_policy(scenario, policy_file)
    if policy_file is None:
        policy = replace(policy, source=OWN_POLICY)
    _print_moment(policy)
    _print_end(scenario, policy, policy_file, folder, paranoid=paranoid)


def _print_moment(policy: Policy) -> None:
    from fairway.cli.explain_table import print_explanation
    from fairway.cli.queue import print_waiting

    sandbox = demo_after(MOMENT, policy)
    frame = sandbox.frame()
    gpus = frame.capacity.get("nvidia.com/gpu", "no")
    echo(f"The demo: {frame.nodes} nodes with {gpus} GPUs, two queues, two teams, and the real scheduler.")
    waiting = sandbox.waiting()
    echo(f"\nAfter {MOMENT} minutes, {len(frame.running)} jobs run and these wait (fairway queue):\n")
    print_waiting(waiting)
    if any(row.job == BIG for row in waiting):
        echo(f"\nWhy the big one waits, and when it starts (fairway explain {BIG}):\n")
        print_explanation(sandbox.explain(BIG))
    sandbox.discard()


def demo_after(minutes: int, policy: Policy) -> Sandbox:
    """The demo in memory, so many minutes after its beginning."""
    from fairway.app.sandbox.engine import Sandbox, create
    from fairway.app.sandbox.store import Store
    from fairway.app.sandbox.world import demo_world
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
        "\nOn a terminal: fairway sandbox. The report as a page: fairway sandbox --once --out DIR", style="dim"
    )
