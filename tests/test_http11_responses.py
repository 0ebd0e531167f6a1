"""Responses as the parser reads them: any split, against h11; malformed ones; what follows the end."""

from __future__ import annotations

from itertools import pairwise
from typing import Any

import h11
import pytest
from hypothesis import given
from hypothesis import strategies as st

from asynctask.http11 import ResponseParser

WITH_LENGTH = b"HTTP/1.1 200 OK\r\nContent-Length: 5\r\n\r\nhello"
CHUNKED = b"HTTP/1.1 200 OK\r\nTransfer-Encoding: chunked\r\n\r\n5\r\nhello\r\n0\r\n\r\n"
KINDS: dict[str, tuple[bytes, int, bytes, bool, bool]] = {
    # kind: (bytes, status, body, whether the connection may be reused, whether its end is the body's)
    "length": (WITH_LENGTH, 200, b"hello", True, False),
    "no body": (b"HTTP/1.1 404 Not Found\r\ncontent-length: 0\r\n\r\n", 404, b"", True, False),
    "chunked": (CHUNKED, 200, b"hello", True, False),
    "spaces after a size": (CHUNKED.replace(b"5\r\n", b"5 \r\n"), 200, b"hello", True, False),
    "extensions and trailers": (
        b"HTTP/1.1 200 OK\r\nTRANSFER-ENCODING: chunked\r\n\r\n"
        b'2;a=b\r\nhe\r\n3;c="d"\r\nllo\r\n0\r\nTrailer: t\r\nContent-Length: 9\r\n\r\n',
        200,
        b"hello",
        True,
        False,
    ),
    "until the end": (b"HTTP/1.1 200 OK\r\nX: y\r\n\r\nhello", 200, b"hello", False, True),
    "204": (b"HTTP/1.1 204 No Content\r\nX: y\r\n\r\n", 204, b"", True, False),
    "304 with a length": (b"HTTP/1.1 304 Not Modified\r\nContent-Length: 9\r\n\r\n", 304, b"", True, False),
    "informational first": (
        b"HTTP/1.1 100 Continue\r\n\r\nHTTP/1.1 103 Early Hints\r\nLink: x\r\n\r\n"
        b"HTTP/1.1 104 Later\r\n\r\n" + WITH_LENGTH,
        200,
        b"hello",
        True,
        False,
    ),
    "no reason": (b"HTTP/1.1 201\r\nContent-Length: 5\r\n\r\nhello", 201, b"hello", True, False),
    "odd reason": (
        b"HTTP/1.1 599 ni\xe9 mals!\r\nContent-Length: 5\r\n\r\nhello",
        599,
        b"hello",
        True,
        False,
    ),
    "odd headers": (
        b"HTTP/1.1 200 OK\r\nA:\r\nB: \t\r\na:1 2 \r\nC:\t\xe9\r\nA:\r\nContent-Length:5\r\nD:\r\n\r\nhello",
        200,
        b"hello",
        True,
        False,
    ),
    "bare line feeds": (b"HTTP/1.1 200 OK\nA:\nB: c\nContent-Length: 5\n\nhello", 200, b"hello", True, False),
    "HTTP/1.0": (b"HTTP/1.0 200 OK\r\nContent-Length: 5\r\n\r\nhello", 200, b"hello", False, False),
    "HTTP/1.0 until the end": (b"HTTP/1.0 200 OK\r\n\r\nhello", 200, b"hello", False, True),
    "close": (
        b"HTTP/1.1 200 OK\r\nConnection: x, Close\r\nContent-Length: 5\r\n\r\nhello",
        200,
        b"hello",
        False,
        False,
    ),
    "offers an upgrade": (
        b"HTTP/1.1 200 OK\r\nConnection: Upgrade\r\nUpgrade: h2c\r\nContent-Length: 5\r\n\r\nhello",
        200,
        b"hello",
        True,
        False,
    ),
    "both framings": (
        CHUNKED.replace(b"\r\n\r\n", b"\r\nContent-Length: 3\r\n\r\n", 1),
        200,
        b"hello",
        False,
        False,
    ),
}
HEADS = {
    "length": WITH_LENGTH[:-5],
    "chunked": CHUNKED.partition(b"5")[0],
    "neither": b"HTTP/1.1 200 OK\r\nX: y\r\n\r\n",
    "204": KINDS["204"][0],
    "informational first": KINDS["informational first"][0][:-5],
}


def read(*parts: bytes, bodyless: bool = False, parser: ResponseParser | None = None) -> dict[str, Any]:
    """All that a parser says after these parts."""
    parser = parser or ResponseParser()
    parser.start(bodyless=bodyless)
    body = b""
    for part in parts:
        parser.feed(part)
        body += b"".join(parser.chunks)
        parser.chunks = []
    names = ("status", "reason", "headers", "version", "begun", "complete", "reusable")
    return {"body": body, **{name: getattr(parser, name) for name in names}}


