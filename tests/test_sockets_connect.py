"""How connections are made: addresses, TLS, Unix sockets, options, and every way it can fail."""

from __future__ import annotations

import asyncio
import gc
import socket
import ssl
from contextlib import ExitStack, asynccontextmanager, contextmanager, suppress
from typing import TYPE_CHECKING, Any

import anyio
import pytest
import trustme

from asynctask import sockets
from asynctask.sockets import connect
from tests.remote_support import UVLOOP
from tests.test_sockets import BIG, connected, read_all

if TYPE_CHECKING:
    from collections.abc import AsyncIterator, Generator, Iterator
    from pathlib import Path

pytestmark = [pytest.mark.anyio, pytest.mark.parametrize("anyio_backend", ["asyncio", UVLOOP])]


@pytest.fixture(autouse=True)
def nothing_is_left_open() -> Generator[None]:
    """Fail a test that leaves a socket to the garbage collection: the ResourceWarning is an error."""
    yield
    gc.collect()


@pytest.fixture(scope="module")
def authority() -> trustme.CA:
    """Who signs the server's certificate."""
    return trustme.CA()


@asynccontextmanager
async def echo_over_tls(authority: trustme.CA) -> AsyncIterator[tuple[int, ssl.SSLContext]]:
    """A server for `localhost` that sends back what it gets; yields its port and a client's context."""

    async def echo(reader: asyncio.StreamReader, writer: asyncio.StreamWriter) -> None:
        try:
            while data := await reader.read(1 << 16):
                writer.write(data)
                await writer.drain()
        except OSError:
            pass
        finally:
            writer.transport.abort()

    context = ssl.create_default_context(ssl.Purpose.CLIENT_AUTH)
    authority.issue_cert("localhost").configure_cert(context)
    trusting = ssl.create_default_context()
    authority.configure_trust(trusting)
    server = await asyncio.start_server(echo, "127.0.0.1", 0, ssl=context, ssl_handshake_timeout=60)
    async with server:
        yield server.sockets[0].getsockname()[1], trusting


@contextmanager
def refusing() -> Iterator[int]:
    """A port that nobody listens to."""
    with socket.socket() as bound:
        bound.bind(("127.0.0.1", 0))
        yield bound.getsockname()[1]


@contextmanager
def silent() -> Iterator[int]:
    """A port whose attempts get no answer, since its queue is full."""
    with ExitStack() as stack:
        listener = stack.enter_context(socket.create_server(("127.0.0.1", 0), backlog=0))
        for _ in range(3):
            queued = stack.enter_context(socket.socket())
            queued.setblocking(False)
            queued.connect_ex(listener.getsockname())
        yield listener.getsockname()[1]


def resolve_to(monkeypatch: pytest.MonkeyPatch, *ports: int) -> None:
    """Let `two.example` have an address for each of these ports."""
    loop: Any = asyncio.get_running_loop()
    resolve = loop.getaddrinfo

    async def getaddrinfo(host: str, port: int, **options: Any) -> Any:
        if host != "two.example":  # uvloop asks for addresses, too
            return await resolve(host, port, **options)
        return [(socket.AF_INET, socket.SOCK_STREAM, 6, "", ("127.0.0.1", port)) for port in ports]

    monkeypatch.setattr(loop, "getaddrinfo", getaddrinfo)


async def test_tls(authority: trustme.CA) -> None:
    """Over TLS everything arrives as well, with back pressure both ways."""
    async with echo_over_tls(authority) as (port, tls):
        stream = await connect("127.0.0.1", port, timeout=30, tls=tls, server_hostname="localhost")
        assert stream.get_extra_info("ssl_object").version().startswith("TLS")
        data = BIG[: 1 << 24]
        writing = asyncio.create_task(stream.write(data, None))
        await anyio.wait_all_tasks_blocked()
        assert await read_all(stream, len(data)) == data
        assert await writing
        assert not stream.stale
        reading = asyncio.create_task(stream.read(None))
        await anyio.wait_all_tasks_blocked()
        await stream.aclose()
        with pytest.raises(ConnectionAbortedError):
            await reading


