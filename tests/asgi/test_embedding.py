"""The routes within other applications: mounts, FastAPI, middleware, proxies."""

from __future__ import annotations

from collections.abc import AsyncIterator, Callable
from contextlib import asynccontextmanager
from typing import Any
from urllib.parse import urljoin

import anyio
import pytest
from fastapi import APIRouter, FastAPI
from starlette.applications import Starlette
from starlette.middleware import Middleware
from starlette.middleware.gzip import GZipMiddleware
from starlette.responses import PlainTextResponse
from starlette.routing import Host, Mount, Route, Router
from starlette.testclient import TestClient
from starlette.types import ASGIApp, Receive, Scope, Send

from asynctask import Jobs, Run
from asynctask.asgi import routes
from tests.asgi.support import Passing, Workshop, assert_problem, settled


def stripping(app: ASGIApp, prefix: str) -> ASGIApp:
    """A proxy in front that forwards `{prefix}/…` as `/…`, without telling the application of it."""

    async def proxy(scope: Scope, receive: Receive, send: Send) -> None:
        if scope["type"] == "http":
            assert scope["path"].startswith(prefix + "/")
            stripped = scope["path"].removeprefix(prefix)
            scope = {**scope, "path": stripped, "raw_path": stripped.encode()}
        await app(scope, receive, send)

    return proxy


def rooted(app: ASGIApp, root_path: str) -> ASGIApp:
    """What servers do with `--root-path`: the path begins with the prefix that the proxy stripped."""

    async def server(scope: Scope, receive: Receive, send: Send) -> None:
        if scope["type"] == "http":
            scope = {**scope, "path": root_path + scope["path"], "root_path": root_path}
        await app(scope, receive, send)

    return server


def mounted(jobs: Jobs) -> ASGIApp:
    return Starlette(routes=[Mount("/api", routes=routes(jobs))], lifespan=jobs.lifespan)


def nested(jobs: Jobs) -> ASGIApp:
    inner = Mount("/v1", routes=[Mount("/jobs", routes=routes(jobs))])
    return Starlette(routes=[Mount("/orgs/{file_id:int}", routes=[inner])], lifespan=jobs.lifespan)


def spliced(jobs: Jobs) -> ASGIApp:
    return Starlette(routes=routes(jobs), lifespan=jobs.lifespan)


def bare_router(jobs: Jobs) -> ASGIApp:
    return Router(routes=routes(jobs), lifespan=jobs.lifespan)


def sub_application(jobs: Jobs) -> ASGIApp:
    sub = Starlette(routes=routes(jobs))
    return Starlette(routes=[Mount("/api", app=sub)], lifespan=jobs.lifespan)


def by_host(jobs: Jobs) -> ASGIApp:
    host = Host("testserver", app=Router(routes=routes(jobs)))
    return Starlette(routes=[host], lifespan=jobs.lifespan)


def fastapi_mount(jobs: Jobs) -> ASGIApp:
    app = FastAPI(lifespan=jobs.lifespan)
    app.mount("/api", Starlette(routes=routes(jobs)))
    return app


def fastapi_routes(jobs: Jobs) -> ASGIApp:
    return FastAPI(routes=[Mount("/api", routes=routes(jobs))], lifespan=jobs.lifespan)


def fastapi_router(jobs: Jobs) -> ASGIApp:
    app = FastAPI(lifespan=jobs.lifespan)
    app.include_router(APIRouter(routes=[*routes(jobs)]), prefix="/api")
    return app


def fastapi_root_path(jobs: Jobs) -> ASGIApp:
    return rooted(fastapi_mount(jobs), "/shop")


def behind_a_proxy(jobs: Jobs) -> ASGIApp:
    return stripping(mounted(jobs), "/shop/eu")


def behind_middleware(jobs: Jobs) -> ASGIApp:
    middleware = [Middleware(Passing), Middleware(GZipMiddleware, minimum_size=1), Middleware(Passing)]
    return Starlette(
        routes=[Mount("/api", routes=routes(jobs))], middleware=middleware, lifespan=jobs.lifespan
    )


def middleware_of_the_mount(jobs: Jobs) -> ASGIApp:
    mount = Mount("/api", routes=routes(jobs), middleware=[Middleware(Passing)])
    return Starlette(routes=[mount], lifespan=jobs.lifespan)


EMBEDDINGS = [
    (mounted, "/api"),
    (nested, "/orgs/12/v1/jobs"),
    (spliced, ""),
    (bare_router, ""),
    (sub_application, "/api"),
    (by_host, ""),
    (fastapi_mount, "/api"),
    (fastapi_routes, "/api"),
    (fastapi_router, "/api"),
    (fastapi_root_path, "/api"),
    (behind_a_proxy, "/shop/eu/api"),
    (behind_middleware, "/api"),
    (middleware_of_the_mount, "/api"),
]


