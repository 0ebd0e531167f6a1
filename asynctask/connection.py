"""Requests and responses of httpx's kind over one HTTP/1.1 connection at a time, on asyncio.

Beside httpcore's connections it leaves out what costs a batch most of its time: locks for what nobody
shares, a search for the event loop at each of them, an event for each step that nobody listens to, and a
parser in Python.
"""

from __future__ import annotations

import asyncio
from itertools import count
from time import monotonic
from typing import TYPE_CHECKING, Any

from asynctask.http11 import Head, Illegal, Malformed, ResponseParser
from asynctask.sockets import HIGH_WATER, connect

if TYPE_CHECKING:
    import ssl
    from collections.abc import AsyncIterator, Iterable

    from asynctask.sockets import SocketOption, Stream

PORTS = {b"http": 80, b"https": 443}


class Connection:
    """Sends one request after the other, over a connection that is made when there is none to be used again.

    Args:
        http: the package whose requests these are, httpx or httpx2: responses and errors are of its classes.
        tls: for https.
        keep: whether a connection is kept for the next request.
        expiry: seconds after which an idle connection is not used again; None means never.
        retries: how often a failed connection attempt is repeated, after 0, 0.5, 1, 2, … seconds.
        uds, local_address, socket_options: as for `sockets.connect`.
    """

    def __init__(
        self,
        http: Any,
        *,
        tls: ssl.SSLContext,
        keep: bool,
        expiry: float | None,
        retries: int = 0,
        uds: str | None = None,
        local_address: str | None = None,
        socket_options: Iterable[SocketOption] | None = None,
    ) -> None:
        self._http = http
        self._tls = tls
        self._keep = keep
        self._expiry = expiry
        self._retries = retries
        self._options: dict[str, Any] = {
            "uds": uds,
            "local_address": local_address,
            "socket_options": socket_options or (),
        }
        self._stream: Stream | None = None
        self._origin: object = None
        self._over = False
        self._idle_since = 0.0

    async def handle_async_request(self, request: Any) -> Any:
        """Send a request and return its response, whose body is still to be read and closed.

        After an error or a cancellation nothing is known of the connection: close it.

        Raises:
            httpx.TransportError: that of `http`, as httpx's own transport raises it.
        """
        http, url, timeouts = self._http, request.url, request.extensions.get("timeout", {})
        try:
            target = request.extensions.get("target", url.raw_path)
            head = Head(request.method.encode("ascii"), target, request.headers.raw)
        except (Illegal, UnicodeEncodeError) as exc:
            raise http.LocalProtocolError(str(exc)) from exc
        origin = (url.raw_scheme, url.raw_host, url.port, request.extensions.get("sni_hostname"))
        stream = self._stream
        if stream is not None and (self._origin != origin or self._expired() or stream.stale):
            await self._drop()
            stream = None
        if stream is None:
            stream = self._stream = await self._connect(origin, timeouts.get("connect"))
            if self._over:
                await self._drop()
                raise http.ConnectError("the transport was closed while it connected")
            self._origin = origin
            self._parser = ResponseParser()
        parser = self._parser
        parser.start(bodyless=request.method == "HEAD")
        self._last = True  # until the request is sent as it should be
        sent = await self._send(stream, head, request.stream, timeouts.get("write"))
        self._last = head.closes or not sent
        body = Body(self, parser, stream, http, timeouts.get("read"))
        while not parser.begun:
            await body.receive()
        return http.Response(
            parser.status,
            headers=parser.headers,
            stream=body,
            extensions={
                "http_version": parser.version,
                "reason_phrase": parser.reason,
                "network_stream": stream,
            },
        )

    async def aclose(self) -> None:
        """Close the connection for good, and break off the request that it carries."""
        self._over = True
        await self._drop()

    async def release(self) -> None:
        """Get ready for the next request: keep the connection if the last one left it as it should."""
        parser = self._parser
        if self._keep and parser.complete and parser.reusable and not self._last:
            self._idle_since = monotonic()
        else:
            await self._drop()

    async def _drop(self) -> None:
        if self._stream is not None:
            await self._stream.aclose()
            self._stream = None  # not before: who is cancelled here waits for it in a second call

    def _expired(self) -> bool:
        return self._expiry is not None and monotonic() - self._idle_since > self._expiry

    async def _connect(self, origin: Any, timeout: float | None) -> Stream:
        http, (scheme, raw_host, port, sni) = self._http, origin
        host = raw_host.decode("ascii")
        tls = None
        if scheme == b"https":
            tls = self._tls
            tls.set_alpn_protocols(["http/1.1"])
        for attempt in count():
            try:
                return await connect(
                    host,
                    PORTS[scheme] if port is None else port,
                    timeout=timeout,
                    tls=tls,
                    server_hostname=sni or host,
                    **self._options,
                )
            except TimeoutError as exc:
                if attempt == self._retries:
                    raise http.ConnectTimeout(f"no connection to {host} within {timeout} s") from exc
            # uvloop raises a RuntimeError for some failures; a name that cannot be one is a UnicodeError.
            except (OSError, RuntimeError, UnicodeError) as exc:
                if attempt == self._retries:
                    raise http.ConnectError(str(exc) or type(exc).__name__) from exc
            await asyncio.sleep(attempt and 0.5 * 2 ** (attempt - 1))
        raise AssertionError  # pragma: no cover

    async def _send(self, stream: Stream, head: Head, body: Any, timeout: float | None) -> bool:
        """Send a request; return False if the connection broke, perhaps after an answer."""
        data, length = head.data, 0
        # What comes in parts may come late, or because of what the server does with the head.
        if not isinstance(body, self._http.ByteStream):
            if not await self._write(stream, data, timeout):
                return False
            data = b""
        async for chunk in body:
            if not chunk:
                continue
            length += len(chunk)
            if head.chunked:
                chunk = b"%x\r\n%b\r\n" % (len(chunk), chunk)
            elif length > head.length:
                raise self._http.LocalProtocolError(
                    f"the body is longer than its Content-Length of {head.length}"
                )
            # One packet for head and body, unless that means to copy much. What is written is bytes, for
            # a part may wait for its turn while its buffer is filled anew.
            if data and len(chunk) > HIGH_WATER and not await self._write(stream, data, timeout):
                return False
            data = bytes(chunk) if len(chunk) > HIGH_WATER else data + chunk
            if not await self._write(stream, data, timeout):
                return False
            data = b""
        if head.chunked:
            data += b"0\r\n\r\n"
        elif length < head.length:
            raise self._http.LocalProtocolError(
                f"the body has {length} bytes, its Content-Length is {head.length}"
            )
        return not data or await self._write(stream, data, timeout)

    async def _write(self, stream: Stream, data: bytes, timeout: float | None) -> bool:
        try:
            return await stream.write(data, timeout)
        except TimeoutError as exc:
            raise self._http.WriteTimeout(f"the other side was behind with reading for {timeout} s") from exc


