"""`Prefer: wait`: a trigger that waits for the end of its run, and a poll that waits for news."""

from __future__ import annotations

import anyio
import httpx
import msgspec
import pytest
from starlette.types import Message

from asynctask import Jobs, MemoryStore, Run, Snapshot
from asynctask.keys import Key
from tests.asgi.support import Workshop, application, over_asgi

pytestmark = pytest.mark.anyio
CHECK = "/api/duplicates/check"
STATUS = f"{CHECK}/status"


class Waiting:
    """One request under way in a task of its own; `answer` waits for its end.

    Args:
        shop: whose application is asked; its jobs must be started.
        method: of the request.
        url: of the request.
        headers: of the request.
    """

    def __init__(self, shop: Workshop, method: str, url: str, **headers: str) -> None:
        self._app = application(shop.jobs)
        self._request = method, url
        self._headers = {name.replace("_", "-"): value for name, value in headers.items()}
        self.over = anyio.Event()
        self.response: httpx.Response | None = None

    async def __call__(self) -> None:
        async with over_asgi(self._app) as client:
            self.response = await client.request(*self._request, headers=self._headers)
        self.over.set()

    async def answer(self) -> httpx.Response:
        """Wait for the answer."""
        with anyio.fail_after(30):
            await self.over.wait()
        assert self.response is not None
        return self.response


async def test_a_trigger_that_waits_gets_the_outcome(shop: Workshop) -> None:
    """Finished in time: 200, the terminal snapshot, and the preference that was applied."""
    async with shop.jobs, anyio.create_task_group() as group:
        waiting = Waiting(shop, "POST", CHECK, Prefer="wait=10")
        group.start_soon(waiting)
        await anyio.wait_all_tasks_blocked()
        shop.runs[0].advance()  # progress is no reason to answer
        await anyio.wait_all_tasks_blocked()
        assert not waiting.over.is_set()
        shop.release()
        answer = await waiting.answer()
        assert answer.status_code == 200
        assert answer.headers["preference-applied"] == "wait=10"
        assert answer.headers["vary"] == "Prefer"
        assert "retry-after" not in answer.headers
        snapshot = answer.json()
        assert (snapshot["status"], snapshot["started"], snapshot["processed"]) == ("SUCCESS", True, 1)
        status = await shop.jobs.status("duplicates/check")
        assert (snapshot["runId"], answer.headers["etag"]) == (status.run_id, status.etag)


async def test_a_trigger_that_waits_may_join(shop: Workshop) -> None:
    """Everybody who waits gets the outcome of the one run, and reads that they joined it."""
    async with shop.jobs, anyio.create_task_group() as group:
        first = await shop.jobs.trigger("duplicates/check")
        crowd = [Waiting(shop, "POST", CHECK, Prefer="wait=10") for _ in range(5)]
        for waiting in crowd:
            group.start_soon(waiting)
        await anyio.wait_all_tasks_blocked()
        shop.release()
        answers = [await waiting.answer() for waiting in crowd]
        assert {answer.status_code for answer in answers} == {200}
        assert {(a.json()["runId"], a.json()["started"]) for a in answers} == {(first.run_id, False)}
        assert len(shop.runs) == 1


async def test_a_failed_run_is_a_200_too(shop: Workshop) -> None:
    """It is the outcome that was waited for."""
    async with shop.jobs, over_asgi(application(shop.jobs)) as client:
        answer = await client.post("/api/broken", headers={"Prefer": "wait=10"})
        assert (answer.status_code, answer.json()["status"]) == (200, "FAILED")


@pytest.mark.parametrize(
    ("prefer", "applied"),
    [("wait=0", "wait=0"), ('Respond-Async, Wait="99999999999"', "wait=0"), ("wait=1", "wait=0")],
)
async def test_a_wait_that_was_too_short(shop: Workshop, prefer: str, applied: str) -> None:
    """202 with the run's present state; no wait is longer than the server allows, here a moment."""
    app = application(shop.jobs, max_wait=0.01)
    async with shop.jobs, over_asgi(app) as client:
        answer = await client.post(CHECK, headers={"Prefer": prefer})
        assert (answer.status_code, answer.json()["status"]) == (202, "RUNNING")
        assert (answer.json()["started"], answer.headers["preference-applied"]) == (True, applied)
        assert "retry-after" in answer.headers


