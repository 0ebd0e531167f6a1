"""A small HTTP/2 server over TLS: paths that begin with `/hold` wait for its gate, all are answered 200."""

from __future__ import annotations

from contextlib import asynccontextmanager
from dataclasses import dataclass, field
from typing import TYPE_CHECKING, Any

import anyio
import h2.config
import h2.connection
import h2.events
from anyio.abc import SocketAttribute
from anyio.streams.tls import TLSListener

if TYPE_CHECKING:
    import ssl
    from collections.abc import AsyncIterator

    from anyio.abc import ByteStream


@dataclass
class Http2Server:
    """The server's side of a test.

    Attributes:
        url: where it listens, without a slash at the end.
        paths: what was asked for, in order.
        accepted: how many connections were ever made.
        gate: what the paths that begin with `/hold` wait for.
    """

    url: str = ""
    paths: list[str] = field(default_factory=list)
    accepted: int = 0
    gate: anyio.Event = field(default_factory=anyio.Event)

    async def arrived(self, count: int) -> None:
        """Wait until so many requests have arrived."""
        with anyio.fail_after(30):
            while len(self.paths) < count:
                await anyio.sleep(0.001)

    async def handle(self, stream: ByteStream) -> None:
        """Serve one connection."""
        self.accepted += 1
        connection = h2.connection.H2Connection(h2.config.H2Configuration(client_side=False))
        connection.initiate_connection()
        lock = anyio.Lock()

        async def answer(stream_id: int, path: str) -> None:
            if path.startswith("/hold"):
                await self.gate.wait()
            async with lock:
                try:
                    connection.send_headers(stream_id, [(":status", "200")])
                    connection.send_data(stream_id, b"fine", end_stream=True)
                except h2.exceptions.ProtocolError:
                    return  # the stream was reset meanwhile
                await stream.send(connection.data_to_send())

        try:
            async with stream, anyio.create_task_group() as group:
                await stream.send(connection.data_to_send())
                async for data in stream:
                    async with lock:
                        events = connection.receive_data(data)
                        if pending := connection.data_to_send():
                            await stream.send(pending)
                    for event in events:
                        if isinstance(event, h2.events.RequestReceived):
                            headers: Any = dict(event.headers)
                            path = headers[b":path"].decode()
                            self.paths.append(path)
                            group.start_soon(answer, event.stream_id, path)
                group.cancel_scope.cancel()
        except* (anyio.EndOfStream, anyio.BrokenResourceError):
            pass  # the client went away


@asynccontextmanager
async def serve_http2(context: ssl.SSLContext) -> AsyncIterator[Http2Server]:
    """Run the server until the block ends.

    Args:
        context: has a certificate for 127.0.0.1.
    """
    context.set_alpn_protocols(["h2"])
    server = Http2Server()
    tcp = await anyio.create_tcp_listener(local_host="127.0.0.1")
    server.url = f"https://127.0.0.1:{tcp.extra(SocketAttribute.local_port)}"
    listener = TLSListener(tcp, context, standard_compatible=False, handshake_timeout=30)
    async with listener, anyio.create_task_group() as group:
        group.start_soon(listener.serve, server.handle)
        yield server
        group.cancel_scope.cancel()
