"""Answers as bytes and headers, and every error as a problem document."""

from __future__ import annotations

from typing import Any

import anyio
import msgspec
import pytest
from starlette.requests import ClientDisconnect
from starlette.testclient import TestClient
from starlette.types import Message, Receive, Scope, Send

from asynctask import AsyncTaskError, Jobs, MemoryStore, Run, StoreUnavailableError
from asynctask.asgi.wire import Guarded, Refusal, Rendered, retry_after
from asynctask.keys import Key
from asynctask.snapshot import Snapshot, Status, idle
from tests.asgi.support import Workshop, application, assert_problem, by_header, over_asgi


def answered(exc: BaseException, method: str = "GET") -> tuple[int, dict[str, str], bytes]:
    """What an endpoint that raises answers: status, headers, body."""

    class Raising(Guarded):
        async def answer(self, scope: Scope, receive: Receive, send: Send) -> None:
            raise exc

    sent: list[Message] = []

    async def send(message: Message) -> None:
        sent.append(message)

    async def receive() -> Message:
        raise AssertionError("nothing to read")

    anyio.run(Raising(), {"type": "http", "method": method}, receive, send)
    start, end = sent
    return start["status"], {k.decode(): v.decode() for k, v in start["headers"]}, end["body"]


def test_a_problem_document() -> None:
    """RFC 9457: type, title, status and detail, and the stable `code` of ours; nothing may cache it."""
    status, headers, body = answered(
        Refusal(413, "too_large", "the payload is “too” large", [("X-Extra", "1")])
    )
    assert status == 413
    assert headers == {
        "content-type": "application/problem+json",
        "cache-control": "no-store",
        "x-extra": "1",
        "content-length": str(len(body)),
    }
    assert msgspec.json.decode(body) == {
        "type": "about:blank",
        "title": "Request Entity Too Large",
        "status": 413,
        "detail": "the payload is “too” large",
        "code": "too_large",
    }


def test_a_problem_of_a_head_request_has_no_body() -> None:
    """HEAD gets the headers of GET, the length included (RFC 9110, section 9.3.2)."""
    refusal = Refusal(403, "forbidden", "no")
    _, headers, body = answered(refusal)
    assert answered(refusal, "HEAD") == (403, headers, b"")
    assert headers["content-length"] == str(len(body)) != "0"


@pytest.mark.parametrize("status", [429, 503])
def test_who_may_try_again_is_told_when(status: int) -> None:
    """429 and 503 always carry `Retry-After`, also where the error says nothing of it."""
    refusal = Refusal(status, "busy", "later")
    assert answered(refusal)[1]["retry-after"] == "1"
    refusal.retry_after = 30
    assert answered(refusal)[1]["retry-after"] == "30"


@pytest.mark.parametrize("status", [400, 401, 403, 404, 405, 413, 415, 422, 500])
def test_who_need_not_try_again_is_told_nothing(status: int) -> None:
    """Where the same request would fail again there is no `Retry-After`."""
    assert "retry-after" not in answered(Refusal(status, "no", "never"))[1]


@pytest.mark.parametrize("status", [499, 599, 299])
def test_a_status_without_a_name(status: int) -> None:
    """An application may refuse with a status that no RFC knows; that is no reason to fail."""
    got, _, body = answered(Refusal(status, "odd", "odd"))
    assert got == status
    assert msgspec.json.decode(body)["title"]


def test_a_client_that_has_gone_is_answered_all_the_same() -> None:
    """Nobody reads it, but middleware in between takes a request without an answer for a defect."""
    status, _, body = answered(ClientDisconnect())
    assert (status, msgspec.json.decode(body)["code"]) == (499, "client_gone")


@pytest.mark.anyio
async def test_a_server_may_refuse_to_send_to_a_client_that_has_gone() -> None:
    """Servers raise an OSError then (ASGI 2.4); that is no defect either."""

    class Gone(Guarded):
        async def answer(self, scope: Scope, receive: Receive, send: Send) -> None:
            raise ClientDisconnect

    async def refuse(message: Message) -> None:
        raise BrokenPipeError

    async def receive() -> Message:
        return {"type": "http.disconnect"}

    await Gone()({"type": "http", "method": "GET"}, receive, refuse)


def test_errors_that_are_not_ours_pass() -> None:
    """A defect reaches the server, which logs its traceback; it is not dressed up as a refusal."""
    with pytest.raises(ZeroDivisionError):
        answered(ZeroDivisionError())


def test_an_unspecific_error_of_ours_is_a_500() -> None:
    """The base class has a status and a code too."""
    status, _, body = answered(AsyncTaskError("odd"))
    assert (status, msgspec.json.decode(body)["code"]) == (500, "internal")


@pytest.mark.parametrize(
    ("milliseconds", "seconds"), [(0, 1), (1, 1), (250, 1), (1000, 1), (1001, 2), (4999, 5), (5000, 5)]
)
def test_retry_after_is_whole_seconds(milliseconds: int, seconds: int) -> None:
    """`Retry-After` knows no fractions, and 0 would be a busy loop: round up."""
    assert retry_after(milliseconds) == seconds


def picture(**fields: Any) -> Snapshot:
    """A snapshot of some run."""
    return Snapshot(
        **{"job": "j", "key": "j", "status": Status.RUNNING, "run_id": "r", "version": 1, **fields}
    )


