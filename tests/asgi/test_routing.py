"""Which request reaches which endpoint, and what the rest of the application keeps."""

from __future__ import annotations

from typing import Any
from urllib.parse import urljoin

import pytest
from starlette.applications import Starlette
from starlette.middleware import Middleware
from starlette.requests import Request
from starlette.responses import PlainTextResponse
from starlette.routing import BaseRoute, Mount, Route
from starlette.testclient import TestClient
from starlette.websockets import WebSocketDisconnect

from asynctask import ConfigurationError, Jobs, Run
from asynctask.asgi import routes
from tests.asgi.support import Passing, Workshop, application, assert_problem


async def own(request: Request) -> PlainTextResponse:
    """An endpoint of the application's own."""
    return PlainTextResponse(f"own {request.method} {request.path_params}")


PASSING = [Middleware(Passing)]


@pytest.mark.parametrize(
    ("method", "path", "allow"),
    [
        ("GET", "/api/quick", "POST"),
        ("HEAD", "/api/quick", "POST"),
        ("PUT", "/api/quick", "POST"),
        ("DELETE", "/api/quick", "POST"),
        ("OPTIONS", "/api/quick", "POST"),
        ("POST", "/api/quick/status", "GET, HEAD"),
        ("GET", "/api/duplicates/check/cancel", "POST"),
        ("POST", "/api/", "GET, HEAD"),
        ("GET", "/api/imports/7/refresh", "POST"),
    ],
)
def test_a_wrong_method_is_told_the_right_ones(
    client: TestClient, shop: Workshop, method: str, path: str, allow: str
) -> None:
    """405 with `Allow` and, but for HEAD, a problem document; nothing is triggered."""
    answer = client.request(method, path)
    assert (answer.status_code, answer.headers["allow"]) == (405, allow)
    if method == "HEAD":
        assert not answer.content
    else:
        assert assert_problem(answer, 405, "method_not_allowed")["title"] == "Method Not Allowed"
    assert client.get("/api/").json() == {"items": []}


@pytest.mark.parametrize(
    "path",
    [
        "/api/nothing",
        "/api/nothing/status",
        "/api/quick/events",
        "/api/quick/status/status",
        "/api/Quick",
        "/api/quick%0A",
        "/api/quick/status%0A",
        "/api/nothing/",
        "/api//quick",
        "/api/imports//refresh",
        "/api/imports/a%2Fb/refresh",
    ],
)
@pytest.mark.parametrize("method", ["GET", "POST", "DELETE"])
def test_an_unknown_job_is_a_404_under_the_mount(client: TestClient, method: str, path: str) -> None:
    """Whatever the method, a path that is no job's is answered by a problem document."""
    problem = assert_problem(client.request(method, path), 404, "unknown_job")
    assert method in problem["detail"]
    assert "duplicates/check" not in problem["detail"], "strangers are not told which jobs there are"


@pytest.mark.parametrize("path", ["/nothing", "/", "/apix", "/ap", "/quick", "/quick/status"])
def test_elsewhere_the_404_is_the_applications_own(client: TestClient, path: str) -> None:
    """Outside the mount nothing changes."""
    answer = client.get(path)
    assert (answer.status_code, answer.text) == (404, "Not Found")


def test_routes_that_are_not_mounted_leave_every_other_path_alone(shop: Workshop) -> None:
    """Spliced at the top of an application, the routes answer for jobs only."""
    app = Starlette(routes=[*routes(shop.jobs), Route("/own", own)], lifespan=shop.jobs.lifespan)
    with TestClient(app) as client:
        assert client.post("/quick").status_code == 202
        assert client.get("/own").text == "own GET {}"
        assert client.get("/nothing").text == "Not Found"
        assert client.post("/own").text == "Method Not Allowed"


@pytest.mark.parametrize("first", [True, False])
@pytest.mark.parametrize("middleware", [None, PASSING])
def test_own_routes_in_the_same_mount(
    shop: Workshop, first: bool, middleware: list[Middleware] | None
) -> None:
    """Beside the jobs, wherever they stand, the application's own routes work as without them.

    Where middleware of the mount's own hides its routes, their 405 and redirects become ours.
    """
    mine: list[BaseRoute] = [
        Route("/own", own),
        Route("/slashed/", own),
        Mount("/files", routes=[Route("/a", own)]),
    ]
    ours = routes(shop.jobs)
    mount = Mount("/api", routes=[*mine, *ours] if first else [*ours, *mine], middleware=middleware)
    with TestClient(Starlette(routes=[mount], lifespan=shop.jobs.lifespan)) as client:
        assert client.post("/api/quick").status_code == 202
        assert client.get("/api/own").text == "own GET {}"
        assert client.get("/api/slashed/").text == "own GET {}"
        assert client.get("/api/files/a").text == "own GET {}"
        assert_problem(client.get("/api/nothing"), 404, "unknown_job")
        assert client.get("/api/files/b").text == "Not Found"
        if first or not middleware:
            assert client.post("/api/own").text == "Method Not Allowed"
        if not middleware:
            assert client.get("/api/slashed").text == "own GET {}"
            assert client.get("/api/own/").text == "own GET {}"