@pytest.mark.parametrize(
    "prefer", ["respond-async", "wait=-1", "wait=1.5", "wait", "handling=strict; wait=5"]
)
async def test_preferences_that_are_no_wait(shop: Workshop, prefer: str) -> None:
    """They are ignored: the answer comes at once, and claims nothing."""
    async with shop.jobs, over_asgi(application(shop.jobs)) as client:
        answer = await client.post(CHECK, headers={"Prefer": prefer})
        assert answer.status_code == 202
        assert "preference-applied" not in answer.headers


async def test_a_long_poll_ends_with_a_change(shop: Workshop) -> None:
    """Held while the picture is the one the client has; then 200 with the new one."""
    async with shop.jobs, anyio.create_task_group() as group:
        etag = (await shop.jobs.trigger("duplicates/check")).etag
        await anyio.wait_all_tasks_blocked()
        waiting = Waiting(shop, "GET", STATUS, Prefer="wait=10", If_None_Match=etag)
        group.start_soon(waiting)
        await anyio.wait_all_tasks_blocked()
        shop.runs[0].advance(7)
        answer = await waiting.answer()
        assert (answer.status_code, answer.json()["processed"]) == (200, 7)
        assert answer.headers["preference-applied"] == "wait=10"
        assert answer.headers["etag"] != etag
        assert "started" not in answer.json()


async def test_a_long_poll_ends_with_the_run(shop: Workshop) -> None:
    """The end of the run is news like any progress."""
    async with shop.jobs, anyio.create_task_group() as group:
        etag = (await shop.jobs.trigger("duplicates/check")).etag
        await anyio.wait_all_tasks_blocked()
        waiting = Waiting(shop, "GET", STATUS, Prefer="wait=10", If_None_Match=etag)
        group.start_soon(waiting)
        await anyio.wait_all_tasks_blocked()
        shop.release()
        answer = await waiting.answer()
        assert (answer.status_code, answer.json()["status"]) == (200, "SUCCESS")
        assert "retry-after" not in answer.headers


async def test_a_long_poll_without_news_is_a_304(shop: Workshop) -> None:
    """When the time is over, the client learns that nothing has changed."""
    app = application(shop.jobs, max_wait=0.01)
    async with shop.jobs, over_asgi(app) as client:
        etag = (await client.post(CHECK)).headers["etag"]
        answer = await client.get(STATUS, headers={"Prefer": "wait=10", "If-None-Match": etag})
        assert (answer.status_code, answer.headers["etag"]) == (304, etag)
        assert answer.headers["preference-applied"] == "wait=0"
        assert "retry-after" in answer.headers


@pytest.mark.parametrize("condition", [{}, {"If-None-Match": '"another.1"'}])
async def test_a_poll_that_knows_nothing_yet_does_not_wait(shop: Workshop, condition: dict[str, str]) -> None:
    """Whoever does not have the present picture gets it at once."""
    async with shop.jobs, over_asgi(application(shop.jobs)) as client:
        await client.post(CHECK)
        answer = await client.get(STATUS, headers={"Prefer": "wait=10", **condition})
        assert (answer.status_code, answer.json()["status"]) == (200, "RUNNING")
        assert "preference-applied" not in answer.headers


async def test_where_nothing_runs_there_is_nothing_to_wait_for(shop: Workshop) -> None:
    """IDLE and finished pictures do not change by waiting: 304 at once."""
    async with shop.jobs, over_asgi(application(shop.jobs)) as client:
        for path in ("/api/duplicates/check", "/api/broken"):
            if path == "/api/broken":
                await client.post(path, headers={"Prefer": "wait=10"})
            etag = (await client.get(f"{path}/status")).headers["etag"]
            answer = await client.get(f"{path}/status", headers={"Prefer": "wait=10", "If-None-Match": etag})
            assert answer.status_code == 304
            assert "preference-applied" not in answer.headers


