"""Run: its pictures, its one end, its cancellation, and `map`."""

from __future__ import annotations

import threading
from typing import Any

import anyio
import pytest

from asynctask.errors import ConfigurationError, JobError
from asynctask.history import History
from asynctask.keys import Key
from asynctask.run import MAX_REASONS, Run
from asynctask.snapshot import Code, Status

KEY = Key("files/{name}", "files/a%20b", "acme")


def new_run(**options: Any) -> Run:
    """A run of one key."""
    return Run(KEY, **options)


def test_a_run_knows_who_it_is_for() -> None:
    """Job, key, tenant, payload and parameters are those of the trigger; the id is 128 random bits."""
    given = {"name": "a b"}
    run = new_run(payload={"n": 1}, params=given)
    given["name"] = "changed later"
    assert (run.job, run.key, run.tenant, run.payload) == ("files/{name}", "files/a%20b", "acme", {"n": 1})
    assert run.params == {"name": "a b"}
    with pytest.raises(TypeError):
        run.params["name"] = "x"  # type: ignore[index]
    assert len(bytes.fromhex(run.run_id)) == 16
    assert new_run().run_id != run.run_id
    assert repr(run) == f"<Run {run.run_id} of 'files/a%20b' for tenant 'acme': RUNNING>"


def test_the_first_picture_is_running_since_now() -> None:
    """Version 1, started and updated at once, nothing finished, and when to look again."""
    first = new_run().snapshot()
    assert (first.status, first.version) == (Status.RUNNING, 1)
    assert first.started_at == first.updated_at
    assert (first.finished_at, first.duration_ms, first.result, first.error_message) == (None,) * 4
    assert first.poll_after_ms == 1000


def test_a_picture_is_painted_once_for_each_version() -> None:
    """pretix#2142: a thousand pollers of one version share one object; a change makes a new one."""
    run = new_run()
    first = run.snapshot()
    assert run.snapshot() is first
    run.advance()
    second = run.snapshot()
    assert second is not first
    assert (first.processed, second.processed) == (0, 1)
    assert run.snapshot() is second


def test_a_change_that_is_none_makes_no_version() -> None:
    """The entity tag stays, so a poller is answered 304."""
    run = new_run()
    run.total, run.message = 5, "loading"
    before = run.snapshot()
    run.total, run.message = 5, "loading"
    run.advance(0)
    assert run.snapshot() is before


def test_a_run_ends_once() -> None:
    """The first end counts, whatever comes after: no outcome is replaced, no progress moves."""
    run = new_run()
    ended = run.finish(Status.SUCCESS, result={"n": 1})
    assert run.finish(Status.FAILED, error_message="late", error_code=Code.ERROR) is ended
    run.advance(5)
    run.message = "still here"
    run.request_cancel()
    assert run.snapshot() is ended
    assert (ended.status, ended.result, ended.error_message) == (Status.SUCCESS, {"n": 1}, None)
    assert (ended.poll_after_ms, ended.cancel_requested) == (None, False)


def test_an_error_code_is_a_plain_text_in_the_snapshot() -> None:
    """Also where the code was a member of an enumeration."""
    ended = new_run().finish(Status.FAILED, error_message="x", error_code=Code.TIMEOUT)
    assert type(ended.error_code) is str
    assert ended.error_code == "timeout"


def test_a_run_ends_in_a_terminal_status_alone() -> None:
    """There is no way from RUNNING to IDLE or RUNNING."""
    for status in (Status.IDLE, Status.RUNNING):
        with pytest.raises(AssertionError):
            new_run().finish(status)  # type: ignore[arg-type]


@pytest.mark.parametrize("jump", [-3600.0, 3600.0])
def test_a_wall_clock_that_jumps_changes_neither_order_nor_duration(
    jump: float, monkeypatch: pytest.MonkeyPatch
) -> None:
    """apscheduler#351, quartz#270: startedAt ≤ finishedAt and duration ≥ 0 all the same."""
    run = new_run()
    started = run.snapshot().started_at
    clock = __import__("time").time
    monkeypatch.setattr("asynctask.progress.time", lambda: clock() + jump)
    ended = run.finish(Status.SUCCESS)
    assert ended.started_at == started
    assert ended.started_at is not None
    assert ended.finished_at is not None
    assert ended.started_at <= ended.finished_at
    assert ended.duration_ms is not None
    assert 0 <= ended.duration_ms < 600_000


def test_a_run_can_be_read_from_other_threads() -> None:
    """Every picture is of one moment: counts that move together are seen together, versions only grow."""
    run = new_run()
    run.total = 10**9
    stop = threading.Event()
    torn: list[object] = []

    def read() -> None:
        version = 0
        while not stop.is_set():
            seen = run.snapshot()
            if seen.version < version or seen.succeeded + seen.failed != seen.processed:
                torn.append(seen)
            version = seen.version

    readers = [threading.Thread(target=read) for _ in range(3)]
    for reader in readers:
        reader.start()
    for _ in range(20_000):
        run.advance(2, failed=1)
    stop.set()
    for reader in readers:
        reader.join()
    assert not torn
    assert run.snapshot().processed == 40_000


