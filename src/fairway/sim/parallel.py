"""Many runs at once: in processes of this machine, or on a Dask cluster. Results come in the order of the tasks."""

from __future__ import annotations

import os
import signal
from collections.abc import Callable, Generator, Iterator, Sequence
from concurrent.futures import ProcessPoolExecutor
from contextlib import contextmanager
from importlib import import_module
from multiprocessing import active_children, get_context
from pathlib import Path
from typing import TypeVar

import msgspec

from fairway.api.policy import parse_policy
from fairway.clock import SECOND
from fairway.errors import InputError
from fairway.scheduler.plugins.installed import default_registry
from fairway.sim.fleet_run import simulation_of
from fairway.sim.metrics import JobOutcome
from fairway.sim.report import RunReport
from fairway.sim.run import RunOptions
from fairway.sim.scenario import parse_scenario

T = TypeVar("T")
CONNECT_SECONDS = 10
"""Timeout for the answer of a Dask scheduler."""


class RunTask(msgspec.Struct, frozen=True):
    """One run, as plain data for another process. Files that the scenario names must exist there under the same names,
    which is why `scenario_path` is absolute.
    """

    scenario_path: str
    scenario_text: str
    policy_name: str
    policy_text: str
    seed: int


def run_task(task: RunTask) -> RunReport:
    return _run(task)


def _run(task: RunTask, on_finish: Callable[[JobOutcome], None] | None = None) -> RunReport:
    scenario = parse_scenario(task.scenario_text, Path(task.scenario_path))
    policy = parse_policy(task.policy_text, task.policy_name, default_registry().catalog)
    return simulation_of(scenario, policy, RunOptions(seed=task.seed, on_finish=on_finish)).run().report


class WaitsOfRun(msgspec.Struct, frozen=True):
    """A run with the wait of each finished job, in seconds."""

    report: RunReport
    waits: dict[str, float]


def run_with_waits(task: RunTask) -> WaitsOfRun:
    waits: dict[str, float] = {}

    def finished(job: JobOutcome) -> None:
        waits[job.key] = (job.start - job.submit) / SECOND

    return WaitsOfRun(_run(task, finished), waits)


def run_all(
    tasks: Sequence[RunTask], run: Callable[[RunTask], T], *, workers: int | None = None, dask: str | None = None
) -> Generator[T, None, None]:
    """The result of `run` for each task, in order, as they become available."""
    if dask is not None:
        yield from _on_dask(tasks, dask, run)
        return
    size = min(len(tasks), workers or os.cpu_count() or 1)
    if size <= 1:
        yield from map(run, tasks)
        return
    pool = ProcessPoolExecutor(size, mp_context=get_context("spawn"), initializer=_leave_interrupts_to_parent)
    with _stopped_early(pool):
        futures = [pool.submit(run, task) for task in tasks]
        for future in futures:
            yield future.result()


def _leave_interrupts_to_parent() -> None:
    """Ctrl-C reaches the whole process group: one run of many must not end as a partial report that looks complete."""
    signal.signal(signal.SIGINT, signal.SIG_IGN)


@contextmanager
def _stopped_early(pool: ProcessPoolExecutor) -> Iterator[None]:
    """A caller that leaves before the end (Ctrl-C, an error in one run) does not wait for the other runs."""
    others = set(active_children())
    try:
        yield
    except BaseException:
        pool.shutdown(wait=False)
        for child in set(active_children()) - others:
            child.terminate()
        raise
    pool.shutdown()


def _on_dask(tasks: Sequence[RunTask], address: str, run: Callable[[RunTask], T]) -> Iterator[T]:
    try:
        distributed = import_module("distributed")
    except ImportError:
        raise InputError("--dask needs the extra `sweep`: pip install 'fairway[sweep]'") from None
    try:
        client = distributed.Client(address, timeout=CONNECT_SECONDS)
    except (OSError, ValueError) as error:
        what = f"no Dask scheduler answers there ({error}), expected an address like tcp://scheduler:8786"
        raise InputError(f"--dask {address}: {what}") from error
    with client:
        try:
            for future in client.map(run, list(tasks), pure=False):
                yield future.result()
        except ImportError as error:
            what = f"a worker cannot run it ({error}), expected Fairway and its plugins to be installed there too"
            raise InputError(f"--dask {address}: {what}") from error
