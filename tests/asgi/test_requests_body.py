"""The body of a trigger: what is taken as a payload, and how everything else is refused."""

from __future__ import annotations

from collections.abc import Iterator
from typing import Any

import anyio
import pytest
from starlette.requests import ClientDisconnect, Request
from starlette.testclient import TestClient
from starlette.types import Message

from asynctask import Jobs, Run, StoreUnavailableError
from asynctask.asgi.requests import MAX_BODY, unless_gone
from tests.asgi.support import application, assert_problem, settled

JSON = {"Content-Type": "application/json"}


class Echo:
    """An application whose job keeps the payload it was given."""

    def __init__(self, **options: Any) -> None:
        self.jobs = Jobs()
        self.given: list[Any] = []

        @self.jobs.job("echo")
        async def echo(run: Run, payload: Any) -> None:
            self.given.append(payload)

        @self.jobs.job("bare")
        async def bare(run: Run) -> None:
            self.given.append("bare")

        self.app = application(self.jobs, **options)


@pytest.fixture
def echo() -> Echo:
    """A job that takes any payload, and one that takes none."""
    return Echo()


@pytest.fixture
def client(echo: Echo) -> Iterator[TestClient]:
    """A client of it."""
    with TestClient(echo.app) as client:
        yield client


@pytest.mark.parametrize(
    ("body", "payload"),
    [
        (b"{}", {}),
        (b' {"a": [1, 2.5, null, true, "\xc3\xa9"]}\n', {"a": [1, 2.5, None, True, "é"]}),
        (b"null", None),
        (b"7", 7),
        (b'"text"', "text"),
        (b"[]", []),
        (b"123456789012345678901234567890", 123456789012345678901234567890),
        (b'{"a": 1, "a": 2}', {"a": 2}),
        (b'"\\ud83d\\ude00"', "😀"),
    ],
)
@pytest.mark.parametrize(
    "content_type",
    [
        "application/json",
        "application/json; charset=utf-8",
        "APPLICATION/JSON ;charset=UTF-8",
        " application/json",
    ],
)
def test_json_is_the_payload(
    client: TestClient, echo: Echo, body: bytes, payload: Any, content_type: str
) -> None:
    """A JSON body reaches the job; of a name given twice the last counts, as in browsers."""
    answer = client.post("/api/echo", content=body, headers={"Content-Type": content_type})
    assert answer.status_code == 202
    assert settled(client, "/api/echo")["status"] == "SUCCESS"
    assert echo.given == [payload]


@pytest.mark.parametrize("headers", [{}, JSON, {"Content-Type": "text/plain"}, {"Content-Length": "0"}])
def test_no_body_is_no_payload(client: TestClient, echo: Echo, headers: dict[str, str]) -> None:
    """Without a body its type does not matter."""
    assert client.post("/api/echo", headers=headers).status_code == 202
    settled(client, "/api/echo")
    assert echo.given == [None]


def test_an_empty_chunked_body_is_no_payload(client: TestClient, echo: Echo) -> None:
    """Proxies turn a POST without a body into an empty chunked one."""
    assert client.post("/api/echo", content=iter([b"", b""])).status_code == 202
    settled(client, "/api/echo")
    assert echo.given == [None]


def test_a_chunked_body_is_put_together(client: TestClient, echo: Echo) -> None:
    """A body without a declared length is read to its end."""
    answer = client.post("/api/echo", content=iter([b'{"a"', b": ", b"1}"]), headers=JSON)
    assert answer.status_code == 202
    settled(client, "/api/echo")
    assert echo.given == [{"a": 1}]


