"""The server of the browser tests: real jobs on asynctask, driven step by step, every request written down.

Run as a process of its own. What a run does next is said to `/control/…`, which answers when it is done, so
that no test has to sleep. Each test is a tenant of its own (a cookie), so that tests do not meet.
"""

from __future__ import annotations

import argparse
import socket
from collections import defaultdict
from dataclasses import dataclass, field
from html import escape
from pathlib import Path
from typing import Any

import anyio
import msgspec
import uvicorn
from starlette.applications import Starlette
from starlette.exceptions import HTTPException
from starlette.middleware import Middleware
from starlette.requests import Request
from starlette.responses import FileResponse, HTMLResponse, JSONResponse, Response
from starlette.routing import Mount, Route
from starlette.staticfiles import StaticFiles
from starlette.types import ASGIApp, Message, Receive, Scope, Send

from asynctask import Condition, JobError, Jobs, Run
from asynctask.asgi import routes, static_files

STRICT = "default-src 'none'; script-src 'self'; style-src 'self'; connect-src 'self'; img-src 'self'"
HERE = Path(__file__).parent
BUILD = HERE / "build"
STATIC = HERE.parents[1] / "static"
GROUPS = [line.split(" | ") for line in (HERE / "groups.txt").read_text("utf-8").splitlines()]


class Fault(msgspec.Struct):
    """The next request with this method is answered as a gateway would."""

    method: str
    status: int
    headers: dict[str, str] = {}
    reached: bool = False
    """Whether the request had reached the job before the gateway gave up."""


@dataclass
class Desk:
    """What the test says about one tenant, and what was seen of it."""

    run: Run | None = None
    started: anyio.Event = field(default_factory=anyio.Event)
    ended: anyio.Event = field(default_factory=anyio.Event)
    failure: str | None = None
    log: list[dict[str, Any]] = field(default_factory=list)
    under_way: int = 0
    changed: anyio.Event = field(default_factory=anyio.Event)
    held: anyio.Event | None = None  # answers to requests with the method `hold` wait for it
    hold: str = ""
    faults: list[Fault] = field(default_factory=list)

    def tell(self) -> None:
        self.changed.set()
        self.changed = anyio.Event()


desks: defaultdict[str, Desk] = defaultdict(Desk)
jobs = Jobs(max_running_per_tenant=1, shutdown_grace=0.2)


@jobs.job("backfill", cancelable=True)
async def backfill(run: Run) -> dict[str, Any]:
    """Does nothing until it is told to end."""
    desk = desks[run.tenant]
    desk.run, desk.failure, desk.ended = run, None, anyio.Event()
    desk.started.set()
    try:
        await desk.ended.wait()
    finally:
        desk.started = anyio.Event()
    if desk.failure is not None:
        raise JobError(desk.failure)
    return {"done": True}


@jobs.job("other")
async def other(run: Run) -> None:
    """A second job, of which a run takes the tenant's only place."""
    await backfill(run)


@jobs.job("duplicates/check", cancelable=True)
async def check(run: Run) -> None:
    """The job of the demo page, driven like the others."""
    await backfill(run)


@jobs.job("quick")
async def quick(run: Run, payload: dict[str, int] | None = None) -> Any:
    """Is over before anybody can look."""
    return payload


def tenant(request: Request) -> str:
    name = request.cookies.get("tenant", "")
    if not name:
        raise HTTPException(401, "Sign in first.")
    if name.startswith("forbidden"):
        raise HTTPException(403, "Not yours.")
    return name


class Recorder:
    """Writes down every request to the jobs, and answers as told where a test wants a fault."""

    def __init__(self, app: ASGIApp) -> None:
        self.app = app

    async def __call__(self, scope: Scope, receive: Receive, send: Send) -> None:
        if scope["type"] != "http" or not scope["path"].startswith("/api/"):
            return await self.app(scope, receive, send)
        request = Request(scope)
        desk, method = desks[request.cookies.get("tenant", "")], scope["method"]
        desk.under_way += 1
        entry = {"method": method, "path": scope["path"], "at_once": desk.under_way, "status": None}
        desk.log.append(entry)
        held: list[Message] = []

        async def keep(message: Message) -> None:
            if message["type"] == "http.response.start":
                entry["status"] = message["status"]
            held.append(message)

        try:
            fault = next((one for one in desk.faults if one.method == method), None)
            if fault is None or fault.reached:
                await self.app(scope, receive, keep)
            if fault is not None:
                desk.faults.remove(fault)
                held.clear()
                answer = Response("<h1>Gateway</h1>", fault.status, fault.headers, media_type="text/html")
                await answer(scope, receive, keep)
            desk.tell()
            if desk.held is not None and desk.hold == method:
                await desk.held.wait()
            for message in held:
                await send(message)
        finally:
            desk.under_way -= 1
            entry["done"] = True
            desk.tell()


