"""httpx for batches: a transport that keeps its speed at high concurrency and survives cancelled requests.

httpx's own pool has two defects that a batch meets at once. It scans all its connections for every request,
so that it slows down with concurrency (encode/httpx#3215). And a request that is cancelled early can leave
its connection behind as taken for ever, until none is left (encode/httpcore#1093). Both go away when the
pools are small and the requests are spread over them; `pools` says by which rules.

Over HTTP/1.1 a pool is a single connection, so that a cancelled request never concerns another one, and
nothing is ever scanned. On asyncio that connection is `connection.Connection`, which costs a fraction of
httpcore's; httpx's own transport serves what it leaves out: trio, proxies, upgrades, the extension `trace`.

With `http2=True` a pool is httpx's own, with up to 10 connections: as many as it needs, should the server
speak HTTP/1.1; one, shared by 10 requests, where it speaks HTTP/2. For a batch HTTP/1.1 is the better choice:
httpcore reads for the requests that share a connection in turn, so that an answer that has arrived can wait
for a slower one.
"""

from __future__ import annotations

import sys
from functools import cache, partial
from typing import TYPE_CHECKING, Any

import anyio
import httpx
from sniffio import current_async_library

from asynctask.connection import Connection
from asynctask.errors import ConfigurationError
from asynctask.pools import Pool, Pools

if TYPE_CHECKING:
    import ssl
    from collections.abc import AsyncIterator, Callable, Iterable

    import httpx2

    from asynctask.sockets import SocketOption

    class Transport(httpx.AsyncBaseTransport, httpx2.AsyncBaseTransport):
        """A client of either package takes it: at run time no class of httpx2's is asked for."""

        async def handle_async_request(self, request: Any) -> Any: ...
else:
    Transport = httpx.AsyncBaseTransport

_HTTP2_POOL = 10


