"""Answers as ASGI messages, and errors as problem documents.

Built by hand rather than with `starlette.responses`: a poll is answered thousands of times a run, and
building a Response object costs about a seventh of it.
"""

from __future__ import annotations

import math
from collections.abc import Iterable
from contextlib import suppress
from http import HTTPStatus
from typing import Any

from starlette.requests import ClientDisconnect
from starlette.types import Receive, Scope, Send

from asynctask.errors import AsyncTaskError
from asynctask.snapshot import Snapshot, encode

Headers = list[tuple[bytes, bytes]]

JSON = (b"content-type", b"application/json")
NO_STORE = (b"cache-control", b"no-store")

_TITLES = {status.value: status.phrase for status in HTTPStatus}


class Refusal(AsyncTaskError):
    """A request that HTTP itself refuses, before `Jobs` is asked.

    Args:
        status: the HTTP status.
        code: the stable word in the problem document.
        message: what was wrong and what to do about it.
        headers: more headers for the answer, e.g. `WWW-Authenticate`.
    """

    def __init__(self, status: int, code: str, message: str, headers: Iterable[tuple[str, str]] = ()) -> None:
        super().__init__(message)
        self.status = status  # type: ignore[misc]
        self.code = code  # type: ignore[misc]
        self.headers: Headers = [
            (name.lower().encode("latin-1"), value.encode("latin-1")) for name, value in headers
        ]


async def send_json(scope: Scope, send: Send, status: int, body: bytes, headers: Headers) -> None:
    """Send one answer; without a body for HEAD and 304, but with the headers that a GET would have."""
    if status != 304:
        headers.append((b"content-length", b"%d" % len(body)))
    await send({"type": "http.response.start", "status": status, "headers": headers})
    silent = status == 304 or scope["method"] == "HEAD"
    await send({"type": "http.response.body", "body": b"" if silent else body})


class Rendered:
    """A snapshot as the bytes and headers that it becomes on the wire."""

    __slots__ = ("body", "etag", "headers", "snapshot")

    def __init__(self, snapshot: Snapshot) -> None:
        self.snapshot: Snapshot = snapshot
        self.body: bytes = encode(snapshot)
        self.etag: bytes = snapshot.etag.encode()
        self.headers: Headers = [JSON, NO_STORE, (b"etag", self.etag)]
        if snapshot.poll_after_ms is not None:
            self.headers.append((b"retry-after", b"%d" % retry_after(snapshot.poll_after_ms)))

    def shows(self, snapshot: Snapshot) -> bool:
        """Whether these are the bytes of `snapshot`; cheaper than making them."""
        mine = self.snapshot
        return mine is snapshot or (
            # Without a run there is no version to tell the pictures of two keys apart.
            snapshot.run_id is not None and mine.same_version(snapshot) and mine.started is snapshot.started
        )


def retry_after(milliseconds: int) -> int:
    """Round up to whole seconds, at least 1 (RFC 9110, section 10.2.3, knows no fractions)."""
    return max(1, math.ceil(milliseconds / 1000))


async def send_problem(scope: Scope, send: Send, exc: AsyncTaskError) -> None:
    """Send an error as a problem document (RFC 9457)."""
    status = exc.status
    problem: dict[str, Any] = {
        "type": "about:blank",
        "title": _TITLES.get(status, "Error"),
        "status": status,
        "detail": str(exc),
        "code": exc.code,
    }
    headers: Headers = [
        (b"content-type", b"application/problem+json"),
        NO_STORE,
        *getattr(exc, "headers", ()),
    ]
    retry = 1 if exc.retry_after is None and status in (429, 503) else exc.retry_after
    if retry is not None:
        headers.append((b"retry-after", b"%d" % retry))
    await send_json(scope, send, status, encode(problem), headers)


class Guarded:
    """An ASGI endpoint whose errors become problem documents. Subclasses answer in `answer`.

    What a client had started goes on when it has gone. The answer, with nginx's status for that, reaches
    nobody, but BaseHTTPMiddleware takes a request without one for a defect.
    """

    async def __call__(self, scope: Scope, receive: Receive, send: Send) -> None:
        try:
            await self.answer(scope, receive, send)
        except AsyncTaskError as exc:
            await send_problem(scope, send, exc)
        except ClientDisconnect:
            with suppress(OSError):  # from servers that refuse to send to a closed connection
                await send_problem(
                    scope, send, Refusal(499, "client_gone", "the client closed its connection")
                )

    async def answer(self, scope: Scope, receive: Receive, send: Send) -> None:
        """Answer the request, or raise an AsyncTaskError before anything is sent."""
        raise NotImplementedError
