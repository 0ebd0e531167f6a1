"""The demo on several processes that share a Redis."""

from __future__ import annotations

import contextlib
import signal
import time
from concurrent.futures import ThreadPoolExecutor

import httpx
import pytest

from demo.redis_server import RedisServer
from tests.demo_process import ACME, CHECK, GLOBEX, running_demo
from tests.test_app_process import refused, run


def alone(method: str, url: str, headers: dict[str, str] = ACME) -> httpx.Response:
    """A request on a connection of its own, so that any worker may answer."""
    return httpx.request(method, url, headers=headers, timeout=60, trust_env=False)


def test_whichever_worker_answers() -> None:
    """Three workers are one application: one run for many triggers, one status; it ends in order."""
    with running_demo("--workers=3", "--records=300", "--latency=0.5", "--max-at-once=1") as demo:
        assert "3 processes share one Redis" in demo.banner
        with ThreadPoolExecutor(30) as pool:
            answers = list(pool.map(lambda _: alone("POST", demo.url + CHECK), range(60)))
        assert {answer.status_code for answer in answers} == {202}
        run_ids = {answer.json()["runId"] for answer in answers}
        assert len(run_ids) == 1
        assert sum(answer.json()["started"] for answer in answers) == 1

        workers: set[str] = set()
        until = time.monotonic() + 60
        while len(workers) < 2 and time.monotonic() < until:  # until another one has answered too
            answer = alone("GET", f"{demo.url}{CHECK}/status")
            assert (answer.json()["status"], answer.json()["runId"]) == ("RUNNING", *run_ids)
            assert alone("GET", f"{demo.url}{CHECK}/status", GLOBEX).json()["status"] == "IDLE"
            workers.add(answer.headers["x-worker"])
        assert len(workers) > 1

        alone("POST", f"{demo.url}{CHECK}/cancel")
        status = alone("GET", f"{demo.url}{CHECK}/status")
        while status.json()["status"] == "RUNNING":
            tag = {"Prefer": "wait=10", "If-None-Match": status.headers["etag"]}
            status = alone("GET", f"{demo.url}{CHECK}/status", {**ACME, **tag})
        assert status.json()["errorCode"] == "cancelled"
        log = demo.stop(signal.SIGTERM)
    assert demo.process.returncode == 0, log
    assert "Traceback" not in log
    assert next(iter(run_ids)) in log


def test_list_is_shared() -> None:
    """The list that one worker's check made is there for every worker, and stays when they have gone."""
    with RedisServer() as server:
        with running_demo("--workers=2", "--records=100", "--latency=0", f"--redis={server.url}") as demo:
            run_id = demo.finished()["runId"]
            lists = [alone("GET", demo.url + "/api/duplicates").json() for _ in range(10)]
        assert {found["runId"] for found in lists} == {run_id}
        with running_demo("--records=100", f"--redis={server.url}") as demo:
            assert demo.http.get("/api/duplicates").json()["runId"] == run_id
            assert demo.http.get(f"{CHECK}/status").json()["status"] == "SUCCESS"


def test_workers_do_not_outlive_a_killed_parent() -> None:
    """Killed so that it can end nothing, the parent leaves no worker that goes on answering."""
    with (
        RedisServer() as server,
        running_demo("--workers=2", "--records=10", f"--redis={server.url}") as demo,
    ):
        assert alone("GET", f"{demo.url}{CHECK}/status").status_code == 200
        demo.stop(signal.SIGKILL)
        until = time.monotonic() + 60
        with pytest.raises(httpx.ConnectError):
            while time.monotonic() < until:
                with contextlib.suppress(httpx.ReadError, httpx.RemoteProtocolError):
                    alone("GET", f"{demo.url}{CHECK}/status")


@pytest.mark.parametrize("url", ["nonsense", "redis://:secret@127.0.0.1:1", "http://user:secret@127.0.0.1"])
def test_no_redis(url: str) -> None:
    """A Redis that is not there is said in one line, without the password in its URL."""
    assert "secret" not in refused(run("--workers=2", f"--redis={url}"))
