"""The timeout of a step: exact while the loop is idle, forgiving while it is busy, never endless."""

from __future__ import annotations

import asyncio
import time

import pytest

from asynctask.stores.redis.patience import EXCUSED, Patience

pytestmark = pytest.mark.anyio


@pytest.fixture
def anyio_backend() -> str:
    """It is for redis-py's asynchronous client, which is asyncio's alone."""
    return "asyncio"


async def test_silence_ends_it() -> None:
    """What does not come within the time is given up, and not much later."""
    began = time.monotonic()
    with pytest.raises(TimeoutError):
        with Patience(0.2):
            await asyncio.sleep(30)
    assert time.monotonic() - began >= 0.2


async def test_busy_loop_is_no_silence() -> None:
    """A loop that was blocked for longer than the time still takes what has come meanwhile."""
    loop = asyncio.get_running_loop()
    for _ in range(5):
        answer = loop.create_future()
        loop.call_later(0.02, loop.call_soon, answer.set_result, 7)  # two turns of the loop away
        loop.call_soon(time.sleep, 0.3)
        with Patience(0.1):
            assert await answer == 7


async def test_busy_loop_does_not_excuse_for_ever() -> None:
    """A loop that is always busy puts the end off only so far."""
    began = time.monotonic()

    async def busy() -> None:
        while True:
            time.sleep(0.03)
            await asyncio.sleep(0)

    task = asyncio.ensure_future(busy())
    with pytest.raises(TimeoutError):
        with Patience(0.1):
            await asyncio.sleep(30)
    task.cancel()
    assert time.monotonic() - began < 30
    assert EXCUSED < 10


async def test_cancellation_passes_through() -> None:
    """A cancellation from outside is none of its business."""

    async def wait() -> None:
        with Patience(30):
            await asyncio.sleep(30)

    task = asyncio.ensure_future(wait())
    await asyncio.sleep(0)
    task.cancel()
    with pytest.raises(asyncio.CancelledError):
        await task


async def test_time_is_up_after_the_work_was_done() -> None:
    """A timeout that comes too late to matter leaves no cancellation behind."""
    task = asyncio.current_task()
    assert task is not None
    for _ in range(50):
        try:
            with Patience(0.001):
                await asyncio.sleep(0.001)
        except TimeoutError:
            pass
        assert task.cancelling() == 0
        await asyncio.sleep(0)
