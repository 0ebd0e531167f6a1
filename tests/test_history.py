"""What a job takes down of itself: bounded, cheap, and right about what went wrong upstream."""

import math
import sys
import threading
from typing import Any

import pytest

from asynctask.errors import ConfigurationError
from asynctask.history import History, Spread


def test_an_empty_history_has_no_figures() -> None:
    """Nothing measured is None, not zero; the counters are zero."""
    figures = History().figures()
    assert (figures.runs, figures.succeeded, figures.run_timeouts, figures.timeouts) == (0, 0, 0, 0)
    assert figures.duration_seconds is figures.records is figures.call_seconds is None
    assert figures.longest_trigger_seconds is None
    assert figures.upstream == {"502": 0, "503": 0, "504": 0, "timeout": 0}


def test_percentiles_are_values_that_occurred() -> None:
    """Nearest rank: of 1 to 200 the percentiles are 100, 190 and 198, however the values came in."""
    spread = Spread.of(reversed(range(1, 201)))
    assert spread == Spread(count=200, mean=100.5, p50=100, p95=190, p99=198, max=200)
    assert Spread.of([7.0]) == Spread(count=1, mean=7.0, p50=7.0, p95=7.0, p99=7.0, max=7.0)
    assert Spread.of([]) is None


def test_only_the_last_runs_and_calls_are_kept() -> None:
    """Older measurements leave as newer ones come: memory does not grow with the life of the process."""
    history = History(window=3, calls=5)
    for n in range(1_000):
        history.record_call(n)
        history.record_run(n, n, "SUCCESS")
    figures = history.figures()
    assert figures.runs == 3
    assert figures.duration_seconds is not None
    assert (figures.duration_seconds.p50, figures.duration_seconds.max) == (998, 999)
    assert figures.call_seconds is not None
    assert (figures.call_seconds.count, figures.call_seconds.p50) == (5, 997)


def test_runs_that_did_not_end_by_themselves_tell_no_duration() -> None:
    """Failed, cancelled and interrupted runs are counted, but say nothing of how long the work takes."""
    history = History()
    history.record_run(2.0, 100, "SUCCESS")
    for outcome in ("error", "cancelled", "interrupted", "worker_lost"):
        history.record_run(0.001, 1, outcome)
    history.record_run(30.0, 900, "timeout")
    figures = history.figures()
    assert (figures.runs, figures.succeeded, figures.run_timeouts) == (6, 1, 1)
    assert figures.duration_seconds is not None
    assert figures.duration_seconds.count == 2
    assert figures.duration_seconds.max == 30.0
    assert figures.records is not None
    assert figures.records.max == 900


def test_runs_that_counted_no_records_leave_records_unknown() -> None:
    """A job that shows no progress (None or 0 records) is not a job of no records."""
    history = History()
    history.record_run(1.0, None, "SUCCESS")
    history.record_run(1.0, 0, "SUCCESS")
    assert history.figures().records is None


def test_the_longest_trigger_is_kept() -> None:
    """Of all waits for a trigger the longest stays."""
    history = History()
    for seconds in (0.002, 0.4, 0.003, math.nan, -1.0, math.inf):
        history.record_trigger(seconds)
    assert history.figures().longest_trigger_seconds == 0.4


@pytest.mark.parametrize("bad", [-0.1, math.nan, math.inf])
def test_a_broken_clock_is_dropped(bad: float) -> None:
    """What cannot be a duration never enters, and never raises: it must not fail a job."""
    history = History()
    history.record_call(bad)
    history.record_run(bad, 1, "SUCCESS")
    figures = history.figures()
    assert figures.runs == 0
    assert figures.call_seconds is None


@pytest.mark.parametrize("options", [{"window": 0}, {"calls": -1}, {"window": True}, {"calls": 1.5}])
def test_sizes_are_checked(options: dict[str, Any]) -> None:
    """A size that is not a whole number of at least 1 is refused, with its value."""
    ((name, value),) = options.items()
    with pytest.raises(ConfigurationError, match=rf"^{name} is {value!r}: give a whole number of at least 1"):
        History(**options)


# -- the notice for jobs that need not be one ----------------------------------------------------------------


def test_twenty_quick_runs_are_told_once() -> None:
    """After the 20th quick run in a row there is a text for the log; never before, never again."""
    history = History()
    told = []
    for _ in range(60):
        history.record_run(0.25, 10, "SUCCESS")
        told.append(history.quick_notice("duplicates/check"))
    assert [n for n, text in enumerate(told, 1) if text] == [20]
    text = told[19]
    assert text is not None
    assert text.startswith(
        "the last 20 runs of 'duplicates/check' all ended in under 1 s (the slowest in 0.250 s)"
    )


@pytest.mark.parametrize(("duration", "outcome"), [(1.0, "SUCCESS"), (0.1, "error"), (0.1, "cancelled")])
def test_a_slow_or_failed_run_starts_the_count_anew(duration: float, outcome: str) -> None:
    """Twenty in a row are needed: a run of a second, or one that did not succeed, breaks the row."""
    history = History()
    for _ in range(19):
        history.record_run(0.1, 10, "success")
    history.record_run(duration, 10, outcome)
    for _ in range(19):
        history.record_run(0.1, 10, "success")
        assert history.quick_notice("a") is None
    history.record_run(0.1, 10, "success")
    assert history.quick_notice("a") is not None


# -- threads -------------------------------------------------------------------------------------------------


def test_threads_may_record_while_figures_are_read() -> None:
    """Nothing raises and no upstream error is lost when many threads record and one reads."""
    history = History(window=100_000, calls=100)
    failures: list[BaseException] = []

    def record() -> None:
        try:
            for n in range(2_000):
                history.record_call(0.001 * n)
                history.record_error(TimeoutError())
                history.record_run(0.1, 1, "SUCCESS")
                history.record_trigger(0.001 * n)
        except BaseException as error:
            failures.append(error)

    interval = sys.getswitchinterval()
    sys.setswitchinterval(1e-6)
    try:
        threads = [threading.Thread(target=record) for _ in range(4)]
        for thread in threads:
            thread.start()
        while any(thread.is_alive() for thread in threads):
            history.figures()
        for thread in threads:
            thread.join()
    finally:
        sys.setswitchinterval(interval)
    assert failures == []
    figures = history.figures()
    assert (figures.runs, figures.upstream["timeout"]) == (8_000, 8_000)
    assert figures.longest_trigger_seconds == 1.999
