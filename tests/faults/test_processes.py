"""Workers that die, stop, hang or are replaced."""

from __future__ import annotations

import time
from typing import TYPE_CHECKING

import anyio
import anyio.to_thread
import pytest

from tests.faults.client import over
from tests.faults.stage import LEASE

if TYPE_CHECKING:
    from tests.faults.stage import Stage

pytestmark = [pytest.mark.anyio, pytest.mark.faults]

LIMIT = 30.0


async def test_worker_killed(stage: Stage) -> None:
    """A run whose worker is killed is worker_lost within the lease and a second, and its key is free."""
    client = stage.client("killed")
    run = await client.trigger(0, "work/killed", steps=1000)
    assert (run.status, run.started) == (202, True)
    await client.watch("work/killed", stage.reachable, until=lambda a: a.version > 2, limit=LIMIT)
    await anyio.to_thread.run_sync(stage.kill, 0)
    began = time.monotonic()
    lost = await client.watch("work/killed", stage.reachable, until=over, limit=LIMIT)
    assert (lost.run, lost.state, lost.code) == (run.run, "FAILED", "worker_lost")
    assert time.monotonic() - began < LEASE + 1
    again = await client.trigger(1, "work/killed", steps=3)
    assert (again.status, again.started) == (202, True)
    done = await client.watch("work/killed", stage.reachable, until=over, limit=LIMIT)
    assert (done.run, done.state) == (again.run, "SUCCESS")


async def test_key_of_a_killed_worker_is_taken_over(stage: Stage) -> None:
    """Triggered without a look in between, the key goes to the next worker as soon as the lease is over."""
    client = stage.client("heir")
    first = await client.trigger(1, "work/heir", steps=1000)
    await anyio.to_thread.run_sync(stage.kill, 1)
    began = time.monotonic()
    while True:
        second = await client.trigger(2, "work/heir", steps=3)
        assert second.status == 202
        if second.started:
            break
        assert second.run == first.run
        assert time.monotonic() - began < LEASE + 1
        await anyio.sleep(0.1)
    done = await client.watch("work/heir", stage.reachable, until=over, limit=LIMIT)
    assert (done.run, done.state) == (second.run, "SUCCESS")


async def test_worker_paused_for_less_than_its_lease(stage: Stage) -> None:
    """A short pause, as of a garbage collection or a live migration, costs nothing."""
    client = stage.client("short pause")
    run = await client.trigger(0, "work/short-pause", steps=20)
    began = stage.pause(0)
    await anyio.sleep(LEASE / 3)
    stage.go_on(0, began)
    done = await client.watch("work/short-pause", stage.reachable, until=over, limit=LIMIT)
    assert (done.run, done.state) == (run.run, "SUCCESS")


async def test_worker_paused_for_longer_than_its_lease(stage: Stage) -> None:
    """What was paused for too long is replaced; when it wakes it is cancelled, and its outcome is refused."""
    client = stage.client("long pause")
    first = await client.trigger(0, "work/long-pause", steps=1000)
    await client.watch("work/long-pause", stage.reachable, until=lambda a: a.version > 2, limit=LIMIT)
    began = stage.pause(0)
    lost = await client.watch("work/long-pause", stage.reachable, until=over, limit=LIMIT)
    assert (lost.run, lost.code) == (first.run, "worker_lost")
    second = await client.trigger(1, "work/long-pause", steps=40)
    assert second.started
    stage.go_on(0, began)
    done = await client.watch("work/long-pause", stage.reachable, until=over, limit=LIMIT)
    assert (done.run, done.state) == (second.run, "SUCCESS")
    ends = [e.how for e in stage.history.entries() if e.run == first.run and e.what == "end"]
    assert ends == ["worker_lost"]


async def test_loop_blocked_for_longer_than_the_lease(stage: Stage) -> None:
    """A job that blocks its event loop is alive: nobody takes its key, and its outcome counts."""
    client = stage.client("blocked")
    run = await client.trigger(0, "work/blocked", steps=5, block=1.6 * LEASE)
    others = [1, 2]
    await client.watch("work/blocked", lambda: others, until=lambda a: a.state == "RUNNING", limit=LIMIT)
    until = time.monotonic() + 1.5 * LEASE
    while time.monotonic() < until:
        joined = await client.trigger(1, "work/blocked", steps=1)
        assert (joined.run, joined.started) == (run.run, False)
        await anyio.sleep(0.2)
    done = await client.watch("work/blocked", lambda: others, until=over, limit=LIMIT)
    assert (done.run, done.state) == (run.run, "SUCCESS")


async def test_cancel_from_another_worker(stage: Stage) -> None:
    """A run is cancelled by whichever worker is asked."""
    client = stage.client("cancel")
    run = await client.trigger(0, "work/cancel", steps=1000)
    assert (await client.cancel(1, "work/cancel")).status == 202
    done = await client.watch("work/cancel", stage.reachable, until=over, limit=LIMIT)
    assert (done.run, done.code) == (run.run, "cancelled")


async def test_rolling_restart(stage: Stage) -> None:
    """Workers are replaced one by one under load: what they ran is interrupted, and others take over."""
    client, finished = stage.client("rolling"), 0

    async def restart() -> None:
        for number in range(3):
            await anyio.to_thread.run_sync(stage.end, number)
            await anyio.to_thread.run_sync(stage.start, number)

    async with anyio.create_task_group() as group:
        group.start_soon(restart)
        for turn in range(12):
            reachable = stage.reachable()
            run = await client.trigger(reachable[turn % len(reachable)], "work/rolling", steps=10)
            if run.status == 202:
                done = await client.watch("work/rolling", stage.reachable, until=over, limit=LIMIT)
                assert done.state == "SUCCESS" or done.code == "interrupted", done
                finished += done.state == "SUCCESS"
            else:
                assert run.status in (0, 503)  # this worker was just ending
                await anyio.sleep(0.1)
    assert finished >= 3
