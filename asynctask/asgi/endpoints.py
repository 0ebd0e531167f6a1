"""The endpoints of one job, as plain ASGI callables."""

from __future__ import annotations

from urllib.parse import quote

import msgspec
from starlette.requests import Request
from starlette.types import Receive, Scope, Send

from asynctask.asgi.preconditions import SameSite, none_match, preferred_wait
from asynctask.asgi.requests import Tenant, read_payload, resolve_tenant, unless_gone
from asynctask.asgi.wire import (
    JSON,
    NO_STORE,
    Guarded,
    Headers,
    Refusal,
    Rendered,
    retry_after,
    send_json,
)
from asynctask.errors import InvalidKeyError
from asynctask.job import Job
from asynctask.jobs import Jobs
from asynctask.snapshot import Snapshot, Status, encode, idle


class Surface(msgspec.Struct, frozen=True):
    """What the endpoints of one mount share."""

    jobs: Jobs
    tenant: Tenant | None
    same_site: SameSite
    max_wait: float


class JobEndpoint(Guarded):
    """An endpoint of one job."""

    def __init__(self, surface: Surface, job: Job) -> None:
        self._surface = surface
        self._jobs = surface.jobs
        self._job = job
        # Pollers mostly ask for the picture that was asked for last.
        self._last = Rendered(idle(job.path, job.path))

    def _render(self, snapshot: Snapshot) -> Rendered:
        if not self._last.shows(snapshot):
            self._last = Rendered(snapshot)
        return self._last

    def _params(self, scope: Scope) -> dict[str, str]:
        # An outer mount may have path parameters of its own; they are no part of the key.
        given = scope["path_params"]
        for name in self._job.names:
            # Servers decode what is no UTF-8 to this one character, which would make one key of two paths.
            if "\ufffd" in given[name]:
                raise InvalidKeyError(
                    f"path parameter {name!r} is {given[name]!r}: percent-encode it as UTF-8"
                )
        return {name: given[name] for name in self._job.names}


class Trigger(JobEndpoint):
    """`POST {path}`: start the job or join its run."""

    def __init__(self, surface: Surface, job: Job) -> None:
        super().__init__(surface, job)
        last = job.path.rpartition("/")[2]
        self._location = None if last.startswith("{") else _location({"path": last})

    async def answer(self, scope: Scope, receive: Receive, send: Send) -> None:
        self._surface.same_site.check(scope["headers"])
        request = Request(scope, receive)
        tenant = await resolve_tenant(self._surface.tenant, request)
        payload = await read_payload(request)
        params = self._params(scope)
        snapshot = await self._jobs.trigger(self._job.path, tenant=tenant, payload=payload, params=params)
        headers: Headers = [self._location or _location(scope), _VARY]
        status = 202
        wait = preferred_wait(scope["headers"], self._surface.max_wait)
        if wait is not None:
            over = self._jobs.wait_beyond(snapshot, tenant=tenant, params=params, timeout=wait, finished=True)
            after = await unless_gone(receive, over)
            started = snapshot.started and after.run_id == snapshot.run_id  # another run may have followed
            snapshot = msgspec.structs.replace(after, started=started)
            headers.append((b"preference-applied", b"wait=%d" % wait))
            status = 200 if snapshot.status.terminal else 202
        rendered = self._render(snapshot)
        await send_json(scope, send, status, rendered.body, rendered.headers + headers)


class Poll(JobEndpoint):
    """`GET {path}/status`: the key's snapshot."""

    async def answer(self, scope: Scope, receive: Receive, send: Send) -> None:
        surface, request_headers = self._surface, scope["headers"]
        tenant = (
            "" if surface.tenant is None else await resolve_tenant(surface.tenant, Request(scope, receive))
        )
        params = self._params(scope) if self._job.names else None
        snapshot = await self._jobs.status(self._job.path, tenant=tenant, params=params)
        rendered = self._render(snapshot)
        applied: Headers = []
        matches = none_match(request_headers, rendered.etag)
        if matches and snapshot.status is Status.RUNNING:
            wait = preferred_wait(request_headers, surface.max_wait)
            if wait is not None:
                change = self._jobs.wait_beyond(snapshot, tenant=tenant, params=params, timeout=wait)
                snapshot = await unless_gone(receive, change)
                applied.append((b"preference-applied", b"wait=%d" % wait))
                rendered = self._render(snapshot)
                matches = none_match(request_headers, rendered.etag)
        status, body = (304, b"") if matches else (200, rendered.body)
        await send_json(scope, send, status, body, rendered.headers + applied)


class Cancel(JobEndpoint):
    """`POST {path}/cancel`: ask the run to stop."""

    async def answer(self, scope: Scope, receive: Receive, send: Send) -> None:
        self._surface.same_site.check(scope["headers"])
        tenant = await resolve_tenant(self._surface.tenant, Request(scope, receive))
        if not self._job.cancelable:
            # An empty Allow says that this resource takes no method (RFC 9110, section 10.2.1).
            raise Refusal(
                405, "not_cancelable", f"job {self._job.path!r} cannot be cancelled", [("Allow", "")]
            )
        snapshot = await self._jobs.cancel(self._job.path, tenant=tenant, params=self._params(scope))
        status = 202 if snapshot.status is Status.RUNNING else 200
        rendered = self._render(snapshot)
        await send_json(scope, send, status, rendered.body, [*rendered.headers, (b"location", b"status")])


class List(Guarded):
    """`GET /` of the mount: the snapshots of the caller's tenant."""

    def __init__(self, surface: Surface) -> None:
        self._surface = surface

    async def answer(self, scope: Scope, receive: Receive, send: Send) -> None:
        tenant = await resolve_tenant(self._surface.tenant, Request(scope, receive))
        items = await self._surface.jobs.runs(tenant=tenant)
        headers: Headers = [JSON, NO_STORE]
        soonest = min((s.poll_after_ms for s in items if s.poll_after_ms is not None), default=None)
        if soonest is not None:
            headers.append((b"retry-after", b"%d" % retry_after(soonest)))
        await send_json(scope, send, 200, encode({"items": items}), headers)


_VARY = (b"vary", b"Prefer")


def _location(scope: Scope) -> tuple[bytes, bytes]:
    """Return the status URL, relative to the request's own, so that it holds behind any mount and proxy.

    A relative reference replaces the last segment (RFC 3986, section 5.2.3).
    """
    last = quote(scope["path"].rpartition("/")[2], safe="")
    return b"location", last.encode() + b"/status"
