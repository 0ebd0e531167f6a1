"""PooledTransport and FastTransport take the settings that httpx's own transport takes."""

from __future__ import annotations

import socket
import ssl
import sys
from typing import TYPE_CHECKING, Any

import httpx
import httpx2
import pytest
import trustme

from asynctask.errors import ConfigurationError
from asynctask.fast import FastTransport
from asynctask.remote import PooledTransport
from tests.http_server import serve
from tests.remote_support import ALL, client_of, package_of

if TYPE_CHECKING:
    from pathlib import Path

pytestmark = pytest.mark.anyio
on_all = pytest.mark.parametrize(("anyio_backend", "kind"), ALL)
on_pooled = pytest.mark.parametrize(
    ("anyio_backend", "kind"), [pair for pair in ALL if not pair[1].startswith("fast")]
)


@pytest.fixture(scope="module")
def authority() -> trustme.CA:
    """Who signs the certificates."""
    return trustme.CA()


def server_context(authority: trustme.CA) -> ssl.SSLContext:
    context = ssl.SSLContext(ssl.PROTOCOL_TLS_SERVER)
    authority.issue_cert("127.0.0.1").configure_cert(context)
    return context


def client_context(authority: trustme.CA) -> ssl.SSLContext:
    context = ssl.create_default_context()
    authority.configure_trust(context)
    return context


@on_all
async def test_certificates_are_verified_as_told(kind: str, authority: trustme.CA) -> None:
    """A context of one's own is trusted, by default a stranger is not, and False asks nobody."""
    async with serve(tls=server_context(authority)) as server:
        async with client_of(kind, verify=client_context(authority)) as client:
            assert (await client.get(f"{server.url}/ok")).status_code == 200
        async with client_of(kind, verify=False) as client:
            assert (await client.get(f"{server.url}/ok")).status_code == 200
        async with client_of(kind, verify=True) as client:
            with pytest.raises(package_of(kind).ConnectError):
                await client.get(f"{server.url}/ok")


@on_all
@pytest.mark.filterwarnings("ignore:`cert=:DeprecationWarning")
async def test_a_client_certificate_is_shown(kind: str, authority: trustme.CA, tmp_path: Path) -> None:
    """`cert` names a file with key and chain, for a server that asks for it."""
    context = server_context(authority)
    context.verify_mode = ssl.CERT_REQUIRED
    authority.configure_trust(context)
    pem = tmp_path / "client.pem"
    authority.issue_cert("client@example.org").private_key_and_cert_chain_pem.write_to_path(str(pem))
    async with serve(tls=context) as server:
        async with client_of(kind, verify=client_context(authority), cert=str(pem)) as client:
            assert (await client.get(f"{server.url}/ok")).status_code == 200
        async with client_of(kind, verify=client_context(authority)) as client:
            with pytest.raises(package_of(kind).TransportError):
                await client.get(f"{server.url}/ok")


@on_all
async def test_requests_go_through_a_proxy(kind: str) -> None:
    """The proxy gets the whole target and its own credentials, and its connections are bounded alike."""
    async with serve() as proxy:
        address = proxy.url.replace("://", "://user:pass@")
        for given in (address, package_of(kind).URL(address), package_of(kind).Proxy(address)):
            async with client_of(kind, proxy=given, max_connections=1) as client:
                for _ in range(2):
                    assert (await client.get("http://api.invalid/ok")).status_code == 200
        assert {seen.target for seen in proxy.requests} == {"http://api.invalid/ok"}
        assert {seen.headers["proxy-authorization"] for seen in proxy.requests} == {"Basic dXNlcjpwYXNz"}
        assert proxy.accepted == 3


@pytest.mark.parametrize(  # the server's side, anyio's, logs errors in other cases
    ("anyio_backend", "kind"), [pair for pair in ALL if pair[0] == "trio" or pair[1].startswith("fast")]
)
async def test_a_unix_socket_is_reached(kind: str, tmp_path: Path) -> None:
    """`uds` replaces host and port."""
    path = str(tmp_path / "api.sock")
    async with serve(uds=path) as server, client_of(kind, uds=path) as client:
        assert (await client.get("http://api.invalid/ok")).text == "fine"
        assert server.requests[0].headers["host"] == "api.invalid"


