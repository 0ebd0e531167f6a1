"""Connections in bad moments: event loops that are gone, handshakes cut short, ends that come too early."""

from __future__ import annotations

import asyncio
import gc
import ssl
import threading
from http.server import BaseHTTPRequestHandler, ThreadingHTTPServer
from typing import TYPE_CHECKING, Any

import httpx
import pytest
import trustme
import uvloop

from asynctask.remote import PooledTransport
from tests.connection_support import BACKENDS
from tests.raw_server import Peer, answer_all, serve_raw
from tests.remote_support import client_of, package_of

if TYPE_CHECKING:
    from collections.abc import AsyncIterator, Callable

on_backends = pytest.mark.parametrize(("anyio_backend", "kind"), BACKENDS)


@pytest.fixture(scope="module")
def contexts() -> tuple[ssl.SSLContext, ssl.SSLContext]:
    """A server's context and one of clients that trust it."""
    authority = trustme.CA()
    server = ssl.SSLContext(ssl.PROTOCOL_TLS_SERVER)
    authority.issue_cert("127.0.0.1").configure_cert(server)
    client = ssl.create_default_context()
    authority.configure_trust(client)
    return server, client


@pytest.mark.anyio
@on_backends
async def test_a_handshake_that_is_cancelled_disturbs_no_other_connection(kind: str, contexts: Any) -> None:
    """After any number of turns of the loop: the next request, on the same descriptor, is answered."""
    ours, theirs = contexts
    async with serve_raw(answer_all, tls=ours) as server:
        for turns in range(40):
            async with client_of(kind, verify=theirs, max_connections=2) as client:
                task = asyncio.ensure_future(client.get(server.url))
                for _ in range(turns):
                    await asyncio.sleep(0)
                task.cancel()
                await asyncio.wait([task])
                for _ in range(2):
                    assert (await client.get(server.url)).status_code == 200
        await server.settle(open=0)


@pytest.mark.anyio
@on_backends
async def test_a_body_that_is_read_slowly_over_tls_keeps_its_end(kind: str, contexts: Any) -> None:
    """The server closes the connection while much of what it sent is still held back."""
    ours, theirs = contexts
    size = 3_000_000

    async def script(peer: Peer) -> None:
        await peer.request()
        await peer.send(b"HTTP/1.1 200 OK\r\n\r\n" + bytes(size))

    async with serve_raw(script, tls=ours) as server, client_of(kind, verify=theirs) as client:
        async with client.stream("GET", server.url) as response:
            received = 0
            async for chunk in response.aiter_raw():
                received += len(chunk)
                await asyncio.sleep(0)
        assert received == size


@pytest.mark.anyio
@on_backends
async def test_a_timeout_of_the_body_itself_is_passed_on(kind: str) -> None:
    """What the application's generator raises is not taken for the network's."""

    async def body() -> AsyncIterator[bytes]:
        yield b"one"
        raise TimeoutError("the database was slow")

    async with serve_raw(answer_all) as server, client_of(kind, max_connections=1) as client:
        with pytest.raises(TimeoutError, match="the database was slow"):
            await client.post(server.url, content=body())
        assert (await client.get(server.url)).status_code == 200


@pytest.mark.anyio
@on_backends
async def test_a_request_that_connects_while_the_transport_closes_is_told(
    kind: str, monkeypatch: pytest.MonkeyPatch
) -> None:
    """It is not sent over a connection that nobody counts any more."""
    reached, gate = asyncio.Event(), asyncio.Event()
    loop = asyncio.get_running_loop()
    resolve = loop.getaddrinfo

    async def slow(*args: Any, **options: Any) -> Any:
        reached.set()
        await gate.wait()
        return await resolve(*args, **options)

    async with serve_raw(answer_all) as server:
        transport = PooledTransport(max_connections=1)
        request = package_of(kind).Request("GET", server.url)
        monkeypatch.setattr(loop, "getaddrinfo", slow)
        task = asyncio.ensure_future(transport.handle_async_request(request))
        await reached.wait()
        await transport.aclose()
        gate.set()
        with pytest.raises(package_of(kind).ConnectError, match="was closed while it connected"):
            await task
        await server.settle(open=0)
        assert server.heads == []


class Answer(BaseHTTPRequestHandler):
    """Answers over connections that outlive a client's event loop."""

    protocol_version = "HTTP/1.1"

    def do_GET(self) -> None:
        self.send_response(200)
        self.send_header("Content-Length", "0")
        self.end_headers()

    def log_message(self, *args: Any) -> None:
        pass


@pytest.mark.parametrize("new_event_loop", [asyncio.new_event_loop, uvloop.new_event_loop])
@pytest.mark.filterwarnings("ignore:unclosed:ResourceWarning")
def test_a_transport_outlives_its_event_loop(
    new_event_loop: Callable[[], asyncio.AbstractEventLoop],
) -> None:
    """Its connections of a loop that is gone are replaced, and closing it waits for nobody."""
    transport = PooledTransport(max_connections=1)
    server = ThreadingHTTPServer(("127.0.0.1", 0), Answer)
    server.daemon_threads = True
    threading.Thread(target=server.serve_forever).start()

    async def use() -> None:
        client = httpx.AsyncClient(transport=transport)
        async with asyncio.timeout(30):
            assert (await client.get(f"http://127.0.0.1:{server.server_port}")).status_code == 200

    async def close() -> None:
        async with asyncio.timeout(30):
            await transport.aclose()

    try:
        for step in (use, use, close):
            with asyncio.Runner(loop_factory=new_event_loop) as runner:
                runner.run(step())
    finally:
        server.shutdown()
        server.server_close()
        gc.collect()  # while the complaint about a connection that its loop never closed is not heard