@pytest.mark.parametrize(("embed", "prefix"), EMBEDDINGS, ids=lambda value: getattr(value, "__name__", ""))
def test_every_embedding(embed: Callable[[Jobs], ASGIApp], prefix: str, anyio_backend: Any) -> None:
    """Trigger, join, Location, status, 304, payload, wait, cancel and list work the same everywhere."""
    shop = Workshop()

    @shop.jobs.job("echo")
    async def echo(run: Run, payload: dict[str, int]) -> dict[str, int]:
        return payload

    with TestClient(embed(shop.jobs), backend=anyio_backend) as client:
        for path in ("/duplicates/check", "/imports/7/refresh", "/files/a%3Ab"):
            url = f"http://testserver{prefix}{path}"
            started = client.post(url)
            assert (started.status_code, started.json()["started"]) == (202, True)
            assert client.post(url).json()["started"] is False
            status = client.get(urljoin(url, started.headers["location"]))
            assert status.json()["runId"] == started.json()["runId"]
            assert status.json()["key"] == path[1:]
            known = {"If-None-Match": status.headers["etag"]}
            assert client.get(f"{url}/status", headers=known).status_code == 304
        answer = client.post(f"{prefix}/echo", json={"a": 1}, headers={"Prefer": "wait=10"})
        assert (answer.status_code, answer.json()["result"]) == (200, {"a": 1})
        assert_problem(client.post(f"{prefix}/echo", json=[]), 422, "invalid_payload")
        assert client.post(f"{prefix}/duplicates/check/cancel").json()["cancelRequested"] is True
        assert settled(client, f"{prefix}/duplicates/check")["errorCode"] == "cancelled"
        assert len(client.get(f"{prefix}/").json()["items"]) == 4
        for params in (run.params for run in shop.runs):
            assert params in ({}, {"file_id": "7"}, {"name": "a:b"})


def test_own_routes_of_a_fastapi_application() -> None:
    """Beside the mount and after an included router, its own routes, 404s and documentation are as before."""
    shop = Workshop()
    app = FastAPI(lifespan=shop.jobs.lifespan)
    app.include_router(APIRouter(routes=[*routes(shop.jobs)]))

    @app.get("/own")
    async def own() -> dict[str, str]:
        return {"own": "yes"}

    app.mount("/pages", Starlette(routes=[Route("/a", lambda request: PlainTextResponse("a"))]))
    with TestClient(app) as client:
        assert client.post("/quick").status_code == 202
        assert client.get("/own").json() == {"own": "yes"}
        assert client.get("/nothing").json() == {"detail": "Not Found"}
        assert client.post("/own").json() == {"detail": "Method Not Allowed"}
        assert client.get("/pages/a").text == "a"
        assert client.get("/pages/b").text == "Not Found"
        assert [*client.get("/openapi.json").json()["paths"]] == ["/own"]


@pytest.mark.parametrize(
    "embed", [mounted, sub_application, fastapi_mount, fastapi_router], ids=lambda embed: embed.__name__
)
def test_without_the_lifespan_a_trigger_is_a_503(embed: Callable[[Jobs], ASGIApp]) -> None:
    """A TestClient without `with` runs no lifespan: nothing is started silently."""
    shop = Workshop()
    client = TestClient(embed(shop.jobs))
    problem = assert_problem(client.post("/api/quick"), 503, "not_started")
    assert "with TestClient(app)" in problem["detail"]
    assert client.get("/api/quick/status").json()["status"] == "IDLE"


def test_the_lifespan_of_a_mounted_application_is_not_run() -> None:
    """Starlette and FastAPI run that of the outermost one only; the 503 says so."""
    shop = Workshop()
    sub = Starlette(routes=routes(shop.jobs), lifespan=shop.jobs.lifespan)
    app = FastAPI()
    app.mount("/api", sub)
    with TestClient(app) as client:
        problem = assert_problem(client.post("/api/quick"), 503, "not_started")
        assert "outermost" in problem["detail"]


def test_an_application_with_a_lifespan_of_its_own() -> None:
    """It enters `async with jobs:` within, and what it opened before outlives the runs."""
    shop = Workshop()
    order = []

    @shop.jobs.job("last")
    async def last(run: Run) -> None:
        try:
            await anyio.sleep_forever()
        finally:
            order.append("run over")

    @asynccontextmanager
    async def lifespan(app: Starlette) -> AsyncIterator[dict[str, str]]:
        async with shop.jobs:
            yield {"database": "open"}
        order.append("database closed")

    app = Starlette(routes=[Mount("/api", routes=routes(shop.jobs))], lifespan=lifespan)
    for _ in range(2):  # an application can be started again
        order.clear()
        with TestClient(app) as client:
            assert client.post("/api/last").status_code == 202
            client.get("/api/last/status")
        assert order == ["run over", "database closed"]
