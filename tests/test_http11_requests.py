"""A request's head: the bytes that are sent, and what must not be sent."""

from __future__ import annotations

import h11
import pytest
from hypothesis import given
from hypothesis import strategies as st

from asynctask.http11 import Head, Illegal

HOST = (b"Host", b"a.example")
TOKENS = st.text("!#$%&'*+-.^_`|~09azAZ", min_size=1).map(str.encode)
FORBIDDEN = [bytes([code]) for code in (*range(0x20), 0x7F) if code != 0x09]


def head(*headers: tuple[bytes, bytes], method: bytes = b"GET", target: bytes = b"/") -> Head:
    """The head of a request with these headers after its Host."""
    return Head(method, target, [HOST, *headers])


def test_the_head_is_sent_as_given() -> None:
    """The order of the headers, the case of their names, repeated ones and empty values stay."""
    made = head((b"x-B", b"2"), (b"X-a", b""), (b"x-B", b"1; q=\t0"), method=b"PATCH", target=b"/a?b=%20#")
    assert made.data == (
        b"PATCH /a?b=%20# HTTP/1.1\r\nHost: a.example\r\nx-B: 2\r\nX-a: \r\nx-B: 1; q=\t0\r\n\r\n"
    )
    assert (made.chunked, made.length) == (False, 0)


def test_octets_beyond_ascii_may_stand_in_a_value_and_in_a_target() -> None:
    """A header's value may have obs-text (RFC 9110 §5.5), and so may a target, as some servers expect it."""
    assert b"X: caf\xe9\r\n" in head((b"X", b"caf\xe9")).data
    assert head(target=b"/\xc3\xa9").data.startswith(b"GET /\xc3\xa9 HTTP/1.1\r\n")


@pytest.mark.parametrize("bad", FORBIDDEN)
@pytest.mark.parametrize("form", [b"%b", b"a%b", b"%ba", b"a%ba"])
def test_controls_are_refused_everywhere(form: bytes, bad: bytes) -> None:
    """No CR, LF, NUL or other control gets into a name, a value, a method or a target, and it is named."""
    text = form % bad
    for method, target, header in [
        (b"GET", b"/", (text, b"v")),
        (b"GET", b"/", (b"n", text)),
        (text, b"/", (b"n", b"v")),
        (b"GET", text, (b"n", b"v")),
    ]:
        with pytest.raises(Illegal) as raised:
            head(header, method=method, target=target)
        assert repr(text) in str(raised.value)


@pytest.mark.parametrize(
    ("name", "value"),
    [
        (b"A", b"b\r\nEvil: 1"),
        (b"A", b"b\nEvil: 1"),
        (b"A", b"b\r\n\r\nGET / HTTP/1.1\r\nHost: c"),
        (b"A: b\r\nEvil", b"1"),
        (b"Evil: b", b"1"),
        (b"Transfer-Encoding: chunked", b""),
        (b"Evil:", b"1"),
        (b"", b"1"),
        (b"A ", b"1"),
        (b" A", b"1"),
        (b"A\tB", b"1"),
        (b"caf\xe9", b"1"),
        (b"Host", b"b\r\nEvil: 1"),
    ],
)
def test_no_header_smuggles_in_another_one(name: bytes, value: bytes) -> None:
    """What would be read as a header of its own is refused, however well-formed; so is no name."""
    with pytest.raises(Illegal) as raised:
        Head(b"GET", b"/", [(name, value)] if name == b"Host" else [HOST, (name, value)])
    assert repr(name) in str(raised.value)
    assert repr(value) in str(raised.value)


@pytest.mark.parametrize(
    ("method", "target"),
    [
        (b"GET / HTTP/1.1\r\nEvil: 1\r\nA: b", b"/"),
        (b"GET", b"/ HTTP/1.1\r\nEvil: 1"),
        (b"GET", b"/ HTTP/1.1\r\nHost: b\r\n\r\nGET /"),
        (b"GET /a", b"/b"),
        (b"GET", b"/a b"),
        (b"GET", b""),
        (b"", b"/"),
        (b"GE(T", b"/"),
        (b"caf\xe9", b"/"),
    ],
)
def test_no_request_line_smuggles_in_a_header(method: bytes, target: bytes) -> None:
    """The same holds for the method and the target."""
    with pytest.raises(Illegal, match="request line") as raised:
        head(method=method, target=target)
    assert repr(method) in str(raised.value)
    assert repr(target) in str(raised.value)


