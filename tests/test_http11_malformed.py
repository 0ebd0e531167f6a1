"""Responses that are not HTTP/1.1, too much or not whole; and what comes after the end of one."""

from __future__ import annotations

import pytest
from hypothesis import given
from hypothesis import strategies as st

from asynctask.http11 import MAX_HEAD, Malformed, ResponseParser
from tests.test_http11_responses import CHUNKED, KINDS, WITH_LENGTH, read

OK = b"HTTP/1.1 200 OK\r\n"
CHUNKS = OK + b"Transfer-Encoding: chunked\r\n\r\n"


@pytest.mark.parametrize(
    "data",
    [
        b"\x16\x03\x01\x02\x00",
        b"SSH-2.0-OpenSSH_9.2\r\n",
        b"200 OK\r\n\r\n",
        b"HTTP/1.1 OK\r\n\r\n",
        b"HTTP/1.1 20 OK\r\n\r\n",
        b"HTTP/1.1 099 Low\r\n\r\n",
        b"HTTP/3.7 200 OK\r\n\r\n",
        b"GET / HTTP/1.1\r\nHost: a\r\n\r\n",
        OK + b"no colon\r\n\r\n",
        OK + b"A : b\r\n\r\n",
        OK + b": b\r\n\r\n",
        OK + b"A: b\x00c\r\n\r\n",
        OK + b"A: b\rC: d\r\n\r\n",
        OK + b"A: b\r\n folded\r\n\r\n",
        OK + b"Content-Length: -1\r\n\r\n",
        OK + b"Content-Length: 1x\r\n\r\n",
        OK + b"Content-Length:\r\n\r\n",
        OK + b"Content-Length: 99999999999999999999999\r\n\r\n",
        OK + b"Content-Length: 5\r\nContent-Length: 6\r\n\r\n",
        CHUNKS + b"x\r\n",
        CHUNKS + b"-1\r\n",
        CHUNKS + b"99999999999999999999\r\n",
        CHUNKS + b"5\r\nhello!\r\n",
        CHUNKS + b"0\r\nno colon\r\n\r\n",
        b"HTTP/1.1 104 Later\r\nContent-Length: 3\r\n\r\nabc" + WITH_LENGTH,
        b"HTTP/1.1 104 Later\r\nTransfer-Encoding: chunked\r\n\r\n0\r\n\r\n" + WITH_LENGTH,
    ],
)
def test_what_is_not_http_is_refused(data: bytes) -> None:
    """Garbage in a status line, a header, a length or a chunk is an error, in one part or byte by byte."""
    for parts in ([data], [bytes([octet]) for octet in data]):
        with pytest.raises(Malformed, match=r"not HTTP/1\.1"):
            read(*parts)


@given(st.binary(min_size=1))
def test_no_bytes_bring_down_the_parser(data: bytes) -> None:
    """Whatever arrives in place of a response, Malformed is all that is raised."""
    for prefix in (b"", OK, CHUNKS):
        parser = ResponseParser()
        try:
            parser.feed(prefix + data)
            parser.feed(b"")
        except Malformed:
            pass
        else:
            assert parser.complete


@pytest.mark.parametrize("upgrade", [b"", b"Connection: Upgrade\r\nUpgrade: websocket\r\n"])
@pytest.mark.parametrize("bodyless", [True, False])
def test_switching_protocols_is_refused(upgrade: bytes, bodyless: bool) -> None:
    """Nobody asks for another protocol here, so 101 is no answer, and it is named."""
    with pytest.raises(Malformed, match="101"):
        read(b"HTTP/1.1 101 Switching Protocols\r\n" + upgrade + b"\r\n" + WITH_LENGTH, bodyless=bodyless)


