"""What a request brings: its tenant, its payload, and the news that its client has gone."""

from __future__ import annotations

import inspect
from collections.abc import Awaitable, Callable
from contextlib import aclosing
from typing import Any, TypeVar

import anyio
import msgspec
from starlette.exceptions import HTTPException
from starlette.requests import ClientDisconnect, Request
from starlette.types import Receive, Scope

from asynctask.asgi.wire import Refusal
from asynctask.context import logger
from asynctask.errors import AsyncTaskError

Tenant = Callable[[Request], str | Awaitable[str | None] | None]
T = TypeVar("T")

MAX_BODY = 1_048_576
"""Largest payload, in bytes."""

_CODES = {401: "unauthenticated", 403: "forbidden"}


async def resolve_tenant(tenant: Tenant | None, request: Request) -> str:
    """Ask the application whom a request belongs to.

    Raises:
        Refusal: 401 when it says None or "", 403 when it raises, 500 when it returns no text. Its own
            `HTTPException` keeps its status, text and headers.
    """
    if tenant is None:
        return ""
    try:
        found = tenant(request)
        if inspect.isawaitable(found):
            found = await found
    except (AsyncTaskError, ClientDisconnect):
        raise
    except HTTPException as exc:
        code = _CODES.get(exc.status_code, "refused")
        raise Refusal(exc.status_code, code, str(exc.detail), (exc.headers or {}).items()) from exc
    except Exception as exc:
        if not isinstance(exc, PermissionError):
            logger.exception("the tenant of a request could not be told, so it was refused")
        raise Refusal(
            403, "forbidden", "it could not be told whose request this is, so it was refused"
        ) from exc
    if found is None or found == "":
        raise Refusal(
            401,
            "unauthenticated",
            "the request does not say whose it is: sign in, or send credentials",
            # A 401 needs a challenge (RFC 9110, section 15.5.2); for this one no browser opens a dialogue.
            [("WWW-Authenticate", "Bearer")],
        )
    if not isinstance(found, str):
        logger.error(
            "routes(tenant=…) returned %r: return text, e.g. str(user.tenant_id)", type(found).__name__
        )
        raise Refusal(500, "tenant_not_text", "the application did not give this request's tenant as text")
    return found


async def read_payload(request: Request) -> Any:
    """Read a JSON body; None when there is none.

    Raises:
        Refusal: 413 above `MAX_BODY`, 415 unless the type is JSON, 400 when it is not valid JSON.
        ClientDisconnect: the client went away before its request was complete.
    """
    body = await _read_body(request) if _has_body(request.scope) else b""
    if not body:
        return None
    try:
        return msgspec.json.decode(body)
    except (msgspec.MsgspecError, ValueError, RecursionError) as exc:
        raise Refusal(400, "bad_json", f"the payload is no valid JSON: {exc}") from None


def _has_body(scope: Scope) -> bool:
    """Whether a body can follow; in HTTP/1 only if a header says so (RFC 9112, section 6.3)."""
    if not scope["http_version"].startswith("1"):
        return True
    for name, value in scope["headers"]:
        if name == b"transfer-encoding" or (name == b"content-length" and value != b"0"):
            return True
    return False


async def _read_body(request: Request) -> bytes:
    declared = request.headers.get("content-length", "")
    if declared.isdecimal():
        _check_size(int(declared[:12]))
    body = bytearray()
    try:
        async with aclosing(request.stream()) as stream:
            async for chunk in stream:
                if chunk and not body:
                    _check_type(request.headers.get("content-type", ""))
                body += chunk
                _check_size(len(body))
    except RuntimeError as exc:
        raise Refusal(
            500, "body_consumed", f"the function given as tenant= must read by `await request.body()`: {exc}"
        ) from exc
    return bytes(body)


def _check_size(size: int) -> None:
    if size > MAX_BODY:
        raise Refusal(
            413, "too_large", f"the payload is larger than {MAX_BODY} bytes: send a reference to it"
        )


def _check_type(content_type: str) -> None:
    media_type = content_type.partition(";")[0].strip().lower()
    if media_type != "application/json":
        raise Refusal(
            415, "not_json", f"the payload is {media_type[:100] or 'of no type'}: send it as application/json"
        )


async def unless_gone(receive: Receive, waiting: Awaitable[T]) -> T:
    """Wait, but no longer than the client does.

    Raises:
        ClientDisconnect: it closed its connection first.
    """
    result: list[T] = []
    failure: AsyncTaskError | None = None

    async def watch() -> None:
        while (await receive())["type"] != "http.disconnect":
            pass
        group.cancel_scope.cancel()

    async with anyio.create_task_group() as group:
        group.start_soon(watch)
        try:
            result.append(await waiting)
        except AsyncTaskError as exc:  # raised below, since the group would wrap it in an ExceptionGroup
            failure = exc
        group.cancel_scope.cancel()
    if failure is not None:
        raise failure
    if not result:
        raise ClientDisconnect
    return result[0]
