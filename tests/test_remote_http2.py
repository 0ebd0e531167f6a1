"""PooledTransport(http2=True): requests share connections, and a cancelled one still harms nobody."""

from __future__ import annotations

import ssl
from typing import Any

import anyio
import pytest
import trustme

from asynctask.batch import map_concurrently
from tests.http2_server import serve_http2
from tests.http_server import serve
from tests.remote_support import CLIENTS, all_connections_work, client_of

pytestmark = [pytest.mark.anyio, pytest.mark.parametrize("kind", CLIENTS)]


@pytest.fixture(scope="module")
def authority() -> trustme.CA:
    """Who signs the certificates."""
    return trustme.CA()


@pytest.fixture
def server_context(authority: trustme.CA) -> ssl.SSLContext:
    """The server's side of TLS."""
    context = ssl.SSLContext(ssl.PROTOCOL_TLS_SERVER)
    authority.issue_cert("127.0.0.1").configure_cert(context)
    return context


@pytest.fixture
def options(authority: trustme.CA) -> dict[str, Any]:
    """The transport's options: HTTP/2, and trust in the authority."""
    context = ssl.create_default_context()
    authority.configure_trust(context)
    return {"http2": True, "verify": context}


async def test_requests_at_once_share_connections(
    kind: str, server_context: ssl.SSLContext, options: dict[str, Any]
) -> None:
    """20 requests under way at a time are two pools of 10, and each of these is one connection."""
    async with (
        serve_http2(server_context) as server,
        client_of(kind, max_connections=20, **options) as client,
    ):
        async with anyio.create_task_group() as group:
            for n in range(20):
                group.start_soon(client.get, f"{server.url}/hold/{n}")
            await server.arrived(20)
            server.gate.set()
        assert server.accepted == 2

        async def fetch(n: int) -> str:
            response = await client.get(f"{server.url}/{n}")
            assert response.http_version == "HTTP/2"
            return str(response.text)

        assert await map_concurrently(fetch, range(100), max_at_once=20) == ["fine"] * 100
        assert server.accepted == 2
        assert sorted(server.paths[20:]) == sorted(f"/{n}" for n in range(100))


async def test_a_cancelled_request_leaves_the_others_of_its_connection_alone(
    kind: str, server_context: ssl.SSLContext, options: dict[str, Any]
) -> None:
    """The pool retires, but those under way get their answers on it, and nothing is sent twice."""
    statuses = []
    async with (
        serve_http2(server_context) as server,
        client_of(kind, max_connections=20, **options) as client,
    ):

        async def fetch(n: int) -> None:
            statuses.append((await client.get(f"{server.url}/hold/{n}")).status_code)

        async with anyio.create_task_group() as group:
            for n in range(10):
                group.start_soon(fetch, n)
            await server.arrived(10)
            with anyio.CancelScope() as scope:
                async with anyio.create_task_group() as inner:
                    inner.start_soon(fetch, 10)
                    await server.arrived(11)
                    scope.cancel()
            server.gate.set()
        assert statuses == [200] * 10
        assert sorted(server.paths) == sorted(f"/hold/{n}" for n in range(11))


async def test_a_retired_connection_takes_no_new_requests(
    kind: str, server_context: ssl.SSLContext, options: dict[str, Any]
) -> None:
    """With one pool of four: after a cancellation nothing new goes on the old connection."""
    async with (
        serve_http2(server_context) as server,
        client_of(kind, max_connections=4, **options) as client,
    ):
        await client.get(f"{server.url}/first")
        with anyio.CancelScope() as scope:
            async with anyio.create_task_group() as group:
                group.start_soon(client.get, f"{server.url}/hold")
                await server.arrived(2)
                scope.cancel()
        await client.get(f"{server.url}/after")
        assert server.accepted == 2


async def test_a_server_without_http2_gets_no_more_connections_than_allowed(
    kind: str, server_context: ssl.SSLContext, options: dict[str, Any]
) -> None:
    """Where TLS settles on HTTP/1.1, each of a pool's requests has a connection of its own."""
    async with serve(tls=server_context) as server, client_of(kind, max_connections=6, **options) as client:

        async def fetch(n: int) -> int:
            return int((await client.post(f"{server.url}/ok/{n}")).status_code)

        assert await map_concurrently(fetch, range(60), max_at_once=20) == [200] * 60
        assert [server.times(f"/ok/{n}") for n in range(60)] == [1] * 60
        await all_connections_work(server, client, 6)
        for _ in range(5):
            with anyio.CancelScope() as scope:
                async with anyio.create_task_group() as group:
                    group.start_soon(client.get, f"{server.url}/stall")
                    await anyio.wait_all_tasks_blocked()
                    scope.cancel()
        await all_connections_work(server, client, 6)
