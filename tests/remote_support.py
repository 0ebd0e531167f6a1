"""The clients that the tests of the transports are run with."""

from __future__ import annotations

from typing import TYPE_CHECKING, Any

import anyio
import httpx
import httpx2

from asynctask.fast import FastTransport
from asynctask.remote import PooledTransport

if TYPE_CHECKING:
    from tests.http_server import HttpServer

CLIENTS = ["httpx", "httpx2"]

UVLOOP = ("asyncio", {"use_uvloop": True})
ALL: list[tuple[Any, str]] = [
    *((loop, kind) for loop in ("asyncio", "trio") for kind in CLIENTS),
    (UVLOOP, "httpx"),
    *(("asyncio", f"fast {kind}") for kind in CLIENTS),  # aiohttp is for asyncio alone
]
"""Event loop and kind of client, for tests that are parametrised over `anyio_backend` and `kind`."""


def package_of(kind: str) -> Any:
    """The package that a kind of client comes from."""
    return {"httpx": httpx, "httpx2": httpx2}[kind.split()[-1]]


def client_of(kind: str, transport: Any = None, *, timeout: Any = 30, **options: Any) -> Any:
    """A client of httpx or of httpx2 on a PooledTransport, or on a FastTransport.

    Args:
        kind: the package, after `fast` for the FastTransport.
        transport: the transport; one with `options` by default.
        timeout: seconds for each of connect, read, write and pool, or four of them; the default is there to
            tell a deadlock, not a slow machine.
    """
    if transport is None:
        options.setdefault("verify", False)  # most tests speak http: spare them reading the certificates
        transport = (FastTransport if kind.startswith("fast") else PooledTransport)(**options)
    return package_of(kind).AsyncClient(transport=transport, timeout=timeout)


async def all_connections_work(server: HttpServer, client: Any, connections: int) -> None:
    """Assert that no connection was lost for good: so many requests are under way at once, and no more."""
    target = f"/hold/{len(server.requests)}"
    statuses = []

    async def hold() -> None:
        statuses.append((await client.post(f"{server.url}{target}")).status_code)

    async with anyio.create_task_group() as group:
        for _ in range(connections):
            group.start_soon(hold)
        with anyio.fail_after(30):
            while server.times(target) < connections:
                await anyio.sleep(0.001)
        server.open_gate()
    assert statuses == [200] * connections
    assert server.peak <= connections
