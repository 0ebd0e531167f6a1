"""The body of a trigger: what is taken as a payload, and how everything else is refused."""

from __future__ import annotations

from collections.abc import Iterator
from typing import Any

import pytest
from starlette.requests import Request
from starlette.testclient import TestClient

from asynctask.asgi.requests import MAX_BODY
from tests.asgi.support import Echo, assert_problem, settled

JSON = {"Content-Type": "application/json"}


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
