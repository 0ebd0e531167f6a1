"""What lies below the responses: TLS, addresses, `network_stream`, upgrades and the extension `trace`."""

from __future__ import annotations

import socket
import ssl
from typing import TYPE_CHECKING, Any

import pytest
import trustme

from tests.connection_support import BACKENDS, exchange, on_both
from tests.raw_server import OK, Peer, RawServer, answer_all, serve_raw
from tests.remote_support import client_of

if TYPE_CHECKING:
    from collections.abc import Callable

pytestmark = [pytest.mark.anyio, pytest.mark.parametrize(("anyio_backend", "kind"), BACKENDS)]


@pytest.fixture(scope="module")
def authority() -> trustme.CA:
    """Who signs the certificates."""
    return trustme.CA()


@pytest.fixture
def contexts(authority: trustme.CA) -> Callable[..., tuple[ssl.SSLContext, ssl.SSLContext]]:
    """A server's context, with a certificate of that name, and one for clients that trust it."""

    def make(name: str) -> tuple[ssl.SSLContext, ssl.SSLContext]:
        server = ssl.SSLContext(ssl.PROTOCOL_TLS_SERVER)
        authority.issue_cert(name).configure_cert(server)
        server.set_alpn_protocols(["h2", "http/1.1"])
        client = ssl.create_default_context()
        authority.configure_trust(client)
        return server, client

    return make


def has_ipv6() -> bool:
    """Whether there is ::1."""
    try:
        with socket.socket(socket.AF_INET6) as sock:
            sock.bind(("::1", 0))
    except OSError:
        return False
    return True


@pytest.mark.parametrize("name", [None, "api.example", "127.0.0.1", "other.example"])
async def test_the_name_that_a_certificate_is_of(name: str | None, kind: str, contexts: Any) -> None:
    """`sni_hostname` is what the server is asked for and has to show, in place of the URL's host."""
    ours, theirs = contexts("api.example")
    extensions = {"sni_hostname": name} if name else {}

    async def act(client: Any, server: RawServer) -> Any:
        outcomes = [await exchange(client, "GET", server.url, extensions=extensions) for _ in range(2)]
        return outcomes, server.names

    outcomes, names = await on_both(kind, answer_all, act, tls=ours, verify=theirs)
    if name == "api.example":
        assert ([outcome.body for outcome in outcomes], names) == ([b"ok", b"ok"], [name])
    else:
        assert [outcome.error for outcome in outcomes] == [f"{kind}.ConnectError"] * 2


async def test_one_address_under_two_names(kind: str, contexts: Any) -> None:
    """A connection that was made under one name carries no request for another one, as httpx's would."""
    ours, theirs = contexts("*.api.example")
    async with serve_raw(answer_all, tls=ours) as server:
        async with client_of(kind, max_connections=1, verify=theirs) as client:
            for name in ("a", "a", "b"):
                extensions = {"sni_hostname": f"{name}.api.example"}
                assert (await exchange(client, "GET", server.url, extensions=extensions)).body == b"ok"
        assert server.names == ["a.api.example", "b.api.example"]


@pytest.mark.parametrize("secure", [False, True])
async def test_what_a_network_stream_tells(secure: bool, kind: str, contexts: Any) -> None:
    """Addresses as (host, port), the socket with its options, TLS's state; None for what it does not know."""
    ours, theirs = contexts("127.0.0.1") if secure else (None, False)

    async def act(client: Any, server: RawServer) -> Any:
        async with client.stream("GET", server.url) as response:
            stream = response.extensions["network_stream"]
            client_addr, server_addr = (
                stream.get_extra_info(name) for name in ("client_addr", "server_addr")
            )
            raw = stream.get_extra_info("socket")
            assert raw.getsockname() == client_addr
            assert raw.getpeername() == server_addr
            tls = stream.get_extra_info("ssl_object")
            return (
                client_addr[0],
                server_addr == ("127.0.0.1", int(server.url.rsplit(":", 1)[1])),
                type(client_addr),
                raw.family,
                raw.getsockopt(socket.IPPROTO_TCP, socket.TCP_NODELAY) != 0,
                tls and (tls.version(), tls.selected_alpn_protocol(), tls.getpeercert()["subjectAltName"]),
                stream.get_extra_info("nonsense"),
            )

    told = await on_both(kind, answer_all, act, tls=ours, verify=theirs)
    assert told[:2] == ("127.0.0.1", True)
    assert bool(told[5]) is secure
    assert not secure or told[5][1] == "http/1.1"


@pytest.mark.skipif(not has_ipv6(), reason="there is no ::1")
async def test_an_ipv6_address(kind: str, contexts: Any) -> None:
    """In brackets in the URL and in Host; with TLS the certificate is of the address."""
    for secure in (False, True):
        ours, theirs = contexts("::1") if secure else (None, False)

        async def act(client: Any, server: RawServer) -> Any:
            async with client.stream("GET", server.url) as response:
                stream = response.extensions["network_stream"]
                address = stream.get_extra_info("server_addr")
                host = b"host: " + server.url.split("//")[1].encode()
                assert host in server.heads[0].lower().split(b"\r\n")
                return await response.aread(), address[:2] == ("::1", int(server.url.rsplit(":", 1)[1]))

        told = await on_both(kind, answer_all, act, tls=ours, verify=theirs, host="::1")
        assert told == (b"ok", True)


