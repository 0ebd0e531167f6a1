"""The HTTP clients that the fan-out benchmarks compare, all with the same two methods."""

from __future__ import annotations

import asyncio
from collections import deque
from typing import TYPE_CHECKING, Any, Protocol

import aiohttp
import httpx
import httpx2

from asynctask.fast import FastTransport
from asynctask.remote import PooledTransport

if TYPE_CHECKING:
    from collections.abc import Callable

TIMEOUT = 60.0
LATENCY = 0.05
"""Seconds that the remote API takes for an answer."""


class Client(Protocol):
    """What is measured."""

    async def get(self, url: str) -> int:
        """Ask for a URL, read the answer to its end, return its status."""

    async def aclose(self) -> None:
        """Close all connections."""


class Httpx:
    """Either of the httpx packages, on any transport."""

    def __init__(self, client: Any) -> None:
        self._client = client

    async def get(self, url: str) -> int:
        response = await self._client.get(url)
        return int(response.status_code)

    async def aclose(self) -> None:
        await self._client.aclose()


class TenPools(httpx.AsyncBaseTransport):
    """The usual cure by hand: ten of httpx's own transports in turn, each with a tenth of the connections."""

    def __init__(self, connections: int) -> None:
        size = max(1, connections // 10)
        limits = httpx.Limits(max_connections=size, max_keepalive_connections=size)
        self._pools = [httpx.AsyncHTTPTransport(limits=limits) for _ in range(10)]

    async def handle_async_request(self, request: httpx.Request) -> httpx.Response:
        self._pools.append(self._pools.pop(0))
        return await self._pools[-1].handle_async_request(request)

    async def aclose(self) -> None:
        for pool in self._pools:
            await pool.aclose()


class NoNetwork(httpx.AsyncBaseTransport):
    """Answers by itself, after the latency: what is left is the client's own share of a call."""

    async def handle_async_request(self, request: httpx.Request) -> httpx.Response:
        await asyncio.sleep(LATENCY)
        headers = {"content-type": "application/json", "content-length": "2"}
        return httpx.Response(200, headers=headers, stream=httpx.ByteStream(b"{}"))


class Aiohttp:
    """aiohttp by hand."""

    def __init__(self, connections: int) -> None:
        self._session = aiohttp.ClientSession(
            connector=aiohttp.TCPConnector(limit=connections),
            timeout=aiohttp.ClientTimeout(sock_read=TIMEOUT),
        )

    async def get(self, url: str) -> int:
        async with self._session.get(url) as response:
            await response.read()
            return response.status

    async def aclose(self) -> None:
        await self._session.close()


class Streams:
    """The floor: asyncio's streams, a stack of open connections, and no HTTP to speak of."""

    def __init__(self, connections: int) -> None:
        self._free: deque[tuple[asyncio.StreamReader, asyncio.StreamWriter]] = deque()

    async def get(self, url: str) -> int:
        host, _, port = url.split("/")[2].partition(":")
        reader, writer = self._free.pop() if self._free else await asyncio.open_connection(host, int(port))
        writer.write(b"GET / HTTP/1.1\r\nhost: %s\r\n\r\n" % host.encode())
        head = await reader.readuntil(b"\r\n\r\n")
        await reader.readexactly(2)
        self._free.append((reader, writer))
        return int(head[9:12])

    async def aclose(self) -> None:
        for _, writer in self._free:
            writer.close()


def plain(package: Any, connections: int, timeout: float) -> Client:
    """A client of httpx or httpx2 as it comes, with one pool of so many connections."""
    limits = package.Limits(max_connections=connections, max_keepalive_connections=connections)
    return Httpx(package.AsyncClient(limits=limits, timeout=timeout))


def on(package: Any, transport: Any, timeout: float) -> Client:
    """A client of httpx or httpx2 on that transport."""
    return Httpx(package.AsyncClient(transport=transport, timeout=timeout))


CLIENTS: dict[str, Callable[[int, float], Client]] = {
    "httpx, one pool": lambda n, timeout: plain(httpx, n, timeout),
    "httpx, ten pools of its own": lambda n, timeout: on(httpx, TenPools(n), timeout),
    "httpx, PooledTransport": lambda n, timeout: on(httpx, PooledTransport(n), timeout),
    "httpx2, one pool": lambda n, timeout: plain(httpx2, n, timeout),
    "httpx2, PooledTransport": lambda n, timeout: on(httpx2, PooledTransport(n), timeout),
    "httpx, FastTransport": lambda n, timeout: on(httpx, FastTransport(n), timeout),
    "httpx, no network at all": lambda n, timeout: on(httpx, NoNetwork(), timeout),
    "aiohttp by hand": lambda n, timeout: Aiohttp(n),
    "raw asyncio streams": lambda n, timeout: Streams(n),
}
"""Each is made with a number of connections and a timeout in seconds, within a running event loop."""