@on_all
async def test_connections_come_from_the_local_address(kind: str) -> None:
    """`local_address` is where the server sees them come from."""
    async with serve() as server, client_of(kind, local_address="127.0.0.7") as client:
        await client.get(f"{server.url}/ok")
        assert server.peers[0][0] == "127.0.0.7"


@on_pooled
async def test_socket_options_are_set(kind: str) -> None:
    """From an iterable that can be read but once, on every connection."""
    options = ((socket.SOL_SOCKET, socket.SO_KEEPALIVE, 1) for _ in range(1))
    async with serve() as server, client_of(kind, socket_options=options) as client:
        for path in ("close", "ok"):
            async with client.stream("GET", f"{server.url}/{path}") as response:
                raw = response.extensions["network_stream"].get_extra_info("socket")
                assert raw.getsockopt(socket.SOL_SOCKET, socket.SO_KEEPALIVE) == 1


@on_pooled
async def test_failed_connection_attempts_are_repeated(kind: str) -> None:
    """`retries` is httpx's own: it tries to connect again, and never sends a request twice."""
    async with client_of(kind, retries=1) as client:
        attempts = []

        async def trace(event: str, info: Any) -> None:
            if event == "connection.connect_tcp.started":
                attempts.append(event)

        with pytest.raises(package_of(kind).ConnectError):
            await client.get("http://127.0.0.1:1/", extensions={"trace": trace})
        assert len(attempts) == 2


@pytest.mark.parametrize("transport_class", [PooledTransport, FastTransport])
@pytest.mark.parametrize("bad", [0, -3, True, 2.5, float("nan"), "10", None])
async def test_a_maximum_that_cannot_work_is_refused(transport_class: Any, bad: Any) -> None:
    """The message says what is wanted and what was given."""
    with pytest.raises(ConfigurationError, match="max_connections must be a whole number of at least 1, got"):
        transport_class(bad, verify=False)


async def test_a_limit_of_idle_connections_that_cannot_work_is_refused() -> None:
    """Nought is allowed there, less is not."""
    with pytest.raises(ConfigurationError, match=r"max_keepalive_connections must be .* at least 0, got -1"):
        PooledTransport(max_keepalive_connections=-1, verify=False)


async def test_a_proxy_that_cannot_work_is_refused_at_once() -> None:
    """When the transport is made, not at the first request of a job."""
    with pytest.raises(ValueError, match="Unknown scheme for proxy"):
        PooledTransport(proxy="gopher://proxy.invalid", verify=False)


async def test_the_missing_extra_is_named(monkeypatch: pytest.MonkeyPatch) -> None:
    """Without httpx-aiohttp the error says what to install."""
    monkeypatch.setitem(sys.modules, "httpx_aiohttp", None)
    with pytest.raises(ConfigurationError, match=r"pip install 'starlette-asynctask\[fast\]'"):
        FastTransport()


@pytest.mark.parametrize("anyio_backend", ["asyncio"])
async def test_one_fast_transport_serves_one_kind_of_client() -> None:
    """As with the PooledTransport."""
    transport = FastTransport(verify=False)
    async with serve() as server, httpx.AsyncClient(transport=transport) as client:
        await client.get(f"{server.url}/ok")
        wrong = httpx2.AsyncClient(transport=transport)
        with pytest.raises(ConfigurationError, match="already serves clients of httpx: make another one"):
            await wrong.get(f"{server.url}/ok")


@pytest.mark.parametrize("anyio_backend", ["asyncio"])
@pytest.mark.parametrize("kind", ["fast httpx", "fast httpx2"])
async def test_the_fast_transport_keeps_no_cookies_of_its_own(kind: str) -> None:
    """What the client has forgotten is not sent: aiohttp's own jar stays empty."""
    async with serve() as server, client_of(kind) as client:
        await client.get(f"{server.url}/cookie")
        await client.get(f"{server.url}/ok")
        assert server.requests[1].headers["cookie"] == "a=b"
        client.cookies.clear()
        await client.get(f"{server.url}/ok")
        assert "cookie" not in server.requests[2].headers
