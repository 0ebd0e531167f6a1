"""Jobs that die badly or block: the server and every other run go on."""

from __future__ import annotations

import pytest

from tests.server.harness import Server


@pytest.mark.parametrize(
    ("path", "error"),
    [("leaving", "SystemExit"), ("interrupting", "KeyboardInterrupt"), ("broken", "RuntimeError")],
)
def test_a_job_that_would_end_the_process_ends_alone(path: str, error: str) -> None:
    """`sys.exit()` and KeyboardInterrupt in a job are that job's failure, with the traceback in the log."""
    with Server("plain") as server:
        sibling = server.request("POST", "/api/held").json
        for _ in range(2):
            assert server.request("POST", f"/api/{path}").json["started"] is True
            over = server.settled(f"/api/{path}")
            assert (over["status"], over["errorCode"]) == ("FAILED", "error")
            assert over["errorMessage"]
        server.wait_for(rf"ERROR\|asynctask\|{path}\|{over['runId']}\|.*{error}")
        server.wait_for(rf"^{error}")
        assert server.process.poll() is None
        assert server.request("GET", "/api/held/status").json["runId"] == sibling["runId"]
        server.request("POST", "/release")
        assert server.settled("/api/held")["status"] == "SUCCESS"


def test_a_job_that_blocks_the_loop_is_named() -> None:
    """Every request waited for it, so the warning says which job it was, and where."""
    with Server("plain") as server:
        run_id = server.request("POST", "/api/blocking").json["runId"]
        assert server.settled("/api/blocking")["status"] == "SUCCESS"
        warning = server.wait_for(rf"WARNING\|asynctask\|blocking\|{run_id}\|.*blocked the event loop")
        assert "to_thread" in warning.string
        server.request("POST", "/api/counted")
        server.settled("/api/counted")
        assert len(server.found("blocked the event loop")) == 1
