"""Cancellation: who asked decides the outcome, and whatever a body makes of it, the run ends once."""

from __future__ import annotations

import logging
from collections.abc import Callable
from typing import Any

import anyio
import anyio.from_thread
import anyio.lowlevel
import anyio.to_thread
import pytest

from asynctask import JobError, Jobs, NotCancelableError, Run, Status
from asynctask.testing import Gate, drained, run_job
from tests.stubborn import STUBBORN, Body, has_children, over, sleeps, started, turns_it_into_an_error

pytestmark = pytest.mark.anyio


@pytest.mark.parametrize("body", STUBBORN)
async def test_a_cancelled_run_is_failed_as_cancelled(body: Body) -> None:
    """Whatever the body makes of it: swallows it, returns all the same, or raises something else."""
    jobs = Jobs(shutdown_grace=0)
    async with jobs:
        await started(jobs, body, cancelable=True)
        asked = await jobs.cancel("job")
        assert (asked.status, asked.cancel_requested) == (Status.RUNNING, True)
        snapshot = await over(jobs)
        assert (snapshot.status, snapshot.error_code) == (Status.FAILED, "cancelled")
        assert snapshot.error_message == "The run was cancelled."
        assert snapshot.cancel_requested
        assert snapshot.result is None
        assert (await jobs.trigger("job")).started is True


@pytest.mark.parametrize("body", STUBBORN)
async def test_a_run_past_its_timeout_is_failed_as_timeout(body: Body) -> None:
    """The same for its time limit, and the message says what that was."""
    snapshot = await run_job(body, timeout=0.01)
    assert (snapshot.status, snapshot.error_code) == (Status.FAILED, "timeout")
    assert snapshot.error_message == "The run took longer than its limit of 0.01 s."
    assert not snapshot.cancel_requested
    assert snapshot.duration_ms is not None
    assert snapshot.duration_ms >= 10


async def test_a_storm_of_cancellations_is_one_cancellation() -> None:
    """Asked a hundred times, from many tasks, while the body cleans up: one outcome, one cleanup."""
    jobs, cleaned = Jobs(), []

    async def careful(run: Run) -> None:
        try:
            await anyio.sleep_forever()
        finally:
            with anyio.CancelScope(shield=True):
                for _ in range(20):
                    await anyio.lowlevel.checkpoint()
            cleaned.append(run.run_id)

    async with jobs:
        await started(jobs, careful, cancelable=True)
        async with anyio.create_task_group() as group:
            for _ in range(100):
                group.start_soon(jobs.cancel, "job")
        snapshot = await over(jobs)
        assert (snapshot.error_code, snapshot.version) == ("cancelled", 3)
        assert cleaned == [snapshot.run_id]
        assert await jobs.cancel("job") == snapshot


async def test_a_cancel_without_a_run_does_nothing() -> None:
    """Idempotent: IDLE stays IDLE, and a run that is over stays as it is."""
    jobs = Jobs()

    @jobs.job("job", cancelable=True)
    async def job(run: Run) -> str:
        return "done"

    async with jobs:
        assert (await jobs.cancel("job")).status is Status.IDLE
        await jobs.trigger("job")
        ended = await over(jobs)
        assert await jobs.cancel("job") == ended
        assert ended.result == "done"


async def test_a_job_that_is_not_cancelable_refuses() -> None:
    """And its run goes on."""
    jobs = Jobs(shutdown_grace=0)
    async with jobs:
        await started(jobs, sleeps)
        with pytest.raises(NotCancelableError):
            await jobs.cancel("job")
        assert not (await jobs.status("job")).cancel_requested


async def test_a_cancel_between_trigger_and_first_step() -> None:
    """The body has not begun yet: it is cancelled at its first await."""
    jobs, reached = Jobs(), []

    @jobs.job("job", cancelable=True)
    async def job(run: Run) -> None:
        await anyio.lowlevel.checkpoint()
        reached.append(run)

    async with jobs:
        await jobs.trigger("job")
        await jobs.cancel("job")
        assert (await over(jobs)).error_code == "cancelled"
    assert reached == []


async def test_a_job_in_a_thread_stops_by_looking() -> None:
    """A thread cannot be cancelled; it reads `cancel_requested`, and its early return is no success."""
    jobs = Jobs()
    looked = anyio.Event()

    def work(run: Run) -> str:
        anyio.from_thread.run_sync(looked.set)
        while not run.cancel_requested:
            pass
        return "stopped early"

    async with jobs:
        jobs.job("job", cancelable=True)(threaded(work))
        await jobs.trigger("job")
        await looked.wait()
        await jobs.cancel("job")
        assert (await over(jobs)).error_code == "cancelled"