class PooledTransport(Transport):
    """A transport for `httpx.AsyncClient`, and for httpx2's, that spreads requests over small pools.

        transport = PooledTransport(max_connections=100)
        async with httpx.AsyncClient(transport=transport, base_url="https://api.example") as client:
            results = await map_concurrently(fetch, items, max_at_once=100)

    Retries are not its business; put httpx-retries on top of it:

        RetryTransport(transport=PooledTransport(max_connections=100), retry=Retry(total=3))

    A request is under way until its response is closed, and at most `max_connections` are under way at a
    time. Further ones wait their turn, as long as httpx's `pool` timeout allows. As with any transport that
    is given to a client, the proxies named in the environment are not used: pass `proxy`.

    Args:
        max_connections: the largest number of connections open at any time, retired pools included.
        max_keepalive_connections: how many of them may be kept open idle; None keeps all.
        keepalive_expiry: seconds after which an idle connection is not used again; None means never.
        verify, cert, trust_env, http1, http2, proxy, uds, local_address, retries, socket_options: as for
            httpx.AsyncHTTPTransport. `retries` are for failed connection attempts only.

    Raises:
        ConfigurationError: a limit that cannot work, or clients of httpx and of httpx2 on one transport.
        httpx.PoolTimeout: from a request that waited too long for its turn; for httpx2's clients, its own.
    """

    def __init__(
        self,
        max_connections: int = 100,
        *,
        max_keepalive_connections: int | None = None,
        keepalive_expiry: float | None = 5.0,
        verify: ssl.SSLContext | str | bool = True,
        cert: str | tuple[str, str] | tuple[str, str, str] | None = None,
        trust_env: bool = True,
        http1: bool = True,
        http2: bool = False,
        proxy: str | httpx.URL | httpx.Proxy | httpx2.URL | httpx2.Proxy | None = None,
        uds: str | None = None,
        local_address: str | None = None,
        retries: int = 0,
        socket_options: Iterable[SocketOption] | None = None,
    ) -> None:
        idle = whole_number("max_connections", max_connections, 1)
        size = min(_HTTP2_POOL, max_connections) if http2 else 1
        if max_keepalive_connections is not None:
            idle = whole_number("max_keepalive_connections", max_keepalive_connections, 0)
        self._pools: Pools[Any] = Pools(
            self._make,
            total=max_connections,
            size=size,
            max_idle=max(1, idle // size),
            expiry=keepalive_expiry,
        )
        self._idle = idle
        self._expiry = keepalive_expiry
        # Reading the certificates takes some 20 ms, so the pools share one context.
        self._tls_options: dict[str, Any] = {"verify": verify, "cert": cert, "trust_env": trust_env}
        self._tls = httpx.create_ssl_context(**self._tls_options)
        self._options: dict[str, Any] = {
            "trust_env": trust_env,
            "http1": http1,
            "http2": http2,
            "proxy": proxy if hasattr(proxy, "raw_auth") or proxy is None else str(proxy),
            "uds": uds,
            "local_address": local_address,
            "retries": retries,
            "socket_options": None if socket_options is None else list(socket_options),
        }
        ours = {name: self._options[name] for name in ("uds", "local_address", "retries", "socket_options")}
        self._ours: dict[str, Any] | None = ours if proxy is None and not http2 else None
        self._max_connections = max_connections
        self._http: Any = httpx  # unless the first request is of httpx2
        self._own(1)  # so that a proxy that cannot work is told now

    async def handle_async_request(self, request: Any) -> Any:
        """Send one request, as httpx's own transport does."""
        http = package_of(request)
        if http is not self._http:
            self._serve(http)
        origin = (request.url.raw_scheme, request.url.raw_host, request.url.port)
        timeout = request.extensions.get("timeout", {}).get("pool")
        try:
            pool = await self._pools.acquire(origin, timeout)
        except TimeoutError:
            raise http.PoolTimeout(
                f"none of {self._max_connections} connections became free within {timeout} s: raise "
                f"max_connections or the pool timeout, or make fewer requests at once",
                request=request,
            ) from None
        except anyio.ClosedResourceError:
            raise http.ConnectError(
                "the transport was closed while the request waited for a connection", request=request
            ) from None
        try:
            response = await pool.transport.handle_async_request(request)
        except BaseException:
            await self._pools.release(pool, whole=False)
            raise
        response.stream = _body_class(http)(response.stream, self._pools, pool)
        return response

    async def aclose(self) -> None:
        """Close all connections, those of requests under way too, and turn away the requests that wait."""
        await self._pools.aclose()

    def _serve(self, http: Any) -> None:
        if len(self._pools):
            raise ConfigurationError(
                f"this PooledTransport already serves clients of {self._http.__name__}: make another one for "
                f"those of {http.__name__}"
            )
        self._http = http
        self._tls = http.create_ssl_context(**self._tls_options)  # its defaults may differ

    def _make(self, size: int) -> Any:
        if size > 1 or self._ours is None or current_async_library() != "asyncio":
            return self._own(size)
        connection = Connection(
            self._http, tls=self._tls, keep=self._idle > 0, expiry=self._expiry, **self._ours
        )
        return _Line(connection, partial(self._own, 1))

    def _own(self, size: int) -> Any:
        """httpx's own transport, as it does everything."""
        limits = self._http.Limits(
            max_connections=size,
            max_keepalive_connections=min(self._idle, size),
            keepalive_expiry=self._expiry,
        )
        return self._http.AsyncHTTPTransport(verify=self._tls, limits=limits, **self._options)


def package_of(request: object) -> Any:
    """The package whose request it is: httpx or httpx2. The latter is never imported, only found."""
    return httpx if isinstance(request, httpx.Request) else sys.modules["httpx2"]


class _Line:
    """A pool of one connection: ours while that will do, httpx's own once a request needs more."""

    def __init__(self, ours: Connection, own: Callable[[], Any]) -> None:
        self._connection: Any = ours
        self._own: Callable[[], Any] | None = own

    async def handle_async_request(self, request: Any) -> Any:
        if self._own is not None and _needs_more(request):
            await self._connection.aclose()
            self._connection, self._own = self._own(), None
        return await self._connection.handle_async_request(request)

    async def aclose(self) -> None:
        await self._connection.aclose()


def _needs_more(request: Any) -> bool:
    """Whether a request needs what only httpx's own transport has."""
    return (
        "trace" in request.extensions
        or request.method == "CONNECT"
        or "upgrade" in request.headers
        or request.url.scheme not in ("http", "https")
    )


class _Body:
    """A response's body; closing it gives the request's place in its pool back, once."""

    def __init__(self, stream: Any, pools: Pools[Any], pool: Pool[Any]) -> None:
        self._stream = stream
        self._pools = pools
        self._pool = pool
        self._whole = False
        self._closed = False

    async def __aiter__(self) -> AsyncIterator[bytes]:
        try:
            async for chunk in self._stream:
                yield chunk
        except BaseException:  # whoever meets it need not know that there is something to close
            await self.aclose()
            raise
        self._whole = True

    async def aclose(self) -> None:
        if self._closed:
            return
        self._closed = True
        try:
            await self._stream.aclose()
        except BaseException:
            self._whole = False
            raise
        finally:
            await self._pools.release(self._pool, whole=self._whole)


@cache
def _body_class(http: Any) -> Any:
    """The body as a stream class of httpx or of httpx2, for each asserts that it is its own."""
    return type("PooledBody", (_Body, http.AsyncByteStream), {})


def whole_number(name: str, value: int, least: int) -> int:
    """Return `value` if it is a whole number of at least `least`; raise ConfigurationError otherwise."""
    if isinstance(value, bool) or not isinstance(value, int) or value < least:
        raise ConfigurationError(f"{name} must be a whole number of at least {least}, got {value!r}")
    return value
