"""What a job takes down of itself: bounded, cheap, and right about what went wrong upstream."""

import math
import sys
import threading
from typing import Any

import anyio
import httpx
import httpx2
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


# -- upstream errors -----------------------------------------------------------------------------------------


def upstream_of(*errors: BaseException) -> dict[str, int]:
    history = History()
    for error in errors:
        history.record_error(error)
    return {kind: count for kind, count in history.figures().upstream.items() if count}


def answered(client: Any, status: int) -> Exception:
    """What `raise_for_status()` of httpx or httpx2 raises, made by themselves."""
    response = client.Response(status, request=client.Request("GET", "http://remote.test/"))
    with pytest.raises(client.HTTPStatusError) as caught:
        response.raise_for_status()
    error: Exception = caught.value
    return error


@pytest.mark.parametrize("client", [httpx, httpx2], ids=["httpx", "httpx2"])
@pytest.mark.parametrize("status", [502, 503, 504])
def test_answers_of_an_overloaded_remote_are_counted(client: Any, status: int) -> None:
    """502, 503 and 504 are counted by status, with httpx and with httpx2."""
    assert upstream_of(answered(client, status)) == {str(status): 1}


@pytest.mark.parametrize("client", [httpx, httpx2], ids=["httpx", "httpx2"])
@pytest.mark.parametrize("status", [404, 429, 500])
def test_other_answers_are_not(client: Any, status: int) -> None:
    """Any other status is not a sign that the remote side is overloaded."""
    assert upstream_of(answered(client, status)) == {}


@pytest.mark.parametrize(
    "error",
    [
        httpx.ReadTimeout("slow"),
        httpx.ConnectTimeout("slow"),
        httpx2.ReadTimeout("slow"),
        httpx2.WriteTimeout("slow"),
        TimeoutError(),
        type("Timeout", (OSError,), {})("as requests calls it"),
    ],
    ids=lambda error: f"{type(error).__module__}.{type(error).__name__}",
)
def test_timeouts_are_counted(error: BaseException) -> None:
    """Timeouts are known by their class, whichever client raised them."""
    assert upstream_of(error) == {"timeout": 1}


@pytest.mark.anyio
async def test_a_timeout_of_anyio_is_counted() -> None:
    """`anyio.fail_after` around a call is a timeout, on asyncio and on trio."""
    with pytest.raises(TimeoutError) as caught:
        with anyio.fail_after(0):
            await anyio.sleep_forever()
    assert upstream_of(caught.value) == {"timeout": 1}


@pytest.mark.parametrize("client", [httpx, httpx2], ids=["httpx", "httpx2"])
def test_waiting_for_the_own_pool_is_no_upstream_timeout(client: Any) -> None:
    """PoolTimeout says that our own pool is too small."""
    assert upstream_of(client.PoolTimeout("no connection")) == {}


@pytest.mark.parametrize("error", [ValueError("no"), httpx.ConnectError("refused"), SystemExit(2)])
def test_other_errors_are_not_counted(error: BaseException) -> None:
    """What is neither a status nor a timeout is a bug or another fault."""
    assert upstream_of(error) == {}


def test_the_status_of_other_clients_is_seen() -> None:
    """aiohttp's errors carry the status themselves; a response that is None (requests) does not confuse."""
    error: Any = ValueError("as aiohttp")
    error.status, error.response = 503, None
    assert upstream_of(error) == {"503": 1}


def test_a_wrapped_error_counts_as_what_it_was_raised_from() -> None:
    """`raise … from`, a bare raise in an except block, and chains of both lead to the timeout."""

    def explicit() -> None:
        raise RuntimeError("sync failed") from httpx.ReadTimeout("slow")

    def implicit() -> None:
        try:
            explicit()
        except RuntimeError:
            raise KeyError("fingerprint")  # noqa: B904

    for raising in (explicit, implicit):
        with pytest.raises((RuntimeError, KeyError)) as caught:
            raising()
        assert upstream_of(caught.value) == {"timeout": 1}


def test_from_none_hides_the_origin() -> None:
    """`raise … from None` says that the origin does not matter."""
    with pytest.raises(ValueError) as caught:
        try:
            raise TimeoutError
        except TimeoutError:
            raise ValueError("bad product") from None
    assert upstream_of(caught.value) == {}


def test_groups_count_each_leaf_once() -> None:
    """Nested groups are walked; the same error in two branches counts once; a wrapped group is opened."""
    slow = TimeoutError()
    group = ExceptionGroup(
        "batch", [slow, answered(httpx, 504), ExceptionGroup("inner", [slow, ValueError()])]
    )
    assert upstream_of(group) == {"timeout": 1, "504": 1}
    wrapped = RuntimeError("batch failed")
    wrapped.__cause__ = group
    assert upstream_of(wrapped) == {"timeout": 1, "504": 1}


def test_no_exception_can_break_it() -> None:
    """Cycles of causes, very deep chains and groups, and properties that raise are all survived."""
    first, second = ValueError(), KeyError()
    first.__cause__, second.__cause__ = second, first

    class Hostile(Exception):
        @property
        def response(self) -> object:
            raise RuntimeError("no response yet")

    chain: BaseException = TimeoutError()
    group: Exception = TimeoutError()
    for _ in range(5_000):
        outer = ValueError()
        outer.__cause__, chain = chain, outer
        group = ExceptionGroup("deeper", [group])
    assert upstream_of(first, Hostile()) == {}
    assert upstream_of(chain) == {"timeout": 1}
    assert upstream_of(group) == {"timeout": 1}
    while isinstance(group, ExceptionGroup):  # taken apart from outside, for freeing it at once recurses
        (group,) = group.exceptions


def test_upstream_errors_age_out_with_their_runs() -> None:
    """Errors belong to the run that ended next; once that has left the window they are forgotten."""
    history = History(window=2)
    history.record_error(TimeoutError())
    assert history.figures().timeouts == 1
    history.record_run(1.0, 1, "SUCCESS")
    history.record_run(1.0, 1, "SUCCESS")
    assert history.figures().timeouts == 1
    history.record_run(1.0, 1, "SUCCESS")
    assert history.figures().timeouts == 0


def test_timeouts_are_what_the_specification_counts() -> None:
    """502, 504, timeouts of calls and of the run itself; a 503 is shown and not counted."""
    history = History()
    for error in (answered(httpx, 502), answered(httpx, 503), answered(httpx, 504), TimeoutError()):
        history.record_error(error)
    history.record_run(30.0, 10, "timeout")
    figures = history.figures()
    assert figures.upstream == {"502": 1, "503": 1, "504": 1, "timeout": 1}
    assert figures.timeouts == 4


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
