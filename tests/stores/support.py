"""What the tests of the stores share."""

from __future__ import annotations

from contextlib import AsyncExitStack, asynccontextmanager
from typing import TYPE_CHECKING, Any

import anyio
import redis

from asynctask.keys import Key
from asynctask.run import Run
from asynctask.snapshot import Snapshot, Status
from asynctask.stores.base import Store
from asynctask.stores.redis import RedisStore

if TYPE_CHECKING:
    from collections.abc import AsyncIterator, Callable

KEY = Key("report", "report", "acme")
RECORD = "asynctask:{t:acme}:report:report"
INDEX = "asynctask:{t:acme}"
LIMIT = 20.0
"""Seconds after which what a test waits for will not come any more."""
LEASE = 1.5
"""A lease that a test can wait for, in seconds."""


def short(url: str, **options: Any) -> RedisStore:
    """Make a store whose lease a test can wait for."""
    return RedisStore(url, **{"lease": LEASE, "timeout": LEASE / 2, **options})


def steady(url: str, **options: Any) -> RedisStore:
    """Make a store whose lease does not end within a test, however slow the machine is."""
    return RedisStore(url, **{"lease": 60.0, "timeout": 1.0, **options})


@asynccontextmanager
async def held(store: RedisStore, key: Key = KEY) -> AsyncIterator[Run]:
    """Claim a run; at the end forget it, as a worker that dies would."""
    run = Run(key)
    assert (await store.claim(run)).ours
    yield run
    die(store, run)


def die(store: RedisStore, run: Run) -> None:
    """Let the store renew a run no longer, as if its process had died."""
    store._keeper.drop(run.run_id)


async def eventually(condition: Callable[[], bool]) -> None:
    """Wait until a condition holds."""
    with anyio.fail_after(LIMIT):
        while not condition():
            await anyio.sleep(0.01)


def plain(url: str) -> Any:
    """Return a client that looks at the server past the store."""
    return redis.Redis.from_url(url, protocol=2, decode_responses=True)


@asynccontextmanager
async def started(stores: list[Store]) -> AsyncIterator[list[Store]]:
    """Enter each store once."""
    async with AsyncExitStack() as stack:
        for store in {id(store): store for store in stores}.values():
            await stack.enter_async_context(store)
        yield stores


async def until(store: Store, wanted: Callable[[Snapshot | None], bool]) -> Snapshot | None:
    """Read until what is seen is what is wanted."""
    with anyio.fail_after(LIMIT):
        while not wanted(seen := await store.read(KEY)):
            await anyio.sleep(0.02)
    return seen


async def settled(store: Store, run: Run, result: object = None) -> bool:
    """Finish a run and settle it, as the runner does."""
    run.finish(Status.SUCCESS, result=result)
    counted = await store.settle(run)
    run.finished.set()
    return counted