def threaded(work: Callable[[Run], Any]) -> Body:
    """A job that does its work in a thread."""

    async def job(run: Run) -> Any:
        return await anyio.to_thread.run_sync(work, run)

    return job


async def test_a_job_error_raised_at_the_stop_stands() -> None:
    """The job says itself, to its visitors, what state it leaves."""

    async def explains(run: Run) -> None:
        try:
            await anyio.sleep_forever()
        finally:
            raise JobError("stopped after 3 of 10 files", code="partial")

    snapshot = await run_job(explains, timeout=0.01)
    assert (snapshot.error_message, snapshot.error_code) == ("stopped after 3 of 10 files", "partial")


@pytest.mark.parametrize("body", [turns_it_into_an_error, has_children])
async def test_what_a_body_raised_when_it_was_stopped_is_logged(
    body: Body, caplog: pytest.LogCaptureFixture
) -> None:
    """The outcome is the stop, but nothing is swallowed."""
    await run_job(body, timeout=0.01)
    assert "failed while it was stopped" in caplog.text
    assert "cleanup failed" in caplog.text


async def test_a_plain_stop_is_no_error_in_the_log(caplog: pytest.LogCaptureFixture) -> None:
    """A cancelled body that raises nothing else has nothing to report."""
    await run_job(sleeps, timeout=0.01)
    assert not [record for record in caplog.records if record.levelno >= logging.ERROR]


async def test_a_limit_of_the_bodys_own_is_its_own_affair() -> None:
    """A scope that ends within the body does not end the run; a TimeoutError of its own is an error."""

    async def moves_on(run: Run) -> str:
        with anyio.move_on_after(0.01):
            await anyio.sleep_forever()
        return "moved on"

    async def gives_up(run: Run) -> None:
        with anyio.fail_after(0.01):
            await anyio.sleep_forever()

    assert (await run_job(moves_on)).result == "moved on"
    assert (await run_job(gives_up)).error_code == "error"


async def test_a_body_that_returns_in_time_is_not_late() -> None:
    """A timeout that was not reached leaves no trace."""

    async def quick(run: Run) -> str:
        await anyio.lowlevel.checkpoint()
        return "done"

    assert (await run_job(quick, timeout=3600)).result == "done"


async def test_a_body_that_held_the_loop_past_its_timeout_is_late() -> None:
    """It never awaited, so it could not be cancelled; it took too long all the same."""

    async def blocks(run: Run) -> str:
        end = anyio.current_time() + 0.02
        while anyio.current_time() < end:
            pass
        return "done"

    assert (await run_job(blocks, timeout=0.01)).error_code == "timeout"


async def test_one_runs_timeout_is_nobody_elses() -> None:
    """Other runs, of the same job too, go on."""
    jobs, gate = Jobs(), Gate()

    @jobs.job("a/{n}", timeout=0.01)
    async def hasty(run: Run) -> None:
        await gate.wait()

    @jobs.job("job")
    async def patient(run: Run) -> str:
        await gate.wait()
        return "done"

    async with jobs:
        await jobs.trigger("job")
        await jobs.trigger("a/{n}", params={"n": "1"})
        assert (await jobs.wait("a/{n}", params={"n": "1"}, timeout=10)).error_code == "timeout"
        assert (await jobs.status("job")).status is Status.RUNNING
        gate.open()
        assert (await over(jobs)).result == "done"


async def test_a_caller_that_is_cancelled_does_not_take_the_run_along() -> None:
    """starlette#1438: the client disconnects, during the trigger or while it waits; the run completes."""
    jobs, gate = Jobs(), Gate()

    async def finishes(run: Run) -> str:
        await gate.wait()
        return "done"

    jobs.job("job")(finishes)
    async with jobs:
        with anyio.CancelScope() as scope:
            scope.cancel()
            await jobs.trigger("job")
            await jobs.wait("job")
        assert scope.cancelled_caught
        await gate.arrived()
        with anyio.move_on_after(0.01) as scope:
            await jobs.wait("job")
        assert scope.cancelled_caught
        gate.open()
        assert (await over(jobs)).result == "done"


async def test_drained_jobs_can_go_on() -> None:
    """After all were cancelled, new ones start."""
    jobs = Jobs()
    async with jobs:
        await started(jobs, sleeps, cancelable=True)
        await jobs.cancel("job")
        await drained(jobs)
        assert (await jobs.trigger("job")).started is True
        await jobs.cancel("job")
