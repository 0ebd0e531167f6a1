"""Reading from the connection: how much of a body is read, and that a wait ends with its client."""

from __future__ import annotations

from typing import Any

import anyio
import pytest
from starlette.requests import ClientDisconnect
from starlette.types import Message

from asynctask import StoreUnavailableError
from asynctask.asgi.requests import MAX_BODY, unless_gone
from tests.asgi.support import Echo


def scope(*headers: tuple[bytes, bytes], version: str = "1.1", path: str = "echo") -> dict[str, Any]:
    """A POST as a server hands it over."""
    return {
        "type": "http",
        "http_version": version,
        "method": "POST",
        "path": f"/api/{path}",
        "query_string": b"",
        "headers": list(headers),
    }


class Wire:
    """A connection that delivers these messages and records what is sent."""

    def __init__(self, *messages: Message) -> None:
        self._messages = iter(messages)
        self.received = 0
        self.sent: list[Message] = []

    async def receive(self) -> Message:
        self.received += 1
        return next(self._messages)

    async def send(self, message: Message) -> None:
        self.sent.append(message)


def chunk(body: bytes, more: bool = False) -> Message:
    """A part of a request's body."""
    return {"type": "http.request", "body": body, "more_body": more}


@pytest.mark.anyio
async def test_an_oversized_stream_is_not_read_to_its_end(echo: Echo) -> None:
    """Reading stops at the limit, however much more would come, and at the first byte of a wrong type."""
    async with echo.jobs:
        wire = Wire(*[chunk(b"1" * 65_536, more=True)] * 100)
        headers = (b"transfer-encoding", b"chunked"), (b"content-type", b"application/json")
        await echo.app(scope(*headers), wire.receive, wire.send)
        assert wire.sent[0]["status"] == 413
        assert wire.received == MAX_BODY // 65_536 + 1

        wire = Wire(*[chunk(b"1" * 65_536, more=True)] * 100)
        await echo.app(scope(headers[0], (b"content-type", b"text/plain")), wire.receive, wire.send)
        assert wire.sent[0]["status"] == 415
        assert wire.received == 1
    assert echo.given == []


@pytest.mark.anyio
async def test_a_client_that_leaves_before_its_request_is_complete_starts_nothing(echo: Echo) -> None:
    """Half a payload is no payload."""
    async with echo.jobs:
        wire = Wire(chunk(b'{"a":', more=True), {"type": "http.disconnect"})
        headers = (b"content-length", b"9"), (b"content-type", b"application/json")
        await echo.app(scope(*headers), wire.receive, wire.send)
        assert wire.sent[0]["status"] == 499
        assert await echo.jobs.runs() == []


@pytest.mark.anyio
@pytest.mark.parametrize(
    ("version", "headers"), [("2", ()), ("3", ()), ("1.1", ((b"transfer-encoding", b"chunked"),))]
)
async def test_a_body_that_no_length_announces_is_read(
    echo: Echo, version: str, headers: tuple[tuple[bytes, bytes], ...]
) -> None:
    """HTTP/2 and 3 need no header to say that a body follows."""
    async with echo.jobs:
        wire = Wire(chunk(b'{"a": 1}'))
        await echo.app(
            scope((b"content-type", b"application/json"), *headers, version=version), wire.receive, wire.send
        )
        assert wire.sent[0]["status"] == 202
        await echo.jobs.wait("echo")
    assert echo.given == [{"a": 1}]


@pytest.mark.anyio
async def test_waiting_ends_with_the_client() -> None:
    """`unless_gone` gives up as soon as the connection is closed, and cancels what it waited for."""
    ended = []

    async def for_ever() -> None:
        try:
            await anyio.sleep_forever()
        finally:
            ended.append(True)

    wire = Wire(chunk(b""), {"type": "http.disconnect"})
    with pytest.raises(ClientDisconnect):
        await unless_gone(wire.receive, for_ever())
    assert ended == [True]


@pytest.mark.anyio
async def test_waiting_gives_what_it_waited_for() -> None:
    """A result comes through as it is, and so does an error of ours, in no group."""

    async def never() -> Message:
        await anyio.sleep_forever()
        raise AssertionError

    async def result() -> int:
        await anyio.lowlevel.checkpoint()
        return 7

    async def failure() -> None:
        await anyio.lowlevel.checkpoint()
        raise StoreUnavailableError("gone")

    assert await unless_gone(never, result()) == 7
    with pytest.raises(StoreUnavailableError):
        await unless_gone(never, failure())
