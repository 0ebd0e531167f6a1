"""Timeouts, each with a server that does nothing: errors and what is left of a connection, as with httpx."""

from __future__ import annotations

from typing import TYPE_CHECKING, Any

import pytest

from tests.connection_support import BACKENDS, Outcome, exchange, on_both
from tests.raw_server import Peer, RawServer, in_two_parts, stall
from tests.remote_support import package_of

if TYPE_CHECKING:
    from collections.abc import AsyncIterator

pytestmark = [pytest.mark.anyio, pytest.mark.parametrize(("anyio_backend", "kind"), BACKENDS)]

SHORT = 0.05


@pytest.mark.parametrize("path", ["/none", "/half"])
async def test_a_read_timeout(path: str, kind: str) -> None:
    """Before the head and within the body, and the connection is closed."""

    async def act(client: Any, server: RawServer) -> Any:
        outcome = await exchange(client, "GET", server.url + path, timeout=(30, SHORT, 30, 30))
        await server.settle(open=0)
        return outcome, (await exchange(client, "GET", f"{server.url}/next")).body, server.accepted

    outcome, body, accepted = await on_both(kind, stall, act)
    assert (outcome.error, body, accepted) == (f"{kind}.ReadTimeout", b"ok", 2)


async def test_a_response_that_failed_need_not_be_closed(kind: str) -> None:
    """An error within the body gives the place back, as nobody has to think of it then."""

    async def act(client: Any, server: RawServer) -> Any:
        for _ in range(2):
            request = client.build_request("GET", f"{server.url}/half", timeout=(30, SHORT, 30, 30))
            response = await client.send(request, stream=True)
            with pytest.raises(package_of(kind).ReadTimeout):
                await response.aread()
            await server.settle(open=0)
        return (await exchange(client, "GET", f"{server.url}/next")).body, server.accepted

    assert await on_both(kind, stall, act) == (b"ok", 3)


@pytest.mark.parametrize("parts", [1, 64])
async def test_a_write_timeout(parts: int, kind: str) -> None:
    """The server never reads; sent at once or in parts."""

    async def script(peer: Peer) -> None:
        peer.writer.transport.pause_reading()  # type: ignore[attr-defined]
        await peer.server.gate.wait()

    async def content() -> AsyncIterator[bytes]:
        for _ in range(parts):
            yield bytes(64 * 1024 * 1024 // parts)

    async def act(client: Any, server: RawServer) -> Any:
        return await exchange(client, "POST", server.url, content=content(), timeout=(30, 30, SHORT, 30))

    assert await on_both(kind, script, act) == Outcome(error=f"{kind}.WriteTimeout")


async def test_a_connect_timeout(kind: str) -> None:
    """A server that accepts and says nothing in TLS; the place in the pool is free afterwards."""

    async def script(peer: Peer) -> None:
        await peer.gone()

    async def act(client: Any, server: RawServer) -> Any:
        url = server.url.replace("http", "https")
        outcomes = [await exchange(client, "GET", url, timeout=(SHORT, 30, 30, 30)) for _ in range(2)]
        await server.settle(open=0)
        return outcomes

    assert await on_both(kind, script, act) == [Outcome(error=f"{kind}.ConnectTimeout")] * 2


async def test_a_pool_timeout(kind: str) -> None:
    """The only connection is taken; the request that holds it is not disturbed."""

    async def act(client: Any, server: RawServer) -> Any:
        async with client.stream("GET", server.url) as response:
            outcome = await exchange(client, "GET", server.url, timeout=(30, 30, 30, SHORT))
            server.gate.set()
            return outcome, await response.aread(), server.accepted

    outcome, body, accepted = await on_both(kind, in_two_parts, act)
    assert (outcome.error, body, accepted) == (f"{kind}.PoolTimeout", b"one\ntwo\r\n", 1)
