"""Requests with bodies: large ones, in parts, refused early, broken off; as with httpx's own transport."""

from __future__ import annotations

import asyncio
from typing import TYPE_CHECKING, Any

import pytest

from tests.connection_support import BACKENDS, Outcome, exchange, failure, heads, on_both
from tests.raw_server import OK, Peer, RawServer, answer_all, serve_raw
from tests.remote_support import client_of

if TYPE_CHECKING:
    from collections.abc import AsyncIterator

pytestmark = [pytest.mark.anyio, pytest.mark.parametrize(("anyio_backend", "kind"), BACKENDS)]

LARGE = bytes(range(256)) * 4096 * 8  # 8 MiB


async def chunks(*parts: bytes) -> AsyncIterator[bytes]:
    """A body of unknown length."""
    for part in parts:
        await asyncio.sleep(0)
        yield part


async def refuse_early(peer: Peer) -> None:
    """Refuse a request by its head alone, and close the connection; serve what has no body."""
    while b"expected" not in await peer.head():
        await peer.send(OK)
    await peer.send(b"HTTP/1.1 413 Too Large\r\ncontent-length: 3\r\nconnection: close\r\n\r\ntoo")
    peer.writer.write_eof()
    await peer.gone()


async def test_a_body_of_unknown_length_goes_in_chunks(kind: str) -> None:
    """Small and large parts and empty ones arrive in order, and the connection is used again."""
    parts = [b"one", b"", LARGE[:300_000], b"two", LARGE[:70_000], b""]

    async def act(client: Any, server: RawServer) -> Any:
        for _ in range(2):
            assert (await exchange(client, "POST", server.url, content=chunks(*parts))).status == 200
        assert (await exchange(client, "POST", server.url, content=chunks())).status == 200
        return heads(server), server.bodies, server.accepted

    _, bodies, accepted = await on_both(kind, answer_all, act)
    assert bodies == [b"".join(parts), b"".join(parts), b""]
    assert accepted == 1


@pytest.mark.parametrize("length", [0, 3, 5])
@pytest.mark.parametrize("parts", [False, True])
async def test_a_body_that_does_not_fit_its_length(length: int, parts: bool, kind: str) -> None:
    """A LocalProtocolError where httpx lets h11's own error out; the next request gets its own answer."""
    content = chunks(b"bo", b"dy") if parts else b"body"
    async with serve_raw(answer_all) as server, client_of(kind, max_connections=1) as client:
        url, headers = server.url, {"Content-Length": str(length)}
        outcome = await exchange(client, "POST", f"{url}/wrong", content=content, headers=headers)
        assert outcome == Outcome(error=f"{kind}.LocalProtocolError")
        assert (await exchange(client, "GET", f"{url}/next")).body == b"ok"
        assert server.accepted == 2


async def test_parts_that_fit_their_length(kind: str) -> None:
    """With a Content-Length of its own, a body in parts goes without chunks."""

    async def act(client: Any, server: RawServer) -> Any:
        content, headers = chunks(b"abc", b"def"), {"Content-Length": "6"}
        outcome = await exchange(client, "POST", server.url, content=content, headers=headers)
        return outcome, heads(server), server.bodies

    outcome, _, bodies = await on_both(kind, answer_all, act)
    assert (outcome.status, bodies) == (200, [b"abcdef"])


async def test_the_head_does_not_wait_for_the_body(kind: str) -> None:
    """A body's first part may depend on what the server does once it has the head."""

    async def script(peer: Peer) -> None:
        await peer.head()
        peer.server.gate.set()
        assert await peer.reader.readexactly(12) == b"2\r\nhi\r\n0\r\n\r\n"
        await peer.send(OK)

    async def act(client: Any, server: RawServer) -> Any:
        async def late() -> AsyncIterator[bytes]:
            async with asyncio.timeout(10):
                await server.gate.wait()
            yield b"hi"

        return await exchange(client, "POST", server.url, content=late())

    assert (await on_both(kind, script, act)).body == b"ok"


