"""What goes on beside the others in a program (its lease, its policy) does not end unnoticed."""

import asyncio
import gc
from typing import Any
from unittest.mock import Mock

import pytest

from fairway.app.live import program
from fairway.app.live.program import KubeProgram


def test_an_error_that_ends_the_lease_ends_the_program() -> None:
    async def story() -> Any:
        program = Mock(_failure=None, _stop=asyncio.Event())

        async def keep() -> None:
            raise KeyError("a field that was always there")

        await KubeProgram._guarded(program, keep())
        return program

    program = asyncio.run(story())
    assert program._stop.is_set()
    assert isinstance(program._failure, KeyError)


def test_a_task_that_is_cancelled_at_the_end_is_no_failure() -> None:
    async def story() -> Any:
        program = Mock(_failure=None, _stop=asyncio.Event())
        task = asyncio.create_task(KubeProgram._guarded(program, asyncio.Event().wait()))  # type: ignore[arg-type]
        await asyncio.sleep(0)
        task.cancel()
        with pytest.raises(asyncio.CancelledError):
            await task
        return program

    assert asyncio.run(story())._failure is None


def test_new_objects_are_looked_at_for_garbage_in_small_numbers() -> None:
    """Between cycles, so that no cycle has to look at many: pods with long lists cost most there."""
    gc.collect()
    was_enabled, thresholds = gc.isenabled(), gc.get_threshold()
    try:
        gc.set_threshold(program.YOUNG, 20, 100)
        gc.enable()
        kept: list[list[int]] = [[] for _ in range(program.SOME_YOUNG // 2)]
        program.collect_young()
        assert gc.get_count()[0] >= len(kept), "few are left alone"
        kept += [[] for _ in range(program.SOME_YOUNG)]
        program.collect_young()
        assert gc.get_count()[0] < program.SOME_YOUNG
    finally:
        gc.set_threshold(*thresholds)
        (gc.enable if was_enabled else gc.disable)()
