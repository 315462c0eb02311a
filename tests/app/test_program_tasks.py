"""What goes on beside the others in a program (its lease, its policy) does not end unnoticed."""

import asyncio
from typing import Any
from unittest.mock import Mock

import pytest

from fairway.app.live.program import KubeProgram


def test_an_error_that_ends_the_lease_ends_the_program() -> None:
    async def story() -> Any:
        program = Mock(_failure=None, _stop=asyncio.Event())

        async def keep() -> None:
            raise KeyError("a field that was always there")

        await KubeProgram._to_its_end(program, keep())
        return program

    program = asyncio.run(story())
    assert program._stop.is_set()
    assert isinstance(program._failure, KeyError)


def test_a_task_that_is_cancelled_at_the_end_is_no_failure() -> None:
    async def story() -> Any:
        program = Mock(_failure=None, _stop=asyncio.Event())
        task = asyncio.create_task(KubeProgram._to_its_end(program, asyncio.Event().wait()))  # type: ignore[arg-type]
        await asyncio.sleep(0)
        task.cancel()
        with pytest.raises(asyncio.CancelledError):
            await task
        return program

    assert asyncio.run(story())._failure is None