async def test_a_certificate_of_somebody_else_is_refused(authority: trustme.CA) -> None:
    """The certificate must be of the host that is asked for, and from an authority that is known."""
    async with echo_over_tls(authority) as (port, tls):
        with pytest.raises(ssl.SSLCertVerificationError, match=r"other\.example"):
            await connect("127.0.0.1", port, timeout=30, tls=tls, server_hostname="other.example")
        with pytest.raises(ssl.SSLCertVerificationError):
            tls = ssl.create_default_context()
            await connect("127.0.0.1", port, timeout=30, tls=tls, server_hostname="localhost")


async def test_a_handshake_waits_no_longer_than_its_timeout() -> None:
    """A server that accepts and then says nothing does not hold a caller of TLS for ever."""
    with socket.create_server(("127.0.0.1", 0)) as listener:
        with pytest.raises(TimeoutError):
            await connect(
                "127.0.0.1",
                listener.getsockname()[1],
                timeout=0.05,
                tls=ssl.create_default_context(),
                server_hostname="localhost",
            )


async def test_a_handshake_waits_as_long_as_its_timeout(
    authority: trustme.CA, monkeypatch: pytest.MonkeyPatch
) -> None:
    """The caller's timeout alone counts, not the event loop's."""
    async with echo_over_tls(authority) as (port, tls):
        monkeypatch.setattr("asyncio.constants.SSL_HANDSHAKE_TIMEOUT", 1e-9)  # uvloop has one of its own
        stream = await connect("127.0.0.1", port, timeout=None, tls=tls, server_hostname="localhost")
        await stream.aclose()


async def test_a_cancelled_handshake_leaves_nothing_behind() -> None:
    """Whoever is cancelled during the handshake has the connection closed."""
    with socket.create_server(("127.0.0.1", 0)) as listener:
        port = listener.getsockname()[1]
        tls = ssl.create_default_context()
        task = asyncio.create_task(
            connect("127.0.0.1", port, timeout=None, tls=tls, server_hostname="localhost")
        )
        loop = asyncio.get_running_loop()
        listener.setblocking(False)
        peer, _ = await loop.sock_accept(listener)
        with peer:
            assert await loop.sock_recv(peer, 1)  # the handshake has begun
            task.cancel()
            with pytest.raises(asyncio.CancelledError):
                await task
            with anyio.fail_after(30):
                try:
                    while await loop.sock_recv(peer, 1 << 16):
                        pass
                except ConnectionResetError:
                    pass


async def test_a_server_that_speaks_no_tls_is_refused() -> None:
    """What is not a handshake is an error, an OSError among others."""
    with socket.create_server(("127.0.0.1", 0)) as listener:
        task = asyncio.create_task(
            connect(
                "127.0.0.1",
                listener.getsockname()[1],
                timeout=30,
                tls=ssl.create_default_context(),
                server_hostname="localhost",
            )
        )
        listener.setblocking(False)
        peer, _ = await asyncio.get_running_loop().sock_accept(listener)
        with peer:
            peer.sendall(b"HTTP/1.1 400 Bad Request\r\n\r\n")
            with pytest.raises(ssl.SSLError):
                await task
            loop = asyncio.get_running_loop()
            with suppress(ConnectionResetError):
                while await loop.sock_recv(peer, 1_000):  # until it is closed
                    pass


async def test_a_unix_socket(tmp_path: Path) -> None:
    """A path takes the place of host and port."""
    path = str(tmp_path / "s")
    with pytest.raises(FileNotFoundError):
        await connect("a.invalid", 80, timeout=30, uds=path)
    with socket.socket(socket.AF_UNIX) as listener:
        listener.bind(path)
        listener.listen()
        stream = await connect("a.invalid", 80, timeout=30, uds=path)
        with listener.accept()[0] as peer:
            peer.sendall(b"hello")
            assert await stream.read(30) == b"hello"
        assert await stream.read(30) == b""
        await stream.aclose()


