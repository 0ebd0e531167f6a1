"""PooledTransport and httpx's own transport against the same server, and what each makes of it."""

from __future__ import annotations

import re
from dataclasses import dataclass
from typing import TYPE_CHECKING, Any

from asynctask.remote import PooledTransport
from tests.raw_server import serve_raw
from tests.remote_support import CLIENTS, UVLOOP, package_of

if TYPE_CHECKING:
    import ssl
    from collections.abc import Awaitable, Callable

    from tests.raw_server import RawServer, Script

BACKENDS: list[tuple[Any, str]] = [*(("asyncio", kind) for kind in CLIENTS), (UVLOOP, "httpx")]
"""Event loop and kind of client: those that PooledTransport has its own connections for."""


@dataclass(frozen=True)
class Outcome:
    """What a client made of an answer: of a response all that counts, of an error its class."""

    status: int = 0
    version: Any = None
    reason: Any = None
    headers: Any = None
    body: bytes = b""
    error: str = ""


async def exchange(client: Any, method: str, url: str, **options: Any) -> Outcome:
    """Send a request and read its response."""
    try:
        response = await client.request(method, url, **options)
    except Exception as exc:
        return failure(exc)
    extensions = response.extensions
    return Outcome(
        response.status_code,
        extensions["http_version"],
        extensions["reason_phrase"],
        response.headers.raw,
        response.content,
    )


def failure(exc: Exception) -> Outcome:
    """An error as an outcome: its class, and whether it knows the request that it belongs to."""
    known = getattr(exc, "_request", None) is not None
    return Outcome(error=f"{type(exc).__module__}.{type(exc).__name__}{'' if known else ' of no request'}")


async def on_both(
    kind: str,
    script: Script,
    act: Callable[[Any, RawServer], Awaitable[Any]],
    *,
    tls: ssl.SSLContext | None = None,
    verify: Any = False,
    timeout: Any = 30,
    host: str = "127.0.0.1",
    **options: Any,
) -> Any:
    """Act with a client on either transport, each with a server of its own; assert that it comes to the same.

    Args:
        kind: the package of the clients.
        script: what the servers do.
        act: gets a client and its server; what it returns is compared.
        tls, host: for the servers.
        verify: for the transports.
        timeout, options: for the clients.

    Returns:
        What `act` returned.
    """
    http = package_of(kind)
    limits = http.Limits(max_connections=1, max_keepalive_connections=1)
    results = []
    for transport in (
        PooledTransport(1, verify=verify),
        http.AsyncHTTPTransport(verify=verify, limits=limits),
    ):
        client = http.AsyncClient(transport=transport, timeout=timeout, **options)
        async with serve_raw(script, tls=tls, host=host) as server, client:
            results.append(await act(client, server))
    ours, theirs = results
    assert ours == theirs, f"\nours:   {ours}\ntheirs: {theirs}"
    return ours


def heads(server: RawServer) -> list[list[bytes]]:
    """The lines of the requests' heads, whatever the server's port; Host first, as httpx puts it."""
    plain = (re.sub(rb"127\.0\.0\.1:\d+", b"here", head).split(b"\r\n") for head in server.heads)
    return [[first, *sorted(more, key=lambda line: line[:5] != b"Host:")] for first, *more in plain]
