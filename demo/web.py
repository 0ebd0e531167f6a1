"""What the demo's routes have in common: who is asking, problem documents, and the page's headers."""

from __future__ import annotations

from http import HTTPStatus
from pathlib import Path
from typing import TYPE_CHECKING

from starlette.datastructures import MutableHeaders
from starlette.exceptions import HTTPException
from starlette.middleware import Middleware
from starlette.responses import FileResponse, JSONResponse
from starlette.routing import Mount, Route

from asynctask.asgi import static_files

if TYPE_CHECKING:
    from collections.abc import Mapping

    from starlette.requests import Request
    from starlette.responses import Response
    from starlette.routing import BaseRoute
    from starlette.types import ASGIApp, Message, Receive, Scope, Send

INDEX = Path(__file__).resolve().parent.parent / "static" / "index.html"

TENANTS = {"acme-demo": "acme", "globex-demo": "globex"}
"""Token of each demo tenant. A real application takes the tenant from its own session or token check."""

# The page needs nothing from elsewhere, and nothing inline: an injected script or style would not run.
PAGE_HEADERS = {
    "Content-Security-Policy": "default-src 'none'; script-src 'self'; style-src 'self'; img-src 'self'; "
    "connect-src 'self'; base-uri 'none'; form-action 'none'; frame-ancestors 'none'",
    "X-Content-Type-Options": "nosniff",
    "Referrer-Policy": "no-referrer",
    "Cache-Control": "no-cache",
}


def tenant(request: Request) -> str:
    """Whom a request speaks for: by `Authorization: Bearer TOKEN`, else by the cookie `tenant`.

    Raises:
        HTTPException: 401, there is neither, or it is no token of the demo's.
    """
    authorization = request.headers.get("authorization")
    if authorization is not None:
        scheme, _, token = authorization.partition(" ")
        known = TENANTS.get(token.strip()) if scheme.lower() == "bearer" else None
    else:
        token = request.cookies.get("tenant", "")
        known = TENANTS.get(token)
    if known is None:
        error = ', error="invalid_token"' if token else ""  # RFC 6750, section 3.1
        tokens = " or ".join(TENANTS)
        raise HTTPException(
            401,
            f"Send 'Authorization: Bearer TOKEN' or the cookie tenant=TOKEN, with {tokens} as the token.",
            {"WWW-Authenticate": f'Bearer realm="asynctask demo"{error}'},
        )
    return known


def problem(status: int, code: str, detail: str, headers: dict[str, str] | None = None) -> JSONResponse:
    """An error as `application/problem+json` (RFC 9457)."""
    body = {
        "type": "about:blank",
        "title": HTTPStatus(status).phrase,
        "status": status,
        "code": code,
        "detail": detail,
    }
    headers = {"Cache-Control": "no-store", **(headers or {})}
    return JSONResponse(body, status, headers, media_type="application/problem+json")


async def on_http_exception(request: Request, error: Exception) -> Response:
    """Answer with a problem document where Starlette would answer in plain text."""
    assert isinstance(error, HTTPException)
    code = "unauthenticated" if error.status_code == 401 else HTTPStatus(error.status_code).name.lower()
    return problem(error.status_code, code, error.detail, dict(error.headers or {}))


def whole_number(request: Request, name: str, default: int, low: int, high: int) -> int:
    """A number of the query.

    Raises:
        HTTPException: 422, it is not a whole number from `low` to `high`.
    """
    text = request.query_params.get(name, str(default))
    if not (text.isascii() and text.isdecimal() and len(text) < 10 and low <= int(text) <= high):
        raise HTTPException(422, f"{name} is {text[:40]!r}: a whole number from {low} to {high} is needed")
    return int(text)


class MoreHeaders:
    """Middleware that adds headers to the answers of the application it wraps."""

    def __init__(self, app: ASGIApp, headers: Mapping[str, str]) -> None:
        self.app = app
        self.headers = headers

    async def __call__(self, scope: Scope, receive: Receive, send: Send) -> None:
        async def send_with_headers(message: Message) -> None:
            if message["type"] == "http.response.start":
                MutableHeaders(scope=message).update(self.headers)
            await send(message)

        await self.app(scope, receive, send_with_headers)


def page() -> list[BaseRoute]:
    """Routes of `static/index.html` at `/` and of the files beside it at `/static`."""

    async def index(request: Request) -> FileResponse:
        return FileResponse(INDEX)

    headers = [Middleware(MoreHeaders, PAGE_HEADERS)]
    return [
        Route("/", index, middleware=headers),
        Mount("/static", static_files(), middleware=headers),
    ]
