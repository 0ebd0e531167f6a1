"""The last factor: httpx over aiohttp's connections, for those who need it. The extra `fast`.

httpx-aiohttp sends httpx's requests through aiohttp, whose connections cost a fraction of httpcore's. It
speaks HTTP/1.1 alone and runs on asyncio alone. What is added here is a session made for it, and errors
that say what happened: httpx-aiohttp reports a connection that was reset as a timeout, for instance.
"""

from __future__ import annotations

from types import SimpleNamespace
from typing import TYPE_CHECKING, Any

from asynctask.errors import ConfigurationError
from asynctask.remote import Transport, package_of, whole_number

if TYPE_CHECKING:
    import ssl


_ERRORS = {  # the most special first
    "ClientProxyConnectionError": "ProxyError",
    "ClientConnectorError": "ConnectError",
    "ClientOSError": "ReadError",
    "ServerDisconnectedError": "RemoteProtocolError",
    "ClientResponseError": "RemoteProtocolError",
}
"""What aiohttp raises, and what httpx calls that, where httpx-aiohttp says ConnectTimeout or nothing."""


class FastTransport(Transport):
    """A transport for `httpx.AsyncClient`, and for httpx2's, that sends requests through aiohttp.

        async with httpx.AsyncClient(transport=FastTransport(max_connections=500)) as client:
            results = await map_concurrently(fetch, items, max_at_once=500)

    httpx's `pool` timeout covers the connection attempt too. An idempotent request whose connection breaks
    before it is answered is sent once more, as RFC 9110 §9.2.2 allows.

    Args:
        max_connections: the largest number of connections open at any time.
        keepalive_expiry: seconds after which an idle connection is closed; None means aiohttp's 15.
        verify, cert, trust_env, proxy, uds, local_address: as for httpx.AsyncHTTPTransport.

    Raises:
        ConfigurationError: a limit that cannot work, the extra is not installed, or clients of httpx and of
            httpx2 on one transport.
    """

    def __init__(
        self,
        max_connections: int = 100,
        *,
        keepalive_expiry: float | None = 5.0,
        verify: ssl.SSLContext | str | bool = True,
        cert: str | tuple[str, str] | tuple[str, str, str] | None = None,
        trust_env: bool = True,
        proxy: Any = None,
        uds: str | None = None,
        local_address: str | None = None,
    ) -> None:
        try:
            import aiohttp  # noqa: F401
            import httpx_aiohttp  # noqa: F401
        except ImportError as exc:
            raise ConfigurationError(
                "FastTransport needs httpx-aiohttp: pip install 'starlette-asynctask[fast]'"
            ) from exc
        self._max_connections = whole_number("max_connections", max_connections, 1)
        self._expiry = keepalive_expiry
        self._tls: dict[str, Any] = {"verify": verify, "cert": cert, "trust_env": trust_env}
        self._proxy = proxy
        self._uds = uds
        self._local_address = local_address
        self._http: Any = None
        self._inner: Any = None

    async def handle_async_request(self, request: Any) -> Any:
        """Send one request, as httpx's own transport does."""
        http = package_of(request)
        if http is not self._http:
            self._serve(http)
        try:
            return await self._inner.handle_async_request(request)
        except Exception as exc:
            better = _translated(http, exc, request)
            if better is None:
                raise
            raise better from exc.__cause__ or exc

    async def aclose(self) -> None:
        """Close all connections."""
        if self._inner is not None:
            await self._inner.aclose()
            self._inner = self._http = None

    def _serve(self, http: Any) -> None:
        import httpx_aiohttp

        if self._inner is not None:
            raise ConfigurationError(
                f"this FastTransport already serves clients of {self._http.__name__}: make another one for "
                f"those of {http.__name__}"
            )
        package: Any = httpx_aiohttp
        if http.__name__ == "httpx2":
            import httpx_aiohttp.httpx2 as package
        context = http.create_ssl_context(**self._tls)
        proxy = self._proxy
        if proxy is not None:
            proxy = proxy if hasattr(proxy, "raw_auth") else http.Proxy(str(proxy))
            if proxy.auth is not None:
                # Back into the URL: httpx-aiohttp passes it on in a way that aiohttp has deprecated.
                user, password = proxy.auth
                url = proxy.url.copy_with(username=user, password=password)
                proxy = SimpleNamespace(url=url, auth=None, headers=proxy.headers)
        self._http = http
        self._inner = package.AiohttpTransport(
            verify=context, proxy=proxy, client=lambda: self._session(context)
        )

    def _session(self, context: ssl.SSLContext) -> Any:
        import aiohttp

        options: dict[str, Any] = {"limit": self._max_connections, "limit_per_host": 0}
        if self._expiry is not None:
            options["keepalive_timeout"] = self._expiry
        if self._uds is not None:
            connector: Any = aiohttp.UnixConnector(path=self._uds, **options)
        else:
            local = None if self._local_address is None else (self._local_address, 0)
            connector = aiohttp.TCPConnector(ssl=context, local_addr=local, **options)
        # Cookies are the client's business: a second jar would send what the client has forgotten.
        return aiohttp.ClientSession(connector=connector, cookie_jar=aiohttp.DummyCookieJar())


def _translated(http: Any, exc: Exception, request: Any) -> Exception | None:
    """What httpx itself would have raised; None where `exc` is that already."""
    import aiohttp

    if isinstance(exc, http.ConnectTimeout):
        cause = exc.__cause__
    elif isinstance(exc, aiohttp.ClientError):
        cause = exc
    else:
        return None
    for theirs, ours in _ERRORS.items():
        if isinstance(cause, getattr(aiohttp, theirs)):
            message = str(cause) if isinstance(cause, OSError) else "the server broke the connection off"
            made: Exception = getattr(http, ours)(message, request=request)
            return made
    return None
