"""The demo: a duplicate check over 6,000 products, each needing a call to a slow remote API.

    python app.py            then open http://127.0.0.1:8000, or use the curl lines that it prints

As a job it is done in seconds while everybody watches its progress; `GET /sync/duplicates` is the same work
the wrong way, one call after the other within the request, until a gateway would cut it off.
"""

from __future__ import annotations

import os
from contextlib import aclosing, asynccontextmanager, nullcontext, suppress
from time import perf_counter
from typing import TYPE_CHECKING

import anyio
import anyio.to_thread
import httpx
import msgspec
from starlette.applications import Starlette
from starlette.exceptions import HTTPException
from starlette.middleware import Middleware
from starlette.responses import JSONResponse, Response
from starlette.routing import Mount, Route

from asynctask import AsyncTaskError, Condition, Jobs, MemoryStore, Run
from asynctask.asgi import routes
from demo import remote_api
from demo.catalogue import CatalogueError
from demo.duplicates import MemoryShelf, RemoteApi, Shelf, find
from demo.options import fail, listen, parse
from demo.redis_server import RedisServer
from demo.serve import announce, configure_logging, serve
from demo.web import MoreHeaders, on_http_exception, page, problem, tenant, whole_number

if TYPE_CHECKING:
    import socket
    from collections.abc import AsyncIterator, Mapping

    from starlette.requests import Request

    from asynctask.stores.base import Store
    from demo.catalogue import Catalogue
    from demo.options import Settings

CHECK = "duplicates/check"
NO_STORE = {"Cache-Control": "no-store"}


def create_app(settings: Settings, catalogues: Mapping[str, Catalogue]) -> Starlette:
    """The application as a server runs it.

    Args:
        settings: from the command line; `remote` must name a running remote API.
        catalogues: the products of each tenant.
    """
    remote = RemoteApi(settings.remote, max_connections=settings.max_at_once * len(catalogues))
    shelf, store = _memory() if settings.redis is None else _redis(settings.redis)
    jobs = Jobs(store=store, shutdown_grace=2.0)

    @jobs.job(CHECK, cancelable=True)
    async def check_duplicates(run: Run) -> dict[str, int]:
        titles = catalogues[run.tenant].titles
        prints = await run.map(remote.fingerprint, titles, max_at_once=settings.max_at_once)
        found = await anyio.to_thread.run_sync(find, run.run_id, titles, prints)
        await shelf.put(run.tenant, found)  # the result set is the application's; the status keeps a summary
        return found.summary

    async def duplicates(request: Request) -> Response:
        """The list that the check refreshes, one part at a time: `?offset=0&limit=50`."""
        owner = tenant(request)
        offset = whole_number(request, "offset", 0, 0, 100_000_000)
        limit = whole_number(request, "limit", 50, 1, 1_000)
        found, catalogue = await shelf.get(owner), catalogues[owner]
        body = {
            "tenant": owner,
            "catalogue": catalogue.source,
            "products": len(catalogue.titles),
            "runId": found and found.run_id,
            "groups": found and found.summary["groups"],
            "duplicates": found and found.summary["duplicates"],
            "offset": offset,
            "items": found.groups[offset : offset + limit] if found else [],
        }
        return Response(msgspec.json.encode(body), media_type="application/json", headers=NO_STORE)

    async def assessment(request: Request) -> Response:
        """Whether the check is warranted to be a job: from what its runs measured, else from the settings."""
        records = len(catalogues[tenant(request)].titles)
        verdict = jobs.assess(CHECK)
        if verdict.measured is None or not verdict.measured.runs:
            verdict = Condition().assess(
                records=records, latency=settings.latency, at_once=settings.max_at_once
            )
        return Response(msgspec.json.encode(verdict), media_type="application/json", headers=NO_STORE)

    async def synchronous(request: Request) -> Response:
        """The wrong way: one call after the other, cut off as a gateway would."""
        titles = catalogues[tenant(request)].titles
        started, prints = perf_counter(), []
        try:
            with anyio.move_on_after(settings.gateway_limit):
                for title in titles:
                    prints.append(await remote.fingerprint(title))  # noqa: PERF401 - how far it got is told below
        except httpx.HTTPError as error:
            return problem(502, "bad_gateway", f"The remote API failed: {error or type(error).__name__}")
        if len(prints) < len(titles):
            return problem(
                504,
                "gateway_timeout",
                f"No answer within {settings.gateway_limit:g} s: {len(prints):,} of {len(titles):,} products "
                f"were checked, and all of it is lost. POST /api/{CHECK} does the same as a job.",
            )
        found = await anyio.to_thread.run_sync(find, "", titles, prints)
        return JSONResponse(
            {**found.summary, "seconds": round(perf_counter() - started, 3)}, headers=NO_STORE
        )

    @asynccontextmanager
    async def lifespan(app: Starlette) -> AsyncIterator[None]:
        async with (
            remote,
            aclosing(shelf),
            jobs.lifespan(app),
        ):  # the connections outlive the jobs that use them
            yield

    return Starlette(
        routes=[
            Mount(
                "/api",
                routes=[
                    Route("/duplicates", duplicates),
                    Route(f"/{CHECK}/assessment", assessment),
                    *routes(jobs, tenant=tenant),
                ],
            ),
            Route("/sync/duplicates", synchronous),
            *page(),
        ],
        lifespan=lifespan,
        middleware=[Middleware(MoreHeaders, {"X-Worker": str(os.getpid())})] if settings.redis else [],
        exception_handlers={HTTPException: on_http_exception},
    )


def _memory() -> tuple[Shelf, Store]:
    return MemoryShelf(), MemoryStore()


def _redis(url: str) -> tuple[Shelf, Store]:
    from asynctask.stores.redis import RedisStore  # imported where it is used: it needs the [redis] extra
    from demo.cluster import RedisShelf

    return RedisShelf(url), RedisStore(url)


def from_environment() -> Starlette:
    """The application of one of several worker processes."""
    from demo.cluster import settings_of_worker

    configure_logging()
    settings = settings_of_worker()
    return create_app(settings, settings.catalogues())


def main(arguments: list[str] | None = None) -> None:
    """Start the remote API and serve the demo until it is interrupted.

    Args:
        arguments: of the command line; by default the process's own.
    """
    settings = parse(arguments)
    try:
        catalogues = settings.catalogues()
    except CatalogueError as error:
        fail(str(error))
    listener = listen(settings.host, settings.port)
    with suppress(KeyboardInterrupt), listener, remote_api.running(settings.latency) as remote:
        settings = msgspec.structs.replace(settings, remote=remote)
        if settings.workers == 1 and settings.redis is None:
            announce(settings, catalogues, listener)
            serve(create_app(settings, catalogues), listener)
        else:
            serve_shared(settings, catalogues, listener)


def serve_shared(settings: Settings, catalogues: Mapping[str, Catalogue], listener: socket.socket) -> None:
    """Serve with the state in Redis, which is started here unless the settings name one."""
    try:
        from demo import cluster
    except ImportError as error:
        fail(f"Redis needs what 'make demo-cluster' installs: {error}")
    try:
        with nullcontext() if settings.redis else RedisServer() as own:
            settings = msgspec.structs.replace(settings, redis=own.url if own else settings.redis)
            cluster.check(settings)
            announce(settings, catalogues, listener)
            if settings.workers == 1:
                serve(create_app(settings, catalogues), listener)
            else:
                cluster.serve_workers(settings, listener)
    except (AsyncTaskError, RuntimeError, FileNotFoundError) as error:
        fail(str(error))


if __name__ == "__main__":
    main()