def test_the_first_request_to_cancel_counts() -> None:
    """The visitor's cancel is not overwritten by the shutdown that follows it."""
    run = new_run()
    assert not run.cancel_requested
    run.request_cancel()
    run.request_cancel(Code.INTERRUPTED)
    assert run.cancel_requested
    assert run.cancel_code is Code.CANCELLED
    assert run.snapshot().cancel_requested
    assert run.snapshot().version == 2


@pytest.mark.anyio
async def test_a_cancel_before_the_body_runs_is_not_lost() -> None:
    """Asked for between claim and first step: the scope that is bound later is cancelled."""
    run = new_run()
    run.request_cancel()
    with anyio.CancelScope() as scope:
        run.bind(scope)
        await anyio.sleep_forever()
    assert scope.cancelled_caught


def test_an_error_is_counted_once_in_the_history() -> None:
    """An item's error that becomes the run's is one timeout of the remote side, not two."""
    run = new_run(history=History())
    error = TimeoutError()
    run.note_error(error)
    run.note_error(error)
    assert run.history is not None
    assert run.history.figures().upstream["timeout"] == 1
    new_run().note_error(error)


@pytest.mark.parametrize(
    ("expose", "error", "expected"),
    [
        (True, ValueError("disk full"), "disk full"),
        (False, ValueError("disk full"), "ValueError"),
        (True, JobError("no credit"), "no credit"),
        (False, JobError("no credit"), "no credit"),
        (False, ConfigurationError("path '/srv/x'"), "ConfigurationError"),
    ],
)
def test_what_may_be_said_of_an_error(expose: bool, error: Exception, expected: str) -> None:
    """With errors hidden, only what was written for visitors is shown."""
    assert new_run(expose_errors=expose).explain(error) == expected


async def double(n: int) -> int:
    """One item's work."""
    await anyio.sleep(0)
    if n < 0:
        raise ValueError(f"{n} is negative")
    return 2 * n


@pytest.mark.anyio
async def test_map_counts_along_the_way() -> None:
    """Results in the order of the items; `total` and `processed` move by themselves."""
    run = new_run(history=History())
    assert await run.map(double, range(5), max_at_once=2) == [0, 2, 4, 6, 8]
    snapshot = run.snapshot()
    assert (snapshot.processed, snapshot.total, snapshot.failed) == (5, 5, 0)
    await run.map(double, [1, 2, 3])
    assert (run.snapshot().processed, run.snapshot().total) == (8, 8)
    assert run.history is not None
    spread = run.history.figures().call_seconds
    assert spread is not None
    assert spread.count == 8


@pytest.mark.anyio
async def test_map_leaves_a_total_alone_that_the_body_set() -> None:
    """Also one that it set to None."""
    for total in (100, None):
        run = new_run()
        run.total = total
        await run.map(double, [1, 2])
        assert (run.snapshot().total, run.snapshot().processed) == (total, 2)


@pytest.mark.anyio
async def test_map_of_items_without_a_length_is_indeterminate() -> None:
    """A generator's end is not known before it comes."""
    run = new_run()
    await run.map(double, iter([1, 2]))
    assert (run.snapshot().total, run.snapshot().processed) == (None, 2)


@pytest.mark.anyio
async def test_map_collects_failures_and_names_the_first_few() -> None:
    """Each is counted; the reasons are few, different, and cleaned."""
    run = new_run()
    outcomes = await run.map(double, [1, -1, -1, *range(-20, -1)], on_error="collect")
    assert [outcome.value for outcome in outcomes if outcome.ok] == [2]
    assert (run.snapshot().processed, run.snapshot().failed) == (22, 21)
    assert len(set(run.reasons)) == len(run.reasons) == MAX_REASONS
    hidden = new_run(expose_errors=False)
    await hidden.map(double, [-1, -2], on_error="collect")
    assert hidden.reasons == ("ValueError",)


@pytest.mark.anyio
async def test_map_raises_the_first_error_as_itself() -> None:
    """No group around it; the item is counted as failed."""
    run = new_run()
    with pytest.raises(ValueError, match="-1 is negative"):
        await run.map(double, [1, -1, 2])
    assert run.snapshot().failed == 1


@pytest.mark.anyio
async def test_map_says_what_is_wrong_with_its_arguments() -> None:
    """Mistakes of the first minute get a sentence each."""
    run = new_run()
    for fn, items in ((None, [1]), (double, 5), (abs, [1])):
        with pytest.raises(ConfigurationError):
            await run.map(fn, items)  # type: ignore[arg-type]
