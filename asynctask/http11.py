"""HTTP/1.1's messages, the client's side: a request's head written, a response read. No I/O.

httptools (llhttp in C) reads. What may stand in a request is checked here, by the grammar of RFC 9112 and of
RFC 9110 §5, so that no header can smuggle in another one.
"""

from __future__ import annotations

import re

import httptools

MAX_HEAD = 100 * 1024
"""Bytes that may arrive and bring the body no further: heads, informational ones too, and trailers."""
FRAMING = frozenset((b"content-length", b"transfer-encoding"))
LENIENCIES = {
    "lenient_optional_cr_before_lf": True,  # RFC 9112 §2.2 allows it
    "lenient_chunked_length": True,  # RFC 9112 §6.3: the chunks decide, and it was the last response
    "lenient_spaces_after_chunk_size": True,
}
"""What httpx's own transport takes from a server, too."""

_TOKEN = rb"[!#$%&'*+\-.^_`|~0-9A-Za-z]+"
_VALUE = rb"[\t\x20-\x7e\x80-\xff]*"
_TARGET = rb"[\x21-\x7e\x80-\xff]+"
_HEAD = re.compile(rb"%b %b HTTP/1\.1\r\n(?:%b: %b\r\n)*\r\n" % (_TOKEN, _TARGET, _TOKEN, _VALUE))
_MAX_DIGITS = 18  # of a length; more than anybody can send


class Illegal(ValueError):
    """A request that must not be sent."""


class Malformed(ValueError):
    """A response that is not HTTP/1.1, or not whole."""


class Head:
    """A request's head, and how its body is framed.

    Args:
        method, target: as in the request line.
        headers: as they are sent.

    Raises:
        Illegal: something in it does not belong there.

    Attributes:
        data: the bytes to send.
        chunked: whether the body goes in chunks.
        length: the body's bytes, where it does not.
        closes: whether it is the connection's last request.
    """

    __slots__ = ("chunked", "closes", "data", "length")

    def __init__(self, method: bytes, target: bytes, headers: list[tuple[bytes, bytes]]) -> None:
        lines = [b"%b %b HTTP/1.1\r\n" % (method, target)]
        self.chunked: bool = False
        self.closes: bool = False
        length: bytes | None = None
        host = False
        for name, value in headers:
            lines.append(b"%b: %b\r\n" % (name, value))
            lower = name.lower()
            if lower == b"host":
                if host:
                    raise Illegal(f"more than one Host: {value!r}")
                host = True
                lines.insert(1, lines.pop())  # RFC 9110 §7.2: as early as possible
            elif lower == b"content-length":
                if not value.isdigit() or len(value) > _MAX_DIGITS or length not in (None, value):
                    raise Illegal(f"Content-Length must be one number, got {value!r}")
                length = value
            elif lower == b"transfer-encoding":
                if self.chunked or value.lower() != b"chunked":
                    raise Illegal(f"Transfer-Encoding must be chunked, once, got {value!r}")
                self.chunked = True
            elif lower == b"connection":
                self.closes = self.closes or b"close" in value.lower()
            elif b":" in name:  # in the head it would look like another name and its value
                raise Illegal(_what_is_wrong(method, target, headers))
        if self.chunked and length is not None:  # RFC 9112 §6.2: never both
            lines = [line for line in lines if line[:15].lower() != b"content-length:"]
        lines.append(b"\r\n")
        self.data: bytes = b"".join(lines)
        self.length: int = int(length or 0)
        if not host:
            raise Illegal("the header Host is missing")
        # As many lines as were put in: what a value has smuggled in may itself be by the grammar.
        if _HEAD.fullmatch(self.data) is None or self.data.count(b"\r\n") != len(lines):
            raise Illegal(_what_is_wrong(method, target, headers))


def _what_is_wrong(method: bytes, target: bytes, headers: list[tuple[bytes, bytes]]) -> str:
    for name, value in headers:
        if re.fullmatch(_TOKEN, name) is None or re.fullmatch(_VALUE, value) is None:
            return f"illegal header: {name!r}: {value!r}"
    return f"illegal request line: {method!r} {target!r}"


