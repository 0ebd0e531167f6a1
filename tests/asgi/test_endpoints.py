"""Trigger, status, cancel and list: status codes, headers and bodies."""

from __future__ import annotations

import re
from typing import Any
from urllib.parse import urljoin

import pytest
from starlette.testclient import TestClient

from asynctask import MemoryStore
from tests.asgi.support import FIELDS, Workshop, application, assert_problem, inside, over_asgi, settled

CHECK = "/api/duplicates/check"


def snapshot_of(answer: Any, *, trigger: bool = False) -> dict[str, Any]:
    """The snapshot in an answer, after checking what all such answers have in common."""
    assert answer.headers["content-type"] == "application/json"
    assert answer.headers["cache-control"] == "no-store"
    assert int(answer.headers["content-length"]) == len(answer.content)
    snapshot: dict[str, Any] = answer.json()
    assert set(snapshot) == FIELDS | ({"started"} if trigger else set())
    run = snapshot["runId"] or "idle"
    assert answer.headers["etag"] == f'"{run}.{snapshot["version"]}"'
    assert ("retry-after" in answer.headers) is (snapshot["status"] == "RUNNING")
    assert (snapshot["pollAfterMs"] is not None) is (snapshot["status"] == "RUNNING")
    return snapshot


def test_a_trigger_starts_a_run(client: TestClient, shop: Workshop) -> None:
    """202 with the full snapshot, `started: true`, Location, Retry-After and ETag."""
    answer = client.post(CHECK)
    snapshot = snapshot_of(answer, trigger=True)
    assert answer.status_code == 202
    assert (snapshot["status"], snapshot["started"]) == ("RUNNING", True)
    assert (snapshot["job"], snapshot["key"]) == ("duplicates/check", "duplicates/check")
    assert re.fullmatch("[0-9a-f]{32}", snapshot["runId"])
    assert answer.headers["vary"] == "Prefer"
    assert int(answer.headers["retry-after"]) == -(-snapshot["pollAfterMs"] // 1000)
    assert "preference-applied" not in answer.headers
    assert client.get(urljoin(CHECK, answer.headers["location"])).json()["runId"] == snapshot["runId"]


def test_a_second_trigger_joins_the_run(client: TestClient, shop: Workshop) -> None:
    """202 again, the same run, `started: false`; once it is over, a new one starts."""
    first = client.post(CHECK).json()
    inside(client, lambda: shop.runs[-1].advance(3))
    answer = client.post(CHECK)
    second = snapshot_of(answer, trigger=True)
    assert (answer.status_code, second["started"]) == (202, False)
    assert (second["runId"], second["processed"]) == (first["runId"], 3)
    assert "location" in answer.headers
    inside(client, shop.release)
    over = settled(client, CHECK)
    third = client.post(CHECK).json()
    assert third["started"] is True
    assert third["runId"] != first["runId"]
    assert third["startedAt"] >= over["finishedAt"]
    assert (third["processed"], third["finishedAt"]) == (0, None)


def test_a_run_of_another_key_is_another_run(client: TestClient, shop: Workshop) -> None:
    """Path parameters are part of the key."""
    seven = client.post("/api/imports/7/refresh").json()
    eight = client.post("/api/imports/8/refresh").json()
    assert (seven["key"], eight["key"]) == ("imports/7/refresh", "imports/8/refresh")
    assert seven["job"] == eight["job"] == "imports/{file_id}/refresh"
    assert eight["started"] is True
    assert [run.params["file_id"] for run in shop.runs] == ["7", "8"]


def test_a_job_that_is_over_before_the_answer_leaves() -> None:
    """A quick run may be over when its 202 is read: the status is SUCCESS at the first GET."""
    with TestClient(application(Workshop().jobs)) as client:
        answer = client.post("/api/quick")
        assert answer.status_code == 202
        snapshot = settled(client, "/api/quick")
        assert (snapshot["status"], snapshot["result"], snapshot["percent"]) == (
            "SUCCESS",
            {"groups": 3},
            None,
        )
        assert snapshot["runId"] == answer.json()["runId"]
        assert snapshot["startedAt"] <= snapshot["finishedAt"]
        assert snapshot["durationMs"] >= 0


@pytest.mark.anyio
async def test_the_state_is_readable_before_the_202_leaves(shop: Workshop) -> None:
    """A poll at the very moment when the answer's first byte is sent already shows the run."""
    app = application(shop.jobs)
    seen = []

    async def watching(scope: Any, receive: Any, send: Any) -> None:
        async def watched(message: Any) -> None:
            if message["type"] == "http.response.start":
                seen.append(await shop.jobs.status("duplicates/check"))
            await send(message)

        await app(scope, receive, watched)

    async with shop.jobs, over_asgi(watching) as client:
        answer = (await client.post(CHECK)).json()
        assert [(s.status, s.run_id) for s in seen] == [("RUNNING", answer["runId"])]


def test_the_status_of_what_never_ran_is_idle(client: TestClient) -> None:
    """200, never 404, with every field there and no run; nothing is stored for it."""
    answer = client.get(f"{CHECK}/status")
    snapshot = snapshot_of(answer)
    assert answer.status_code == 200
    given = {name: value for name, value in snapshot.items() if value not in (None, 0, False)}
    assert given == {"job": "duplicates/check", "key": "duplicates/check", "status": "IDLE"}
    assert client.get("/api/").json() == {"items": []}


def test_idle_statuses_name_their_own_key(client: TestClient) -> None:
    """One picture of nothing is not taken for another's."""
    for number in ("7", "8", "7"):
        assert (
            client.get(f"/api/imports/{number}/refresh/status").json()["key"] == f"imports/{number}/refresh"
        )


def test_a_finished_run_expires_to_idle() -> None:
    """After the store's TTL the key is IDLE again, under another entity tag."""
    clock = [0.0]
    shop = Workshop(store=MemoryStore(ttl=60, timer=lambda: clock[0]))
    with TestClient(application(shop.jobs)) as client:
        client.post("/api/quick")
        settled(client, "/api/quick")
        etag = client.get("/api/quick/status").headers["etag"]
        clock[0] = 61.0
        answer = client.get("/api/quick/status", headers={"If-None-Match": etag})
        assert (answer.status_code, answer.json()["status"]) == (200, "IDLE")


def test_a_failed_job_is_no_http_error(client: TestClient) -> None:
    """200 and FAILED, with the reason."""
    client.post("/api/broken")
    snapshot = settled(client, "/api/broken")
    assert (snapshot["status"], snapshot["errorCode"]) == ("FAILED", "error")
    assert snapshot["errorMessage"] == "the price list is gone"
    assert snapshot["result"] is None
    assert "Traceback" not in client.get("/api/broken/status").text
    answer = client.get("/api/broken/status")
    assert answer.status_code == 200
    snapshot_of(answer)


def test_progress_is_shown(client: TestClient, shop: Workshop) -> None:
    """The snapshot follows the run."""
    client.post(CHECK)

    def work() -> None:
        run = shop.runs[-1]
        run.total = 1000
        run.message = "comparing"
        run.advance(420, failed=2)

    inside(client, work)
    snapshot = snapshot_of(client.get(f"{CHECK}/status"))
    shown = {
        name: snapshot[name] for name in ("processed", "total", "percent", "succeeded", "failed", "message")
    }
    assert shown == {
        "processed": 420,
        "total": 1000,
        "percent": 42,
        "succeeded": 418,
        "failed": 2,
        "message": "comparing",
    }


@pytest.mark.parametrize("path", [f"{CHECK}/status", "/api/", "/api/quick/status"])
def test_head_is_get_without_a_body(client: TestClient, shop: Workshop, path: str) -> None:
    """The same status and headers, `Content-Length` included (RFC 9110, section 9.3.2)."""
    client.post(CHECK)
    get, head = client.get(path), client.head(path)
    assert head.status_code == get.status_code
    assert head.headers == get.headers
    assert head.content == b""


@pytest.mark.parametrize("state", ["IDLE", "RUNNING", "SUCCESS"])
@pytest.mark.parametrize("form", ["{}", "W/{}", '"other", {}', "*"])
def test_not_modified(client: TestClient, shop: Workshop, state: str, form: str) -> None:
    """304 with an empty body and the headers of the 200 (RFC 9110, section 15.4.5), but for its length."""
    path = CHECK if state != "SUCCESS" else "/api/quick"
    if state != "IDLE":
        client.post(path)
    if state == "SUCCESS":
        settled(client, path)
    full = client.get(f"{path}/status")
    assert full.json()["status"] == state
    answer = client.get(f"{path}/status", headers={"If-None-Match": form.format(full.headers["etag"])})
    assert (answer.status_code, answer.content) == (304, b"")
    expected = {name: value for name, value in full.headers.items() if name != "content-length"}
    assert dict(answer.headers) == expected


def test_modified(client: TestClient, shop: Workshop) -> None:
    """Once something visible has changed, the same request gets the new picture."""
    etag = client.post(CHECK).headers["etag"]
    condition = {"If-None-Match": etag}
    assert client.get(f"{CHECK}/status", headers=condition).status_code == 304
    inside(client, lambda: shop.runs[-1].advance())
    answer = client.get(f"{CHECK}/status", headers=condition)
    assert (answer.status_code, answer.json()["processed"]) == (200, 1)
    assert answer.headers["etag"] != etag


def test_a_trigger_is_not_conditional(client: TestClient, shop: Workshop) -> None:
    """`If-None-Match` on a POST must not turn the second click into a 304."""
    etag = client.post(CHECK).headers["etag"]
    answer = client.post(CHECK, headers={"If-None-Match": etag})
    assert (answer.status_code, answer.json()["started"]) == (202, False)


def test_cancel(client: TestClient) -> None:
    """202 with `cancelRequested: true`, then FAILED `cancelled`; cancelling again is a 200."""
    run_id = client.post(CHECK).json()["runId"]
    answer = client.post(f"{CHECK}/cancel")
    snapshot = snapshot_of(answer)
    assert answer.status_code == 202
    assert (snapshot["status"], snapshot["cancelRequested"]) == ("RUNNING", True)
    location = urljoin(f"http://testserver{CHECK}/cancel", answer.headers["location"])
    assert location == f"http://testserver{CHECK}/status"
    over = settled(client, CHECK)
    assert (over["runId"], over["status"], over["errorCode"]) == (run_id, "FAILED", "cancelled")
    again = client.post(f"{CHECK}/cancel")
    assert (again.status_code, snapshot_of(again)) == (200, over)


def test_cancel_of_nothing_is_a_200(client: TestClient) -> None:
    """It is idempotent: nothing runs afterwards, as was asked for."""
    answer = client.post(f"{CHECK}/cancel")
    assert (answer.status_code, snapshot_of(answer)["status"]) == (200, "IDLE")


def test_cancel_of_what_cannot_be_is_a_405(client: TestClient, shop: Workshop) -> None:
    """With an `Allow` that is empty: no method works there. The run goes on."""
    client.post("/api/files/a")
    answer = client.post("/api/files/a/cancel")
    assert "cancel" in assert_problem(answer, 405, "not_cancelable")["detail"]
    assert answer.headers["allow"] == ""
    assert client.get("/api/files/a/status").json()["status"] == "RUNNING"


def test_the_list(client: TestClient, shop: Workshop) -> None:
    """Every key of the caller's, RUNNING first; snapshots as the status shows them."""
    client.post("/api/quick")
    settled(client, "/api/quick")
    client.post("/api/imports/7/refresh")
    answer = client.get("/api/")
    items = answer.json()["items"]
    assert set(answer.json()) == {"items"}
    assert [item["key"] for item in items] == ["imports/7/refresh", "quick"]
    assert items == [
        client.get("/api/imports/7/refresh/status").json(),
        client.get("/api/quick/status").json(),
    ]
    assert int(answer.headers["retry-after"]) >= 1
    assert answer.headers["cache-control"] == "no-store"
    inside(client, shop.release)
    settled(client, "/api/imports/7/refresh")
    assert "retry-after" not in client.get("/api/").headers
