"""Redis itself fails: it crashes, forgets, or is full. And what is left in it when all is over."""

from __future__ import annotations

import time
from typing import TYPE_CHECKING

import anyio
import anyio.to_thread
import pytest

from tests.faults.client import over
from tests.faults.stage import LEASE, TTL

if TYPE_CHECKING:
    from tests.faults.stage import Stage

pytestmark = [pytest.mark.anyio, pytest.mark.faults]

LIMIT = 30.0


@pytest.mark.parametrize("forget", [False, True], ids=["with persistence", "without persistence"])
async def test_redis_crashes_and_comes_back(stage: Stage, forget: bool) -> None:
    """While it is away all is 503; back again, with its memory or without, the run goes on to its outcome."""
    key = f"work/crash-{forget}".lower()
    client = stage.client(key)
    run = await client.trigger(0, key, steps=40)
    assert run.started
    began = await anyio.to_thread.run_sync(stage.kill_redis)
    for _ in range(3):
        for answer in (await client.status(1, key), await client.trigger(2, key, steps=1)):
            assert (answer.status, answer.code) == (503, "store_unavailable"), answer
    await anyio.to_thread.run_sync(lambda: stage.revive_redis(began, forget=forget))
    done = await client.watch(key, stage.reachable, until=over, limit=LIMIT)
    assert (done.run, done.state) == (run.run, "SUCCESS")


async def test_full_memory(stage: Stage) -> None:
    """A full Redis starts nothing new, says so with a 503, and takes every outcome all the same."""
    client = stage.client("full")
    run = await client.trigger(0, "work/full", steps=25)
    assert run.started
    began = time.monotonic()
    with stage.look() as redis:
        redis.config_set("maxmemory", 1)
        refused = await client.trigger(1, "work/full-other", steps=1)
        assert (refused.status, refused.code) == (503, "store_unavailable")
        done = await client.watch("work/full", stage.reachable, until=over, limit=LIMIT)
        assert (done.run, done.state) == (run.run, "SUCCESS")
        redis.config_set("maxmemory", 0)
    stage.history.fault("full", -1, began=began)
    assert not [entry for entry in stage.history.entries() if entry.key == "work/full-other"]
    again = await client.trigger(1, "work/full-other", steps=1)
    assert again.started
    await client.watch("work/full-other", stage.reachable, until=over, limit=LIMIT)


async def test_everything_returns_to_the_base_line(stage: Stage) -> None:
    """After the runs and their TTL no key is left, and no connection more than each worker had at first."""
    with stage.look() as redis:
        deadline = time.monotonic() + LEASE + TTL + 10
        while redis.dbsize():
            assert time.monotonic() < deadline, f"left over: {redis.keys()}"
            # A lost run that nobody asks for waits for somebody to look.
            await stage.client("base line").list(0)
            await anyio.sleep(0.1)
    for number in range(3):
        await anyio.to_thread.run_sync(stage.end, number)
    with stage.look() as redis:
        # A proxy takes a moment to notice that its client has gone.
        while worker_connections(redis):
            assert time.monotonic() < deadline, "connections of workers that have ended are left"
            await anyio.sleep(0.05)
        await anyio.to_thread.run_sync(stage.start_all)
        for number in range(3):
            for _ in range(10):
                await stage.client("base line").status(number, "work/none")
        assert worker_connections(redis) <= 3 * 2  # one for the verbs, one for the lease


def worker_connections(redis: object) -> int:
    """How many connections there are besides our own."""
    return int(redis.info("clients")["connected_clients"]) - 1  # type: ignore[attr-defined]
