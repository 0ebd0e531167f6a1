"""Retries are httpx-retries' business: it composes with both transports."""

from __future__ import annotations

from typing import Any

import httpx
import pytest
from httpx_retries import Retry, RetryTransport

from asynctask.batch import map_concurrently
from asynctask.fast import FastTransport
from asynctask.remote import PooledTransport
from tests.http_server import serve
from tests.remote_support import client_of

pytestmark = [
    pytest.mark.anyio,
    pytest.mark.parametrize("anyio_backend", ["asyncio"]),  # httpx-retries sleeps with asyncio
    pytest.mark.parametrize("transport_class", [PooledTransport, FastTransport]),
]


@pytest.mark.parametrize("path", ["busy/2", "many/2"])
async def test_a_request_is_tried_again_as_retry_after_says(transport_class: Any, path: str) -> None:
    """503 and 429 with `Retry-After` twice, then success; the connections stay within their bound."""
    transport = RetryTransport(
        transport=transport_class(2, verify=False), retry=Retry(total=3, backoff_factor=0)
    )
    async with serve() as server, client_of("httpx", transport) as client:

        async def fetch(n: int) -> int:
            return int((await client.get(f"{server.url}/{path}/{n}")).status_code)

        assert await map_concurrently(fetch, range(10), max_at_once=5) == [200] * 10
        assert sorted(server.times(f"/{path}/{n}") for n in range(10)) == [3] * 10
        assert server.peak <= 2


async def test_when_all_tries_are_used_up_the_last_answer_stands(transport_class: Any) -> None:
    """A server that stays busy is answered for, not hammered."""
    transport = RetryTransport(
        transport=transport_class(1, verify=False), retry=Retry(total=2, backoff_factor=0)
    )
    async with serve() as server, client_of("httpx", transport) as client:
        assert (await client.get(f"{server.url}/busy/9")).status_code == 503
        assert server.times("/busy/9") == 3
        assert (await client.get(f"{server.url}/ok")).status_code == 200


async def test_a_connection_that_broke_is_tried_again(transport_class: Any) -> None:
    """What the transports raise is what httpx-retries knows as worth a second try."""
    transport = RetryTransport(
        transport=transport_class(1, verify=False), retry=Retry(total=2, backoff_factor=0)
    )
    async with serve() as server, client_of("httpx", transport) as client:
        with pytest.raises(httpx.TransportError):
            await client.get(f"{server.url}/reset")
        # aiohttp sends a request that is idempotent once more by itself.
        assert server.times("/reset") == (6 if transport_class is FastTransport else 3)
