"""A cancelled request never costs the transport a connection, whenever it is cancelled."""

from __future__ import annotations

import asyncio
import random
from typing import TYPE_CHECKING, Any

import anyio
import pytest
from anyio.lowlevel import checkpoint

from tests.http_server import HttpServer, serve
from tests.remote_support import ALL, all_connections_work, client_of

if TYPE_CHECKING:
    from collections.abc import Awaitable, Callable

pytestmark = pytest.mark.anyio
on_all = pytest.mark.parametrize(("anyio_backend", "kind"), ALL)


async def run_for(turns: int, call: Callable[[], Awaitable[object]]) -> bool:
    """Run a call, cancel it after so many turns of the event loop, and say whether it finished before."""
    finished = False

    async def run() -> None:
        nonlocal finished
        with scope:
            await call()
            finished = True

    scope = anyio.CancelScope()
    async with anyio.create_task_group() as group:
        group.start_soon(run)
        for _ in range(turns):
            await checkpoint()
        scope.cancel()
    return finished


async def at_every_turn(call: Callable[[], Awaitable[object]], then: Callable[[], Awaitable[object]]) -> None:
    """Cancel a call after 0, 1, 2, … turns of the loop, until it finishes; each time `then` must work."""
    finished = 0
    for turns in range(2000):
        finished += await run_for(turns, call)
        await then()
        if finished == 3:  # the network does not always take the same number of turns
            return
    raise AssertionError("the call never finished")


@on_all
async def test_cancelled_at_every_turn_of_the_loop_on_a_new_connection(kind: str) -> None:
    """While it connects, sends, waits or reads: the only connection there may be serves the next request."""
    before = len(anyio.get_running_tasks())
    async with serve() as server:
        client = client_of(kind, max_connections=1)

        async def call() -> None:
            await client.get(f"{server.url}/ok")

        async def renew() -> None:
            nonlocal client
            await all_connections_work(server, client, 1)
            await client.aclose()
            client = client_of(kind, max_connections=1)

        await at_every_turn(call, renew)
        assert server.peak == 1
    assert len(anyio.get_running_tasks()) == before


@on_all
async def test_cancelled_at_every_turn_of_the_loop_on_a_kept_connection(kind: str) -> None:
    """The same where the connection is there already."""
    async with serve() as server, client_of(kind, max_connections=1) as client:
        await at_every_turn(
            lambda: client.get(f"{server.url}/ok"), lambda: all_connections_work(server, client, 1)
        )
        assert server.peak == 1


@on_all
async def test_cancelled_at_every_turn_of_the_loop_while_it_waits_for_its_turn(kind: str) -> None:
    """A request that is cancelled as it is given its connection gives it on."""
    async with serve() as server, client_of(kind, max_connections=1) as client:

        async def call() -> None:
            async with anyio.create_task_group() as group:
                for n in range(3):
                    group.start_soon(client.get, f"{server.url}/ok/{n}")

        await at_every_turn(call, lambda: all_connections_work(server, client, 1))
        assert server.peak == 1


@on_all
async def test_cancelled_at_every_turn_of_the_loop_while_it_reads_a_body(kind: str) -> None:
    """A body that is given up half-way does not keep its connection."""
    async with serve() as server, client_of(kind, max_connections=1) as client:

        async def call() -> None:
            async with client.stream("GET", f"{server.url}/drip") as response:
                await checkpoint()
                assert await response.aread() == b"drop" * 4

        await at_every_turn(call, lambda: all_connections_work(server, client, 1))
        assert server.peak == 1


async def storm(server: HttpServer, client: Any) -> None:
    """Many more requests than connections, each cancelled at a moment of its own."""
    chance = random.Random(7)
    for _ in range(25):
        async with anyio.create_task_group() as group:
            for _ in range(12):
                group.start_soon(run_for, chance.randrange(25), lambda: client.get(f"{server.url}/ok"))


@on_all
async def test_after_a_storm_of_cancelled_requests_all_connections_serve(kind: str) -> None:
    """encode/httpcore#1093: httpx's own transport answers none of the requests that come after this."""
    async with serve() as server, client_of(kind, max_connections=4) as client:
        await storm(server, client)
        await all_connections_work(server, client, 4)
        assert server.peak <= 4


@on_all
async def test_a_cancelled_request_does_not_touch_the_others(kind: str) -> None:
    """Of four requests under way one is cancelled; the other three get their answers, sent once."""
    statuses = []
    async with serve() as server, client_of(kind, max_connections=4) as client:

        async def fetch(n: int) -> None:
            statuses.append((await client.post(f"{server.url}/hold/{n}")).status_code)

        async with anyio.create_task_group() as group:
            for n in range(3):
                group.start_soon(fetch, n)
            with anyio.CancelScope() as scope:
                async with anyio.create_task_group() as inner:
                    inner.start_soon(fetch, 3)
                    await server.wait_for(held=4)
                    scope.cancel()
            server.open_gate()
        assert statuses == [200] * 3
        assert [server.times(f"/hold/{n}") for n in range(4)] == [1] * 4
        await all_connections_work(server, client, 4)


@pytest.mark.parametrize(("anyio_backend", "kind"), [pair for pair in ALL if pair[0] != "trio"])
async def test_a_native_cancellation_frees_the_connection_too(kind: str) -> None:
    """`task.cancel()`, which trio has not, knows no shield and may come twice."""
    async with serve() as server, client_of(kind, max_connections=1) as client:
        for turns in range(60):
            task = asyncio.ensure_future(client.get(f"{server.url}/ok"))
            for _ in range(turns):
                await checkpoint()
            task.cancel()
            await checkpoint()
            task.cancel()
            await asyncio.wait([task])
            assert (await client.get(f"{server.url}/ok")).status_code == 200
