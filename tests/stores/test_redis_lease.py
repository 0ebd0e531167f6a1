"""The lease: when a run is lost, who says so, and what its holder can still do. On a real server."""

from __future__ import annotations

import logging
import time
from typing import TYPE_CHECKING, Any

import anyio
import pytest

from asynctask.run import Run
from asynctask.snapshot import Code, Status
from asynctask.stores.redis.hold import MARGIN, clock
from tests.stores.support import INDEX, KEY, LEASE, LIMIT, RECORD, die, eventually, held, plain, short, steady

if TYPE_CHECKING:
    from collections.abc import Iterator

    from asynctask.stores.redis import RedisStore
    from demo.redis_server import RedisServer

pytestmark = pytest.mark.anyio


@pytest.fixture
def anyio_backend() -> str:
    """redis-py's asynchronous client is asyncio's alone."""
    return "asyncio"


@pytest.fixture
def client(server: RedisServer) -> Iterator[Any]:
    """A look at the server past the store; it is empty at the start."""
    with plain(server.url) as found:
        found.flushall()
        yield found


def past(lease: int | str) -> bool:
    """Whether a lease has run out by the server's clock, which is this machine's but for a rounding."""
    return int(lease) + 50 < time.time() * 1000


async def lost(store: RedisStore) -> None:
    """Wait until the lease of KEY's run has run out."""
    with anyio.fail_after(LIMIT):
        while (seen := await store.read(KEY)) is None or not seen.status.terminal:
            await anyio.sleep(0.02)


async def test_expired_lease_is_worker_lost(
    server: RedisServer, client: Any, caplog: pytest.LogCaptureFixture
) -> None:
    """Readers say worker_lost within the lease, all the same, and it is written down once, with its TTL."""
    async with short(server.url) as one, short(server.url) as two:
        run = Run(KEY)
        await one.claim(run)
        run.advance(3)
        await eventually(lambda: client.hget(RECORD, "ver") == "2")
        die(one, run)
        began = clock()
        await lost(two)
        assert clock() - began < LEASE + 1
        first, second = await one.read(KEY), await two.read(KEY)
        assert first == second
        assert first is not None
        assert (first.status, first.error_code, first.processed, first.version) == (
            Status.FAILED,
            "worker_lost",
            3,
            3,
        )
        assert 0 < client.pttl(RECORD) <= 3_600_000
        assert [record.getMessage() for record in caplog.records if "was lost" in record.getMessage()] == [
            f"run {run.run_id} of job report was lost: its worker has not renewed its lease"
        ]


async def test_lost_outcome_is_refused(server: RedisServer, client: Any) -> None:
    """A holder that comes back after its lease cannot settle, whether or not somebody has looked
    meanwhile."""
    async with short(server.url) as one, short(server.url) as two:
        for looked in (True, False):
            run = Run(KEY)
            await one.claim(run)
            die(one, run)
            if looked:
                await lost(two)
            else:
                await eventually(lambda: past(client.hget(RECORD, "lease")))
            run.finish(Status.SUCCESS)
            assert not await one.settle(run)
            seen = await two.read(KEY)
            assert seen is not None
            assert seen.error_code == "worker_lost"


async def test_list_finds_losses_too(server: RedisServer, client: Any) -> None:
    """The list of a tenant shows no RUNNING run whose lease has run out."""
    async with short(server.url) as store:
        async with held(store):
            pass
        await eventually(lambda: past(client.hget(RECORD, "lease")))
        assert [snapshot.error_code for snapshot in await store.list("acme")] == ["worker_lost"]


async def test_lost_key_can_be_claimed(
    server: RedisServer, client: Any, caplog: pytest.LogCaptureFixture
) -> None:
    """The key of a lost run is free for a new one, whose claim says in the log which it replaced."""
    async with short(server.url) as one, short(server.url) as two:
        async with held(one) as old:
            pass
        new = Run(KEY)
        with anyio.fail_after(LIMIT):
            while not (await two.claim(new)).ours:
                await anyio.sleep(0.05)
        assert f"run {old.run_id} of job report was lost" in caplog.text
        old.finish(Status.SUCCESS)
        assert not await one.settle(old)
        seen = await one.read(KEY)
        assert seen is not None
        assert (seen.run_id, seen.status) == (new.run_id, Status.RUNNING)


async def test_blocked_loop_keeps_its_lease(server: RedisServer, client: Any) -> None:
    """A job that blocks the event loop for longer than the lease is still alive, and its outcome counts."""
    async with short(server.url) as store:
        run = Run(KEY)
        await store.claim(run)
        time.sleep(2.5 * LEASE)
        assert float(client.hget(RECORD, "lease")) > time.time() * 1000
        seen = await store.read(KEY)
        assert seen is not None
        assert seen.status is Status.RUNNING
        run.finish(Status.SUCCESS)
        assert await store.settle(run)
        assert not run.cancel_requested


async def test_superseded_holder_is_cancelled(server: RedisServer, client: Any) -> None:
    """A holder whose key somebody else holds learns it at its next renewal, and stops its job."""
    async with short(server.url) as store:
        run = Run(KEY)
        await store.claim(run)
        client.hset(RECORD, "id", "f" * 32)
        await eventually(lambda: run.cancel_requested)
        assert run.cancel_code is Code.WORKER_LOST
        run.finish(Status.FAILED)
        assert not await store.settle(run)
        assert client.hget(RECORD, "id") == "f" * 32


