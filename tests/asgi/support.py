"""What the tests of the HTTP surface share: jobs to trigger, and an application around them."""

from __future__ import annotations

from collections.abc import Awaitable, Callable, Sequence
from typing import Any, TypeVar

import anyio
import httpx
from starlette.applications import Starlette
from starlette.middleware.base import BaseHTTPMiddleware
from starlette.requests import Request
from starlette.responses import Response
from starlette.routing import BaseRoute, Mount
from starlette.testclient import TestClient

from asynctask import Jobs, Run
from asynctask.asgi import routes

T = TypeVar("T")

FIELDS = {
    "job",
    "key",
    "status",
    "runId",
    "version",
    "processed",
    "total",
    "percent",
    "succeeded",
    "failed",
    "message",
    "result",
    "errorMessage",
    "errorCode",
    "errorId",
    "cancelRequested",
    "startedAt",
    "updatedAt",
    "finishedAt",
    "durationMs",
    "pollAfterMs",
}
"""Every field of a snapshot; `started` comes on top in a trigger's answer."""


class Workshop:
    """A few jobs; those that hold go on until `release` is called, or the application ends.

    Args:
        options: for `Jobs`; without a grace unless one is given.
    """

    def __init__(self, **options: Any) -> None:
        self.jobs = Jobs(**{"shutdown_grace": 0, **options})
        self.runs: list[Run] = []
        self._gates: dict[str, anyio.Event] = {}

        async def held(run: Run) -> dict[str, str]:
            gate = self._gates[run.run_id] = anyio.Event()
            self.runs.append(run)
            await gate.wait()
            return {"for": run.tenant}

        @self.jobs.job("quick")
        async def quick(run: Run) -> dict[str, int]:
            return {"groups": 3}

        @self.jobs.job("broken")
        async def broken(run: Run) -> None:
            raise RuntimeError("the price list is gone")

        self.jobs.job("duplicates/check", cancelable=True)(held)
        self.jobs.job("imports/{file_id}/refresh")(held)
        self.jobs.job("files/{name}")(held)

    def release(self, run: Run | None = None) -> None:
        """Let a run come to its end; by default the latest."""
        self._gates[(run or self.runs[-1]).run_id].set()


class Echo:
    """An application whose job keeps the payload it was given."""

    def __init__(self, **options: Any) -> None:
        self.jobs = Jobs()
        self.given: list[Any] = []

        @self.jobs.job("echo")
        async def echo(run: Run, payload: Any) -> None:
            self.given.append(payload)

        @self.jobs.job("bare")
        async def bare(run: Run) -> None:
            self.given.append("bare")

        self.app = application(self.jobs, **options)


def application(jobs: Jobs, *, own: Sequence[BaseRoute] = (), **options: Any) -> Starlette:
    """A Starlette application with the jobs under `/api`.

    Args:
        jobs: the registry.
        own: routes of the application's own, outside the mount.
        options: for `routes`.
    """
    return Starlette(routes=[Mount("/api", routes=routes(jobs, **options)), *own], lifespan=jobs.lifespan)


def by_header(request: Request) -> str | None:
    """A tenant function for tests: the header `X-Tenant`."""
    return request.headers.get("x-tenant")


def over_asgi(app: Any) -> httpx.AsyncClient:
    """A client that calls the application in the test's own event loop."""
    return httpx.AsyncClient(transport=httpx.ASGITransport(app), base_url="http://testserver")


class Passing(BaseHTTPMiddleware):
    """Middleware of the kind that wraps the body and the connection."""

    async def dispatch(
        self, request: Request, call_next: Callable[[Request], Awaitable[Response]]
    ) -> Response:
        response = await call_next(request)
        response.headers["x-passed"] = "yes"
        return response


def inside(client: TestClient, call: Callable[..., T], *arguments: Any) -> T:
    """Call a function in the application's event loop."""
    assert client.portal is not None
    return client.portal.call(call, *arguments)


def settled(client: Any, path: str, **headers: str) -> dict[str, Any]:
    """Wait, by long polls, until nothing is RUNNING under `path`, and return that snapshot."""
    for _ in range(100):
        answer = client.get(f"{path}/status", headers=headers)
        if answer.status_code == 200 and answer.json()["status"] != "RUNNING":
            return dict(answer.json())
        headers |= {"Prefer": "wait=10", "If-None-Match": answer.headers["etag"]}
    raise AssertionError(f"{path} does not end")


def assert_problem(answer: Any, status: int, code: str) -> dict[str, Any]:
    """Check that an answer is a problem document with this status and code, and return it."""
    assert answer.status_code == status, answer.text
    assert answer.headers["content-type"] == "application/problem+json"
    assert answer.headers["cache-control"] == "no-store"
    problem: dict[str, Any] = answer.json()
    assert set(problem) == {"type", "title", "status", "detail", "code"}
    assert (problem["type"], problem["status"], problem["code"]) == ("about:blank", status, code)
    assert problem["title"]
    assert problem["detail"]
    return problem
