"""Executing a claimed run: from its first step to its terminal snapshot, whatever the body does.

Rules (issue: one unguarded exception would end the task group, and with it every other run):

- Nothing that a job raises leaves `execute`, `SystemExit` and `KeyboardInterrupt` included. The one
  exception is a cancellation of the surrounding task group, which is passed on after the run is settled.
- Every run is finished, then settled once, and then sets `run.finished`, also if settling or logging fails.
- A run that was told to stop is FAILED with that code, also if its body turned the cancellation into another
  exception or returned all the same: what it left undone nobody knows. Its own `JobError` stands.
- A cancellation from outside the body is told from a stray one by whether its scope was cancelled.
"""

from __future__ import annotations

import inspect
import logging
import math
import secrets
from collections.abc import Awaitable, Callable
from contextlib import nullcontext
from typing import Any

import anyio

from asynctask.blocking import Watched
from asynctask.context import current_run
from asynctask.errors import JobError
from asynctask.job import Job
from asynctask.messages import text_of
from asynctask.run import Run
from asynctask.runners.repair import absorb_cancellations, leave_open_scopes
from asynctask.snapshot import MESSAGES, Code, Status
from asynctask.summary import is_preview, summarise

Settle = Callable[[Run], Awaitable[bool]]

_LEFT_OPEN = (
    "job %s left a cancel scope or a task group open; if it leaves an async generator before its end, have "
    "contextlib.aclosing close it (run %s)"
)


async def execute(run: Run, job: Job, settle: Settle) -> None:
    """Run a job's body to its end and settle it.

    Args:
        run: a run that the store accepted.
        job: the definition to execute.
        settle: the store's `settle`.
    """
    current_run.set(run)
    run.log(logging.INFO, "job %s started (tenant %r, run %s)", run.key, run.tenant, run.run_id)
    stopped_by: BaseException | None = None
    try:
        stopped_by = await _body(run, job)
    except BaseException as exc:  # an exception of the body's whose own code fails when it is looked at
        run.log(logging.ERROR, "job %s failed unspeakably (run %s)", run.key, run.run_id, exc_info=exc)
        run.finish(Status.FAILED, error_message=type(exc).__name__, error_code=Code.ERROR)
    try:
        with nullcontext() if stopped_by is None else anyio.CancelScope(shield=True):
            await _settle(run, settle)
    finally:
        run.finished.set()
    _record(run, job)
    try:
        if stopped_by is not None and isinstance(stopped_by, anyio.get_cancelled_exc_class()):
            raise stopped_by
    finally:
        del stopped_by  # or its traceback and this frame would hold each other, with all that the body held


async def _body(run: Run, job: Job) -> BaseException | None:
    """Run the body and finish the run; return what it raised when it was cancelled from outside."""
    deadline = math.inf if job.timeout is None else anyio.current_time() + job.timeout
    scope = anyio.CancelScope(deadline=deadline)
    result: Any = None
    raised: BaseException | None = None
    try:
        with scope:
            run.bind(scope)
            try:
                call = job.call(run)
                result = await (Watched(call, run) if inspect.iscoroutine(call) else call)
            except BaseException as exc:
                raised = exc
                raise  # to the scope, which takes its own cancellation
    except BaseException as exc:
        if exc is not raised and isinstance(exc, RuntimeError):
            leave_open_scopes(scope)
            run.log(logging.WARNING, _LEFT_OPEN, run.key, run.run_id, exc_info=exc)
    try:
        outside = _cancelled_from_outside()
        if not outside:
            await absorb_cancellations()
        # From here to the store's settle nothing gives way, so that nobody joins a run that is over.
        stopped = scope.cancel_called or outside
        if raised is not None and (isinstance(raised, JobError) or not stopped):
            _fail_with(run, raised)
        elif stopped or (deadline < math.inf and anyio.current_time() >= deadline):
            told = Code.INTERRUPTED if outside and not scope.cancel_called else Code.TIMEOUT
            _stop(run, job, run.cancel_code or told, raised)
        else:
            run.finish(Status.SUCCESS, result=_summary(run, result))
        return raised if outside else None
    finally:
        del raised  # see `execute`


def _cancelled_from_outside() -> bool:
    """Tell the task group's cancellation from an exception, even a CancelledError, of the body's own."""
    return anyio.current_effective_deadline() == -math.inf


def _stop(run: Run, job: Job, code: Code, exc: BaseException | None) -> None:
    """Finish a run that was told to stop; an exception that its body raised instead still reaches the log."""
    cancelled = anyio.get_cancelled_exc_class()
    rest = exc.split(cancelled)[1] if isinstance(exc, BaseExceptionGroup) else exc
    if rest is not None and not isinstance(rest, cancelled):
        run.log(
            logging.ERROR, "job %s failed while it was stopped (run %s)", run.key, run.run_id, exc_info=rest
        )
    _fail(run, job, code)


def _summary(run: Run, result: Any) -> Any:
    if run.reasons and (result is None or (isinstance(result, dict) and "failures" not in result)):
        result = {**(result or {}), "failures": list(run.reasons)}
    summary = summarise(result)
    if is_preview(summary):
        run.log(
            logging.WARNING,
            "job %s returned more than a summary can hold, so only a preview is kept: return counts, and put "
            "the results where the application reads them",
            run.job,
        )
    return summary


def _fail(run: Run, job: Job, code: Code) -> None:
    if code is Code.TIMEOUT:
        message = f"The run took longer than its limit of {job.timeout:g} s."
    else:
        message = MESSAGES[code]
    run.finish(Status.FAILED, error_message=message, error_code=code)


def _fail_with(run: Run, exc: BaseException) -> None:
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
        code = text_of(shown.error_code) or Code.ERROR
        run.finish(Status.FAILED, error_message=run.explain(shown), error_code=code)
        return
    message = run.explain(exc) if run.expose_errors else f"The job failed; its error id is {error_id}."
    run.finish(Status.FAILED, error_message=message, error_code=Code.ERROR, error_id=error_id)


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


def _record(run: Run, job: Job) -> None:
    snapshot = run.snapshot()
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
    if (notice := job.record(snapshot)) is not None:
        run.log(logging.INFO, notice)
