"""A connection's bytes on asyncio: connect, read, write, each with its timeout. Knows nothing of HTTP.

It is there for its price. anyio's streams ask several times for the running task in every call, and give
each wait a cancel scope of its own; for a request that comes to more than all the rest of it.
"""

from __future__ import annotations

import asyncio
import select
import socket
import ssl
from functools import partial
from typing import TYPE_CHECKING, Any

import anyio

if TYPE_CHECKING:
    from collections.abc import Callable, Iterable

    SocketOption = tuple[int, int, int] | tuple[int, int, bytes | bytearray] | tuple[int, int, None, int]

HIGH_WATER = 256 * 1024
"""So many bytes may be received and not yet read before the other side has to wait."""
NEXT_ADDRESS_AFTER = 0.25
"""Seconds after which a host's next address is tried beside the one before (RFC 8305 §5)."""
HANDSHAKE = 24 * 3600
"""Seconds; the event loops' own limit of 60 is not to come before the caller's."""

ADDRESSES = {"client_addr": "sockname", "server_addr": "peername"}
"""httpcore's names for asyncio's."""


class Stream(asyncio.Protocol):
    """An open connection, for one reader and writer at a time; `connect` makes it."""

    def __init__(self, sock: socket.socket) -> None:
        self._sock = sock
        self._readable = _watch(sock.fileno())
        self._loop = asyncio.get_running_loop()
        self._received = b""
        self._ended = False  # nothing more will be received
        self._lost = False
        self._error: Exception | None = None
        self._full = False  # what is written has to wait
        self._paused = False  # what the other side sends has to wait
        self._waiter: asyncio.Future[None] | None = None
        self._closed = asyncio.Event()

    async def read(self, timeout: float | None) -> bytes:
        """What has arrived, at least a byte; b"" at the end of the stream.

        Args:
            timeout: seconds to wait for it; None waits for ever.

        Raises:
            TimeoutError: nothing arrived in time.
            OSError: the connection broke.
        """
        while not self._received:
            if self._error is not None:
                raise self._error
            if self._ended:
                return b""
            await self._wait(timeout)
        data, self._received = self._received, b""
        if self._paused and not self._raw.is_closing():
            self._paused = False
            self._raw.resume_reading()
        return data

    async def write(self, data: bytes, timeout: float | None) -> bool:
        """Send `data`, and wait while the other side is behind with reading.

        Args:
            data: to be sent.
            timeout: seconds to wait; None waits for ever.

        Returns:
            False where the other side has closed the connection, or it is lost. What had arrived before can
            still be read, and where that is not a whole answer, reading says why.

        Raises:
            TimeoutError: the other side did not read in time.
        """
        # Before it is lost, too: asyncio would drop the data, and tell nobody but the log.
        if self._ended or self._transport.is_closing():
            return False
        self._transport.write(data)
        while self._full and not self._ended:
            await self._wait(timeout)
        return not self._ended

    async def aclose(self) -> None:
        """Close the connection at once, unsent bytes and TLS's farewell forgone; return when it is closed."""
        if self._loop is not asyncio.get_running_loop():
            self._abandon()
            return
        if not self._lost:
            self._error = ConnectionAbortedError("the connection was closed while it was in use")
            self._transport.abort()
        await self._closed.wait()

    @property
    def stale(self) -> bool:
        """Whether it cannot be used for a further request.

        The other side closed it or said more, where the kernel is asked, since the event loop may not have
        come to look there yet; or it belongs to an event loop that ran before this one.
        """
        return (
            self._ended
            or bool(self._received)
            or self._readable()
            or self._loop is not asyncio.get_running_loop()
        )

    def get_extra_info(self, name: str) -> Any:
        """`client_addr`, `server_addr`, `socket`, `ssl_object` or `is_readable`, as of httpcore's streams."""
        if name == "is_readable":
            return self.stale
        if name in ADDRESSES:
            address = self._transport.get_extra_info(ADDRESSES[name])
            return address[:2] if isinstance(address, tuple) else address  # IPv6 has four parts
        return self._transport.get_extra_info(name)

    def connection_made(self, transport: Any) -> None:
        """asyncio.BaseProtocol."""
        self._transport = self._raw = transport  # until TLS puts one between

    def data_received(self, data: bytes) -> None:
        """asyncio.Protocol."""
        self._received = self._received + data if self._received else data
        if len(self._received) > HIGH_WATER and not self._paused:
            self._paused = True
            # TLS's own transport would lose what it holds back when the connection ends (uvloop).
            self._raw.pause_reading()
        self._wake()

    def eof_received(self) -> None:
        """asyncio.Protocol; that nothing is returned closes the connection."""
        self._ended = True
        self._wake()

    def connection_lost(self, exc: Exception | None) -> None:
        """asyncio.BaseProtocol."""
        self._ended = self._lost = True
        self._error = self._error or exc
        self._wake()
        self._closed.set()

    def pause_writing(self) -> None:
        """asyncio.BaseProtocol."""
        self._full = True

    def resume_writing(self) -> None:
        """asyncio.BaseProtocol."""
        self._full = False
        self._wake()

    def secure(self, transport: Any) -> None:
        """Read and write through TLS from now on."""
        self._transport = transport

    def _abandon(self) -> None:
        """Close the connection of another event loop, which will not tell when it is closed."""
        self._ended = self._lost = True
        if self._loop.is_closed():
            self._sock.close()
        else:
            self._loop.call_soon_threadsafe(self._transport.abort)

    async def _wait(self, timeout: float | None) -> None:
        waiter = self._waiter = self._loop.create_future()
        timer = None if timeout is None else self._loop.call_later(timeout, _expire, waiter)
        try:
            await waiter
        finally:
            self._waiter = None
            if timer is not None:
                timer.cancel()

    def _wake(self) -> None:
        waiter = self._waiter
        if waiter is not None and not waiter.done():
            waiter.set_result(None)