def test_a_rendered_snapshot_is_reused_for_the_same_bytes_only() -> None:
    """What is kept of the last answer must not be taken for another picture, run, key or `started`."""
    rendered = Rendered(picture())
    assert rendered.shows(picture())
    assert rendered.headers[2] == (b"etag", b'"r.1"')
    for other in (
        picture(version=2),
        picture(run_id="s"),
        picture(started=True),
        picture(started=False),
        idle("j", "j"),
    ):
        assert not rendered.shows(other)
        assert Rendered(other).body != rendered.body
    assert not Rendered(idle("j", "j/1")).shows(idle("j", "j/2")), "no run tells the keys apart"


def test_not_started_is_a_503_that_says_what_to_do(shop: Workshop) -> None:
    """Without the lifespan a trigger never runs anything silently; a status can be read all the same."""
    client = TestClient(application(shop.jobs))
    answer = client.post("/api/quick")
    assert "jobs.lifespan" in assert_problem(answer, 503, "not_started")["detail"]
    assert int(answer.headers["retry-after"]) >= 1
    assert client.get("/api/quick/status").json()["status"] == "IDLE"


def test_no_room_is_a_503() -> None:
    """Beyond `max_running` a trigger of another key is refused; joining takes no room."""
    shop = Workshop(max_running=1)
    with TestClient(application(shop.jobs)) as client:
        first = client.post("/api/duplicates/check")
        answer = client.post("/api/quick")
        assert_problem(answer, 503, "capacity")
        assert int(answer.headers["retry-after"]) >= 1
        joined = client.post("/api/duplicates/check")
        assert (joined.status_code, joined.json()["runId"]) == (202, first.json()["runId"])


def test_a_tenant_over_its_limit_is_a_429() -> None:
    """Beyond `max_running_per_tenant` that tenant alone is refused."""
    shop = Workshop(max_running_per_tenant=1)
    with TestClient(application(shop.jobs, tenant=by_header)) as client:
        assert client.post("/api/duplicates/check", headers={"X-Tenant": "acme"}).status_code == 202
        answer = client.post("/api/files/a", headers={"X-Tenant": "acme"})
        assert_problem(answer, 429, "tenant_limit")
        assert int(answer.headers["retry-after"]) >= 1
        assert client.post("/api/files/a", headers={"X-Tenant": "globex"}).status_code == 202


class Unreachable(MemoryStore):
    """A store that loses its connection: whatever is asked of it fails."""

    lost = False

    def _check(self) -> None:
        if self.lost:
            raise StoreUnavailableError("the store cannot be reached")

    async def claim(self, run: Run) -> Any:
        self._check()
        return await super().claim(run)

    def peek(self, key: Key) -> Snapshot | None:
        return None

    async def read(self, key: Key) -> Snapshot | None:
        self._check()
        return await super().read(key)

    async def changed(self, key: Key, seen: Snapshot, *, timeout: float, finished: bool) -> Snapshot | None:
        self._check()
        raise StoreUnavailableError("the connection was lost while waiting")

    async def list(self, tenant: str) -> list[Snapshot]:
        self._check()
        return await super().list(tenant)

    async def cancel(self, key: Key) -> Snapshot | None:
        self._check()
        return await super().cancel(key)


@pytest.mark.parametrize(
    ("method", "path"),
    [
        ("POST", "/api/duplicates/check"),
        ("GET", "/api/duplicates/check/status"),
        ("POST", "/api/duplicates/check/cancel"),
        ("GET", "/api/"),
    ],
)
def test_a_store_out_of_reach_is_a_503(method: str, path: str) -> None:
    """Nothing is started, and the client is told to come back."""
    store = Unreachable()
    with TestClient(application(Workshop(store=store).jobs)) as client:
        store.lost = True
        answer = client.request(method, path)
        assert_problem(answer, 503, "store_unavailable")
        assert int(answer.headers["retry-after"]) >= 1


@pytest.mark.parametrize("method", ["GET", "POST"])
def test_a_store_lost_in_a_wait_is_a_503(method: str) -> None:
    """An error within the wait is answered like any other, not wrapped in a group of its own."""
    shop = Workshop(store=Unreachable())
    with TestClient(application(shop.jobs)) as client:
        etag = client.post("/api/duplicates/check").headers["etag"]
        path = "/api/duplicates/check" + ("/status" if method == "GET" else "")
        answer = client.request(method, path, headers={"Prefer": "wait=5", "If-None-Match": etag})
        assert_problem(answer, 503, "store_unavailable")


@pytest.mark.anyio
async def test_shutting_down_is_a_503() -> None:
    """While the application ends, triggers are refused with the time that a restart takes."""
    jobs = Jobs(shutdown_grace=0)
    answers = []

    @jobs.job("other")
    async def other(run: Run) -> None: ...

    @jobs.job("last")
    async def last(run: Run) -> None:
        try:
            await anyio.sleep_forever()
        finally:
            with anyio.CancelScope(shield=True):
                answers.append(await client.post("/api/other"))

    async with over_asgi(application(jobs)) as client:
        async with jobs:
            await client.post("/api/last")
    assert_problem(answers[0], 503, "shutting_down")
    assert int(answers[0].headers["retry-after"]) >= 1
