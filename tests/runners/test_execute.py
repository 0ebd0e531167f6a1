"""Executing: what a run's end leaves in the snapshot and in the log."""

from __future__ import annotations

import gc
import logging
import weakref
from collections.abc import Awaitable, Callable
from typing import Any

import pytest

from asynctask import JobError, MemoryStore, Run, Snapshot, Status
from asynctask.context import logger
from asynctask.job import Job
from asynctask.keys import Key
from asynctask.runners.execute import execute
from asynctask.testing import run_job
from tests.runners.bad_ends import raising

pytestmark = pytest.mark.anyio


async def test_a_job_that_is_no_coroutine_in_the_end_fails() -> None:
    """A decorator that returned something else is a failed run, with a message."""

    class Fickle:
        async def __call__(self, run: Run) -> None: ...

    fickle = Fickle()
    job = Job("job", fickle)
    job.fn = lambda run: 5  # type: ignore[assignment, return-value]
    run = Run(Key("job", "job", ""))
    store = MemoryStore()
    await store.claim(run)
    await execute(run, job, store.settle)
    assert run.snapshot().status is Status.FAILED
    assert "await" in str(run.snapshot().error_message)


async def ended(fn: Callable[..., Awaitable[Any]], **options: Any) -> Snapshot:
    """The terminal snapshot of a job that does not show its errors."""
    return await run_job(fn, expose_errors=False, **options)


async def test_hidden_errors_show_an_id_that_stands_beside_the_traceback(
    caplog: pytest.LogCaptureFixture,
) -> None:
    """kodosumi#55: no text and no traceback leave the server; the id leads to both in the log."""
    snapshot = await ended(raising(ValueError("password=hunter2 at line 7")))
    assert "hunter2" not in str(snapshot)
    assert snapshot.error_id is not None
    assert snapshot.error_id in str(snapshot.error_message)
    (record,) = [r for r in caplog.records if r.levelno == logging.ERROR]
    assert snapshot.error_id in record.getMessage()
    assert record.exc_info is not None
    assert "line 7" in caplog.text


async def test_job_errors_are_shown_even_so() -> None:
    """They were written for visitors; alone in a group too."""
    for error in (JobError("no credit"), ExceptionGroup("x", [JobError("no credit")])):
        assert (await ended(raising(error))).error_message == "no credit"
    mixed = await ended(raising(ExceptionGroup("x", [JobError("no credit"), ValueError("disk full")])))
    assert "disk full" not in str(mixed)


async def test_a_shown_error_has_an_id_too_and_no_traceback() -> None:
    """The default passes the message through, redacted, and nothing more."""
    snapshot = await run_job(raising(ValueError("at http://u:p@h")))
    assert snapshot.error_message == "at http://***@h"
    assert snapshot.error_id
    assert "Traceback" not in str(snapshot)
    assert "test_execute" not in str(snapshot)


async def test_each_run_logs_its_start_quarters_and_end(caplog: pytest.LogCaptureFixture) -> None:
    """The specification's checklist: one line each, with duration and counts, and the run's fields."""
    caplog.set_level(logging.INFO, "asynctask")

    async def job(run: Run) -> None:
        run.total = 8
        for n in range(8):
            run.advance(failed=int(n == 3))

    snapshot = await run_job(job, tenant="acme")
    lines = [r.getMessage() for r in caplog.records if r.name == "asynctask"]
    assert lines[0] == f"job job started (tenant 'acme', run {snapshot.run_id})"
    assert lines[1:4] == [f"job job at {n} of 8 ({int(n > 3)} failed)" for n in (2, 4, 6)]
    assert lines[4].startswith("job job ended: SUCCESS in 0.")
    assert lines[4].endswith(f"8 of 8 processed, 1 failed (tenant 'acme', run {snapshot.run_id})")
    assert len(lines) == 5
    assert {(r.run_id, r.tenant) for r in caplog.records if r.name == "asynctask"} == {  # type: ignore[attr-defined]
        (snapshot.run_id, "acme")
    }


async def test_a_failure_is_logged_as_an_error_with_its_traceback(caplog: pytest.LogCaptureFixture) -> None:
    """Where it happened is for the log alone."""
    caplog.set_level(logging.INFO, "asynctask")
    await run_job(raising(ValueError("bad row")))
    (error,) = [r for r in caplog.records if r.levelno == logging.ERROR]
    assert error.exc_info is not None
    assert error.exc_info[0] is ValueError
    assert "ended: FAILED (error)" in caplog.text


async def test_reasons_of_failed_items_are_in_the_summary() -> None:
    """What `map(…, on_error="collect")` met, unless the job says it itself."""

    async def call(item: int) -> None:
        raise ValueError(f"{item} is out")

    def job_returning(result: Any) -> Callable[[Run], Awaitable[Any]]:
        async def job(run: Run) -> Any:
            await run.map(call, [1, 2], max_at_once=1, on_error="collect")
            return result

        return job

    reasons = ["1 is out", "2 is out"]
    assert (await run_job(job_returning(None))).result == {"failures": reasons}
    assert (await run_job(job_returning({"n": 1}))).result == {"n": 1, "failures": reasons}
    assert (await run_job(job_returning({"failures": 2}))).result == {"failures": 2}
    assert (await run_job(job_returning([1]))).result == [1]


async def test_a_result_that_is_too_large_costs_a_warning_not_the_outcome(
    caplog: pytest.LogCaptureFixture,
) -> None:
    """A preview stands in for it, and the log says what to return instead."""

    async def job(run: Run) -> list[int]:
        return list(range(100_000))

    snapshot = await run_job(job)
    assert snapshot.status is Status.SUCCESS
    assert snapshot.result["truncated"] is True
    assert "return counts" in caplog.text
    caplog.clear()

    async def honest(run: Run) -> dict[str, bool]:
        return {"truncated": True}

    assert (await run_job(honest)).result == {"truncated": True}
    assert caplog.text == ""


async def test_the_engine_is_silent_where_nobody_listens(caplog: pytest.LogCaptureFixture) -> None:
    """A logger that is switched off costs nothing and changes nothing."""
    logger.disabled = True
    try:
        assert (await run_job(raising(ValueError("x")))).error_message == "x"
    finally:
        logger.disabled = False
    assert caplog.text == ""


class Ballast:
    """Something large that a body holds."""


@pytest.mark.parametrize("error", [ValueError("x"), JobError("x"), ExceptionGroup("x", [ValueError()]), None])
async def test_what_a_body_held_is_let_go_at_its_end(error: Exception | None) -> None:
    """Not when the garbage collector comes by: a failed run's traceback and frames are in no cycle."""
    held: list[weakref.ref[object]] = []

    async def job(run: Run) -> None:
        ballast = Ballast()
        held.append(weakref.ref(ballast))
        if error is not None:
            raise type(error)(*error.args)

    logger.disabled = True  # pytest keeps all records, and their tracebacks with them
    gc.collect()
    gc.disable()
    try:
        await run_job(job)
        assert held[0]() is None
    finally:
        gc.enable()
        logger.disabled = False