async def connect(
    host: str,
    port: int,
    *,
    timeout: float | None,
    tls: ssl.SSLContext | None = None,
    server_hostname: str | None = None,
    uds: str | None = None,
    local_address: str | None = None,
    socket_options: Iterable[SocketOption] = (),
) -> Stream:
    """Open a connection.

    Args:
        host: a name or an address.
        port: its port.
        timeout: seconds for connecting, and again for the TLS handshake; None waits for ever.
        tls: makes it a TLS connection.
        server_hostname: whom the certificate must be of, with `tls`.
        uds: connect to this Unix socket instead of host and port.
        local_address: the address to connect from.
        socket_options: arguments for `setsockopt`.

    Raises:
        TimeoutError: it took longer.
        OSError: it failed; ssl.SSLError is one, too.
    """
    loop = asyncio.get_running_loop()
    with anyio.fail_after(timeout):
        sock = await (_open_unix(uds) if uds is not None else _open_tcp(host, port, local_address))
    try:
        if uds is None:
            sock.setsockopt(socket.IPPROTO_TCP, socket.TCP_NODELAY, 1)
        for option in socket_options:
            sock.setsockopt(*option)
        transport, stream = await loop.create_connection(partial(Stream, sock), sock=sock)
    except BaseException:
        sock.close()
        raise
    if tls is not None:
        # Not by create_connection: cancelled in the first moments of its handshake, asyncio's leaves a
        # transport behind that watches over a descriptor which is already another connection's.
        try:
            if stream.stale:
                raise ssl.SSLError("the server spoke before the handshake, or hung up: does it speak TLS?")
            with anyio.fail_after(timeout):
                secured = await loop.start_tls(
                    transport,
                    stream,
                    tls,
                    server_hostname=server_hostname,
                    ssl_handshake_timeout=HANDSHAKE,
                )
            if secured is None:
                raise ConnectionAbortedError("the connection was closed during the TLS handshake")
        except BaseException:
            transport.abort()
            raise
        stream.secure(secured)
    return stream


async def _open_tcp(host: str, port: int, local_address: str | None) -> socket.socket:
    from aiohappyeyeballs import start_connection  # where it is used: programs that never connect need it not

    loop = asyncio.get_running_loop()
    theirs = await loop.getaddrinfo(host, port, type=socket.SOCK_STREAM)
    ours = None
    if local_address is not None:
        ours = await loop.getaddrinfo(local_address, 0, type=socket.SOCK_STREAM)
    return await start_connection(
        theirs, local_addr_infos=ours, happy_eyeballs_delay=NEXT_ADDRESS_AFTER, loop=loop
    )


async def _open_unix(path: str) -> socket.socket:
    sock = socket.socket(socket.AF_UNIX)
    try:
        sock.setblocking(False)
        await asyncio.get_running_loop().sock_connect(sock, path)
    except BaseException:
        sock.close()
        raise
    return sock


def _expire(waiter: asyncio.Future[None]) -> None:
    if not waiter.done():
        waiter.set_exception(TimeoutError())


def _watch(descriptor: int) -> Callable[[], bool]:
    """A function that asks the kernel whether a socket has something to read."""
    if not hasattr(select, "poll"):  # Windows
        return lambda: bool(select.select([descriptor], [], [], 0)[0])
    poll = select.poll()
    poll.register(descriptor, select.POLLIN)
    return lambda: bool(poll.poll(0))
