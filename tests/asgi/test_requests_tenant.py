"""Whose request it is: what the application's tenant function says, and what happens when it cannot."""

from __future__ import annotations

import enum
import logging
from collections.abc import Callable
from typing import Any

import anyio
import pytest
from starlette.exceptions import HTTPException
from starlette.requests import ClientDisconnect, Request
from starlette.testclient import TestClient

from asynctask import JobError, StoreUnavailableError
from tests.asgi.support import Workshop, application, assert_problem, by_header, inside, settled

ROUTES = [
    ("POST", "/api/duplicates/check"),
    ("GET", "/api/duplicates/check/status"),
    ("POST", "/api/duplicates/check/cancel"),
    ("GET", "/api/"),
]
every_route = pytest.mark.parametrize(("method", "path"), ROUTES)


def asked(tenant: Callable[[Request], Any], method: str, path: str, **request: Any) -> Any:
    """The answer of a fresh application with this tenant function; what it refuses must start nothing."""
    shop = Workshop()
    with TestClient(application(shop.jobs, tenant=tenant)) as client:
        answer = client.request(method, path, **request)
        if answer.status_code >= 300:
            assert inside(client, lambda: shop.runs) == []
    return answer


def raising(exc: BaseException) -> Callable[[Request], str]:
    """A tenant function that raises."""

    def tenant(request: Request) -> str:
        raise exc

    return tenant


@every_route
@pytest.mark.parametrize("said", [None, ""])
def test_nobody_is_a_401(method: str, path: str, said: str | None) -> None:
    """A request that is nobody's is refused, with the challenge that RFC 9110 (15.5.2) asks of a 401."""
    answer = asked(lambda request: said, method, path)
    assert_problem(answer, 401, "unauthenticated")
    assert answer.headers["www-authenticate"]


@every_route
@pytest.mark.parametrize("said", [7, True, b"acme", ["acme"], {"id": 7}, object()])
def test_what_is_no_text_is_the_applications_mistake(
    method: str, path: str, said: object, caplog: pytest.LogCaptureFixture
) -> None:
    """A number would be one key with another tenant's text, so it is refused and the log says what to do."""
    assert_problem(asked(lambda request: said, method, path), 500, "tenant_not_text")
    assert any("return text" in record.getMessage() for record in caplog.records)


@every_route
def test_an_http_exception_keeps_status_text_and_headers(method: str, path: str) -> None:
    """An application that already knows how to refuse does so in its own words, as a problem document."""
    exc = HTTPException(
        401, "Sign in at /login.", {"WWW-Authenticate": 'Bearer realm="shop"', "X-Extra": "1"}
    )
    answer = asked(raising(exc), method, path)
    assert assert_problem(answer, 401, "unauthenticated")["detail"] == "Sign in at /login."
    assert answer.headers["www-authenticate"] == 'Bearer realm="shop"'
    assert answer.headers["x-extra"] == "1"


@pytest.mark.parametrize(
    ("status", "code"),
    [(403, "forbidden"), (402, "refused"), (429, "refused"), (451, "refused"), (499, "refused")],
)
def test_other_statuses_of_an_http_exception(status: int, code: str) -> None:
    """Any status of the application's is passed on."""
    assert_problem(asked(raising(HTTPException(status, "Not today.")), "GET", ROUTES[1][1]), status, code)


def test_an_http_exception_of_fastapi_with_a_structure() -> None:
    """FastAPI allows any JSON for the detail; a problem document holds text."""
    from fastapi import HTTPException as FastAPIException

    answer = asked(raising(FastAPIException(403, {"reason": "trial is over"})), "GET", ROUTES[1][1])
    assert "trial is over" in assert_problem(answer, 403, "forbidden")["detail"]


def test_an_http_exception_may_redirect() -> None:
    """A redirect to a login page is passed on with its Location."""
    exc = HTTPException(303, "See the login page.", {"Location": "/login"})
    answer = asked(raising(exc), *ROUTES[0], follow_redirects=False)
    assert (answer.status_code, answer.headers["location"]) == (303, "/login")


@every_route
@pytest.mark.parametrize(
    "exc",
    [
        AttributeError("'NoneType' object has no attribute 'tenant'"),
        AssertionError("AuthenticationMiddleware must be installed"),
        KeyError("tenant"),
        TimeoutError(),
        ExceptionGroup("several", [ValueError("a secret")]),
    ],
)
def test_an_error_is_a_403_and_goes_to_the_log(
    method: str, path: str, exc: Exception, caplog: pytest.LogCaptureFixture
) -> None:
    """Who cannot be told is refused, never given a default; the reason is for the log alone."""
    answer = asked(raising(exc), method, path)
    problem = assert_problem(answer, 403, "forbidden")
    assert "secret" not in answer.text
    assert "NoneType" not in problem["detail"]
    assert [record for record in caplog.records if record.exc_info and record.exc_info[1] is exc]


