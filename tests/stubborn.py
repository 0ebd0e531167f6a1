"""Bodies that make of their cancellation what careless code makes of it."""

from __future__ import annotations

from collections.abc import Awaitable, Callable
from contextlib import suppress
from typing import Any

import anyio

from asynctask import Jobs, MemoryStore, Run, Snapshot

Body = Callable[[Run], Awaitable[Any]]


async def sleeps(run: Run) -> None:
    """Waits for ever."""
    await anyio.sleep_forever()


async def swallows_once(run: Run) -> None:
    """Catches the first cancellation, as careless code does, and goes on."""
    with suppress(BaseException):
        await anyio.sleep_forever()
    await anyio.sleep_forever()


async def swallows_and_returns(run: Run) -> dict[str, int]:
    """Catches it and returns what it has, as if all were done."""
    try:
        await anyio.sleep_forever()
    except BaseException:
        return {"done": 3}
    return {"done": 10}


async def swallows_many(run: Run) -> None:
    """A loop that takes each cancellation for a failed item."""
    for _ in range(10):
        try:
            await anyio.sleep_forever()
        except BaseException:
            run.advance(failed=1)


async def turns_it_into_an_error(run: Run) -> None:
    """Raises something else out of its cleanup."""
    try:
        await anyio.sleep_forever()
    finally:
        raise ValueError("cleanup failed")


async def has_children(run: Run) -> None:
    """Waits in a task group, one of whose children fails while it is cancelled."""

    async def child() -> None:
        try:
            await anyio.sleep_forever()
        finally:
            raise ValueError("cleanup failed")

    async with anyio.create_task_group() as group:
        group.start_soon(child)
        group.start_soon(anyio.sleep_forever)


async def maps(run: Run) -> None:
    """Waits in a batch."""
    await run.map(anyio.sleep, [3600] * 50, max_at_once=10, on_error="collect")


async def is_within_a_scope(run: Run) -> None:
    """Has limits of its own around what it waits for."""
    with anyio.move_on_after(3600), anyio.fail_after(3600):
        await anyio.sleep_forever()


STUBBORN = [
    *(sleeps, swallows_once, swallows_and_returns, swallows_many, turns_it_into_an_error),
    *(has_children, maps, is_within_a_scope),
]


async def started(jobs: Jobs, body: Body, **options: Any) -> None:
    """Register a body as the job "job", trigger it, and return when it waits."""
    jobs.job("job", **options)(body)
    await jobs.trigger("job")
    await anyio.wait_all_tasks_blocked()


async def over(jobs: Jobs) -> Snapshot:
    """The snapshot at the end of the run."""
    snapshot = await jobs.wait("job", timeout=10)
    assert snapshot.status.terminal, "the run did not end"
    assert isinstance(jobs.store, MemoryStore)
    assert jobs.store.running == 0
    return snapshot
