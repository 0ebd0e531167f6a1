"""A connection's bytes: read, written, waited for, lost and closed, on asyncio and uvloop."""

from __future__ import annotations

import asyncio
import os
import select
import socket
import struct
from contextlib import asynccontextmanager, suppress
from typing import TYPE_CHECKING, Any

import anyio
import pytest

from asynctask.sockets import HIGH_WATER, Stream, connect
from tests.remote_support import UVLOOP

if TYPE_CHECKING:
    from collections.abc import AsyncIterator

pytestmark = [pytest.mark.anyio, pytest.mark.parametrize("anyio_backend", ["asyncio", UVLOOP])]

BIG = os.urandom(32 * 1024 * 1024)
"""More than the kernel keeps for a connection."""


@asynccontextmanager
async def connected(**options: Any) -> AsyncIterator[tuple[Stream, socket.socket]]:
    """A connection, and the other side's socket."""
    with socket.create_server(("127.0.0.1", 0)) as listener:
        stream = await connect("127.0.0.1", listener.getsockname()[1], timeout=30, **options)
        try:
            with listener.accept()[0] as peer:
                peer.setblocking(False)
                yield stream, peer
        finally:
            await stream.aclose()


def reset(peer: socket.socket) -> None:
    """Close the other side as a crash does."""
    peer.setsockopt(socket.SOL_SOCKET, socket.SO_LINGER, struct.pack("ii", 1, 0))
    peer.close()


def kernel_knows(stream: Stream) -> None:
    """Wait until something has arrived, without a turn of the event loop."""
    assert select.select([stream.get_extra_info("socket").fileno()], [], [], 30)[0]


async def received(peer: socket.socket, size: int) -> bytes:
    """So many bytes on the other side."""
    data = bytearray()
    while len(data) < size:
        part = await asyncio.get_running_loop().sock_recv(peer, 1 << 20)
        assert part
        data += part
    return bytes(data)


async def read_all(stream: Stream, size: int) -> bytes:
    """So many bytes on our side."""
    data = bytearray()
    while len(data) < size:
        part = await stream.read(30)
        assert part
        data += part
    return bytes(data)


async def test_bytes_go_both_ways() -> None:
    """What is written arrives, what arrives is read, whether it is there already or waited for."""
    async with connected() as (stream, peer):
        assert await stream.write(b"ping", 30)
        assert await received(peer, 4) == b"ping"
        async with anyio.create_task_group() as group:
            group.start_soon(read_expecting, stream, b"pong")
            await anyio.wait_all_tasks_blocked()
            peer.sendall(b"pong")
        peer.sendall(b"more")
        assert await stream.read(None) == b"more"


async def read_expecting(stream: Stream, expected: bytes) -> None:
    """Read just that."""
    assert await stream.read(30) == expected


async def test_the_end_is_read_after_the_data() -> None:
    """After the last byte each read says that it was the last."""
    async with connected() as (stream, peer):
        peer.sendall(b"last")
        peer.close()
        assert [await stream.read(30) for _ in range(3)] == [b"last", b"", b""]


async def test_a_read_waits_no_longer_than_its_timeout() -> None:
    """Reading stops at its timeout, and can be tried again."""
    async with connected() as (stream, peer):
        with pytest.raises(TimeoutError):
            await stream.read(0.01)
        peer.sendall(b"late")
        assert await stream.read(30) == b"late"


async def test_a_cancelled_read_takes_nothing() -> None:
    """What arrives after a cancelled read is there for the next one."""
    async with connected() as (stream, peer):
        with anyio.move_on_after(0.01):
            await stream.read(None)
        peer.sendall(b"kept")
        assert await stream.read(30) == b"kept"


async def test_a_reset_is_an_error() -> None:
    """Each read of a broken connection says that it is broken."""
    async with connected() as (stream, peer):
        reset(peer)
        for _ in range(2):
            with pytest.raises(ConnectionResetError):
                await stream.read(30)
        assert not await stream.write(b"x", 30)


async def test_data_before_a_reset_is_read_first() -> None:
    """An answer that arrived before the connection broke is not lost."""
    async with connected() as (stream, peer):
        peer.sendall(b"answer")
        kernel_knows(stream)
        reset(peer)
        await anyio.wait_all_tasks_blocked()
        assert await stream.read(30) == b"answer"
        with pytest.raises(ConnectionResetError):
            await stream.read(30)


async def test_a_writer_waits_for_the_other_side() -> None:
    """Writing waits while the other side does not read; then everything arrives, in order."""
    async with connected() as (stream, peer):
        writing = asyncio.create_task(stream.write(BIG, None))
        await anyio.wait_all_tasks_blocked()
        assert not writing.done()
        assert await received(peer, len(BIG)) == BIG
        assert await writing


async def test_writing_stops_soon_after_a_reset_that_the_loop_has_not_seen() -> None:
    """Who writes and never gives way is told before much is thrown away."""
    async with connected() as (stream, peer):
        reset(peer)
        kernel_knows(stream)
        written = 0
        while await stream.write(bytes(1_000), 30):
            written += 1
            assert written < 1_000


