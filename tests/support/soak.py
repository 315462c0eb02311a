"""Drives the sandbox's demo in steps, as a process that may be killed at any moment: `python -m support.soak`.

Each time another twentieth of a day has passed, it prints the simulated day, the processor time since the last line,
and the KiB of memory that it has.
"""

import resource
import sys
import time
from pathlib import Path

from fairway.app.sandbox.engine import Sandbox, create
from fairway.app.sandbox.store import Store
from fairway.app.sandbox.world import demo_scenario, demo_world
from fairway.cli.inputs import read_policy
from fairway.clock import SECOND

DAY = 86_400 * SECOND


def opened(path: str) -> Sandbox:
    """The demo that the file holds, or a new one in it."""
    store = Store(path)
    if store.now is None:
        scenario = demo_scenario()
        assert scenario.file.policy is not None
        create(store, demo_world(), read_policy(str(scenario.resolve(scenario.file.policy))))
    return Sandbox(store)


def drive(path: str, step: int, days: float) -> None:
    """In steps of so many seconds, to so many days after the beginning."""
    sandbox, start = opened(path), demo_scenario().start
    end, said, used = start + int(days * DAY), sandbox.now, time.process_time()
    while sandbox.now < end:
        due = sandbox.now + step * SECOND
        while not sandbox.advance(due):
            pass
        if sandbox.now - said >= DAY // 20:
            print((sandbox.now - start) / DAY, time.process_time() - used, _memory(), flush=True)  # noqa: T201
            said, used = sandbox.now, time.process_time()
    sandbox.close()


def _memory() -> int:
    pages = int(Path("/proc/self/statm").read_text().split()[1])
    return pages * resource.getpagesize() // 1024


if __name__ == "__main__":
    drive(sys.argv[1], int(sys.argv[2]), float(sys.argv[3]))
