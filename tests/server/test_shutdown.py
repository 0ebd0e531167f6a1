"""SIGTERM while runs are under way."""

from __future__ import annotations

import re

from tests.server.harness import Server


def test_runs_are_interrupted_and_the_process_ends() -> None:
    """After the grace period each run is FAILED `interrupted`, in the log too; who is done by then is not."""
    with Server("plain") as server:
        for path in ("held", "files/a", "files/b", "farewell"):
            assert server.request("POST", f"/api/{path}").status == 202
        server.wait_for(r"\|job \S+ started", count=4)
        log = server.stop()
    for path in ("held", "files/a", "files/b"):
        assert re.search(rf"INFO\|asynctask\|.*job {path} ended: FAILED \(interrupted\)", log), log
    assert re.search(r"INFO\|asynctask\|.*job farewell ended: SUCCESS", log), log
    assert "Application shutdown complete" in log
    assert "Traceback" not in log


def test_a_wait_under_way_is_answered_first() -> None:
    """A client that waits for a run gets an answer, and the process ends all the same."""
    with Server("plain") as server:
        connection = server.connect()
        connection.ask("POST", "/api/held", Prefer="wait=600")
        server.wait_for(r"\|job held started")
        log = server.stop()
        assert connection.answer().status == 202
    assert re.search(r"job held ended: FAILED \(interrupted\)", log)
    assert "Traceback" not in log


def test_the_next_process_begins_empty() -> None:
    """Whoever polls across a restart reads IDLE, not a run that is RUNNING for ever."""
    with Server("plain") as server:
        server.request("POST", "/api/held")
        server.stop()
    with Server("plain") as server:
        assert server.request("GET", "/api/held/status").json["status"] == "IDLE"
