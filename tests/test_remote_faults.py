"""The transports with servers that reset, stall, cut off, answer 503, close connections and are slow."""

from __future__ import annotations

import anyio
import pytest

from asynctask.batch import map_concurrently
from tests.http_server import serve
from tests.remote_support import ALL, all_connections_work, client_of, package_of

pytestmark = [pytest.mark.anyio, pytest.mark.parametrize(("anyio_backend", "kind"), ALL)]

CONNECTIONS = 3
FAULTS = {
    "reset": "NetworkError RemoteProtocolError",
    "half": "NetworkError RemoteProtocolError",
    "cut": "NetworkError RemoteProtocolError",
    "stall": "ReadTimeout",
}
"""What the server does, and the error classes that may come of it."""


@pytest.mark.parametrize("fault", FAULTS)
async def test_a_fault_is_an_error_of_its_request_alone(kind: str, fault: str) -> None:
    """It is the error that httpx has for it, nothing is repeated, and the connections are there again."""
    package = package_of(kind)
    expected = tuple(getattr(package, name) for name in FAULTS[fault].split())
    timeout = (30, 0.05 if fault == "stall" else 30, 30, 30)
    async with serve() as server, client_of(kind, max_connections=CONNECTIONS) as client:
        for n in range(2 * CONNECTIONS):
            with pytest.raises(expected) as caught:
                await client.post(f"{server.url}/{fault}/{n}", timeout=timeout)
            assert caught.value.request.url.path == f"/{fault}/{n}"
            assert server.times(f"/{fault}/{n}") == 1
        await all_connections_work(server, client, CONNECTIONS)


async def test_a_refused_connection_is_a_connect_error(kind: str) -> None:
    """Nobody listens: that is no timeout, and the next server is reached all the same."""
    async with serve() as server, client_of(kind, max_connections=CONNECTIONS) as client:
        for _ in range(2 * CONNECTIONS):
            with pytest.raises(package_of(kind).ConnectError):
                await client.get("http://127.0.0.1:1/")
        await all_connections_work(server, client, CONNECTIONS)


async def test_a_mixed_batch_has_an_outcome_for_every_item(kind: str) -> None:
    """Good and bad answers in one batch at once: each in its place, each request sent once."""
    package = package_of(kind)
    faults = ["ok", "reset", "ok", "half", "close", "cut", "ok", "close"]
    async with serve() as server, client_of(kind, max_connections=CONNECTIONS) as client:

        async def fetch(item: tuple[int, str]) -> int:
            n, fault = item
            return int((await client.post(f"{server.url}/{fault}/{n}")).status_code)

        items = list(enumerate(faults * 5))
        outcomes = await map_concurrently(fetch, items, max_at_once=8, on_error="collect")
        for (_, fault), outcome in zip(items, outcomes, strict=True):
            if fault in ("ok", "close"):
                assert outcome.value == 200
            else:
                assert isinstance(outcome.error, package.TransportError)
        assert [server.times(f"/{fault}/{n}") for n, fault in items] == [1] * len(items)
        await all_connections_work(server, client, CONNECTIONS)


async def test_a_503_is_an_answer_like_others(kind: str) -> None:
    """It costs no connection, and nobody tries again without being told to."""
    async with serve() as server, client_of(kind, max_connections=1) as client:
        assert (await client.get(f"{server.url}/busy/1")).status_code == 503
        assert (await client.get(f"{server.url}/busy/1")).status_code == 200
        assert server.accepted == 1


async def test_connections_that_the_server_closes_are_replaced(kind: str) -> None:
    """`Connection: close`, and a server that closes a kept connection: the next request has a new one."""
    async with serve() as server, client_of(kind, max_connections=1) as client:
        for path in ("close", "leave", "ok"):
            assert (await client.get(f"{server.url}/{path}")).status_code == 200
            if path != "ok":
                await anyio.wait_all_tasks_blocked()
        assert server.accepted == 3
        assert server.peak == 1


async def test_a_slow_body_is_waited_for(kind: str) -> None:
    """Its connection is taken for as long as it lasts, and used again afterwards."""
    bodies = []
    async with serve() as server, client_of(kind, max_connections=1) as client:

        async def fetch() -> None:
            bodies.append((await client.get(f"{server.url}/slow")).text)

        async with anyio.create_task_group() as group:
            group.start_soon(fetch)
            await server.wait_for(held=1)
            server.open_gate()
        assert bodies == ["onetwo"]
        assert (await client.get(f"{server.url}/ok")).status_code == 200
        assert server.accepted == 1


async def test_a_body_that_stalls_times_out_and_frees_its_place(kind: str) -> None:
    """A read timeout in the middle of a body leaves no place taken."""
    async with serve() as server, client_of(kind, max_connections=1, timeout=(30, 0.05, 30, 30)) as client:
        for _ in range(3):
            with pytest.raises(package_of(kind).TransportError):
                await client.get(f"{server.url}/slow")
        assert (await client.get(f"{server.url}/ok")).status_code == 200
        assert server.peak == 1
