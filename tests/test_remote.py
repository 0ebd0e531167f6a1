"""PooledTransport under normal conditions, with clients of httpx and of httpx2."""

from __future__ import annotations

from typing import TYPE_CHECKING, Any

import anyio
import httpx
import httpx2
import pytest

from asynctask.batch import map_concurrently
from asynctask.errors import ConfigurationError
from asynctask.remote import PooledTransport
from tests.http_server import serve
from tests.remote_support import CLIENTS, client_of

if TYPE_CHECKING:
    from collections.abc import AsyncIterator

POOL_TIMEOUTS: Any = (httpx.PoolTimeout, httpx2.PoolTimeout)

pytestmark = [pytest.mark.anyio, pytest.mark.parametrize("kind", CLIENTS)]


async def test_a_batch_is_answered_in_order_over_few_connections(kind: str) -> None:
    """200 requests at 20 at once reach the server once each and never use a 21st connection."""
    async with serve() as server, client_of(kind, max_connections=20) as client:

        async def fetch(n: int) -> int:
            response = await client.post(f"{server.url}/echo/{n}", content=str(n))
            return int(response.text)

        assert await map_concurrently(fetch, range(200), max_at_once=20) == list(range(200))
        assert sorted(int(seen.body) for seen in server.requests) == list(range(200))
        assert server.peak <= 20
        assert server.accepted <= 20


async def test_more_requests_than_connections_take_turns(kind: str) -> None:
    """With fewer connections than calls at once the bound is the transport's, and all are served."""
    async with serve() as server, client_of(kind, max_connections=3) as client:

        async def fetch(n: int) -> str:
            response = await client.get(f"{server.url}/ok/{n}")
            return str(response.text)

        assert await map_concurrently(fetch, range(100), max_at_once=30) == ["fine"] * 100
        assert server.peak <= 3
        assert sorted(server.times(f"/ok/{n}") for n in range(100)) == [1] * 100


async def test_all_connections_can_be_in_use_at_the_same_time(kind: str) -> None:
    """The bound is not only kept but reached: 7 connections serve 7 slow requests together."""
    async with serve() as server, client_of(kind, max_connections=7) as client:
        async with anyio.create_task_group() as group:
            for _ in range(7):
                group.start_soon(client.get, f"{server.url}/hold")
            await server.wait_for(held=7)
            server.open_gate()
        assert server.accepted == 7


async def test_connections_are_used_again(kind: str) -> None:
    """Requests one after the other share one connection, whatever the maximum."""
    async with serve() as server, client_of(kind, max_connections=50) as client:
        for n in range(5):
            assert (await client.get(f"{server.url}/ok/{n}")).status_code == 200
        assert server.accepted == 1


async def test_two_servers_keep_their_connections(kind: str) -> None:
    """Requests to two servers in turn do not take each other's connections while there is room for both."""
    async with serve() as one, serve() as two, client_of(kind, max_connections=2) as client:
        for n in range(5):
            await client.get(f"{one.url}/ok/{n}")
            await client.get(f"{two.url}/ok/{n}")
        assert (one.accepted, two.accepted) == (1, 1)


async def test_a_third_server_takes_over_an_idle_connection(kind: str) -> None:
    """Where there is no room, an idle connection makes way, and the total stays within the maximum."""
    async with serve() as one, serve() as two, client_of(kind, max_connections=1) as client:
        for n in range(3):
            await client.get(f"{one.url}/ok/{n}")
            assert (one.open, two.open) == (1, 0)
            await client.get(f"{two.url}/ok/{n}")
            assert (one.open, two.open) == (0, 1)


async def test_a_request_is_under_way_until_its_response_is_closed(kind: str) -> None:
    """A streamed response holds its connection; another request waits as long as the pool timeout says."""
    async with serve() as server, client_of(kind, max_connections=1) as client:
        async with client.stream("GET", f"{server.url}/slow") as response:
            chunks = response.aiter_bytes()
            assert await anext(chunks) == b"one"
            with pytest.raises(
                (httpx.PoolTimeout, httpx2.PoolTimeout), match="none of 1 connections"
            ) as caught:
                await client.get(f"{server.url}/ok", timeout=(30, 30, 30, 0.01))
            error: Any = caught.value
            assert type(error).__module__ == kind
            assert error.request.url.path == "/ok"
            server.open_gate()
            assert b"".join([chunk async for chunk in chunks]) == b"two"
        assert (await client.get(f"{server.url}/ok")).status_code == 200
        assert server.accepted == 1


async def test_a_response_may_be_closed_twice(kind: str) -> None:
    """Its place is given back once: the second request still waits for the first one's."""
    async with serve() as server, client_of(kind, max_connections=1, timeout=(30, 30, 30, 0.01)) as client:
        async with client.stream("GET", f"{server.url}/ok") as response:
            await response.aread()
            await response.stream.aclose()
            await response.stream.aclose()
        async with client.stream("GET", f"{server.url}/ok"):
            with pytest.raises(POOL_TIMEOUTS, match="none of 1 connections"):
                await client.get(f"{server.url}/ok")
        assert server.peak == 1