async def test_an_upgraded_connection(kind: str) -> None:
    """After a 101 bytes go both ways through `network_stream`, those first that came with the head."""

    async def script(peer: Peer) -> None:
        head = await peer.head()
        if b"upgrade" not in head.lower():
            await peer.send(OK)
            return
        lines = b"connection: upgrade\r\nupgrade: echo\r\n\r\n"
        await peer.send(b"HTTP/1.1 101 Switching Protocols\r\n" + lines + b"early")
        await peer.send(b"<" + await peer.reader.readexactly(5) + b">")
        await peer.gone()

    async def act(client: Any, server: RawServer) -> Any:
        assert (await exchange(client, "GET", server.url)).body == b"ok"
        headers = {"Connection": "Upgrade", "Upgrade": "echo"}
        received = b""
        async with client.stream("GET", server.url, headers=headers) as response:
            stream = response.extensions["network_stream"]
            await stream.write(b"hello", timeout=30)
            while len(received) < 12:
                received += await stream.read(3, timeout=30)
            await stream.aclose()
        await server.settle(open=0)
        after = await exchange(client, "GET", server.url)
        return response.status_code, response.headers.raw, received, after, server.accepted

    status, _, received, after, _ = await on_both(kind, script, act)
    assert (status, received, after.body) == (101, b"early<hello>", b"ok")


@pytest.mark.parametrize("status", [200, 426])
async def test_an_upgrade_that_is_refused(status: int, kind: str) -> None:
    """The answer is one like others, and the client goes on."""

    async def script(peer: Peer) -> None:
        while True:
            await peer.request()
            await peer.send(b"HTTP/1.1 %d Well\r\ncontent-length: 2\r\n\r\nno" % status)

    async def act(client: Any, server: RawServer) -> Any:
        headers = {"Connection": "Upgrade", "Upgrade": "echo"}
        outcomes = [await exchange(client, "GET", server.url, headers=headers) for _ in range(2)]
        return outcomes, server.accepted

    outcomes, _ = await on_both(kind, script, act)
    assert [(outcome.status, outcome.body) for outcome in outcomes] == [(status, b"no")] * 2


async def test_a_trace_is_told_all_steps(kind: str) -> None:
    """The same events with the same keys, of a new connection and of one that is used again."""

    async def act(client: Any, server: RawServer) -> Any:
        events = []

        async def trace(name: str, info: dict[str, Any]) -> None:
            events.append((name, sorted(info)))

        for _ in range(2):
            await exchange(client, "GET", server.url, extensions={"trace": trace})
        assert (await exchange(client, "GET", server.url)).body == b"ok"
        return events

    events = await on_both(kind, answer_all, act)
    names = [name for name, _ in events]
    assert "connection.connect_tcp.started" in names
    assert names.count("http11.receive_response_body.complete") == 2


async def test_a_trace_after_a_request_without_one(kind: str) -> None:
    """That may take a second connection, once: the first one is closed for it, and no request is lost."""

    async def act(client: Any, server: RawServer) -> Any:
        async def trace(name: str, info: dict[str, Any]) -> None:
            pass

        for extensions in ({}, {"trace": trace}, {}, {"trace": trace}):
            assert (await exchange(client, "GET", server.url, extensions=extensions)).body == b"ok"
        return len(server.heads), server.accepted <= 2, server.open

    assert await on_both(kind, answer_all, act) == (4, True, 1)


ENDS = {
    "length": b"HTTP/1.1 200 OK\r\ncontent-length: 4\r\n\r\nbody",
    "to the end": b"HTTP/1.1 200 OK\r\n\r\nbody",
    "cut": b"HTTP/1.1 200 OK\r\ncontent-length: 400\r\n\r\nbody",
    "half a head": b"HTTP/1.1 200 OK\r\ncontent-le",
    "nothing": b"",
}


@pytest.mark.parametrize("name", ENDS)
@pytest.mark.parametrize("farewell", [True, False])
async def test_how_a_tls_connection_ends(name: str, farewell: bool, kind: str, contexts: Any) -> None:
    """With TLS's own farewell or without, an answer is as whole as its head says."""
    ours, theirs = contexts("127.0.0.1")

    async def script(peer: Peer) -> None:
        while await peer.request() == "/next":
            await peer.send(OK)
        await peer.send(ENDS[name])
        if not farewell:
            peer.writer.transport.abort()

    async with serve_raw(script, tls=ours) as server:
        async with client_of(kind, max_connections=1, verify=theirs) as client:
            outcome = await exchange(client, "GET", f"{server.url}/first")
            await server.settle(open=0)
            assert (await exchange(client, "GET", f"{server.url}/next")).body == b"ok"
            assert server.accepted == 2
    if name in ("length", "to the end"):
        assert (outcome.status, outcome.body) == (200, b"body")
    else:
        assert outcome.error == f"{kind}.RemoteProtocolError"
