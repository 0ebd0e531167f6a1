"""Whom a run belongs to within other applications: mounts, dependencies, middleware."""

from __future__ import annotations

from contextvars import ContextVar

import pytest
from fastapi import Depends, FastAPI
from starlette.applications import Starlette
from starlette.authentication import AuthCredentials, AuthenticationBackend, SimpleUser
from starlette.middleware import Middleware
from starlette.middleware.authentication import AuthenticationMiddleware
from starlette.middleware.cors import CORSMiddleware
from starlette.requests import HTTPConnection, Request
from starlette.routing import Mount
from starlette.testclient import TestClient
from starlette.types import ASGIApp, Receive, Scope, Send

from asynctask import Jobs, Run
from asynctask.asgi import routes
from tests.asgi.support import Passing, Workshop, assert_problem, by_header, over_asgi

tenant_variable: ContextVar[str] = ContextVar("tenant_variable", default="nobody's")


def test_a_path_parameter_of_an_outer_mount_can_be_the_tenant() -> None:
    """It is no part of the key, but the tenant function can read it."""
    shop = Workshop()

    def by_org(request: Request) -> str:
        return str(request.path_params["org"])

    mount = Mount("/orgs/{org}", routes=[Mount("/jobs", routes=routes(shop.jobs, tenant=by_org))])
    with TestClient(Starlette(routes=[mount], lifespan=shop.jobs.lifespan)) as client:
        client.post("/orgs/acme/jobs/imports/7/refresh")
        assert client.get("/orgs/acme/jobs/imports/7/refresh/status").json()["status"] == "RUNNING"
        assert client.get("/orgs/globex/jobs/imports/7/refresh/status").json()["status"] == "IDLE"
    assert [(run.tenant, dict(run.params)) for run in shop.runs] == [("acme", {"file_id": "7"})]


def test_a_sync_dependency_that_sets_a_variable_gives_no_tenant() -> None:
    """Its variable does not reach an async endpoint, so a tenant read from it would be the default.

    The tenant of a run comes from the request; the default of a variable is never taken for one.
    """
    shop = Workshop()

    def remember(request: Request) -> None:
        tenant_variable.set(request.headers["x-tenant"])

    app = FastAPI(lifespan=shop.jobs.lifespan, dependencies=[Depends(remember)])
    app.add_middleware(Passing)
    app.mount("/api", Starlette(routes=routes(shop.jobs, tenant=by_header)))
    seen = []

    @app.post("/own")
    async def own(request: Request) -> dict[str, bool]:
        seen.append(tenant_variable.get())
        snapshot = await shop.jobs.trigger("duplicates/check", tenant=request.headers["x-tenant"])
        return {"started": bool(snapshot.started)}

    with TestClient(app) as client:
        acme = {"X-Tenant": "acme"}
        assert client.post("/own", headers=acme).json() == {"started": True}
        assert client.post("/api/duplicates/check", headers=acme).json()["started"] is False
        assert client.post("/api/duplicates/check", headers={"X-Tenant": "globex"}).json()["started"] is True
        assert_problem(client.post("/api/duplicates/check"), 401, "unauthenticated")
    assert seen == ["nobody's"], "FastAPI carries a sync dependency's variables along now: simplify the docs"
    assert [run.tenant for run in shop.runs] == ["acme", "globex"]


@pytest.mark.anyio
async def test_a_job_sees_what_its_trigger_set_in_the_context() -> None:
    """Variables of the request reach the job through every middleware, and later requests do not."""
    jobs = Jobs()

    @jobs.job("remember")
    async def remember(run: Run) -> str:
        return tenant_variable.get()

    class Setting:
        def __init__(self, app: ASGIApp) -> None:
            self.app = app

        async def __call__(self, scope: Scope, receive: Receive, send: Send) -> None:
            if scope["type"] == "http":
                tenant_variable.set(dict(scope["headers"])[b"x-tenant"].decode())
            await self.app(scope, receive, send)

    app = Starlette(
        routes=[Mount("/api", routes=routes(jobs, tenant=by_header))],
        middleware=[Middleware(Setting), Middleware(Passing)],
    )
    async with jobs, over_asgi(app) as client:
        for name in ("acme", "globex", "acme"):
            headers = {"X-Tenant": name, "Prefer": "wait=10"}
            assert (await client.post("/api/remember", headers=headers)).json()["result"] == name


class Basic(AuthenticationBackend):
    """Whoever names themselves is signed in."""

    async def authenticate(self, conn: HTTPConnection) -> tuple[AuthCredentials, SimpleUser] | None:
        name = conn.headers.get("x-user")
        return None if name is None else (AuthCredentials(["authenticated"]), SimpleUser(name))


def by_user(request: Request) -> str | None:
    """The tenant as the README has it: from the signed-in user."""
    return request.user.username if request.user.is_authenticated else None


def test_the_user_of_authentication_middleware() -> None:
    """With the middleware, the user is the tenant; without it, everybody is refused and the log says why."""
    shop = Workshop()
    app = Starlette(
        routes=[Mount("/api", routes=routes(shop.jobs, tenant=by_user))],
        middleware=[Middleware(AuthenticationMiddleware, backend=Basic())],
        lifespan=shop.jobs.lifespan,
    )
    with TestClient(app) as client:
        assert client.post("/api/quick", headers={"X-User": "ada"}).status_code == 202
        assert_problem(client.post("/api/quick"), 401, "unauthenticated")
    without = Starlette(routes=[Mount("/api", routes=routes(Workshop().jobs, tenant=by_user))])
    assert_problem(TestClient(without).post("/api/quick"), 403, "forbidden")


def test_an_allowed_origin_behind_cors_middleware() -> None:
    """A page of another origin that the application lets in: preflight, trigger, readable answer."""
    shop = Workshop()
    origin = "https://app.example.com"
    app = Starlette(
        routes=[Mount("/api", routes=routes(shop.jobs, allowed_origins=[origin]))],
        middleware=[Middleware(CORSMiddleware, allow_origins=[origin], allow_methods=["POST"])],
        lifespan=shop.jobs.lifespan,
    )
    with TestClient(app) as client:
        preflight = client.options(
            "/api/quick", headers={"Origin": origin, "Access-Control-Request-Method": "POST"}
        )
        assert preflight.status_code == 200
        answer = client.post("/api/quick", headers={"Origin": origin, "Sec-Fetch-Site": "cross-site"})
        assert (answer.status_code, answer.headers["access-control-allow-origin"]) == (202, origin)
