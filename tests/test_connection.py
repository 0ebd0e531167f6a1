"""A connection over time: streams, timeouts, failures and ends, each as with httpx's own transport."""

from __future__ import annotations

import asyncio
import contextlib
from typing import Any

import pytest

from tests.connection_support import BACKENDS, Outcome, exchange, on_both
from tests.raw_server import OK, Peer, RawServer, answer_all, in_two_parts, serve_raw, stall
from tests.remote_support import client_of

pytestmark = [pytest.mark.anyio, pytest.mark.parametrize(("anyio_backend", "kind"), BACKENDS)]


@pytest.mark.parametrize("how", ["aiter_raw", "aiter_bytes", "aiter_text", "aiter_lines"])
async def test_a_body_is_streamed(how: str, kind: str) -> None:
    """A part is there before the next one is sent; afterwards the connection is used again."""

    async def act(client: Any, server: RawServer) -> Any:
        parts = []
        async with client.stream("GET", server.url) as response:
            async for part in getattr(response, how)():
                parts.append(part)
                server.gate.set()
        return parts, (await exchange(client, "GET", server.url)).body, server.accepted

    # Lines are whole before they are handed out: the first part has one.
    parts, body, accepted = await on_both(kind, in_two_parts, act)
    assert parts == {"aiter_lines": ["one", "two"], "aiter_text": ["one\nt", "wo\r\n"]}.get(
        how, [b"one\nt", b"wo\r\n"]
    )
    assert (body, accepted) == (b"one\ntwo\r\n", 1)


async def test_a_stream_closed_early_costs_its_connection(kind: str) -> None:
    """The rest of the body is not waited for, whether none of it was read or some."""

    async def act(client: Any, server: RawServer) -> Any:
        async with client.stream("GET", f"{server.url}/half"):
            pass
        await server.settle(open=0)
        async with client.stream("GET", f"{server.url}/half") as response:
            async for part in response.aiter_raw():
                assert part == b"one\nt"
                break
        await server.settle(open=0)
        return (await exchange(client, "GET", f"{server.url}/next")).body, server.accepted

    assert await on_both(kind, stall, act) == (b"ok", 3)


@pytest.mark.parametrize("farewell", [b"HTTP/1.1 408 Request Timeout\r\ncontent-length: 0\r\n\r\n", b""])
@pytest.mark.parametrize("waits", [True, False])
async def test_a_connection_that_the_server_gave_up(farewell: bytes, waits: bool, kind: str) -> None:
    """Closed while idle, with a word or none: the next request has a new one, and its own answer."""

    async def script(peer: Peer) -> None:
        await peer.request()
        await peer.send(OK)
        await peer.server.gate.wait()
        if peer.number == 1:
            await peer.send(farewell)
            peer.writer.close()
            peer.server.reached.set()
        else:
            await answer_all(peer)

    async def act(client: Any, server: RawServer) -> Any:
        first = await exchange(client, "GET", server.url)
        server.gate.set()
        await server.reached.wait()
        if waits:
            await server.settle(open=0)  # and the client's event loop has been told, too
        return first, await exchange(client, "GET", server.url), server.accepted

    first, second, accepted = await on_both(kind, script, act)
    assert (first, second.body, accepted) == (second, b"ok", 2)


async def test_a_server_that_starts_again(kind: str) -> None:
    """On the same port: a ConnectError while it is away, and an answer afterwards."""
    async with client_of(kind, max_connections=1) as client:
        async with serve_raw(answer_all) as server:
            assert (await exchange(client, "GET", server.url)).body == b"ok"
        assert (await exchange(client, "GET", server.url)).error == f"{kind}.ConnectError"
        async with serve_raw(answer_all, port=int(server.url.rsplit(":", 1)[1])):
            assert (await exchange(client, "GET", server.url)).body == b"ok"


@pytest.mark.parametrize("path", ["/none", "/half"])
async def test_a_client_closed_under_a_request(path: str, kind: str) -> None:
    """The request ends at once, with a ReadError."""

    async def act(client: Any, server: RawServer) -> Any:
        request = asyncio.create_task(exchange(client, "GET", server.url + path))
        await server.reached.wait()
        if path == "/half":
            for _ in range(10):  # the head is here, and the body is waited for
                await asyncio.sleep(0.001)
        # Not the client's, which turns away the request for being closed, but what that does.
        with contextlib.suppress(RuntimeError):  # httpcore: it has connections under way
            await client._transport.aclose()
        outcome = await request
        await server.settle(open=0)
        return outcome

    assert await on_both(kind, stall, act) == Outcome(error=f"{kind}.ReadError")


async def test_event_hooks_are_called(kind: str) -> None:
    """With the request and the response, before the body is read."""

    async def act(client: Any, server: RawServer) -> Any:
        seen = []

        async def on_request(request: Any) -> None:
            request.headers["x-hook"] = "1"

        async def on_response(response: Any) -> None:
            seen.append((response.status_code, response.is_closed, await response.aread()))

        client.event_hooks = {"request": [on_request], "response": [on_response]}
        await exchange(client, "GET", server.url)
        return seen, b"x-hook: 1" in server.heads[0]

    assert await on_both(kind, answer_all, act) == ([(200, False, b"ok")], True)