async def control(request: Request) -> Response:
    """Does what the body says, in this order, and answers when it has come to pass."""
    desk, say = desks[request.path_params["tenant"]], await request.json()
    with anyio.fail_after(10):
        if "trigger" in say:
            await jobs.trigger(say["trigger"], tenant=request.path_params["tenant"])
            await desk.started.wait()
        if say.keys() & {"total", "advance", "failed", "message", "finish", "fail"}:
            await desk.started.wait()
            assert desk.run is not None
            if "total" in say:
                desk.run.total = say["total"]
            if "message" in say:
                desk.run.message = say["message"]
            if "advance" in say or "failed" in say:
                desk.run.advance(say.get("advance", 0), failed=say.get("failed", 0))
        if "finish" in say or "fail" in say:
            assert desk.run is not None
            desk.failure = say.get("fail")
            desk.ended.set()
            await jobs.wait(desk.run.job, tenant=request.path_params["tenant"])
        if "faults" in say:
            desk.faults = msgspec.convert(say["faults"], list[Fault])
        if "hold" in say:
            desk.held, desk.hold = anyio.Event(), say["hold"]
        if say.get("release") and desk.held is not None:
            desk.held.set()
            desk.held = None
        if "forget" in say:
            desk.log.clear()
    return JSONResponse({"runId": desk.run and desk.run.run_id})


async def log(request: Request) -> Response:
    """The requests so far; with `?seen=N`, as soon as there are N of them; `?done=N`, N answered."""
    desk, query = desks[request.path_params["tenant"]], request.query_params
    seen, done = int(query.get("seen", 0)), int(query.get("done", 0))
    with anyio.move_on_after(10):
        while len(desk.log) < seen or sum("done" in entry for entry in desk.log) < done:
            await desk.changed.wait()
    return JSONResponse(desk.log)


async def index(request: Request) -> Response:
    """The demo page, as the demo serves it."""
    return FileResponse(STATIC / "index.html", headers={"Content-Security-Policy": STRICT})


async def duplicates(request: Request) -> Response:
    """A list of duplicates, empty until a run has ended."""
    run = desks[tenant(request)].run
    over = run is not None and run.finished.is_set()
    offset = int(request.query_params["offset"])
    items = [
        {
            "fingerprint": f"{n}",
            "products": [
                {"id": 17 + (977 * n + 2311 * m) % 6000, "title": title} for m, title in enumerate(same)
            ],
        }
        for n, same in enumerate(GROUPS)
    ]
    return JSONResponse(
        {
            "products": 6000,
            "runId": run.run_id if run and over else None,
            "groups": len(items) if over else None,
            "duplicates": sum(len(same) - 1 for same in GROUPS) if over else None,
            "items": items[offset : offset + int(request.query_params["limit"])] if over else [],
        }
    )


async def assessment(request: Request) -> Response:
    """The trigger condition, for the demo page."""
    verdict = Condition().assess(records=6000, latency=0.05, at_once=20)
    return Response(msgspec.json.encode(verdict), media_type="application/json")


async def page(request: Request) -> Response:
    """A page with the script and `?n=` elements, under a strict Content-Security-Policy."""
    query = {"src": "/api/backfill", **request.query_params}
    count, lang = int(query.pop("n", "1")), escape(query.pop("page-lang", "en"))
    attributes = "".join(f' {escape(name)}="{escape(value)}"' for name, value in query.items())
    element = f"<async-task{attributes}></async-task>"
    return HTMLResponse(
        f'<!doctype html><html lang="{lang}"><title>Test</title>'
        '<meta name="color-scheme" content="light dark">'
        '<link rel="icon" href="/static/icon.svg">'
        '<script type="module" src="/static/asynctask.js"></script>'
        f"<main><h1>Test</h1>{element * count}</main></html>",
        headers={"Content-Security-Policy": STRICT},
    )


async def react(request: Request) -> Response:
    """The page with Ant Design; its styles are made at run time, which a strict policy would refuse."""
    version = request.path_params["version"]
    return HTMLResponse(
        '<!doctype html><html lang="zh"><title>Test</title><link rel="icon" href="/static/icon.svg">'
        '<main><h1>回填</h1><div id="root"></div></main>'
        f'<script type="module" src="/build/react-{version}.js"></script></html>'
    )


app = Starlette(
    routes=[
        Route("/", index),
        Route("/api/duplicates", duplicates),
        Route("/api/duplicates/check/assessment", assessment),
        Mount("/api", routes=routes(jobs, tenant=tenant)),
        Route("/control/{tenant}", control, methods=["POST"]),
        Route("/control/{tenant}", log),
        Route("/page", page),
        Route("/react/{version:int}", react),
        Mount("/static", static_files()),
        Mount("/build", StaticFiles(directory=BUILD, check_dir=False)),
    ],
    middleware=[Middleware(Recorder)],
    lifespan=jobs.lifespan,
)


def main() -> None:
    """Serve on 127.0.0.1 and print the port once connections are taken."""
    parser = argparse.ArgumentParser()
    parser.add_argument("--port", type=int, default=0)
    listener = socket.socket()
    listener.setsockopt(socket.SOL_SOCKET, socket.SO_REUSEADDR, 1)
    listener.bind(("127.0.0.1", parser.parse_args().port))
    listener.listen(128)
    print(listener.getsockname()[1], flush=True)
    config = uvicorn.Config(app, lifespan="on", log_level="warning", timeout_graceful_shutdown=1)
    uvicorn.Server(config).run(sockets=[listener])


if __name__ == "__main__":
    main()
