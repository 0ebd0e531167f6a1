"""The lines that a run leaves in the log."""

from __future__ import annotations

from tests.server.harness import Server


def test_a_run_logs_its_start_its_quarters_and_its_end() -> None:
    """One INFO line each, with job, run id and tenant as fields; the end has duration and counts."""
    with Server("remembering") as server:
        run_id = server.request("POST", "/api/counted", X_Tenant="acme").json["runId"]
        ours = rf"^INFO\|asynctask\|counted\|{run_id}\|acme\|"
        server.wait_for(ours + "job counted ended")
        messages = [match.string.split("|")[-1] for match in server.found(ours)]
    start, *quarters, end = messages
    assert start.startswith("job counted started")
    assert quarters == [
        "job counted at 25 of 100 (2 failed)",
        "job counted at 50 of 100 (5 failed)",
        "job counted at 75 of 100 (7 failed)",
    ]
    assert end.startswith("job counted ended: SUCCESS in 0.")
    assert "100 of 100 processed, 10 failed" in end


def test_a_failure_is_logged_with_its_traceback() -> None:
    """ERROR with the run's fields; the traceback is in the log and nowhere else."""
    with Server("remembering") as server:
        run_id = server.request("POST", "/api/broken", X_Tenant="acme").json["runId"]
        server.wait_for(rf"^ERROR\|asynctask\|broken\|{run_id}\|acme\|job broken failed")
        server.wait_for("^Traceback")
        server.wait_for("^RuntimeError: the price list is gone")
        server.wait_for(rf"^INFO\|asynctask\|broken\|{run_id}\|acme\|job broken ended: FAILED \(error\)")
        status = server.request("GET", "/api/broken/status", X_Tenant="acme")
        assert b"Traceback" not in status.body
        assert status.json["errorId"] in server.found("job broken failed")[0].string


def test_other_records_have_the_fields_too() -> None:
    """A format that names the fields works for every record, also those outside of any run."""
    with Server("plain") as server:
        server.request("POST", "/api/held", Sec_Fetch_Site="same-origin")
        server.request("POST", "/api/held")
        log = server.stop()
    assert "KeyError" not in log
    assert "Logging error" not in log
