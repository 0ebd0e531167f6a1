"""The trigger condition, decided from what a job measured of itself."""

import pytest

from asynctask.condition import History, assess


def measured(
    durations: list[float], *, records: int | None = 6_000, calls: list[float] | None = None
) -> History:
    history = History()
    for seconds in calls or []:
        history.record_call(seconds)
    for duration in durations:
        history.record_run(duration, records, "SUCCESS")
    return history


def test_measurements_replace_what_was_said() -> None:
    """Records, latency and duration come from the history once it has them."""
    history = measured([3.0] * 18 + [3.3, 9.0], calls=[0.04, 0.06])
    found = assess(records=5, latency=9.0, calls=7, history=history)
    assert (found.records, found.calls, found.latency_seconds) == (6_000, 6_000, 0.05)
    assert found.concurrent_seconds == 3.3
    assert found.at_once is None
    assert str(found) == (
        "6,000 × 50 ms is 300 s one by one, 3.3 s in its last 20 runs (95th percentile): "
        "in scope, but stay synchronous at that concurrency"
    )
    assert found.measured == history.figures()


def test_what_was_said_serves_until_there_is_a_measurement() -> None:
    """An empty history changes nothing but that it is shown."""
    with_none, with_empty = (assess(records=6_000, latency=0.05, history=h) for h in (None, History()))
    assert str(with_empty) == str(with_none)
    assert with_empty.measured == History().figures()
    assert with_none.measured is None


def test_a_job_that_has_not_run_says_so() -> None:
    """A history without a run has no verdict but `sync`, and says why."""
    found = assess(history=History())
    assert str(found).startswith("nothing is measured yet")
    assert found.verdict == "sync"


@pytest.mark.parametrize(("seconds", "verdict"), [(4.0, "sync"), (7.0, "wait"), (30.0, "job")])
def test_runs_without_remote_calls_are_judged_by_their_duration(seconds: float, verdict: str) -> None:
    """A job that never timed a call is in scope when its runs take more than 5 s."""
    found = assess(history=measured([seconds], records=None))
    assert found.verdict == verdict
    assert found.in_scope == (seconds > 5)
    assert str(found).startswith(f"{seconds:g} s in its last run: ")


def test_measured_timeouts_count() -> None:
    """Timeouts in the history add to those that were said, and make it a job."""
    history = measured([1.0])
    history.record_error(TimeoutError())
    found = assess(timeouts_seen=1, history=history)
    assert found.timeouts_seen == 2
    assert found.verdict == "job"
