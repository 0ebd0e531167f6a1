"""What a client makes of a server's bytes: the same on PooledTransport as on httpx's own transport."""

from __future__ import annotations

import gzip
from dataclasses import dataclass
from typing import TYPE_CHECKING, Any

import pytest

from tests.connection_support import BACKENDS, Outcome, exchange, on_both
from tests.raw_server import OK, Peer, RawServer, serve_raw
from tests.remote_support import client_of

if TYPE_CHECKING:
    from tests.raw_server import Script

pytestmark = [pytest.mark.anyio, pytest.mark.parametrize(("anyio_backend", "kind"), BACKENDS)]

PACKED = gzip.compress(b"packed" * 100)


@dataclass(frozen=True)
class Case:
    """Bytes that answer a request of that method; `close` ends the connection after them."""

    answer: bytes
    method: str = "GET"
    close: bool = False


def head(status: str, *lines: str, version: str = "1.1") -> bytes:
    return "\r\n".join([f"HTTP/{version} {status}", *lines, "", ""]).encode("latin-1")


def ok(*lines: str, version: str = "1.1") -> bytes:
    return head("200 OK", *lines, version=version)


CHUNKED = "Transfer-Encoding: chunked"
CASES = {
    "length": Case(ok("Content-Length: 4") + b"body"),
    "no body": Case(ok("Content-Length: 0")),
    "chunked": Case(ok(CHUNKED) + b"3\r\none\r\n3\r\ntwo\r\n0\r\n\r\n"),
    "chunked, capital": Case(ok("TRANSFER-ENCODING: chunked") + b"A\r\n0123456789\r\n0\r\n\r\n"),
    "trailers": Case(ok(CHUNKED, "Trailer: X-T") + b"3\r\none\r\n0\r\nX-T: 1\r\n\r\n"),
    "chunk extensions": Case(ok(CHUNKED) + b"3;a=b\r\none\r\n0;c\r\n\r\n"),
    "space after chunk size": Case(ok(CHUNKED) + b"3 \r\none\r\n0\r\n\r\n"),
    "to the end": Case(ok("X-A: 1") + b"all of it", close=True),
    "to the end, nothing": Case(ok("X-A: 1"), close=True),
    "HEAD with length": Case(ok("Content-Length: 400"), "HEAD"),
    "HEAD without": Case(ok("X-A: 1"), "HEAD"),
    "HEAD chunked": Case(ok(CHUNKED), "HEAD"),
    "HEAD closing": Case(ok("Content-Length: 400", "Connection: close"), "HEAD", close=True),
    "HEAD 1.0": Case(ok("Content-Length: 400", version="1.0"), "HEAD", close=True),
    "204": Case(head("204 No Content")),
    "204 with length": Case(head("204 No Content", "Content-Length: 5")),
    "304": Case(head("304 Not Modified", 'ETag: "a"')),
    "304 with length": Case(head("304 Not Modified", "Content-Length: 400")),
    "205 with body": Case(head("205 Reset Content", "Content-Length: 2") + b"ab"),
    "100": Case(head("100 Continue") + ok("Content-Length: 4") + b"body"),
    "103": Case(head("103 Early Hints", "Link: </a>") + ok("X-A: 1", "Content-Length: 4") + b"body"),
    "100, 102, 103": Case(
        head("100 Continue") + head("102 Processing") + head("103 Early Hints", "X-B: 1") + OK
    ),
    "103 and HEAD": Case(head("103 Early Hints", "Link: </a>") + ok("Content-Length: 4"), "HEAD"),
    "100 and nothing": Case(head("100 Continue"), close=True),
    "gzip": Case(ok("Content-Encoding: gzip", f"Content-Length: {len(PACKED)}") + PACKED),
    "not gzip": Case(ok("Content-Encoding: gzip", "Content-Length: 4") + b"body"),
    "1.0": Case(ok("Content-Length: 4", version="1.0") + b"body", close=True),
    "1.0 to the end": Case(ok(version="1.0") + b"body", close=True),
    "closing": Case(ok("Connection: close", "Content-Length: 4") + b"body", close=True),
    "closing, not closed": Case(ok("Connection: close", "Content-Length: 4") + b"body"),
    "close among others": Case(ok("Connection: X-A, Close", "Content-Length: 4") + b"body"),
    "closed against its word": Case(ok("Content-Length: 4") + b"body", close=True),
    "no reason": Case(b"HTTP/1.1 200 \r\nContent-Length: 0\r\n\r\n"),
    "no reason, no space": Case(b"HTTP/1.1 200\r\nContent-Length: 0\r\n\r\n"),
    "reason in Latin-1": Case(head("404 Niché", "Content-Length: 0")),
    "odd status": Case(head("299 So So", "Content-Length: 0")),
    "status 999": Case(head("999 Denied", "Content-Length: 0")),
    "headers": Case(
        ok("X-A: 1", "x-a: 2", "X-Empty:", "X-Wide: \t a  b \t", "X-Latin: é", "Content-Length: 0")
    ),
    "line feeds alone": Case(b"HTTP/1.1 200 OK\nContent-Length: 4\n\nbody"),
    "length twice, not equal": Case(ok("Content-Length: 4", "Content-Length: 5") + b"body", close=True),
    "length no number": Case(ok("Content-Length: four") + b"body", close=True),
    "length negative": Case(ok("Content-Length: -4") + b"body", close=True),
    "space before colon": Case(ok("X-A : 1", "Content-Length: 0"), close=True),
    "NUL in a header": Case(ok("X-A: a\0b", "Content-Length: 0"), close=True),
    "no colon": Case(ok("nonsense", "Content-Length: 0"), close=True),
    "nothing": Case(b"", close=True),
    "half a head": Case(b"HTTP/1.1 200 OK\r\nContent-Le", close=True),
    "cut body": Case(ok("Content-Length: 400") + b"body", close=True),
    "cut chunk": Case(ok(CHUNKED) + b"10\r\nbody", close=True),
    "no last chunk": Case(ok(CHUNKED) + b"3\r\none\r\n", close=True),
    "bad chunk": Case(ok(CHUNKED) + b"zz\r\nbody\r\n0\r\n\r\n", close=True),
    "chunk too long": Case(ok(CHUNKED) + b"3\r\nfour\r\n0\r\n\r\n", close=True),
    "other transfer coding": Case(ok("Transfer-Encoding: gzip") + b"body", close=True),
    "no HTTP": Case(b"SSH-2.0-OpenSSH_9.6\r\n", close=True),
    "HTML alone": Case(b"<html><body>Hello</body></html>\r\n\r\n", close=True),
    "HTTP/2": Case(b"HTTP/2 200 OK\r\nContent-Length: 0\r\n\r\n", close=True),
    "small letters": Case(b"http/1.1 200 OK\r\nContent-Length: 0\r\n\r\n", close=True),
    "status of two digits": Case(head("20 OK", "Content-Length: 0"), close=True),
    "endless head": Case(ok(*("X-A: " + "a" * 1000 for _ in range(200)), "Content-Length: 0")),
    "large head": Case(ok(*("X-A: " + "a" * 1000 for _ in range(60)), "Content-Length: 0")),
    "101 unasked": Case(head("101 Switching Protocols", "Upgrade: x", "Connection: upgrade"), close=True),
    "Upgrade in a 200": Case(ok("Upgrade: h2c", "Connection: Upgrade", "Content-Length: 4") + b"body"),
}
OUR_WAY = {
    # h11 never keeps them
    "1.0 kept": (Case(ok("Content-Length: 4", "Connection: keep-alive", version="1.0") + b"body"), 200, 1),
    # either is allowed, RFC 9110 §8.6; httpx takes it
    "length twice, equal": (Case(ok("Content-Length: 4", "Content-Length: 4") + b"body", close=True), 0, 2),
    # likewise
    "lengths in one line": (Case(ok("Content-Length: 4, 4") + b"body", close=True), 0, 2),
    # RFC 9112 §6.3: perhaps smuggled; httpx goes on with it
    "length and chunked": (Case(ok("Content-Length: 4", CHUNKED) + b"3\r\none\r\n0\r\n\r\n"), 200, 2),
    # llhttp does not know it; httpx unfolds it
    "folded header": (Case(b"HTTP/1.1 200 OK\r\nX-A: 1\r\n 2\r\nContent-Length: 0\r\n\r\n"), 0, 2),
    # httpx refuses it
    "blank line first": (Case(b"\r\n" + ok("Content-Length: 0"), close=True), 200, 2),
    # httpx takes it for the next answer
    "more than asked": (Case(ok("Content-Length: 4") + b"body and more"), 200, 2),
    # likewise
    "two answers": (Case(OK + OK), 200, 2),
}
"""Where the two differ, with our status or 0 for an error, and the connections of two requests."""


