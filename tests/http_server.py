"""A remote API that misbehaves on request: a real HTTP/1.1 server on a real socket, on asyncio and trio.

The first segment of the path says what happens to the request; the rest of it is free:

    /ok        200
    /echo      200 with the request's body
    /hold      200 once `server.gate` is open
    /stall     no answer, ever
    /reset     the connection is reset
    /half      half a response head, then the connection is closed
    /cut       a response body that ends before its length
    /slow      a response whose body goes on once `server.gate` is open
    /drip      a response whose body comes in pieces, with a turn of the event loop between them
    /cookie    200 that sets a cookie
    /close     200 with `Connection: close`
    /leave     200 as if to keep the connection, which is then closed
    /busy/N    503 with `Retry-After: 0` to the first N requests of this path, then 200
    /many/N    429 with `Retry-After: 0` likewise

A target in absolute form, as a proxy gets it, is answered by its path too.
"""

from __future__ import annotations

import select
import socket
import struct
from collections import Counter
from contextlib import asynccontextmanager
from dataclasses import dataclass, field
from typing import TYPE_CHECKING, Any
from urllib.parse import urlsplit

import anyio
from anyio.abc import SocketAttribute, UNIXSocketStream
from anyio.streams.buffered import BufferedByteReceiveStream
from anyio.streams.tls import TLSListener

if TYPE_CHECKING:
    import ssl
    from collections.abc import AsyncIterator

    from anyio.abc import ByteStream, TaskGroup


@dataclass
class Seen:
    """A request as the server got it."""

    method: str
    target: str
    headers: dict[str, str]
    body: bytes
    connection: int


@dataclass
class HttpServer:
    """The server's side of a test.

    Attributes:
        url: where it listens, without a slash at the end.
        requests: all requests that arrived whole, in order.
        held: how many requests wait at the gate now.
        accepted: how many connections were ever made.
        peak: the most connections that were open, at the moment of any new one.
        peers: the addresses that connections came from.
        gate: what `/hold` and `/slow` wait for.
    """

    url: str = ""
    requests: list[Seen] = field(default_factory=list)
    held: int = 0
    accepted: int = 0
    peak: int = 0
    peers: list[Any] = field(default_factory=list)
    gate: anyio.Event = field(default_factory=anyio.Event)
    _sockets: dict[int, int] = field(default_factory=dict)
    _busy: Counter[str] = field(default_factory=Counter)

    @property
    def open(self) -> int:
        """How many connections the client has open, by what the kernel knows of them now."""
        poll = select.poll()
        for descriptor in self._sockets.values():
            poll.register(descriptor, select.POLLRDHUP)
        return len(self._sockets) - len(poll.poll(0))

    def times(self, target: str) -> int:
        """How often a target was asked for."""
        return sum(seen.target == target for seen in self.requests)

    async def wait_for(self, *, held: int) -> None:
        """Wait until so many requests are at the gate."""
        with anyio.fail_after(30):
            while self.held < held:
                await anyio.sleep(0.001)

    async def settle(self, *, open: int) -> None:
        """Wait until so many connections are open."""
        with anyio.fail_after(30):
            while self.open != open:
                await anyio.sleep(0.001)

    def open_gate(self) -> None:
        """Let the requests at the gate through, and close it for later ones."""
        self.gate.set()
        self.gate = anyio.Event()

    async def handle(self, stream: ByteStream) -> None:
        """Serve one connection."""
        self.accepted += 1
        number = self.accepted
        raw = stream.extra(SocketAttribute.raw_socket)
        self._sockets[number] = raw.fileno()
        self.peak = max(self.peak, self.open)
        self.peers.append(stream.extra(SocketAttribute.remote_address))
        try:
            async with stream:
                reader = BufferedByteReceiveStream(stream)
                try:
                    while await self._serve(stream, reader, raw, number):
                        pass
                finally:
                    # Before the descriptor is closed and may be given to another connection.
                    del self._sockets[number]
        except (anyio.EndOfStream, anyio.IncompleteRead, anyio.BrokenResourceError):
            pass  # the client went away

    async def _serve(
        self, stream: ByteStream, reader: BufferedByteReceiveStream, raw: socket.socket, number: int
    ) -> bool:
        head = (await reader.receive_until(b"\r\n\r\n", 65536)).decode("latin-1")
        first, *lines = head.split("\r\n")
        method, target, _ = first.split(" ")
        headers = {name.lower(): value.strip() for name, _, value in (line.partition(":") for line in lines)}
        body = await _read_body(reader, headers)
        self.requests.append(Seen(method, target, headers, body, number))
        kind = urlsplit(target).path.split("/")[1]
        if kind == "hold":
            await self._wait_at_gate()
        elif kind == "stall":
            await anyio.sleep_forever()
        elif kind == "reset":
            raw.setsockopt(socket.SOL_SOCKET, socket.SO_LINGER, struct.pack("ii", 1, 0))
            return False
        elif kind == "half":
            await stream.send(b"HTTP/1.1 200 OK\r\ncontent-le")
            return False
        elif kind == "cut":
            await stream.send(b"HTTP/1.1 200 OK\r\ncontent-length: 100\r\n\r\nten bytes.")
            return False
        elif kind == "slow":
            await stream.send(b"HTTP/1.1 200 OK\r\ntransfer-encoding: chunked\r\n\r\n3\r\none\r\n")
            await self._wait_at_gate()
            await stream.send(b"3\r\ntwo\r\n0\r\n\r\n")
            return True
        elif kind == "drip":
            await stream.send(b"HTTP/1.1 200 OK\r\ntransfer-encoding: chunked\r\n\r\n")
            for _ in range(4):
                await stream.send(b"4\r\ndrop\r\n")
            await stream.send(b"0\r\n\r\n")
            return True
        elif kind in ("busy", "many"):
            self._busy[target] += 1
            if self._busy[target] <= int(target.split("/")[2]):
                status = b"503 Service Unavailable" if kind == "busy" else b"429 Too Many Requests"
                await stream.send(_response(b"", status=status, more=b"retry-after: 0\r\n"))
                return True
        elif kind == "cookie":
            await stream.send(_response(b"", more=b"set-cookie: a=b; Path=/\r\n"))
            return True
        elif kind == "close":
            await stream.send(_response(b"bye", more=b"connection: close\r\n"))
            return False
        await stream.send(_response(body if kind == "echo" else b"fine"))
        return kind != "leave"

    async def _wait_at_gate(self) -> None:
        self.held += 1
        try:
            await self.gate.wait()
        finally:
            self.held -= 1