def test_a_permission_error_is_a_403_without_a_log_entry(caplog: pytest.LogCaptureFixture) -> None:
    """That is how a function says no on purpose."""
    assert_problem(asked(raising(PermissionError("no")), *ROUTES[0]), 403, "forbidden")
    assert [record for record in caplog.records if record.levelno >= logging.WARNING] == []


def test_an_error_of_ours_in_the_tenant_function_keeps_its_status() -> None:
    """A tenant function may use asynctask itself, whose errors know their place on the wire."""
    assert_problem(asked(raising(StoreUnavailableError("gone")), *ROUTES[1]), 503, "store_unavailable")
    assert_problem(asked(raising(JobError("odd")), *ROUTES[1]), 500, "internal")


def test_a_client_that_leaves_while_its_tenant_is_told(caplog: pytest.LogCaptureFixture) -> None:
    """Its request is dropped: nothing is started, nothing logged as an error."""
    assert_problem(asked(raising(ClientDisconnect()), *ROUTES[0]), 499, "client_gone")
    assert [record for record in caplog.records if record.levelno >= logging.WARNING] == []


@every_route
@pytest.mark.parametrize("said", ["a" * 257, "a\nb", "\ud800", "a\x00"])
def test_a_tenant_that_cannot_be_a_key(method: str, path: str, said: str) -> None:
    """Too long, or with characters that would forge log lines or cannot be encoded."""
    assert_problem(asked(lambda request: said, method, path), 422, "invalid_key")


class Plan(enum.StrEnum):
    """A tenant as an enumeration, which is text too."""

    ACME = "acme"


async def later(request: Request) -> str:
    """An async tenant function."""
    await anyio.lowlevel.checkpoint()
    return "acme"


class Resolver:
    """A tenant function with a state of its own."""

    async def __call__(self, request: Request) -> str:
        return str(request.headers["x-tenant"])


@pytest.mark.parametrize(
    "tenant",
    [lambda request: "acme", later, Resolver(), lambda request: later(request), lambda request: Plan.ACME],
)
def test_functions_that_tell_a_tenant(tenant: Any, anyio_backend: str) -> None:
    """Sync, async, a callable object, a function that returns a coroutine: all are one tenant's run."""
    shop = Workshop()
    with TestClient(application(shop.jobs, tenant=tenant), backend=anyio_backend) as client:  # type: ignore[arg-type]
        client.headers["X-Tenant"] = "acme"
        for _ in range(2):
            assert client.post("/api/duplicates/check").status_code == 202
        (run,) = shop.runs
        assert run.tenant == "acme"
        assert type(run.tenant) is str
        assert [item["runId"] for item in client.get("/api/").json()["items"]] == [run.run_id]
        inside(client, shop.release)
        assert settled(client, "/api/duplicates/check")["result"] == {"for": "acme"}


def test_tenants_do_not_see_each_other() -> None:
    """Status, list, join and cancel stay within the tenant, whose name is nowhere in what others read."""
    shop = Workshop()
    with TestClient(application(shop.jobs, tenant=by_header)) as client:
        acme, globex = {"X-Tenant": "acme"}, {"X-Tenant": "globex"}
        started = client.post("/api/duplicates/check", headers=acme).json()
        assert client.get("/api/duplicates/check/status", headers=globex).json()["status"] == "IDLE"
        assert client.get("/api/", headers=globex).json() == {"items": []}
        cancelled = client.post("/api/duplicates/check/cancel", headers=globex)
        assert (cancelled.status_code, cancelled.json()["status"]) == (200, "IDLE")
        assert client.get("/api/duplicates/check/status", headers=acme).json()["cancelRequested"] is False

        other = client.post("/api/duplicates/check", headers=globex).json()
        assert other["started"] is True
        assert other["runId"] != started["runId"]
        for headers, run_id in ((acme, started["runId"]), (globex, other["runId"])):
            listed = client.get("/api/", headers=headers).json()["items"]
            assert [item["runId"] for item in listed] == [run_id]
        assert "acme" not in client.get("/api/", headers=globex).text

        # An entity tag of another tenant's run tells nothing either.
        etag = client.get("/api/duplicates/check/status", headers=acme).headers["etag"]
        assert (
            client.get("/api/duplicates/check/status", headers={**globex, "If-None-Match": etag}).status_code
            == 200
        )


def test_without_a_tenant_function_everybody_shares_the_run(client: TestClient, shop: Workshop) -> None:
    """That is the documented meaning of `tenant=None`."""
    first = client.post("/api/duplicates/check", headers={"X-Tenant": "acme"}).json()
    second = client.post("/api/duplicates/check", headers={"X-Tenant": "globex"}).json()
    assert (first["started"], second["started"]) == (True, False)
    assert first["runId"] == second["runId"]
    assert shop.runs[0].tenant == ""


def test_the_tenant_comes_before_the_body() -> None:
    """A stranger's payload is not even looked at."""
    answer = asked(
        lambda request: None, "POST", "/api/quick", content=b"{", headers={"content-type": "text/plain"}
    )
    assert_problem(answer, 401, "unauthenticated")