@pytest.mark.parametrize("path", ["/api/echo", "/api/bare"])
@pytest.mark.parametrize(
    "content_type",
    [
        None,
        "",
        "text/plain",
        "text/json",
        "application/x-www-form-urlencoded",
        "multipart/form-data; boundary=x",
        "application/jsonp",
        "application/merge-patch+json",
        "text/plain, application/json",
        "text/plain; application/json",
        "x" * 5000,
    ],
)
def test_what_is_no_json_type_is_a_415(
    client: TestClient, echo: Echo, path: str, content_type: str | None
) -> None:
    """Only application/json: every other type either needs no preflight or means something else."""
    headers = {} if content_type is None else {"Content-Type": content_type}
    answer = client.post(path, content=b"{}", headers=headers)
    problem = assert_problem(answer, 415, "not_json")
    assert "application/json" in problem["detail"]
    assert len(problem["detail"]) < 300
    assert echo.given == []


@pytest.mark.parametrize(
    "body",
    [
        b"{",
        b"{'a': 1}",
        b'{"a": NaN}',
        b"[Infinity]",
        b"-",
        b"   ",
        b"{} {}",
        b'{"a": 1,}',
        b"// no\n{}",
        b"\xef\xbb\xbf{}",
        '{"a": "é"}'.encode("latin-1"),
        '{"a": 1}'.encode("utf-16"),
        b'"\\ud800"',
        b'"\xed\xa0\x80"',
        b'"\x01"',
        b"[" * 100_000,
        b'{"a":' * 100_000,
        b"[" * 5_000 + b"]" * 5_000,
        b"1" * 5_000,
        b"\x00",
        b"hello",
    ],
    ids=lambda body: repr(body[:12]),
)
def test_bad_json_is_a_400(client: TestClient, echo: Echo, body: bytes) -> None:
    """Whatever is sent as JSON and is none is refused with a reason, never with a traceback."""
    answer = client.post("/api/echo", content=body, headers=JSON)
    assert assert_problem(answer, 400, "bad_json")["detail"].startswith("the payload is no valid JSON: ")
    assert echo.given == []


def test_a_payload_up_to_the_limit_passes(client: TestClient, echo: Echo) -> None:
    """The limit itself is allowed."""
    body = b'"' + b"x" * (MAX_BODY - 2) + b'"'
    assert client.post("/api/echo", content=body, headers=JSON).status_code == 202
    settled(client, "/api/echo")
    assert len(echo.given[0]) == MAX_BODY - 2


@pytest.mark.parametrize(
    ("content", "headers"),
    [
        (b'"' + b"x" * MAX_BODY + b'"', {}),
        (iter([b'"'] + [b"x" * 65_536] * 17 + [b'"']), {}),
        (b"{}", {"Content-Length": str(MAX_BODY + 1)}),
        (b"{}", {"Content-Length": "9" * 40}),
    ],
    ids=["declared", "chunked", "only declared", "absurd"],
)
def test_too_large_is_a_413(client: TestClient, echo: Echo, content: Any, headers: dict[str, str]) -> None:
    """By what is declared before anything is read, and by what comes where nothing was declared."""
    answer = client.post("/api/echo", content=content, headers={**JSON, **headers})
    assert str(MAX_BODY) in assert_problem(answer, 413, "too_large")["detail"]
    assert echo.given == []


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
        assert wire.sent == []
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


async def by_body(request: Request) -> str:
    """A tenant function that reads the payload."""
    return str((await request.json())["shop"])


def test_a_tenant_function_may_read_the_body_first() -> None:
    """What it has read by `request.body()` or `.json()` is the payload all the same."""
    echo = Echo(tenant=by_body)
    with TestClient(echo.app) as client:
        answer = client.post("/api/echo", json={"shop": "acme"})
        assert answer.status_code == 202
        assert_problem(client.post("/api/echo", json={}), 403, "forbidden")
    assert echo.given == [{"shop": "acme"}]


async def by_stream(request: Request) -> str:
    """A tenant function that uses the payload up."""
    async for _ in request.stream():
        pass
    return "acme"


def test_a_tenant_function_that_uses_the_body_up_is_told_how_to_read_it() -> None:
    """The run is not started without its payload."""
    echo = Echo(tenant=by_stream)
    with TestClient(echo.app) as client:
        answer = client.post("/api/echo", json={"shop": "acme"})
        assert "request.body()" in assert_problem(answer, 500, "body_consumed")["detail"]
    assert echo.given == []


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