async def test_a_response_left_half_read_costs_its_connection_alone(kind: str) -> None:
    """A body that nobody wants to the end is not waited for: the next request has a connection of its own."""
    async with serve() as server, client_of(kind, max_connections=1) as client:
        async with client.stream("GET", f"{server.url}/slow") as response:
            assert response.status_code == 200
        assert (await client.get(f"{server.url}/ok")).status_code == 200
        assert server.accepted == 2
        assert server.peak == 1


async def test_the_first_who_waits_is_the_first_served(kind: str) -> None:
    """Requests that wait for a connection get it in the order in which they came."""
    async with serve() as server, client_of(kind, max_connections=1) as client:
        async with anyio.create_task_group() as group:
            group.start_soon(client.get, f"{server.url}/hold")
            await server.wait_for(held=1)
            for n in range(5):
                group.start_soon(client.get, f"{server.url}/ok/{n}")
                await anyio.wait_all_tasks_blocked()
            server.open_gate()
        assert [seen.target for seen in server.requests] == ["/hold", *(f"/ok/{n}" for n in range(5))]


async def test_bodies_are_streamed_both_ways(kind: str) -> None:
    """An upload from an async generator arrives whole, and its echo comes back in pieces."""

    async def upload() -> AsyncIterator[bytes]:
        for n in range(100):
            yield b"%d," % n

    async with serve() as server, client_of(kind) as client:
        async with client.stream("POST", f"{server.url}/echo", content=upload()) as response:
            echoed = b"".join([chunk async for chunk in response.aiter_bytes(64)])
        assert echoed == b"".join(b"%d," % n for n in range(100))
        assert server.requests[0].headers["transfer-encoding"] == "chunked"


async def test_idle_connections_above_the_limit_are_closed(kind: str) -> None:
    """`max_keepalive_connections` bounds what stays open after a burst."""
    async with serve() as server, client_of(kind, max_connections=6, max_keepalive_connections=2) as client:
        async with anyio.create_task_group() as group:
            for _ in range(6):
                group.start_soon(client.get, f"{server.url}/hold")
            await server.wait_for(held=6)
            server.open_gate()
        await server.settle(open=2)


async def test_no_connection_is_kept_where_none_may_be(kind: str) -> None:
    """`max_keepalive_connections=0` closes every connection after its request."""
    async with serve() as server, client_of(kind, max_keepalive_connections=0) as client:
        for _ in range(3):
            await client.get(f"{server.url}/ok")
        await server.settle(open=0)
        assert server.accepted == 3


async def test_expired_connections_are_closed(kind: str) -> None:
    """Connections that are idle for longer than `keepalive_expiry` do not stay open."""
    async with serve() as server, client_of(kind, max_connections=6, keepalive_expiry=0.0) as client:
        async with anyio.create_task_group() as group:
            for _ in range(6):
                group.start_soon(client.get, f"{server.url}/hold")
            await server.wait_for(held=6)
            server.open_gate()
        await client.get(f"{server.url}/ok")
        await server.settle(open=0)


async def test_closing_the_client_closes_every_connection(kind: str) -> None:
    """Nothing stays open, and a request that waited for a connection is told."""
    waited: list[Any] = []
    async with serve() as server:
        client = client_of(kind, max_connections=1)

        async def held() -> None:
            with pytest.raises((httpx.TransportError, httpx2.TransportError)):
                await client.get(f"{server.url}/hold")

        async def waits() -> None:
            with pytest.raises((httpx.ConnectError, httpx2.ConnectError), match="was closed") as caught:
                await client.get(f"{server.url}/ok")
            waited.append(caught.value)

        async with anyio.create_task_group() as group:
            group.start_soon(held)
            await server.wait_for(held=1)
            group.start_soon(waits)
            await anyio.wait_all_tasks_blocked()
            await client.aclose()
            await server.settle(open=0)
        assert type(waited[0]).__module__ == kind


async def test_a_closed_transport_can_be_used_again(kind: str) -> None:
    """As with httpx's own: a second client may have the transport after the first one is closed."""
    transport = PooledTransport()
    async with serve() as server:
        for _ in range(2):
            async with client_of(kind, transport) as client:
                assert (await client.get(f"{server.url}/ok")).status_code == 200
            await server.settle(open=0)


async def test_one_transport_serves_one_kind_of_client(kind: str) -> None:
    """Their classes are unrelated, so a transport that is used by both at once says what to do."""
    other = CLIENTS[1 - CLIENTS.index(kind)]
    transport = PooledTransport()
    async with serve() as server, client_of(kind, transport) as client, client_of(other, transport) as wrong:
        await client.get(f"{server.url}/ok")
        with pytest.raises(ConfigurationError, match=f"already serves clients of {kind}: make another one"):
            await wrong.get(f"{server.url}/ok")