def script_of(case: Case) -> Script:
    """Answer with these bytes, and to the next request as usual."""

    async def script(peer: Peer) -> None:
        while True:
            if await peer.request() == "/next":
                await peer.send(OK)
                continue
            await peer.send(case.answer)
            if case.close:
                return

    return script


async def two_requests(client: Any, server: RawServer, case: Case) -> tuple[Outcome, Outcome, int]:
    """What becomes of both, and the connections that were made for them."""
    first = await exchange(client, case.method, f"{server.url}/first")
    if case.close:
        await server.settle(open=0)
    second = await exchange(client, "GET", f"{server.url}/next")
    return first, second, server.accepted


@pytest.mark.parametrize("name", CASES)
async def test_an_answer_is_read_as_httpx_reads_it(name: str, kind: str) -> None:
    """The same response or class of error, and as many connections after a further request."""

    async def act(client: Any, server: RawServer) -> Any:
        return await two_requests(client, server, CASES[name])

    first, second, _ = await on_both(kind, script_of(CASES[name]), act)
    assert bool(first.status) != bool(first.error)
    assert (second.status, second.body) == (200, b"ok")


@pytest.mark.parametrize("name", OUR_WAY)
async def test_an_answer_is_read_in_another_way(name: str, kind: str) -> None:
    """None of them costs the next request its own answer."""
    case, status, accepted = OUR_WAY[name]
    async with serve_raw(script_of(case)) as server, client_of(kind, max_connections=1) as client:
        first, *after = await two_requests(client, server, case)
        assert first.status == status
        assert first.error == ("" if status else f"{kind}.RemoteProtocolError")
        assert after == [Outcome(200, b"HTTP/1.1", b"OK", [(b"content-length", b"2")], b"ok"), accepted]
