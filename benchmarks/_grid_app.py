"""The application of `sync_vs_async.py`: one and the same work, answered in three ways.

    POST /one-by-one          synchronous: one remote call after the other, then the answer
    POST /at-once             synchronous: up to 100 calls at once, then the answer
    POST /api/cells/{cell}    a job of those 100 at once: answered by the trigger, its status is polled

The body of each is {"records": 600, "latency": 0.05}. `python -m benchmarks._grid_app REMOTE` prints the port
when it is ready.
"""

from __future__ import annotations

import socket
import sys
from contextlib import asynccontextmanager
from typing import TYPE_CHECKING

import anyio
import httpx
import msgspec
import uvicorn
from starlette.applications import Starlette
from starlette.requests import Request
from starlette.responses import JSONResponse, Response
from starlette.routing import Mount, Route

from asynctask import Jobs, PooledTransport, Run, map_concurrently
from asynctask.asgi import routes

if TYPE_CHECKING:
    from collections.abc import AsyncIterator, Awaitable, Callable

    from starlette.types import Receive, Scope, Send

AT_ONCE = 100


class Work(msgspec.Struct, frozen=True):
    """How many remote calls, and how many seconds the remote side takes for each."""

    records: int
    latency: float


def create_app(remote: str) -> Starlette:
    """The three ways, all calling `remote`."""
    client = httpx.AsyncClient(
        base_url=remote, transport=PooledTransport(max_connections=AT_ONCE), timeout=60
    )
    jobs = Jobs()

    async def call(latency: float) -> int:
        response = await client.get(f"/{latency}")
        response.raise_for_status()
        return 1

    async def one_by_one(work: Work) -> int:
        return sum([await call(work.latency) for _ in range(work.records)])

    async def at_once(work: Work) -> int:
        return sum(await map_concurrently(call, [work.latency] * work.records, max_at_once=AT_ONCE))

    @jobs.job("cells/{cell}")
    async def cell(run: Run, work: Work) -> dict[str, int]:
        return {"calls": sum(await run.map(call, [work.latency] * work.records, max_at_once=AT_ONCE))}

    @asynccontextmanager
    async def lifespan(app: Starlette) -> AsyncIterator[None]:
        async with client, jobs.lifespan(app):
            yield

    return Starlette(
        routes=[
            Route("/one-by-one", Synchronous(one_by_one), methods=["POST"]),
            Route("/at-once", Synchronous(at_once), methods=["POST"]),
            Route("/settled", settled),
            Mount("/api", routes=routes(jobs)),
        ],
        lifespan=lifespan,
    )


class Synchronous:
    """An endpoint that does its work within the request.

    It stops once the gateway has hung up. Most endpoints do not: theirs would go on for minutes here, and
    what they take from the machine would be measured with the cells that come after.
    """

    under_way = 0

    def __init__(self, work: Callable[[Work], Awaitable[int]]) -> None:
        self._work = work

    async def __call__(self, scope: Scope, receive: Receive, send: Send) -> None:
        work = msgspec.json.decode(await Request(scope, receive).body(), type=Work)
        calls: int | None = None

        async def watch() -> None:
            while (await receive())["type"] != "http.disconnect":
                pass
            tasks.cancel_scope.cancel()

        Synchronous.under_way += 1
        try:
            async with anyio.create_task_group() as tasks:
                tasks.start_soon(watch)
                calls = await self._work(work)
                tasks.cancel_scope.cancel()
        finally:
            Synchronous.under_way -= 1
        if calls is not None:
            await JSONResponse({"calls": calls})(scope, receive, send)


async def settled(request: Request) -> Response:
    """Answer once no synchronous work is left: cutting off 100 calls takes a moment, too."""
    while Synchronous.under_way:
        await anyio.sleep(0.01)
    return Response(status_code=204)


def serve(remote: str) -> None:
    """Serve on a free port; the socket listens before its port is printed, so that no caller is refused."""
    with socket.create_server(("127.0.0.1", 0), backlog=2_048) as listening:
        print(listening.getsockname()[1], flush=True)
        config = uvicorn.Config(create_app(remote), loop="uvloop", http="httptools", log_level="warning")
        uvicorn.Server(config).run(sockets=[listening])


if __name__ == "__main__":
    serve(sys.argv[1])
