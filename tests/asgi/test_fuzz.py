"""Whatever is sent, the answer is well formed and none of it is our fault: never a 500, never a traceback."""

from __future__ import annotations

import re
from typing import Any

import anyio
import msgspec
from hypothesis import given, settings
from hypothesis import strategies as st
from starlette.types import Message

from tests.asgi.support import Workshop, application, by_header

paths = st.sampled_from(
    [
        "quick",
        "quick/status",
        "duplicates/check/cancel",
        "duplicates/check/status",
        "files/7",
        "files/7/status",
        "",
    ]
)
texts = st.text(st.characters(exclude_categories=["Cs"]), max_size=12)
odd_paths = st.one_of(
    paths, st.builds("files/{}".format, texts), st.builds("imports/{}/refresh".format, texts), texts
)
values = st.one_of(
    st.sampled_from(
        [b"wait=0", b'"idle.0"', b"*", b"null", b"cross-site", b"same-origin", b"application/json", b"7"]
    ),
    st.text(st.characters(max_codepoint=255, exclude_categories=["Cc"]), max_size=20).map(
        lambda text: text.encode("latin-1")
    ),
)
names = st.sampled_from(
    [
        b"prefer",
        b"if-none-match",
        b"origin",
        b"sec-fetch-site",
        b"host",
        b"content-type",
        b"content-length",
        b"transfer-encoding",
        b"x-tenant",
    ]
)
bodies = st.one_of(st.sampled_from([b"", b"{}", b"null", b"[[", b'{"a": 1}']), st.binary(max_size=40))
PLAIN_HEADER = re.compile(rb"[^\x00-\x08\x0a-\x1f\x7f]*")


def exchange(scope: dict[str, Any], body: bytes) -> list[Message]:
    """What the application sends for a request whose client stays until the answer is there."""
    sent: list[Message] = []
    asked = []

    async def receive() -> Message:
        asked.append(True)
        if len(asked) == 1:
            return {"type": "http.request", "body": body, "more_body": False}
        await anyio.sleep_forever()
        raise AssertionError

    async def send(message: Message) -> None:
        sent.append(message)

    async def main() -> None:
        async with shop.jobs:
            await app(scope, receive, send)

    shop = Workshop()
    app = application(shop.jobs, tenant=by_header, max_wait=0)
    anyio.run(main)
    return sent


@settings(max_examples=150, deadline=None)
@given(
    st.sampled_from(["GET", "HEAD", "POST", "PUT", "OPTIONS", "BREW"]),
    odd_paths,
    st.lists(st.tuples(names, values), max_size=6),
    bodies,
    st.booleans(),
)
def test_every_answer_is_well_formed(
    method: str, path: str, headers: list[tuple[bytes, bytes]], body: bytes, signed_in: bool
) -> None:
    """A success is JSON, a refusal a problem document; headers can be sent as they are."""
    scope = {
        "type": "http",
        "http_version": "1.1",
        "method": method,
        "path": f"/api/{path}",
        "raw_path": b"/api/",
        "query_string": b"",
        "scheme": "http",
        "server": ("testserver", 80),
        "headers": [*headers, *([(b"x-tenant", b"acme")] if signed_in else [])],
    }
    start, end = exchange(scope, body)
    assert start["status"] < 500, end
    answered = dict(start["headers"])
    assert all(PLAIN_HEADER.fullmatch(value) for value in answered.values()), answered
    assert all(name == name.lower() for name in answered)
    if answered.get(b"content-type") == b"text/plain; charset=utf-8":
        assert start["status"] == 404  # a path that Starlette itself does not take for one of the mount
    elif start["status"] in (307, 304):
        assert end["body"] == b""
    else:
        problem = answered[b"content-type"] == b"application/problem+json"
        assert problem is (start["status"] >= 400)
        if method == "HEAD":
            assert end["body"] == b""
        else:
            assert int(answered[b"content-length"]) == len(end["body"])
            assert msgspec.json.decode(end["body"])