async def test_the_address_to_connect_from() -> None:
    """The other side sees it; one that is not ours is an error."""
    async with connected(local_address="127.0.0.2") as (stream, peer):
        assert peer.getpeername()[0] == "127.0.0.2"
        assert stream.get_extra_info("client_addr") == peer.getpeername()
        assert stream.get_extra_info("server_addr") == peer.getsockname()
    with socket.create_server(("127.0.0.1", 0)) as listener:
        with pytest.raises(OSError, match=r"192\.0\.2\.1"):
            await connect("127.0.0.1", listener.getsockname()[1], timeout=30, local_address="192.0.2.1")


async def test_socket_options() -> None:
    """They are set; small packets go out at once anyway; one that does not exist is an error."""
    async with connected(socket_options=[(socket.SOL_SOCKET, socket.SO_KEEPALIVE, 1)]) as (stream, _):
        sock = stream.get_extra_info("socket")
        assert sock.getsockopt(socket.SOL_SOCKET, socket.SO_KEEPALIVE)
        assert sock.getsockopt(socket.IPPROTO_TCP, socket.TCP_NODELAY)
    with pytest.raises(OSError):
        async with connected(socket_options=[(socket.SOL_SOCKET, 9999, 1)]):
            pass


@pytest.mark.parametrize("first", [refusing, silent])
async def test_the_next_address_is_tried(first: Any, monkeypatch: pytest.MonkeyPatch) -> None:
    """Of a host's addresses one that refuses, or never answers, does not keep the others from being used."""
    monkeypatch.setattr(sockets, "NEXT_ADDRESS_AFTER", 0.01)
    with first() as bad, socket.create_server(("127.0.0.1", 0)) as listener:
        good = listener.getsockname()[1]
        resolve_to(monkeypatch, bad, good)
        stream = await connect("two.example", 80, timeout=30)
        assert stream.get_extra_info("server_addr") == ("127.0.0.1", good)
        await stream.aclose()


async def test_when_all_addresses_fail(monkeypatch: pytest.MonkeyPatch) -> None:
    """Refused by all of them is refused; each that refuses is passed over at once."""
    with refusing() as one, refusing() as two:
        with pytest.raises(ConnectionRefusedError):
            await connect("127.0.0.1", one, timeout=30)
        monkeypatch.setattr(sockets, "NEXT_ADDRESS_AFTER", 3600)
        resolve_to(monkeypatch, one, two)
        with pytest.raises(ConnectionRefusedError):
            await connect("two.example", 80, timeout=30)


async def test_connecting_waits_no_longer_than_its_timeout(monkeypatch: pytest.MonkeyPatch) -> None:
    """Hosts that never answer are given up at the timeout, whether they have one address or two."""
    with silent() as one, silent() as two:
        with pytest.raises(TimeoutError):
            await connect("127.0.0.1", one, timeout=0.05)
        monkeypatch.setattr(sockets, "NEXT_ADDRESS_AFTER", 0.01)
        resolve_to(monkeypatch, one, two)
        with pytest.raises(TimeoutError):
            await connect("two.example", 80, timeout=0.1)


async def test_a_cancelled_attempt_leaves_nothing_behind(monkeypatch: pytest.MonkeyPatch) -> None:
    """Whoever is cancelled while connecting leaves no socket open."""
    with silent() as one, silent() as two:
        resolve_to(monkeypatch, one, two)
        task = asyncio.create_task(connect("two.example", 80, timeout=None))
        await anyio.wait_all_tasks_blocked()
        task.cancel()
        with pytest.raises(asyncio.CancelledError):
            await task


async def test_a_name_that_does_not_resolve() -> None:
    """It is an OSError; RFC 6761 keeps the name from ever being one."""
    with pytest.raises(socket.gaierror):
        await connect("nobody.invalid", 80, timeout=30)