class Body:
    """What a connection receives in answer to a request; reading raises errors of `http`'s classes.

    Args:
        connection: what to give back when it is closed.
        parser: reads the connection's responses.
        stream: where to read.
        http: httpx or httpx2.
        timeout: seconds to wait for each part; None waits for ever.
    """

    __slots__ = ("_connection", "_http", "_parser", "_stream", "_timeout")

    def __init__(
        self, connection: Connection, parser: ResponseParser, stream: Stream, http: Any, timeout: float | None
    ) -> None:
        self._connection = connection
        self._parser = parser
        self._stream = stream
        self._http = http
        self._timeout = timeout

    async def receive(self) -> None:
        """Wait for the next part of the response."""
        http = self._http
        try:
            self._parser.feed(await self._stream.read(self._timeout))
        except TimeoutError as exc:
            raise http.ReadTimeout(f"nothing arrived within {self._timeout} s") from exc
        except OSError as exc:
            raise http.ReadError(str(exc) or type(exc).__name__) from exc
        except Malformed as exc:
            raise http.RemoteProtocolError(str(exc)) from exc

    async def __aiter__(self) -> AsyncIterator[bytes]:
        parser = self._parser
        while True:
            chunks, parser.chunks = parser.chunks, []
            for chunk in chunks:
                yield chunk
            if parser.complete:
                return
            await self.receive()

    async def aclose(self) -> None:
        """Give the connection back, or close it if this was not the end of the response."""
        await self._connection.release()