@given(
    method=TOKENS | st.binary(max_size=8),
    headers=st.lists(st.tuples(TOKENS | st.binary(max_size=8), st.binary(max_size=20)), max_size=4),
    target=st.text("/?=&%az09", min_size=1).map(str.encode) | st.binary(max_size=8),
)
def test_a_server_reads_what_was_meant(
    method: bytes, target: bytes, headers: list[tuple[bytes, bytes]]
) -> None:
    """Whatever is given: it is refused, or a parser on the other side gets exactly that."""
    try:
        made = head(*headers, method=method, target=target)
    except Illegal:
        return
    server = h11.Connection(h11.SERVER)
    server.receive_data(made.data)
    try:
        request = server.next_event()
    except h11.RemoteProtocolError:  # stricter than RFC 9112, as with obs-text in a target
        lines = made.data.split(b"\r\n")
        assert lines == [
            b"%b %b HTTP/1.1" % (method, target),
            *(b"%b: %b" % h for h in [HOST, *headers]),
            b"",
            b"",
        ]
        return
    assert isinstance(request, h11.Request)
    assert (request.method, request.target) == (method, target)
    assert [(name.lower(), value) for name, value in request.headers] == [
        (name.lower(), value.strip(b" \t")) for name, value in [HOST, *headers]
    ]


def test_a_host_is_needed_and_only_one() -> None:
    """A request has one Host, of whatever case (RFC 9112 §3.2)."""
    with pytest.raises(Illegal, match="Host is missing"):
        Head(b"GET", b"/", [(b"X-Host", b"a")])
    with pytest.raises(Illegal, match=r"more than one Host: b'b\.example'"):
        head((b"hOST", b"b.example"))
    assert Head(b"GET", b"/", [(b"hOST", b"")]).data == b"GET / HTTP/1.1\r\nhOST: \r\n\r\n"


@pytest.mark.parametrize(
    "value", [b"", b"-1", b"+1", b" 1", b"1 ", b"1, 1", b"0x1", b"1.0", b"\xb2", b"9" * 5000]
)
def test_a_length_is_a_number(value: bytes) -> None:
    """A Content-Length has digits only, and no more than a body can have; the value is named."""
    with pytest.raises(Illegal, match="Content-Length") as raised:
        head((b"content-LENGTH", value))
    assert repr(value) in str(raised.value)


def test_lengths_must_not_contradict_each_other() -> None:
    """Two Content-Lengths are refused unless they are the same."""
    assert head((b"Content-Length", b"12")).length == 12
    assert head((b"Content-Length", b"12"), (b"content-length", b"12")).length == 12
    with pytest.raises(Illegal, match="Content-Length must be one number, got b'13'"):
        head((b"Content-Length", b"12"), (b"content-length", b"13"))


@pytest.mark.parametrize(
    "value", [b"", b"gzip", b"gzip, chunked", b"chunked, chunked", b"identity", b" chunked"]
)
def test_no_other_transfer_encoding_than_chunked(value: bytes) -> None:
    """Nothing else is applied to the body, so nothing else may be said; the value is named."""
    with pytest.raises(Illegal, match="Transfer-Encoding") as raised:
        head((b"transfer-ENCODING", value))
    assert repr(value) in str(raised.value)


def test_a_body_is_chunked_once() -> None:
    """A second Transfer-Encoding would mean chunks within chunks (RFC 9112 §7.1)."""
    assert head((b"transfer-encoding", b"Chunked")).chunked
    with pytest.raises(Illegal, match="once"):
        head((b"Transfer-Encoding", b"chunked"), (b"Transfer-Encoding", b"chunked"))


@pytest.mark.parametrize("order", [1, -1])
def test_chunks_and_a_length_are_never_sent_together(order: int) -> None:
    """Where both are given the chunks decide, and no length is sent that another server could go by."""
    both = [(b"Content-Length", b"5"), (b"Transfer-Encoding", b"chunked")][::order]
    made = head(*both, (b"X", b"y"))
    assert made.data == (b"GET / HTTP/1.1\r\nHost: a.example\r\nTransfer-Encoding: chunked\r\nX: y\r\n\r\n")
    assert made.chunked
