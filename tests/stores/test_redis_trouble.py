"""Redis away, full, refusing or unfit: what callers get, what is started, what is said and what is not."""

from __future__ import annotations

import logging
from typing import TYPE_CHECKING

import anyio
import httpx
import pytest
from starlette.applications import Starlette

from asynctask.asgi import routes
from asynctask.errors import ConfigurationError, StoreUnavailableError
from asynctask.jobs import Jobs
from asynctask.keys import Key
from asynctask.run import Run
from asynctask.snapshot import Code, Status
from demo.redis_server import RedisServer
from tests.stores.support import KEY, LEASE, RECORD, die, eventually, held, plain, short, steady

if TYPE_CHECKING:
    from collections.abc import Iterator

pytestmark = pytest.mark.anyio


@pytest.fixture
def anyio_backend() -> str:
    """redis-py's asynchronous client is asyncio's alone."""
    return "asyncio"


@pytest.fixture
def own() -> Iterator[RedisServer]:
    """A server that a test may break."""
    with RedisServer() as server:
        yield server


async def test_nothing_is_started_while_redis_is_away(own: RedisServer) -> None:
    """Every verb says so with a time to try again at, no run is executed, and all heals by itself."""
    executed: list[str] = []
    jobs = Jobs(store=steady(own.url))

    @jobs.job("report", cancelable=True)
    async def report(run: Run) -> None:
        executed.append(run.run_id)

    app = Starlette(routes=routes(jobs))
    async with jobs, httpx.AsyncClient(transport=httpx.ASGITransport(app), base_url="http://test") as http:
        own.stop()
        for method, path in [
            ("POST", "/report"),
            ("GET", "/report/status"),
            ("POST", "/report/cancel"),
            ("GET", "/"),
        ]:
            answer = await http.request(method, path)
            assert answer.status_code == 503, path
            assert answer.headers["content-type"] == "application/problem+json"
            assert int(answer.headers["retry-after"]) >= 1
            assert answer.json()["code"] == "store_unavailable"
            assert str(own.port) not in answer.text
        assert executed == []
        own.start()
        answer = await http.post("/report", headers={"Prefer": "wait=10"})
        assert (answer.status_code, answer.json()["status"]) == (200, "SUCCESS")
        assert executed == [answer.json()["runId"]]


async def test_outage_is_logged_once_and_its_end_too(
    own: RedisServer, caplog: pytest.LogCaptureFixture
) -> None:
    """A hundred failures are one line in the log, and so is the recovery."""
    caplog.set_level(logging.INFO, "asynctask")
    async with steady(own.url) as store:
        own.kill()
        for _ in range(20):
            with pytest.raises(StoreUnavailableError):
                await store.read(KEY)
        own.start()
        await store.read(KEY)
    said = [record.getMessage() for record in caplog.records]
    assert sum("fails" in text for text in said) == 1
    assert sum("answers again" in text for text in said) == 1


async def test_start_without_redis(own: RedisServer) -> None:
    """An application starts while Redis is away, refuses with 503, and works once it is there."""
    own.stop()
    async with steady(own.url) as store:
        with pytest.raises(StoreUnavailableError):
            await store.claim(Run(KEY))
        own.start()
        async with held(store):
            pass


async def test_outcome_survives_a_restart(own: RedisServer) -> None:
    """A run that ends while Redis restarts is settled when it is back, within its lease."""
    async with steady(own.url) as store:
        run = Run(KEY)
        await store.claim(run)
        own.kill()
        run.finish(Status.SUCCESS, result=7)
        async with anyio.create_task_group() as group:
            counted: list[bool] = []

            async def settle() -> None:
                counted.append(await store.settle(run))

            group.start_soon(settle)
            await anyio.sleep(0.5)
            assert counted == []
            own.start()
        assert counted == [True]
        seen = await store.read(KEY)
        assert seen is not None
        assert seen.result == 7


async def test_shutdown_does_not_hang_while_redis_is_away(own: RedisServer) -> None:
    """A run that is interrupted by the end of the application waits no longer than a step for Redis."""
    async with steady(own.url, timeout=0.5) as store:
        run = Run(KEY)
        await store.claim(run)
        own.stop()
        run.finish(Status.FAILED, error_code=Code.INTERRUPTED)
        with anyio.fail_after(10), pytest.raises(StoreUnavailableError):
            await store.settle(run)


async def test_full_memory_refuses_claims_and_nothing_else(own: RedisServer) -> None:
    """Without memory no run starts, but those under way keep their lease, their progress and their
    outcome."""
    other = Key("other", "other", "acme")
    async with short(own.url) as store:
        with plain(own.url) as client:
            running, lost = Run(KEY), Run(Key("lost", "lost", "acme"))
            await store.claim(running)
            await store.claim(lost)
            die(store, lost)
            client.config_set("maxmemory", 1)
            with pytest.raises(StoreUnavailableError, match="refused"):
                await store.claim(Run(other))
            assert await store.read(other) is None
            assert (await store.claim(Run(KEY))).snapshot.run_id == running.run_id  # joining takes no memory
            running.advance(3)
            await eventually(lambda: client.hget(RECORD, "ver") == "2")
            await anyio.sleep(1.5 * LEASE)
            seen = await store.cancel(KEY)
            assert seen is not None
            assert (seen.status, seen.cancel_requested) == (Status.RUNNING, True)
            running.finish(Status.SUCCESS, result="x" * 1000)
            assert await store.settle(running)
            gone = await store.read(lost.claim_key)
            assert gone is not None
            assert gone.error_code == "worker_lost"
            client.config_set("maxmemory", 0)
            async with held(store, other):
                pass


async def test_connections_are_bounded_and_waited_for(own: RedisServer) -> None:
    """Three hundred calls at once share a few connections, and none of them fails."""
    async with steady(own.url, max_connections=4, timeout=15.0) as store:
        peak = 0
        with plain(own.url) as client:
            async with anyio.create_task_group() as group:
                for number in range(300):
                    group.start_soon(store.read, Key("a", "a", str(number)))
                for _ in range(5):
                    await anyio.sleep(0.005)
                    peak = max(peak, client.info("clients")["connected_clients"] - 1)
        assert 0 < peak <= 4


async def test_connections_go_with_the_store(own: RedisServer) -> None:
    """After the lifespan no connection is left, the lease's thread's neither."""
    with plain(own.url) as client:
        async with steady(own.url) as store:
            async with held(store) as run:
                run.advance()
                await eventually(lambda: client.hget(RECORD, "ver") == "2")
        await eventually(lambda: client.info("clients")["connected_clients"] == 1)


@pytest.mark.parametrize(
    ("policy", "memory", "warned"),
    [("allkeys-lru", "100mb", True), ("allkeys-lru", "0", False), ("volatile-lru", "100mb", False)],
)
async def test_eviction_policy(
    own: RedisServer, policy: str, memory: str, warned: bool, caplog: pytest.LogCaptureFixture
) -> None:
    """At the start a policy that could drop a RUNNING state is warned of; one that cannot is not."""
    with plain(own.url) as client:
        client.config_set("maxmemory-policy", policy)
        client.config_set("maxmemory", memory)
    async with steady(own.url):
        pass
    assert (f"maxmemory-policy {policy}" in caplog.text) == warned


async def test_store_that_was_not_started(own: RedisServer) -> None:
    """Without the lifespan every verb says what to do."""
    with pytest.raises(StoreUnavailableError, match="lifespan"):
        await steady(own.url).read(KEY)
    async with steady(own.url) as store:
        with pytest.raises(ConfigurationError, match="already started"):
            await store.__aenter__()