@pytest.mark.parametrize(
    ("start", "piece"),
    [
        (OK + b"A: ", b"a" * 100),
        (OK + b"A", b"a" * 100),
        (OK, b"A: b\r\n" * 20),
        (b"HTTP/1.1 200 ", b"a" * 100),
        (b"", b"HTTP/1.1 100 Continue\r\n\r\n"),
        (b"", b"HTTP/1.1 103 Early Hints\r\nLink: a\r\n\r\n"),
        (b"", b"\r\n" * 50),
        (CHUNKS + b"0\r\n", b"A: b\r\n" * 20),
        (CHUNKS + b"0\r\nA: ", b"a" * 100),
        (CHUNKS + b"5;", b"a" * 100),
    ],
)
def test_what_never_ends_is_refused(start: bytes, piece: bytes) -> None:
    """One endless header, endless small ones, informational answers, trailers, a chunk's extension."""
    parser = ResponseParser()
    if start:
        parser.feed(start)
    with pytest.raises(Malformed, match=f"{MAX_HEAD:,} bytes"):
        for _ in range(MAX_HEAD // len(piece) + 1):
            parser.feed(piece)


@pytest.mark.parametrize("bodyless", [True, False])
def test_a_large_head_is_read(bodyless: bool) -> None:
    """What is within the limit is read, in any number of parts, and again on the same connection."""
    data = OK + b"A: " + b"a" * (MAX_HEAD - 100) + b"\r\nContent-Length: 0\r\n\r\n"
    parser = ResponseParser()
    for _ in range(2):
        parts = [data[at : at + 1000] for at in range(0, len(data), 1000)]
        assert read(*parts, bodyless=bodyless, parser=parser)["reusable"]


def test_a_body_has_no_limit() -> None:
    """The limit is for what brings the body no further: a long stream in tiny packets goes on."""
    parser = ResponseParser()
    parser.feed(CHUNKS)
    body = b""
    for _ in range(MAX_HEAD // 4):
        for part in (b"1;abcdef\r\n", b"x", b"\r\n"):
            parser.feed(part)
            body += b"".join(parser.chunks)
            parser.chunks = []
    assert body == b"x" * (MAX_HEAD // 4)


@pytest.mark.parametrize("kind", [kind for kind, (*_, ends) in KINDS.items() if not ends])
def test_an_end_too_early_is_noticed(kind: str) -> None:
    """A response that says where it ends is whole there and nowhere before."""
    data = KINDS[kind][0]
    for length in range(len(data)):
        with pytest.raises(Malformed, match="closed the connection"):
            read(*([data[:length]] if length else []), b"")
    got = read(data, b"")
    assert (got["complete"], got["reusable"]) == (True, False)


def test_an_end_within_the_head_is_noticed() -> None:
    """Also a response that goes on until the end of the connection needs a whole head."""
    data = KINDS["until the end"][0]
    for length in range(1, data.index(b"\r\n\r\n") + 4):
        with pytest.raises(Malformed, match="without a whole answer"):
            read(data[:length], b"")


def test_an_unknown_coding_is_not_whole_at_the_end() -> None:
    """Of a transfer coding other than chunked nobody here can tell whether it ended."""
    with pytest.raises(Malformed, match="before the end"):
        read(OK + b"Transfer-Encoding: gzip\r\n\r\nhello", b"")


@pytest.mark.parametrize("extra", [WITH_LENGTH, CHUNKED, b"HTTP/1.1 101 Up\r\n\r\n", b"H", b"hello", b"\x00"])
@pytest.mark.parametrize("kind", ["length", "chunked", "204", "304 with a length", "no body", "close"])
@pytest.mark.parametrize("later", [True, False])
def test_what_follows_the_end_is_not_for_the_next_request(kind: str, extra: bytes, later: bool) -> None:
    """After data that nobody asked for a connection is not used again; the response before it is whole."""
    data = KINDS[kind][0]
    alone = read(data)
    got = read(data, extra) if later else read(data + extra)
    assert got.pop("version").startswith(b"HTTP/1.")
    assert got == {name: value for name, value in alone.items() if name != "version"} | {"reusable": False}


@pytest.mark.parametrize("framing", [b"", b"Content-Length: 5\r\n"])
@pytest.mark.parametrize("later", [True, False])
def test_a_body_after_a_head_is_not_for_the_next_request(framing: bytes, later: bool) -> None:
    """A server that answers a HEAD with a body has its connection closed."""
    head = OK + framing + b"\r\n"
    got = read(head, b"hello", bodyless=True) if later else read(head + b"hello", bodyless=True)
    assert (got["status"], got["body"], got["complete"], got["reusable"]) == (200, b"", True, False)


def test_an_empty_line_after_the_end_does_no_harm() -> None:
    """Some servers send one; it is passed over before the next status line."""
    parser = ResponseParser()
    first = read(WITH_LENGTH + b"\r\n", parser=parser)
    assert first["reusable"]
    assert read(b"\r\n" + WITH_LENGTH, parser=parser) == first
