"""The endpoints of one job, as plain ASGI callables."""

from __future__ import annotations

from urllib.parse import quote

import msgspec
from starlette.requests import ClientDisconnect, Request
from starlette.types import Receive, Scope, Send

from asynctask.asgi.preconditions import SameSite, none_match, preferred_wait
from asynctask.asgi.requests import Tenant, read_payload, resolve_tenant, unless_gone
from asynctask.asgi.wire import (
    JSON,
    NO_STORE,
    Guarded,
    Headers,
    Refusal,
    retry_after,
    send_json,
    snapshot_headers,
)
from asynctask.job import Job
from asynctask.jobs import Jobs
from asynctask.snapshot import Status, encode


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

    def _params(self, scope: Scope) -> dict[str, str]:
        # An outer mount may have path parameters of its own; they are no part of the key.
        given = scope["path_params"]
        return {name: given[name] for name in self._job.names}


class Trigger(JobEndpoint):
    """`POST {path}`: start the job or join its run."""

    async def answer(self, scope: Scope, receive: Receive, send: Send) -> None:
        self._surface.same_site.check(scope["headers"])
        request = Request(scope, receive)
        tenant = await resolve_tenant(self._surface.tenant, lambda: request)
        try:
            payload = await read_payload(request)
        except ClientDisconnect:
            return
        params = self._params(scope)
        snapshot = await self._jobs.trigger(self._job.path, tenant=tenant, payload=payload, params=params)
        headers: Headers = [
            # Relative to the request's own URL, so that it holds behind any mount and proxy (RFC 3986, 5.2).
            (b"location", _last_segment(scope) + b"/status"),
            (b"vary", b"Prefer"),
        ]
        status = 202
        wait = preferred_wait(scope["headers"], self._surface.max_wait)
        if wait is not None:
            started = snapshot.started
            try:
                snapshot = await unless_gone(
                    receive,
                    self._jobs.wait_beyond(
                        snapshot, tenant=tenant, params=params, timeout=wait, finished=True
                    ),
                )
            except ClientDisconnect:
                return  # the run goes on
            snapshot = msgspec.structs.replace(snapshot, started=started)
            headers.append((b"preference-applied", b"wait=%d" % wait))
            status = 200 if snapshot.status.terminal else 202
        await send_json(scope, send, status, encode(snapshot), headers + snapshot_headers(snapshot))


class Poll(JobEndpoint):
    """`GET {path}/status`: the key's snapshot."""

    async def answer(self, scope: Scope, receive: Receive, send: Send) -> None:
        surface, request_headers = self._surface, scope["headers"]
        tenant = (
            ""
            if surface.tenant is None
            else await resolve_tenant(surface.tenant, lambda: Request(scope, receive))
        )
        params = self._params(scope) if self._job.names else None
        snapshot = await self._jobs.status(self._job.path, tenant=tenant, params=params)
        applied: Headers = []
        matches = none_match(request_headers, snapshot.etag)
        if matches and snapshot.status is Status.RUNNING:
            wait = preferred_wait(request_headers, surface.max_wait)
            if wait is not None:
                try:
                    snapshot = await unless_gone(
                        receive, self._jobs.wait_beyond(snapshot, tenant=tenant, params=params, timeout=wait)
                    )
                except ClientDisconnect:
                    return
                applied.append((b"preference-applied", b"wait=%d" % wait))
                matches = none_match(request_headers, snapshot.etag)
        headers = snapshot_headers(snapshot) + applied
        if matches:
            await send_json(scope, send, 304, b"", headers)
        else:
            await send_json(scope, send, 200, encode(snapshot), headers)


class Cancel(JobEndpoint):
    """`POST {path}/cancel`: ask the run to stop."""

    async def answer(self, scope: Scope, receive: Receive, send: Send) -> None:
        self._surface.same_site.check(scope["headers"])
        request = Request(scope, receive)
        tenant = await resolve_tenant(self._surface.tenant, lambda: request)
        if not self._job.cancelable:
            # An empty Allow says that this resource takes no method (RFC 9110, section 10.2.1).
            raise Refusal(
                405, "not_cancelable", f"job {self._job.path!r} cannot be cancelled", [("Allow", "")]
            )
        snapshot = await self._jobs.cancel(self._job.path, tenant=tenant, params=self._params(scope))
        status = 202 if snapshot.status is Status.RUNNING else 200
        headers: Headers = [(b"location", b"status"), *snapshot_headers(snapshot)]
        await send_json(scope, send, status, encode(snapshot), headers)


class List(Guarded):
    """`GET /` of the mount: the snapshots of the caller's tenant."""

    def __init__(self, surface: Surface) -> None:
        self._surface = surface

    async def answer(self, scope: Scope, receive: Receive, send: Send) -> None:
        tenant = await resolve_tenant(self._surface.tenant, lambda: Request(scope, receive))
        items = await self._surface.jobs.runs(tenant=tenant)
        headers: Headers = [JSON, NO_STORE]
        soonest = min((s.poll_after_ms for s in items if s.poll_after_ms is not None), default=None)
        if soonest is not None:
            headers.append((b"retry-after", b"%d" % retry_after(soonest)))
        await send_json(scope, send, 200, encode({"items": items}), headers)


def _last_segment(scope: Scope) -> bytes:
    return quote(scope["path"].rstrip("/").rpartition("/")[2], safe="").encode()