async def test_holder_that_cannot_renew_stops_before_others_may_start(
    server: RedisServer, client: Any
) -> None:
    """Without an answer from the server, the job is cancelled by its own clock, and before the lease is
    over."""
    async with short(server.url) as store:
        run = Run(KEY)
        await store.claim(run)
        await eventually(lambda: client.hget(RECORD, "lease") is not None)
        client.execute_command("CLIENT", "PAUSE", int(3000 * LEASE), "ALL")
        began = clock()
        await eventually(lambda: run.cancel_requested)
        waited = clock() - began
        assert run.cancel_code is Code.WORKER_LOST
        client.execute_command("CLIENT", "UNPAUSE")
        assert waited <= LEASE * (1 - MARGIN) + 0.5


async def test_forgotten_record_is_written_anew(server: RedisServer, client: Any) -> None:
    """A server that lost its memory gets the record back from the holder, with a newer version."""
    async with short(server.url) as one, short(server.url) as two:
        async with held(one) as run:
            run.advance(2)
            await eventually(lambda: client.hget(RECORD, "ver") == "2")
            before = await two.read(KEY)
            client.flushall()
            await eventually(lambda: client.hget(RECORD, "id") == run.run_id)
            after = await two.read(KEY)
            assert before is not None
            assert after is not None
            assert (after.status, after.processed) == (Status.RUNNING, 2)
            assert after.version > before.version
            assert [snapshot.run_id for snapshot in await two.list("acme")] == [run.run_id]
            client.flushall()
            run.finish(Status.SUCCESS)
            assert await one.settle(run)
            end = await two.read(KEY)
            assert end is not None
            assert end.status is Status.SUCCESS
            assert end.version > after.version


async def test_record_is_not_revived_after_its_lease(server: RedisServer, client: Any) -> None:
    """What was forgotten after the lease had run out stays forgotten: no outcome, no revival."""
    async with short(server.url) as store:
        async with held(store) as run:
            hold = store._keeper.find(run.run_id)
            assert hold is not None
        await eventually(lambda: past(hold.lease))
        client.flushall()
        renewal = hold.renewal(run.snapshot())
        assert client.eval(renewal.script.text, 2, *renewal.keys, *renewal.arguments) == 0
        run.finish(Status.SUCCESS)
        assert not await store.settle(run)
        assert await store.read(KEY) is None


async def test_overtaken_progress_is_not_shown(server: RedisServer, client: Any) -> None:
    """A renewal that arrives after a later one, from a connection thought dead, takes no version back."""
    async with steady(server.url) as store:
        async with held(store) as run:
            hold = store._keeper.find(run.run_id)
            assert hold is not None
            early = hold.renewal(run.snapshot())
            run.advance(5)
            await eventually(lambda: client.hget(RECORD, "ver") == "2")
            assert client.eval(early.script.text, 2, *early.keys, *early.arguments) > 0
            seen = await store.read(KEY)
            assert seen is not None
            assert (seen.version, seen.processed) == (2, 5)


@pytest.mark.parametrize("moves", [True, False])
async def test_progress_deadline(server: RedisServer, client: Any, moves: bool) -> None:
    """With a progress deadline a hung job loses its lease though its process lives; one that moves does
    not."""
    async with short(server.url, progress_deadline=0.6) as store, short(server.url) as other:
        run = Run(KEY)
        await store.claim(run)
        until = clock() + 0.6 + LEASE + 0.5
        while clock() < until and not run.cancel_requested:
            if moves:
                run.advance()
            await anyio.sleep(0.05)
        assert run.cancel_code is (None if moves else Code.WORKER_LOST)
        if not moves:
            await lost(other)
        die(store, run)


async def test_progress_travels_at_most_four_times_a_second(server: RedisServer, client: Any) -> None:
    """A thousand steps of progress cost a few messages, and the last one arrives."""
    async with steady(server.url) as store:
        async with held(store) as run:
            await eventually(lambda: client.hget(RECORD, "ver") == "1")
            versions = set()
            began = clock()
            for _ in range(100):
                run.advance(10)
                versions.add(client.hget(RECORD, "ver"))
                await anyio.sleep(0.01)
            seconds = clock() - began
            assert len(versions) <= 4 * seconds + 2
            await eventually(lambda: client.hget(RECORD, "ver") == "101")


async def test_keys_leave_nothing_behind(server: RedisServer, client: Any) -> None:
    """RUNNING has no TTL, a finished run has one, and after it neither record nor index is left."""
    async with short(server.url, ttl=0.3) as store:
        run = Run(KEY)
        await store.claim(run)
        assert (client.pttl(RECORD), client.pttl(INDEX)) == (-1, -1)
        run.finish(Status.SUCCESS)
        await store.settle(run)
        assert 0 < client.pttl(RECORD) <= 300
        assert 0 < client.pttl(INDEX) <= 300
        await eventually(lambda: client.dbsize() == 0)


async def test_cancellation_is_heard_long_before_the_next_renewal(server: RedisServer, client: Any) -> None:
    """A holder hears of a cancellation from elsewhere within a second, though its lease is renewed rarely."""
    async with steady(server.url) as one, steady(server.url) as two:
        async with held(one) as run:
            began = clock()
            await two.cancel(KEY)
            await eventually(lambda: run.cancel_requested)
            assert clock() - began < 10  # a renewal would come after 20


async def test_lost_lease_is_logged(
    server: RedisServer, client: Any, caplog: pytest.LogCaptureFixture
) -> None:
    """The log of the holder says which run lost its lease, and why."""
    async with short(server.url) as store:
        async with held(store) as run:
            client.hset(RECORD, "id", "f" * 32)
            await eventually(lambda: run.cancel_requested)
    warnings = [r.getMessage() for r in caplog.records if r.levelno == logging.WARNING]
    assert any(run.run_id in text and "has lost its lease" in text for text in warnings)
