"""Executing a claimed run: from its first step to its terminal snapshot, whatever the body does.

Rules (issue: one unguarded exception would end the task group, and with it every other run):

- Nothing that a job raises leaves `execute`, `SystemExit` and `KeyboardInterrupt` included. The one
  exception is a cancellation of the surrounding task group, which is passed on after the run is settled.
- Every run ends with exactly one call of `Run.finish` and of the store's `settle`, and then sets
  `run.finished`, also if settling or logging fails.
- A cancellation from outside the body is told from a stray one by whether its scope was cancelled.
"""

from __future__ import annotations

import logging
import math
import secrets
from collections.abc import Awaitable, Callable
from typing import Any

import anyio

from asynctask.blocking import Watched
from asynctask.context import current_run
from asynctask.errors import JobError
from asynctask.job import Job
from asynctask.run import Run
from asynctask.snapshot import MESSAGES, Code, Snapshot, Status
from asynctask.summary import summarise

Settle = Callable[[Run], Awaitable[bool]]


async def execute(run: Run, job: Job, settle: Settle) -> None:
    """Run a job's body to its end and settle it.

    Args:
        run: a run that the store accepted.
        job: the definition to execute.
        settle: the store's `settle`.
    """
    current_run.set(run)
    run.log(logging.INFO, "job %s started (tenant %r, run %s)", run.key, run.tenant, run.run_id)
    passed_on: BaseException | None = None
    try:
        snapshot = await _body(run, job)
    except BaseException as exc:
        if not _cancelled_from_outside():
            snapshot = _fail_with(run, job, exc)
        else:
            snapshot = _stop(run, job, exc, run.cancel_code or Code.INTERRUPTED)
            passed_on = exc if isinstance(exc, anyio.get_cancelled_exc_class()) else None
    try:
        await _settle(run, settle)
    finally:
        run.finished.set()
    _record(run, job, snapshot)
    if passed_on is not None:
        raise passed_on


async def _body(run: Run, job: Job) -> Snapshot:
    deadline = math.inf if job.timeout is None else anyio.current_time() + job.timeout
    with anyio.CancelScope(deadline=deadline) as scope:
        run.bind(scope)
        try:
            call = job.call(run)
            result = await (Watched(call, run) if hasattr(call, "cr_frame") else call)  # type: ignore[arg-type]
            return run.finish(Status.SUCCESS, result=_summary(run, result))
        except JobError as exc:
            return _fail_with(run, job, exc)
        except anyio.get_cancelled_exc_class():
            raise  # to the scope, which takes it if it was cancelled itself
        except BaseException as exc:
            # A body that turned its cancellation into another exception was cancelled all the same.
            if scope.cancel_called:
                return _stop(run, job, exc, run.cancel_code or Code.TIMEOUT)
            raise
    return _fail(run, job, run.cancel_code or Code.TIMEOUT)


def _cancelled_from_outside() -> bool:
    """Tell the task group's cancellation from an exception, even a CancelledError, of the body's own."""
    return anyio.current_effective_deadline() == -math.inf


def _stop(run: Run, job: Job, exc: BaseException, code: Code) -> Snapshot:
    """Finish a run that was told to stop; an exception that its body raised instead still reaches the log."""
    cancelled = anyio.get_cancelled_exc_class()
    rest = exc.split(cancelled)[1] if isinstance(exc, BaseExceptionGroup) else exc
    if rest is not None and not isinstance(rest, cancelled):
        run.log(
            logging.ERROR, "job %s failed while it was stopped (run %s)", run.key, run.run_id, exc_info=rest
        )
    return _fail(run, job, code)


def _summary(run: Run, result: Any) -> Any:
    if run.reasons and (result is None or (isinstance(result, dict) and "failures" not in result)):
        result = {**(result or {}), "failures": list(run.reasons)}
    summary = summarise(result)
    if isinstance(summary, dict) and summary.get("truncated") is True and summary is not result:
        run.log(
            logging.WARNING,
            "job %s returned more than a summary can hold, so only a preview is kept: return counts, and put "
            "the results where the application reads them",
            run.job,
        )
    return summary


def _fail(run: Run, job: Job, code: Code) -> Snapshot:
    if code is Code.TIMEOUT:
        message = f"The run took longer than its limit of {job.timeout:g} s."
    else:
        message = MESSAGES[code]
    return run.finish(Status.FAILED, error_message=message, error_code=code)


def _fail_with(run: Run, job: Job, exc: BaseException) -> Snapshot:
    """Finish as FAILED: the traceback goes to the log, the text, where allowed, to the visitor."""
    shown = _only_job_error(exc)
    error_id = None if shown else secrets.token_hex(6)
    run.log(
        logging.ERROR,
        "job %s failed (error id %s, run %s): %s",
        run.key,
        error_id or "-",
        run.run_id,
        type(exc).__name__,
        exc_info=exc,
    )
    run.note_error(exc)
    if shown is not None:
        return run.finish(Status.FAILED, error_message=run.explain(shown), error_code=shown.error_code)
    message = run.explain(exc) if run.expose_errors else f"The job failed; its error id is {error_id}."
    return run.finish(Status.FAILED, error_message=message, error_code=Code.ERROR, error_id=error_id)


def _only_job_error(exc: BaseException) -> JobError | None:
    """Return the JobError that `exc` is, or that a task group has wrapped as the only one of a group."""
    while isinstance(exc, BaseExceptionGroup) and len(exc.exceptions) == 1:
        exc = exc.exceptions[0]
    return exc if isinstance(exc, JobError) else None


async def _settle(run: Run, settle: Settle) -> None:
    try:
        counted = await settle(run)
    except BaseException as exc:
        run.log(logging.ERROR, "run %s of job %s could not be settled", run.run_id, run.key, exc_info=exc)
        return
    if not counted:
        run.log(
            logging.WARNING,
            "run %s of job %s ended after it had lost its key; its outcome was refused",
            run.run_id,
            run.key,
        )


def _record(run: Run, job: Job, snapshot: Snapshot) -> None:
    run.log(
        logging.INFO,
        "job %s ended: %s%s in %.3f s, %d of %s processed, %d failed (tenant %r, run %s)",
        run.key,
        snapshot.status,
        f" ({snapshot.error_code})" if snapshot.error_code else "",
        run.seconds,
        snapshot.processed,
        "?" if snapshot.total is None else snapshot.total,
        snapshot.failed,
        run.tenant,
        run.run_id,
    )
    job.record(snapshot)