async def test_a_write_waits_no_longer_than_its_timeout() -> None:
    """Writing to somebody who does not read stops at its timeout."""
    async with connected() as (stream, _):
        with pytest.raises(TimeoutError):
            await stream.write(BIG, 0.01)


async def test_the_other_side_waits_for_the_reader() -> None:
    """Of what nobody reads only a bounded part is taken in; then everything arrives, in order."""
    async with connected() as (stream, peer):
        sent = idle = 0
        while sent < len(BIG) and idle < 1000:
            try:
                sent += peer.send(memoryview(BIG)[sent : sent + HIGH_WATER])
                idle = 0
            except BlockingIOError:
                idle += 1
            await asyncio.sleep(0)
        assert sent < len(BIG)
        rest = asyncio.create_task(asyncio.get_running_loop().sock_sendall(peer, BIG[sent:]))
        first = await stream.read(30)
        assert len(first) <= 2 * HIGH_WATER
        assert first + await read_all(stream, len(BIG) - len(first)) == BIG
        await rest


async def test_nothing_is_written_once_the_other_side_has_closed() -> None:
    """A write that cannot arrive says so, as soon as the end was read."""
    async with connected() as (stream, peer):
        peer.close()
        assert await stream.read(30) == b""
        assert not await stream.write(b"x", 30)
        await anyio.wait_all_tasks_blocked()
        assert not await stream.write(b"x", 30)


@pytest.mark.parametrize("how", ["closes its half", "resets"])
async def test_a_waiting_writer_is_told_of_the_end(how: str) -> None:
    """Who waits for the other side to read learns that it will not, and reads the answer it gave."""
    async with connected() as (stream, peer):
        writing = asyncio.create_task(stream.write(BIG, None))
        await anyio.wait_all_tasks_blocked()
        peer.sendall(b"too much")
        if how == "resets":
            kernel_knows(stream)
            reset(peer)
        else:
            peer.shutdown(socket.SHUT_WR)
        assert not await writing
        assert await stream.read(30) == b"too much"


async def test_closing_breaks_off_a_read() -> None:
    """Whoever waits for data when another task closes the connection gets an error, and so do later reads."""
    async with connected() as (stream, _):
        reading = asyncio.create_task(stream.read(None))
        await anyio.wait_all_tasks_blocked()
        await stream.aclose()
        with pytest.raises(ConnectionAbortedError, match="closed while it was in use"):
            await reading
        with pytest.raises(ConnectionAbortedError):
            await stream.read(30)
        assert not await stream.write(b"x", 30)
        assert stream.stale


async def test_closing_breaks_off_a_write() -> None:
    """Whoever waits to write when another task closes the connection is told that it is lost."""
    async with connected() as (stream, _):
        writing = asyncio.create_task(stream.write(BIG, None))
        await anyio.wait_all_tasks_blocked()
        await stream.aclose()
        assert not await writing


async def test_closed_means_closed() -> None:
    """When closing returns the other side has been told; no further turn of the event loop is needed."""
    async with connected() as (stream, peer):
        await stream.aclose()
        assert select.select([peer], [], [], 5)[0]


async def test_closing_twice_is_closing_once() -> None:
    """A connection can be closed again, also while it is being closed, and after the other side closed it."""
    async with connected() as (stream, peer):
        async with anyio.create_task_group() as group:
            group.start_soon(stream.aclose)
            group.start_soon(stream.aclose)
        await stream.aclose()
        peer.close()
    async with connected() as (stream, peer):
        peer.close()
        assert await stream.read(30) == b""
        await stream.aclose()


async def test_closing_does_not_wait_for_the_other_side() -> None:
    """What was not sent yet is dropped, and the other side is told."""
    async with connected() as (stream, peer):
        with pytest.raises(TimeoutError):
            await stream.write(BIG, 0.01)
        with anyio.fail_after(30):
            await stream.aclose()
        loop, arrived = asyncio.get_running_loop(), 0
        with anyio.fail_after(30), suppress(ConnectionResetError):
            while part := await loop.sock_recv(peer, 1 << 20):
                arrived += len(part)
        assert arrived < len(BIG)


async def test_an_idle_connection_is_not_stale() -> None:
    """A connection on which nothing happens can be used again, before and after a reply."""
    async with connected() as (stream, peer):
        assert not stream.stale
        assert stream.get_extra_info("is_readable") is False
        peer.sendall(b"reply")
        assert await stream.read(30) == b"reply"
        assert not stream.stale


@pytest.mark.parametrize("looked", [True, False])
@pytest.mark.parametrize("what", ["closes", "resets", "speaks"])
async def test_a_connection_gets_stale(what: str, looked: bool) -> None:
    """Closed, reset or with unsolicited bytes it is not used again, though the loop has yet to look there."""
    async with connected() as (stream, peer):
        if what == "closes":
            peer.close()
        elif what == "resets":
            reset(peer)
        else:
            peer.sendall(b"unasked")
        kernel_knows(stream)
        if looked:
            await anyio.wait_all_tasks_blocked()
        assert stream.stale
        assert stream.get_extra_info("is_readable") is True
