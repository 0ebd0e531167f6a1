"""A batch that is cancelled from outside stops within one call, at whatever point it is caught."""

from __future__ import annotations

import asyncio
from typing import TYPE_CHECKING, Any, Literal

import anyio
import pytest
from anyio.lowlevel import checkpoint

from asynctask.batch import map_concurrently, stream_concurrently
from tests.batch_support import Gauge, at_once

if TYPE_CHECKING:
    from collections.abc import AsyncIterator, Awaitable, Callable

pytestmark = pytest.mark.anyio


class Tracked:
    """Calls and an input that await many times, and know whether any of them was left half-way."""

    def __init__(self) -> None:
        self.calls = Gauge()
        self.input_open = False

    async def items(self) -> AsyncIterator[int]:
        self.input_open = True
        try:
            for index in range(6):
                await checkpoint()
                yield index
        finally:
            self.input_open = False

    async def call(self, index: int) -> int:
        with self.calls:
            for _ in range(index % 3):
                await checkpoint()
        return index


async def mapped(tracked: Tracked) -> None:
    await map_concurrently(tracked.call, tracked.items(), max_at_once=3)


async def collected(tracked: Tracked) -> None:
    outcomes = await map_concurrently(tracked.call, tracked.items(), max_at_once=3, on_error="collect")
    assert all(outcome.ok for outcome in outcomes)


async def streamed(tracked: Tracked) -> None:
    async with stream_concurrently(tracked.call, tracked.items(), max_at_once=3) as outcomes:
        async for outcome in outcomes:
            assert outcome.ok
            await checkpoint()


@pytest.mark.parametrize("batch", [mapped, collected, streamed])
async def test_cancelled_at_every_turn_of_the_loop_it_leaves_nothing_behind(
    batch: Callable[[Tracked], Awaitable[None]],
) -> None:
    """For every k: cancelled after k turns, no call is under way, no task left, and the input is closed."""
    before = len(anyio.get_running_tasks())
    finished = False
    for turns in range(1000):
        tracked = Tracked()
        finished = False

        async def run(scope: anyio.CancelScope, tracked: Tracked = tracked) -> None:
            nonlocal finished
            with scope:
                await batch(tracked)
                finished = True

        scope = anyio.CancelScope()
        async with anyio.create_task_group() as group:
            group.start_soon(run, scope)
            for _ in range(turns):
                await checkpoint()
            scope.cancel()
        assert tracked.calls.now == 0
        assert not tracked.input_open
        assert len(anyio.get_running_tasks()) == before
        if finished:
            break
    assert finished
    assert turns > 4


@pytest.mark.parametrize("max_at_once", [1, 4])
@pytest.mark.parametrize("on_error", ["raise", "collect"])
async def test_calls_that_never_await_stop_as_soon_as_they_are_cancelled(
    max_at_once: int, on_error: Literal["raise", "collect"]
) -> None:
    """Even a batch that never lets go of the loop by itself begins no further call."""
    begun = []

    async def call(index: int) -> None:
        begun.append(index)
        if index == 10:
            scope.cancel()

    with anyio.CancelScope() as scope:
        await map_concurrently(call, range(10_000), max_at_once=max_at_once, on_error=on_error)
    assert scope.cancelled_caught
    assert len(begun) <= 10 + max_at_once


@pytest.mark.parametrize("max_at_once", [1, 10])
async def test_calls_that_never_await_let_others_have_their_turn(max_at_once: int) -> None:
    """Another task of the process gets a turn at least once for each `max_at_once` calls."""
    calls = turns = 0

    async def call(index: int) -> None:
        nonlocal calls
        calls += 1

    async def other() -> None:
        nonlocal turns
        while True:
            turns += 1
            await checkpoint()

    async with anyio.create_task_group() as group:
        group.start_soon(other)
        await map_concurrently(call, range(1000), max_at_once=max_at_once)
        group.cancel_scope.cancel()
    assert calls == 1000
    assert turns >= 1000 // max_at_once


async def test_a_deadline_ends_a_batch_over_an_endless_input() -> None:
    """A timeout around a batch that would go on for ever ends it."""

    def endless() -> Any:
        while True:
            yield 1

    with anyio.move_on_after(0.05) as scope:
        await map_concurrently(at_once, endless(), max_at_once=2)
    assert scope.cancelled_caught


async def test_our_own_cancellation_is_never_an_outcome() -> None:
    """With "collect" the calls that are cancelled from outside are not collected as failures."""
    failures: list[BaseException] = []
    progress = []

    async def call(index: int) -> None:
        if index == 2:
            scope.cancel()
        await anyio.sleep_forever()

    with anyio.CancelScope() as scope:
        await map_concurrently(
            call,
            range(10),
            max_at_once=3,
            on_error="collect",
            on_failure=failures.append,
            on_progress=lambda n, failed: progress.append(n),
        )
    assert scope.cancelled_caught
    assert failures == []
    assert progress == []


@pytest.mark.parametrize("anyio_backend", ["asyncio"])
async def test_a_native_cancellation_of_the_awaiting_task_passes_through() -> None:
    """`task.cancel()` and asyncio.timeout(), which know nothing of anyio, stop it just the same."""
    gauge = Gauge()

    async def call(index: int) -> None:
        with gauge:
            await anyio.sleep_forever()

    task = asyncio.create_task(map_concurrently(call, range(10), max_at_once=3, on_error="collect"))
    while gauge.now < 3:
        await checkpoint()
    task.cancel()
    with pytest.raises(asyncio.CancelledError):
        await task
    assert gauge.now == 0

    with pytest.raises(TimeoutError):
        async with asyncio.timeout(0.01):
            await map_concurrently(call, range(10), max_at_once=3)
    assert gauge.now == 0
