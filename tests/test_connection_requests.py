"""What goes out: the same bytes on PooledTransport as on httpx's own transport, or the same error."""

from __future__ import annotations

from typing import Any

import pytest

from tests.connection_support import BACKENDS, Outcome, exchange, heads, on_both
from tests.raw_server import OK, Peer, RawServer, answer_all

pytestmark = [pytest.mark.anyio, pytest.mark.parametrize(("anyio_backend", "kind"), BACKENDS)]

REQUESTS: dict[str, dict[str, Any]] = {
    "GET": {},
    "HEAD": {"method": "HEAD"},
    "DELETE": {"method": "DELETE"},
    "own method": {"method": "PURGE"},
    "small letters": {"method": "pAtch"},
    "POST without a body": {"method": "POST"},
    "empty body": {"method": "POST", "content": b""},
    "bytes": {"method": "POST", "content": b"\0\r\n\r\n\xff"},
    "json": {"method": "PUT", "json": {"a": [1, "é"]}},
    "form": {"method": "POST", "data": {"a": "1", "b": "é &"}},
    "file": {
        "method": "POST",
        "files": {"f": ("name.txt", b"content" * 9)},
        "headers": {"content-type": "multipart/form-data; boundary=b"},
    },
    "query": {"path": "/a b/%2F/é?x=1&y=%20 z", "params": None},
    "params": {"params": {"q": "é&", "r": ""}},
    "fragment": {"path": "/a#part"},
    "headers": {"headers": [("X-A", "1"), ("x-a", "2"), ("X-Empty", ""), ("X-Tab", "a\tb")]},
    "header in Latin-1": {"headers": {"X-A": "é".encode("latin-1")}},
    "host": {"headers": {"Host": "other.example"}},
    "auth": {"auth": ("user", "pass")},
    "close": {"headers": {"Connection": "close"}},
    "cookies": {"headers": {"Cookie": "a=b; c=d"}},
    "target of its own": {"method": "OPTIONS", "extensions": {"target": b"*"}},
    "expect": {"method": "POST", "content": b"body", "headers": {"X-Expect": "100-continue"}},
}


@pytest.mark.parametrize("name", REQUESTS)
async def test_a_request_is_sent_as_httpx_sends_it(name: str, kind: str) -> None:
    """Head and body arrive byte for byte as from httpx's own transport, twice on one connection."""
    options = dict(REQUESTS[name])
    method, path = options.pop("method", "GET"), options.pop("path", "/path")

    async def act(client: Any, server: RawServer) -> Any:
        outcomes = [await exchange(client, method, server.url + path, **options) for _ in range(2)]
        return outcomes, heads(server), server.bodies, server.accepted

    outcomes, sent, _, _ = await on_both(kind, answer_all, act)
    assert [outcome.status for outcome in outcomes] == [200, 200]
    assert len(sent) == 2


ILLEGAL: dict[str, dict[str, Any]] = {
    "line break in a value": {"headers": {"X-A": "a\r\nX-B: b"}},
    "line feed in a value": {"headers": {"X-A": "a\nX-B: b"}},
    "carriage return in a value": {"headers": {"X-A": "a\rX-B: b"}},
    "NUL in a value": {"headers": {"X-A": "a\0b"}},
    "space in a name": {"headers": {"X A": "a"}},
    "line break in a name": {"headers": {"X-A\r\nX-B": "a"}},
    "colon in a name": {"headers": {"X-A:": "a"}},
    "no name": {"headers": {"": "a"}},
    "space in a method": {"method": "GET /x HTTP/1.1\r\nX:"},
    "no method": {"method": ""},
    "space in a target": {"extensions": {"target": b"/a b"}},
    "no target": {"extensions": {"target": b""}},
    "length no number": {"headers": {"Content-Length": "four"}},
    "length negative": {"headers": {"Content-Length": "-4"}},
    "other transfer coding": {"method": "POST", "content": b"body", "headers": {"Transfer-Encoding": "gzip"}},
}


@pytest.mark.parametrize("name", ILLEGAL)
async def test_an_illegal_request_is_refused(name: str, kind: str) -> None:
    """A LocalProtocolError; the server gets no whole request, and the next one has its own answer."""
    options = dict(ILLEGAL[name])
    method = options.pop("method", "GET")

    async def act(client: Any, server: RawServer) -> Any:
        return (
            await exchange(client, method, f"{server.url}/illegal", **options),
            await exchange(client, "GET", f"{server.url}/next"),
            server.bodies,
        )

    illegal, after, bodies = await on_both(kind, answer_all, act)
    assert illegal == Outcome(error=f"{kind}.LocalProtocolError")
    assert after.body == b"ok"
    assert bodies == [b""]


ADDRESSES = [
    "ftp://127.0.0.1/",
    "ws+unix://127.0.0.1/",
    "mailto:a@example.org",
    "/path",
    "//127.0.0.1/path",
    "http://",
    "http:///path",
    "https://",
    "http://name.invalid/",
    f"http://{'a' * 70}.invalid/",
    "http://a..invalid/",
    "http://127.0.0.1:1/",
    "http://[::1]:1/",
    "https://127.0.0.1:1/",
]


@pytest.mark.parametrize("address", ADDRESSES)
async def test_an_address_that_leads_nowhere(address: str, kind: str) -> None:
    """The same class of error, and the client goes on."""

    async def act(client: Any, server: RawServer) -> Any:
        return await exchange(client, "GET", address), await exchange(client, "GET", server.url)

    nowhere, after = await on_both(kind, answer_all, act)
    assert nowhere.error
    assert after.body == b"ok"


async def test_redirects_are_followed_with_cookies(kind: str) -> None:
    """A cookie that one answer sets goes with the next request, over the same connection."""

    async def script(peer: Peer) -> None:
        while True:
            if await peer.request() == "/first":
                lines = b"set-cookie: a=b; Path=/\r\nlocation: /second\r\ncontent-length: 4\r\n\r\ngone"
                await peer.send(b"HTTP/1.1 303 See Other\r\n" + lines)
            else:
                await peer.send(OK)

    async def act(client: Any, server: RawServer) -> Any:
        outcome = await exchange(client, "POST", f"{server.url}/first", content=b"body")
        return outcome, dict(client.cookies), heads(server), server.bodies, server.accepted

    outcome, cookies, sent, bodies, accepted = await on_both(kind, script, act, follow_redirects=True)
    assert (outcome.body, cookies, bodies, accepted) == (b"ok", {"a": "b"}, [b"body", b""], 1)
    assert b"Cookie: a=b" in sent[1]


async def test_userinfo_goes_as_authorization(kind: str) -> None:
    """And not into the host."""

    async def act(client: Any, server: RawServer) -> Any:
        outcome = await exchange(client, "GET", server.url.replace("://", "://user:pass@"))
        return outcome, heads(server)

    outcome, sent = await on_both(kind, answer_all, act)
    assert outcome.status == 200
    assert b"Authorization: Basic dXNlcjpwYXNz" in sent[0]