def test_two_registries_share_a_mount(shop: Workshop) -> None:
    """The routes of several registries can be spliced into one mount; the rest is still a 404."""
    others = Jobs()

    @others.job("exports")
    async def exports(run: Run) -> None:
        return None

    mount = Mount("/api", routes=[*routes(shop.jobs), *routes(others)])
    app = Starlette(routes=[mount], lifespan=shop.jobs.lifespan)
    with TestClient(app) as client:
        assert client.get("/api/quick/status").status_code == 200
        assert client.get("/api/exports/status").status_code == 200
        assert_problem(client.post("/api/exports"), 503, "not_started")
        assert_problem(client.get("/api/nothing"), 404, "unknown_job")


@pytest.mark.parametrize(
    ("method", "path"),
    [("POST", "/api/quick"), ("GET", "/api/quick/status"), ("GET", "/api/imports/7/refresh/status")],
)
@pytest.mark.parametrize("middleware", [None, PASSING])
def test_a_trailing_slash_is_redirected(
    shop: Workshop, method: str, path: str, middleware: list[Middleware] | None
) -> None:
    """As everywhere in Starlette, `…/` leads to `…` by a redirect that keeps the method."""
    app = Starlette(
        routes=[Mount("/api", routes=routes(shop.jobs), middleware=middleware)], lifespan=shop.jobs.lifespan
    )
    with TestClient(app) as client:
        answer = client.request(method, path + "/", follow_redirects=False)
        assert answer.status_code == 307
        assert urljoin("http://testserver" + path + "/", answer.headers["location"]).endswith(path)
        assert client.request(method, path + "/").status_code in (200, 202)


def test_the_mount_itself_is_the_list(client: TestClient) -> None:
    """`GET /` of the mount lists runs; without the slash Starlette redirects to it."""
    assert client.get("/api/").json() == {"items": []}
    assert client.get("/api", follow_redirects=False).status_code == 307
    assert client.get("/api").json() == {"items": []}


def test_paths_with_parameters_do_not_shadow_fixed_ones() -> None:
    """The order of registration does not decide which job answers."""
    jobs = Jobs()

    async def named(run: Run) -> str:
        return run.job

    jobs.job("{kind}/{number}/sync")(named)
    jobs.job("shops/north/sync/all")(named)
    jobs.job("sync")(named)
    with TestClient(application(jobs)) as client:
        for path in ("sync", "shops/north/sync", "shops/north/sync/all", "status/cancel/sync"):
            assert client.post(f"/api/{path}").json()["key"] == path
        assert client.post("/api/a/b/sync").json()["job"] == "{kind}/{number}/sync"


def test_a_websocket_is_none_of_ours(client: TestClient) -> None:
    """A websocket to the mount is refused by Starlette, not by an error of ours."""
    with pytest.raises(WebSocketDisconnect):
        with client.websocket_connect("/api/quick"):
            pass


def test_routes_have_names(shop: Workshop) -> None:
    """Applications can make URLs by name."""
    app = application(shop.jobs)
    assert app.url_path_for("asynctask:list") == "/api/"
    assert app.url_path_for("asynctask:quick") == "/api/quick"
    assert app.url_path_for("asynctask:duplicates/check:status") == "/api/duplicates/check/status"
    assert app.url_path_for("asynctask:imports/{file_id}/refresh:cancel", file_id="7") == (
        "/api/imports/7/refresh/cancel"
    )


def test_jobs_cannot_be_registered_after_their_routes(shop: Workshop) -> None:
    """A job without a route would never be reached, so registering it late is an error that says so."""
    routes(shop.jobs)
    with pytest.raises(ConfigurationError, match="after routes"):

        @shop.jobs.job("late")
        async def late(run: Run) -> None: ...


@pytest.mark.parametrize(
    ("options", "named"),
    [
        ({"tenant": "acme"}, "tenant='acme'"),
        ({"max_wait": -1}, "max_wait=-1"),
        ({"max_wait": float("nan")}, "max_wait=nan"),
        ({"max_wait": float("inf")}, "max_wait=inf"),
        ({"max_wait": True}, "max_wait=True"),
        ({"max_wait": "10"}, "max_wait='10'"),
        ({"max_wait": None}, "max_wait=None"),
        ({"allowed_origins": "https://a.example"}, "allowed_origins="),
    ],
)
def test_unfit_options_are_refused_when_the_routes_are_made(
    shop: Workshop, options: dict[str, Any], named: str
) -> None:
    """A mistake is an error at start, with the value in it."""
    with pytest.raises(ConfigurationError, match=named):
        routes(shop.jobs, **options)


def test_routes_of_nothing_are_refused() -> None:
    """Without jobs, or with something that is no registry, there is nothing to route."""
    with pytest.raises(ConfigurationError, match="before any job was registered"):
        routes(Jobs())
    with pytest.raises(ConfigurationError, match="Jobs object first"):
        routes("duplicates/check")  # type: ignore[arg-type]