async def test_a_new_run_ends_a_long_poll_of_the_old_one(shop: Workshop) -> None:
    """The run that was watched ended and the next began: the poll shows one of the two, never holds on."""
    async with shop.jobs, anyio.create_task_group() as group:
        first = await shop.jobs.trigger("duplicates/check")
        await anyio.wait_all_tasks_blocked()
        waiting = Waiting(shop, "GET", STATUS, Prefer="wait=10", If_None_Match=first.etag)
        group.start_soon(waiting)
        await anyio.wait_all_tasks_blocked()
        shop.release()
        await shop.jobs.wait("duplicates/check")
        await shop.jobs.trigger("duplicates/check")
        answer = await waiting.answer()
        assert answer.status_code == 200
        assert answer.headers["etag"] != first.etag


class Overtaken(MemoryStore):
    """A store that learns of the end of a run when the next one has already begun."""

    async def changed(self, key: Key, seen: Snapshot, *, timeout: float, finished: bool) -> Snapshot | None:
        return msgspec.structs.replace(seen, run_id="f" * 32, version=1)


async def test_a_run_that_followed_the_one_waited_for_is_nobodys_start() -> None:
    """Its picture is the key's, so it is shown; but the trigger did not start it."""
    shop = Workshop(store=Overtaken())
    async with shop.jobs, over_asgi(application(shop.jobs)) as client:
        answer = await client.post(CHECK, headers={"Prefer": "wait=10"})
        assert (answer.status_code, answer.json()["runId"]) == (202, "f" * 32)
        assert answer.json()["started"] is False


class Connection:
    """A client that sends a request and then goes away when told to."""

    def __init__(self, method: str, path: str, *headers: tuple[bytes, bytes]) -> None:
        self.scope = {
            "type": "http",
            "http_version": "1.1",
            "method": method,
            "path": path,
            "query_string": b"",
            "headers": headers,
        }
        self.gone = anyio.Event()
        self.sent: list[Message] = []
        self._asked = False

    async def receive(self) -> Message:
        if not self._asked:
            self._asked = True
            return {"type": "http.request", "body": b"", "more_body": False}
        await self.gone.wait()
        return {"type": "http.disconnect"}

    async def send(self, message: Message) -> None:
        self.sent.append(message)


@pytest.mark.parametrize("method", ["POST", "GET"])
async def test_a_client_that_goes_away_ends_its_wait_and_not_the_run(shop: Workshop, method: str) -> None:
    """The request is dropped at once, whatever is left of its wait; the run completes."""
    app = application(shop.jobs, max_wait=1_000_000)
    async with shop.jobs:
        etag = (await shop.jobs.trigger("duplicates/check")).etag.encode()
        await anyio.wait_all_tasks_blocked()
        path = CHECK if method == "POST" else STATUS
        client = Connection(method, path, (b"prefer", b"wait=999999"), (b"if-none-match", etag))
        with anyio.fail_after(30):
            async with anyio.create_task_group() as group:
                group.start_soon(app, client.scope, client.receive, client.send)
                await anyio.wait_all_tasks_blocked()
                client.gone.set()
        assert client.sent[0]["status"] == 499
        assert not shop.runs[0].cancel_requested
        shop.release()
        assert (await shop.jobs.wait("duplicates/check")).status == "SUCCESS"


async def test_a_request_that_is_cancelled_does_not_stop_its_run(shop: Workshop) -> None:
    """Servers and BaseHTTPMiddleware cancel a request's task when its client has gone."""
    app = application(shop.jobs)
    async with shop.jobs:
        client = Connection("POST", CHECK, (b"prefer", b"wait=10"))
        async with anyio.create_task_group() as group:
            group.start_soon(app, client.scope, client.receive, client.send)
            await anyio.wait_all_tasks_blocked()
            group.cancel_scope.cancel()
        assert not shop.runs[0].cancel_requested
        shop.release()
        assert (await shop.jobs.wait("duplicates/check")).status == "SUCCESS"


async def test_a_run_that_ends_before_anybody_looks(anyio_backend: str) -> None:
    """A job without an await is over when the wait begins; the answer is its outcome all the same."""
    jobs = Jobs()

    @jobs.job("instant")
    async def instant(run: Run) -> int:
        return 1

    async with jobs, over_asgi(application(jobs)) as client:
        for _ in range(20):
            answer = await client.post("/api/instant", headers={"Prefer": "wait=10"})
            assert (answer.status_code, answer.json()["result"], answer.json()["started"]) == (200, 1, True)