class ResponseParser:
    """Reads the responses of one connection, one after the other; informational ones are passed over.

    Attributes:
        status, reason, headers: of the response; there once `begun`.
        begun: whether the head is whole.
        complete: whether the body is, too.
        chunks: what has arrived of the body; whoever takes it empties the list.
        reusable: once complete, whether a further request may follow on the connection.
    """

    def __init__(self) -> None:
        self.start()

    def start(self, *, bodyless: bool = False) -> None:
        """Get ready for the next response.

        Args:
            bodyless: the response has no body, whatever its head says, as after a HEAD (RFC 9110 §9.3.2).
        """
        if bodyless or getattr(self, "_bodyless", True):
            self._parser = httptools.HttpResponseParser(self)
            self._parser.set_dangerous_leniencies(**LENIENCIES)
        self._bodyless = bodyless
        self._size = 0
        self._skip = False
        self.headers: list[tuple[bytes, bytes]] = []
        self.chunks: list[bytes] = []
        self.reason: bytes = b""
        self.status: int = 0
        self.begun: bool = False
        self.complete: bool = False
        self.reusable: bool = False

    @property
    def version(self) -> bytes:
        """`HTTP/1.1` or what the server speaks."""
        return b"HTTP/" + self._parser.get_http_version().encode("ascii")

    def feed(self, data: bytes) -> None:
        """Take what has arrived; b"" is the end of the stream.

        Raises:
            Malformed: it is not HTTP, too much, or it ended too early.
        """
        if not data:
            self._end()
            return
        try:
            self._parser.feed_data(data)
        except (httptools.HttpParserError, httptools.HttpParserUpgrade) as exc:
            if not self.complete:
                why = exc.__context__ or exc  # llhttp's word for what a callback raised says nothing
                raise Malformed(f"the server's answer is not HTTP/1.1: {why}") from exc
            self.reusable = False
        if self.chunks or self.complete:
            self._size = 0
            return
        self._size += len(data)
        if self._size > MAX_HEAD:
            where = "trailers" if self.begun else "head"
            raise Malformed(f"the {where} of the server's answer: more than {MAX_HEAD:,} bytes")

    def _end(self) -> None:
        if not self.begun:
            raise Malformed("the server closed the connection without a whole answer")
        if not self.complete and self._framed():
            raise Malformed("the server closed the connection before the end of its answer's body")
        self.complete = True
        self.reusable = False

    def on_message_begin(self) -> None:
        """httptools."""
        if self.complete:
            self.reusable = False  # nobody asked for another one

    def on_status(self, status: bytes) -> None:
        """httptools; perhaps in parts."""
        if not self.begun:
            self.reason += status

    def on_header(self, name: bytes, value: bytes) -> None:
        """httptools; also for trailers, which httpx does not know."""
        if not self.begun:
            self.headers.append((name, value.rstrip(b" \t")))

    def on_headers_complete(self) -> None:
        """httptools."""
        if self.begun:
            return
        status = self._parser.get_status_code()
        self._skip = status < 200
        if self._skip:
            if status < 100 or status == 101:
                raise Malformed(f"nobody asked for the status {status}")
            if status > 103 and self._framed():  # llhttp would take what follows for its body
                raise Malformed(f"the status {status} with a body")
            self.headers, self.reason = [], b""
            return
        self.status = status
        self.begun = True
        if self._bodyless:
            self.complete = True
            closes = any(
                name.lower() == b"connection" and b"close" in value.lower() for name, value in self.headers
            )
            self.reusable = not closes and self._parser.get_http_version() == "1.1"

    def on_body(self, body: bytes) -> None:
        """httptools."""
        if self.complete:
            self.reusable = False
        else:
            self.chunks.append(body)

    def on_message_complete(self) -> None:
        """httptools."""
        if self._skip or self.complete:
            self._skip = False
            return
        self.complete = True
        self.reusable = self._parser.should_keep_alive() and self._framed() < 2

    def _framed(self) -> int:
        return sum(name.lower() in FRAMING for name, _ in self.headers)
