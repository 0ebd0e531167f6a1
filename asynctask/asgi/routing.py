"""Routes: which request reaches which endpoint."""

from __future__ import annotations

import math
from collections.abc import Iterable

from starlette.routing import Match, Route, Router
from starlette.types import Receive, Scope, Send

from asynctask.asgi.endpoints import Cancel, List, Poll, Surface, Trigger
from asynctask.asgi.preconditions import SameSite
from asynctask.asgi.requests import Tenant
from asynctask.asgi.wire import Guarded, Refusal, send_problem
from asynctask.errors import ConfigurationError, UnknownJobError
from asynctask.jobs import Jobs


def routes(
    jobs: Jobs,
    *,
    tenant: Tenant | None = None,
    allowed_origins: Iterable[str] = (),
    max_wait: float = 10.0,
) -> list[Route]:
    """Return the routes of all registered jobs, to be mounted: `Mount("/api", routes=routes(jobs))`.

    For each job `POST {path}`, `GET {path}/status` and `POST {path}/cancel`, and `GET /` for the list.
    Jobs cannot be registered afterwards.

    Args:
        jobs: the registry.
        tenant: tells from a request whose it is, as text; may be async. None or an exception refuses the
            request. Without it there is one tenant, and every visitor shares the run.
        allowed_origins: origins of other sites whose pages may trigger jobs.
        max_wait: longest `Prefer: wait`, in seconds; keep it below what the gateway allows.

    Raises:
        ConfigurationError: an argument is unfit, or no job is registered yet.
    """
    if not isinstance(jobs, Jobs):
        raise ConfigurationError(f"routes() takes the Jobs object first, not {jobs!r}")
    if tenant is not None and not callable(tenant):
        raise ConfigurationError(f"tenant={tenant!r} must be a function of the request, or None")
    if isinstance(max_wait, bool) or not isinstance(max_wait, int | float) or not 0 <= max_wait < math.inf:
        raise ConfigurationError(f"max_wait={max_wait!r} must be a number of seconds, 0 or more")
    if not jobs.registry.jobs:
        raise ConfigurationError(
            "routes(jobs) was called before any job was registered: import the modules that do so first"
        )
    jobs.registry.freeze()
    surface = Surface(jobs=jobs, tenant=tenant, same_site=SameSite(allowed_origins), max_wait=float(max_wait))
    made: list[Route] = []
    # Fixed paths first, so that a path parameter cannot take "status" or "cancel" for its value.
    for job in sorted(jobs.registry.jobs.values(), key=lambda job: len(job.names)):
        path, name = f"/{job.path}", f"asynctask:{job.path}"
        made += [
            JobRoute(f"{path}/status", Poll(surface, job), methods=["GET"], name=f"{name}:status"),
            JobRoute(f"{path}/cancel", Cancel(surface, job), methods=["POST"], name=f"{name}:cancel"),
            JobRoute(path, Trigger(surface, job), methods=["POST"], name=name),
        ]
    made.append(JobRoute("/", List(surface), methods=["GET"], name="asynctask:list"))
    return [*made, UnknownJobRoute(made)]


class JobRoute(Route):
    """A route whose 405 is a problem document too, and that is quick to decline.

    Starlette tries route after route, each with a regular expression; with many jobs that would be most of
    the cost of a poll. Whatever the mount, a path without parameters is the end of the request's path.
    """

    def matches(self, scope: Scope) -> tuple[Match, Scope]:
        if not self.param_convertors and not scope["path"].endswith(self.path):
            return Match.NONE, {}
        return super().matches(scope)

    async def handle(self, scope: Scope, receive: Receive, send: Send) -> None:
        if self.methods is not None and scope["method"] not in self.methods:
            allow = ", ".join(sorted(self.methods))
            refusal = Refusal(
                405,
                "method_not_allowed",
                f"{scope['method']} is not possible here; use {allow}",
                [("Allow", allow)],
            )
            await send_problem(scope, send, refusal)
        else:
            await self.app(scope, receive, send)


class _Unknown(Guarded):
    async def answer(self, scope: Scope, receive: Receive, send: Send) -> None:
        raise UnknownJobError(
            f"no job answers {scope['method']} {scope['path']!r}: check the path and what follows it "
            "(/status, /cancel)"
        )


class UnknownJobRoute(Route):
    """Answers 404 under the mount, after every other route there has declined.

    A partial match is what Starlette turns to last, so that routes of the application's own in the same
    mount work wherever they stand. Outside a mount this route matches nothing: the application's own 404 is
    none of our business.
    """

    def __init__(self, ours: list[Route]) -> None:
        # FastAPI's include_router makes a plain Route of this one; it must not match every path then.
        super().__init__("/asynctask:unknown", _Unknown(), name="asynctask:unknown", include_in_schema=False)
        self._ours = ours

    def matches(self, scope: Scope) -> tuple[Match, Scope]:
        mounted = scope["type"] == "http" and "app_root_path" in scope
        return (Match.PARTIAL if mounted else Match.NONE), {}

    async def handle(self, scope: Scope, receive: Receive, send: Send) -> None:
        # A 405 or a redirect to the path with or without a slash, of ours or of the application's own, is
        # what Starlette would have come to next. The endpoint of a mount is its router, middleware apart.
        mounted = getattr(scope.get("endpoint"), "routes", self._ours)
        others = [route for route in mounted if not isinstance(route, UnknownJobRoute)]
        await Router(others, default=self.app)(scope, receive, send)
