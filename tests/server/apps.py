"""What the server tests serve, each named on uvicorn's command line."""

from __future__ import annotations

import asyncio
import logging
import sys
import threading
from collections.abc import Sequence
from contextvars import ContextVar
from typing import Any

import anyio
from starlette.applications import Starlette
from starlette.middleware import Middleware
from starlette.requests import Request
from starlette.responses import JSONResponse
from starlette.routing import Mount, Route
from starlette.types import ASGIApp, Receive, Scope, Send

from asynctask import AsyncTaskError, Jobs, Run
from asynctask.asgi import routes
from tests.asgi.support import Passing

logging.basicConfig(
    stream=sys.stdout,
    level=logging.INFO,
    format="%(levelname)s|%(name)s|%(job)s|%(run_id)s|%(tenant)s|%(message)s",
)

last_tenant: ContextVar[str | None] = ContextVar("last_tenant", default=None)


class Remembering:
    """Middleware that keeps the tenant in a context variable, and forgets to reset it."""

    def __init__(self, app: ASGIApp) -> None:
        self.app = app

    async def __call__(self, scope: Scope, receive: Receive, send: Send) -> None:
        tenant = dict(scope.get("headers", ())).get(b"x-tenant")
        if tenant is not None:
            last_tenant.set(tenant.decode())
        await self.app(scope, receive, send)


def by_header(request: Request) -> str | None:
    """The tenant of this request, whatever an earlier one on the connection was."""
    return request.headers.get("x-tenant")


def make(middleware: Sequence[Middleware] = (), tenant: Any = None, grace: float = 0.5) -> Starlette:
    """An application with jobs for every occasion under `/api`."""
    jobs = Jobs(shutdown_grace=grace)
    gates: list[anyio.Event] = []

    async def held(run: Run) -> dict[str, str | None]:
        gate = anyio.Event()
        gates.append(gate)
        await gate.wait()
        return {"tenant": run.tenant, "variable": last_tenant.get()}

    jobs.job("held")(held)
    jobs.job("files/{name}")(held)

    @jobs.job("counted")
    async def counted(run: Run) -> None:
        run.total = 100
        for number in range(100):
            run.advance(failed=int(number % 10 == 9))
            await anyio.lowlevel.checkpoint()

    @jobs.job("leaving")
    async def leaving(run: Run) -> None:
        sys.exit(3)

    @jobs.job("interrupting")
    async def interrupting(run: Run) -> None:
        raise KeyboardInterrupt

    @jobs.job("broken")
    async def broken(run: Run) -> None:
        raise RuntimeError("the price list is gone")

    @jobs.job("blocking")
    async def blocking(run: Run) -> None:
        threading.Event().wait(0.4)  # blocks the event loop, as a forgotten `requests.get` would

    @jobs.job("farewell")
    async def farewell(run: Run) -> str:
        while True:
            try:
                jobs.runner.check()
            except AsyncTaskError:
                return "done in the grace period"
            await anyio.sleep(0.01)

    async def release(request: Request) -> JSONResponse:
        for gate in gates:
            gate.set()
        return JSONResponse(len(gates))

    async def under_way(request: Request) -> JSONResponse:
        """How many requests the server is working on, this one apart."""
        names = [getattr(task.get_coro(), "__qualname__", "") for task in asyncio.all_tasks()]
        return JSONResponse(sum("run_asgi" in name for name in names) - 1)

    return Starlette(
        routes=[
            Mount("/api", routes=routes(jobs, tenant=tenant, max_wait=1.0 if grace else 600.0)),
            Route("/release", release, methods=["POST"]),
            Route("/under-way", under_way),
        ],
        middleware=middleware,
        lifespan=jobs.lifespan,
    )


plain = make()
wrapped = make([Middleware(Passing), Middleware(Passing)])
remembering = make([Middleware(Remembering)], tenant=by_header)
patient = make(grace=0)
patient_wrapped = make([Middleware(Passing)], grace=0)