def split(data: bytes, places: list[int]) -> list[bytes]:
    """Data in parts, none of them empty."""
    edges = [0, *sorted({place % len(data) for place in places} - {0}), len(data)]
    return [data[start:end] for start, end in pairwise(edges)]


def by_h11(data: bytes, method: str, *, ends: bool) -> dict[str, Any]:
    """What h11 says of the response to such a request."""
    client = h11.Connection(h11.CLIENT)
    client.send(h11.Request(method=method, target="/", headers=[("Host", "a")]))
    client.send(h11.EndOfMessage())
    client.receive_data(data)
    if ends:
        client.receive_data(b"")
    response: Any = None
    body = b""
    while not isinstance(event := client.next_event(), h11.EndOfMessage):
        assert event is not h11.NEED_DATA
        if isinstance(event, h11.Response):
            response = event
        elif isinstance(event, h11.Data):
            body += event.data
    return {
        "body": body,
        "status": response.status_code,
        "reason": response.reason,
        "headers": response.headers.raw_items(),
        "version": b"HTTP/" + response.http_version,
        "begun": True,
        "complete": True,
        "reusable": client.their_state is h11.DONE and not ends,
    }


@pytest.mark.parametrize("kind", KINDS)
@given(places=st.lists(st.integers(0, 999)))
def test_a_response_is_the_same_in_any_parts(kind: str, places: list[int]) -> None:
    """However the bytes arrive, the response is the one that was sent."""
    data, status, body, reusable, ends = KINDS[kind]
    end = [b""] if ends else []
    got = read(*split(data, places), *end)
    assert (got["status"], got["body"], got["complete"], got["reusable"]) == (status, body, True, reusable)
    assert got == read(data, *end) == read(*split(data, list(range(len(data)))), *end)


@pytest.mark.parametrize("kind", KINDS)
def test_h11_reads_the_same(kind: str) -> None:
    """Status, reason, raw headers, body and reuse are those of another parser."""
    data, _, _, _, ends = KINDS[kind]
    expected = by_h11(data, "GET", ends=ends)
    if kind == "both framings":
        expected["reusable"] = False  # RFC 9112 §6.3 wants the connection closed; h11 keeps it
    assert read(data, *([b""] if ends else [])) == expected


@pytest.mark.parametrize("kind", HEADS)
@given(places=st.lists(st.integers(0, 999)))
def test_a_head_has_no_body(kind: str, places: list[int]) -> None:
    """The answer to a HEAD ends with its head, whatever that says, and the connection is kept."""
    got = read(*split(HEADS[kind], places), bodyless=True)
    assert got == by_h11(HEADS[kind], "HEAD", ends=False)
    assert got["reusable"]


@pytest.mark.parametrize(
    "head", [b"HTTP/1.1 200 OK\r\nConnection: Close\r\n\r\n", b"HTTP/1.0 200 OK\r\nContent-Length: 5\r\n\r\n"]
)
def test_a_head_may_be_the_last(head: bytes) -> None:
    """After a HEAD, too, the server may close the connection."""
    got = read(head, bodyless=True)
    assert (got["complete"], got["reusable"]) == (True, False)


def test_http10_may_keep_the_connection() -> None:
    """A server that speaks HTTP/1.0 and says keep-alive is believed (RFC 9112 §9.3)."""
    assert read(b"HTTP/1.0 200 OK\r\nConnection: keep-alive\r\nContent-Length: 0\r\n\r\n")["reusable"]


@given(
    kinds=st.lists(st.sampled_from([*KINDS, *(f"HEAD {kind}" for kind in HEADS)])),
    places=st.lists(st.integers(0, 999)),
)
def test_one_parser_reads_one_response_after_the_other(kinds: list[str], places: list[int]) -> None:
    """Nothing of a response is left over for the next one, with or without a HEAD in between."""
    shared = ResponseParser()
    for kind in kinds:
        bodyless = kind.startswith("HEAD ")
        data, *_, ends = (HEADS[kind[5:]], False) if bodyless else KINDS[kind]
        parts = [*split(data, places), *([b""] if ends else [])]
        alone = read(*parts, bodyless=bodyless)
        assert read(*parts, bodyless=bodyless, parser=shared) == alone
        if not alone["reusable"]:
            shared = ResponseParser()


def test_start_forgets_the_last_response() -> None:
    """Before the next head there is nothing to be read of the one before."""
    parser = ResponseParser()
    parser.feed(WITH_LENGTH)
    parser.start()
    assert (parser.status, parser.reason, parser.headers, parser.chunks) == (0, b"", [], [])
    assert (parser.begun, parser.complete, parser.reusable) == (False, False, False)


def test_a_head_is_there_before_its_body() -> None:
    """A response can be used once its head is whole."""
    parser = ResponseParser()
    parser.feed(WITH_LENGTH[:-6])
    assert not parser.begun
    parser.feed(WITH_LENGTH[-6:-2])
    assert (parser.begun, parser.status, parser.complete, parser.chunks) == (True, 200, False, [b"hel"])