async def test_much_goes_both_ways(kind: str) -> None:
    """8 MiB up and down, with a length and in chunks, equal to the byte."""

    async def script(peer: Peer) -> None:
        while True:
            target = await peer.request()
            body = peer.server.bodies[-1]
            if target == "/chunked":
                await peer.send(b"HTTP/1.1 200 OK\r\ntransfer-encoding: chunked\r\n\r\n")
                for start in range(0, len(body), 100_000):
                    part = body[start : start + 100_000]
                    await peer.send(b"%x\r\n%b\r\n" % (len(part), part))
                await peer.send(b"0\r\n\r\n")
            else:
                await peer.send(b"HTTP/1.1 200 OK\r\ncontent-length: %d\r\n\r\n%b" % (len(body), body))

    async def act(client: Any, server: RawServer) -> Any:
        for path in ("/length", "/chunked"):
            outcome = await exchange(client, "POST", server.url + path, content=LARGE)
            assert outcome.body == LARGE
        return server.accepted

    assert await on_both(kind, script, act) == 1


async def test_an_early_refusal_is_read(kind: str) -> None:
    """The server answers 413 and closes before it has read the body: that is the answer, and no error."""

    async def act(client: Any, server: RawServer) -> Any:
        outcomes = []
        for content in (LARGE, chunks(*[LARGE[:500_000]] * 8)):
            headers = {"X-Size": "expected"}
            outcomes.append(await exchange(client, "POST", server.url, content=content, headers=headers))
            outcomes.append(await exchange(client, "GET", server.url))
        return outcomes, server.accepted

    outcomes, accepted = await on_both(kind, refuse_early, act)
    assert [(outcome.status, outcome.body) for outcome in outcomes] == [(413, b"too"), (200, b"ok")] * 2
    assert accepted == 3


async def test_a_body_that_raises(kind: str) -> None:
    """Its own error comes out, the connection is closed, and its place is free."""

    async def content() -> AsyncIterator[bytes]:
        yield b"part"
        raise ZeroDivisionError

    async def act(client: Any, server: RawServer) -> Any:
        outcomes = []
        for _ in range(2):
            outcomes.append(await exchange(client, "POST", server.url, content=content()))
            await server.settle(open=0)
        return outcomes, (await exchange(client, "GET", server.url)).body, server.bodies, server.accepted

    outcomes, body, bodies, accepted = await on_both(kind, answer_all, act)
    assert outcomes == [failure(ZeroDivisionError())] * 2
    assert (body, bodies, accepted) == (b"ok", [b""], 3)


@pytest.mark.parametrize("large", [True, False])
async def test_an_upload_is_cancelled(large: bool, kind: str) -> None:
    """While the server is behind, or the body itself: the connection is closed and its place free."""

    async def script(peer: Peer) -> None:
        head = await peer.head()
        if not head.startswith(b"POST"):
            await peer.send(OK)
            return
        peer.server.reached.set()
        if large:
            peer.writer.transport.pause_reading()  # type: ignore[attr-defined]
            await peer.server.gate.wait()
        await peer.gone()

    async def content() -> AsyncIterator[bytes]:
        yield bytes(64 * 1024 * 1024 if large else 1)
        await asyncio.sleep(3600)

    async def act(client: Any, server: RawServer) -> Any:
        upload = asyncio.create_task(client.post(server.url, content=content()))
        await server.reached.wait()
        upload.cancel()
        with pytest.raises(asyncio.CancelledError):
            await upload
        server.gate.set()
        return (await exchange(client, "GET", server.url)).body, server.accepted

    assert await on_both(kind, script, act) == (b"ok", 2)


async def test_a_connection_reset_under_an_upload(kind: str) -> None:
    """Is a transport's error, and the next request has a new connection."""

    async def script(peer: Peer) -> None:
        if b"POST" in await peer.head():
            peer.reset()
            return
        await peer.send(OK)

    async def act(client: Any, server: RawServer) -> Any:
        outcome = await exchange(client, "POST", server.url, content=bytes(16 * 1024 * 1024))
        return outcome, (await exchange(client, "GET", server.url)).body, server.accepted

    outcome, body, accepted = await on_both(kind, script, act)
    assert (outcome.error, body, accepted) == (f"{kind}.ReadError", b"ok", 2)


async def test_parts_may_share_a_buffer(kind: str) -> None:
    """What is sent is what was in it when the part was given, though the server is behind."""
    size = 1024 * 1024

    async def content() -> AsyncIterator[memoryview]:
        buffer = bytearray(size)
        for number in range(8):
            buffer[:] = bytes([number]) * size
            yield memoryview(buffer)

    async def act(client: Any, server: RawServer) -> Any:
        for headers in ({"Content-Length": str(8 * size)}, {}):
            outcome = await exchange(client, "POST", server.url, content=content(), headers=headers)
            assert outcome.body == b"ok"
        return server.bodies

    assert await on_both(kind, answer_all, act) == [b"".join(bytes([n]) * size for n in range(8))] * 2
