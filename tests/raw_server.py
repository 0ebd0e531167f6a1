"""A server that says exactly the bytes it is told, for tests of what a client makes of them; on asyncio."""

from __future__ import annotations

import asyncio
import socket
import struct
from contextlib import asynccontextmanager
from dataclasses import dataclass, field
from typing import TYPE_CHECKING, Any

if TYPE_CHECKING:
    import ssl
    from collections.abc import AsyncIterator, Awaitable, Callable

    Script = Callable[["Peer"], Awaitable[None]]

FIRST = b"HTTP/1.1 200 OK\r\ntransfer-encoding: chunked\r\n\r\n5\r\none\nt\r\n"
REST = b"4\r\nwo\r\n\r\n0\r\n\r\n"
OK = b"HTTP/1.1 200 OK\r\ncontent-length: 2\r\n\r\nok"


class Peer:
    """One connection, seen from the server."""

    def __init__(self, server: RawServer, reader: asyncio.StreamReader, writer: asyncio.StreamWriter) -> None:
        self.server = server
        self.reader = reader
        self.writer = writer
        self.number = server.accepted

    async def head(self) -> bytes:
        """The next request's head; it is noted in the server's `heads`."""
        head = await self.reader.readuntil(b"\r\n\r\n")
        self.server.heads.append(head)
        return head

    async def request(self) -> str:
        """Read the next request; return its target. Its body is noted in the server's `bodies`."""
        head = await self.head()
        fields = head.lower().split(b"\r\n")
        body = b""
        if b"transfer-encoding: chunked" in fields:
            while size := int(await self.reader.readuntil(b"\r\n"), 16):
                body += await self.reader.readexactly(size)
                await self.reader.readexactly(2)
            await self.reader.readexactly(2)
        for line in fields:
            if line.startswith(b"content-length:"):
                body = await self.reader.readexactly(int(line.split(b":")[1]))
        self.server.bodies.append(body)
        return head.split(b" ")[1].decode("latin-1")

    async def send(self, data: bytes) -> None:
        """Send it, as it is."""
        self.writer.write(data)
        await self.writer.drain()

    def reset(self) -> None:
        """Break the connection off, without a farewell."""
        raw = self.writer.get_extra_info("socket")
        raw.setsockopt(socket.SOL_SOCKET, socket.SO_LINGER, struct.pack("ii", 1, 0))

    async def gone(self) -> None:
        """Wait until the client has closed the connection."""
        while await self.reader.read(65536):
            pass


@dataclass
class RawServer:
    """The server's side of a test.

    Attributes:
        url: where it listens, without a slash at the end.
        accepted: how many connections were ever made.
        open: how many of them the server has not done with.
        heads, bodies: of the requests, in order.
        names: those that TLS clients asked for.
        gate: for scripts to wait for, and for tests to open.
        reached: the other way round.
    """

    url: str = ""
    accepted: int = 0
    open: int = 0
    heads: list[bytes] = field(default_factory=list)
    bodies: list[bytes] = field(default_factory=list)
    names: list[str | None] = field(default_factory=list)
    gate: asyncio.Event = field(default_factory=asyncio.Event)
    reached: asyncio.Event = field(default_factory=asyncio.Event)

    async def settle(self, *, open: int) -> None:
        """Wait until so many connections are open."""
        async with asyncio.timeout(30):
            while self.open != open:
                await asyncio.sleep(0.001)


@asynccontextmanager
async def serve_raw(
    script: Script, *, tls: ssl.SSLContext | None = None, host: str = "127.0.0.1", port: int = 0
) -> AsyncIterator[RawServer]:
    """Run the server until the block ends.

    Args:
        script: serves one connection, which is closed when it returns.
        tls: serve https with it.
        host, port: where to listen; port 0 is a free one.
    """
    server = RawServer()
    tasks: set[asyncio.Task[Any]] = set()

    async def handle(reader: asyncio.StreamReader, writer: asyncio.StreamWriter) -> None:
        task = asyncio.current_task()
        assert task is not None
        tasks.add(task)
        server.accepted += 1
        server.open += 1
        try:
            await script(Peer(server, reader, writer))
        except (asyncio.CancelledError, asyncio.IncompleteReadError, OSError):
            pass  # the client went away, or the test is over
        finally:
            server.open -= 1
            tasks.discard(task)
            writer.close()

    if tls is not None:
        tls.sni_callback = lambda _sock, name, _context: server.names.append(name)
    listener = await asyncio.start_server(handle, host, port, ssl=tls)
    number = listener.sockets[0].getsockname()[1]
    server.url = f"{'https' if tls else 'http'}://{f'[{host}]' if ':' in host else host}:{number}"
    try:
        yield server
    finally:
        listener.close()
        for task in list(tasks):
            task.cancel()
        await asyncio.gather(*tasks, return_exceptions=True)


async def answer_all(peer: Peer) -> None:
    """200 to every request."""
    while True:
        await peer.request()
        await peer.send(OK[:-2] if peer.server.heads[-1].startswith(b"HEAD") else OK)


async def stall(peer: Peer) -> None:
    """200 to `/next`; to others half an answer or none, for ever."""
    while (target := await peer.request()) == "/next":
        await peer.send(OK)
    if target == "/half":
        await peer.send(FIRST)
    peer.server.reached.set()
    await peer.gone()


async def in_two_parts(peer: Peer) -> None:
    """An answer whose rest comes once the gate is open."""
    while True:
        await peer.request()
        await peer.send(FIRST)
        await peer.server.gate.wait()
        await peer.send(REST)