def _response(body: bytes, *, status: bytes = b"200 OK", more: bytes = b"") -> bytes:
    return b"HTTP/1.1 %s\r\n%scontent-length: %d\r\n\r\n%s" % (status, more, len(body), body)


async def _read_body(reader: BufferedByteReceiveStream, headers: dict[str, str]) -> bytes:
    if "chunked" not in headers.get("transfer-encoding", ""):
        length = int(headers.get("content-length", "0"))
        return await reader.receive_exactly(length) if length else b""
    body = b""
    while size := int(await reader.receive_until(b"\r\n", 100), 16):
        body += await reader.receive_exactly(size)
        await reader.receive_until(b"\r\n", 2)
    await reader.receive_until(b"\r\n", 2)
    return body


@asynccontextmanager
async def serve(*, tls: ssl.SSLContext | None = None, uds: str | None = None) -> AsyncIterator[HttpServer]:
    """Run the server until the block ends.

    Args:
        tls: serve https with it.
        uds: listen on this Unix socket instead of a port of 127.0.0.1.
    """
    server = HttpServer()
    if uds is not None:
        server.url = "http://unix"
        async with anyio.create_task_group() as group:
            with socket.socket(socket.AF_UNIX) as unix:
                unix.bind(uds)
                unix.listen()
                group.start_soon(_accept, unix, server, group)
                yield server
                group.cancel_scope.cancel()
        return
    listener: Any = await anyio.create_tcp_listener(local_host="127.0.0.1", backlog=1000)
    port = listener.extra(SocketAttribute.local_port)
    server.url = f"{'https' if tls else 'http'}://127.0.0.1:{port}"
    if tls is not None:
        listener = TLSListener(listener, tls, standard_compatible=False, handshake_timeout=30)
    async with listener, anyio.create_task_group() as group:
        group.start_soon(listener.serve, server.handle)
        yield server
        group.cancel_scope.cancel()


async def _accept(unix: socket.socket, server: HttpServer, group: TaskGroup) -> None:
    # anyio's own listener raises InvalidStateError when it is cancelled on asyncio.
    while True:
        await anyio.wait_readable(unix)
        connection, _ = unix.accept()
        group.start_soon(server.handle, await UNIXSocketStream.from_socket(connection))
