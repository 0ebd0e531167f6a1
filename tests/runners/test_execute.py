"""Executing: every end of a body becomes one terminal snapshot, and harms nobody else."""

from __future__ import annotations

import asyncio
import gc
import logging
import weakref
from collections.abc import AsyncGenerator, AsyncIterator, Awaitable, Callable
from contextlib import suppress
from typing import Any, Never

import anyio
import pytest

from asynctask import JobError, Jobs, MemoryStore, Run, Snapshot, Status
from asynctask.context import logger
from asynctask.job import Job
from asynctask.keys import Key
from asynctask.runners.execute import execute
from asynctask.testing import Gate, run_job

pytestmark = pytest.mark.anyio


class Unspeakable(Exception):
    """Its text raises."""

    def __str__(self) -> str:
        raise KeyboardInterrupt


class Untouchable(BaseExceptionGroup[ValueError]):
    """A group that raises when it is looked into."""

    @property
    def exceptions(self) -> Never:
        raise SystemExit


class Quota(JobError):
    """A JobError that never called the constructor of its base."""

    def __init__(self) -> None:
        pass

    def __str__(self) -> str:
        return "over quota"


class Unprintable:
    """Neither text nor anything that can be one."""

    def __str__(self) -> str:
        raise ValueError


def raising(error: BaseException | type[BaseException]) -> Callable[[Run], Awaitable[None]]:
    """A body that raises after its first await."""

    async def body(run: Run) -> None:
        await anyio.sleep(0)
        raise error

    return body


async def not_awaited(run: Run) -> None:
    """Raises before its first await."""
    raise ValueError("at once")


async def opens_a_scope(run: Run) -> str:
    """Enters a cancel scope and never leaves it."""
    anyio.CancelScope().__enter__()
    await anyio.sleep(0)
    return "done"


async def opens_a_scope_and_raises(run: Run) -> None:
    """The same, and the error must not be hidden by what follows from the scope."""
    anyio.CancelScope().__enter__()
    raise ValueError("bad row")


async def cancels_a_scope_it_left_open(run: Run) -> str:
    """The same, with a cancellation that is under way."""
    scope = anyio.CancelScope()
    scope.__enter__()
    scope.cancel()
    return "done"


async def opens_a_task_group(run: Run) -> str:
    """Enters a task group, with a task in it, and never leaves it."""
    group = anyio.create_task_group()
    await group.__aenter__()
    group.start_soon(anyio.sleep_forever)
    return "done"


BROKEN_OFF: list[AsyncGenerator[int, None]] = []


async def limited() -> AsyncGenerator[int, None]:
    """An async generator as libraries have them: with a time limit around its yield."""
    with anyio.move_on_after(60):
        yield 1
        yield 2


async def breaks_off_a_generator(run: Run) -> str:
    """PEP 789: `break` leaves the generator suspended within its scope."""
    numbers = limited()
    BROKEN_OFF.append(numbers)
    async for _ in numbers:
        break
    return "done"


async def cancels_its_task(run: Run) -> str:
    """Cancels the task that it runs in, by asyncio's own means, and returns before that arrives."""
    asyncio.current_task().cancel()  # type: ignore[union-attr]
    return "done"


async def cancels_its_task_often(run: Run) -> str:
    """Again and again, swallowing each."""
    for _ in range(3):
        asyncio.current_task().cancel()  # type: ignore[union-attr]
        with suppress(BaseException):
            await anyio.sleep(0)
    return "done"


ASYNCIO_ONLY = {"its task", "its task, often", "stray, awaited"}


async def stray_awaited(run: Run) -> None:
    """Awaits something that somebody else cancelled."""
    future: asyncio.Future[None] = asyncio.get_running_loop().create_future()
    future.cancel()
    await future


Case = tuple[Callable[[Run], Awaitable[Any]], Status, str | None, str]

BAD_ENDS: dict[str, Case] = {
    # name: body, status, error message (None for any), error code or result
    "at once": (not_awaited, Status.FAILED, "at once", "error"),
    "exception": (raising(ValueError("bad row")), Status.FAILED, "bad row", "error"),
    "no text": (raising(ValueError), Status.FAILED, "ValueError", "error"),
    "text raises": (raising(Unspeakable()), Status.FAILED, "Unspeakable", "error"),
    "exit()": (raising(SystemExit(3)), Status.FAILED, "3", "error"),
    "Ctrl-C": (raising(KeyboardInterrupt), Status.FAILED, "KeyboardInterrupt", "error"),
    "GeneratorExit": (raising(GeneratorExit), Status.FAILED, "GeneratorExit", "error"),
    "StopIteration": (raising(StopIteration), Status.FAILED, None, "error"),
    "StopAsyncIteration": (raising(StopAsyncIteration), Status.FAILED, "StopAsyncIteration", "error"),
    "stray": (raising(asyncio.CancelledError), Status.FAILED, "CancelledError", "error"),
    "stray, awaited": (stray_awaited, Status.FAILED, "CancelledError", "error"),
    "group": (
        raising(BaseExceptionGroup("x", [SystemExit(3), ValueError("bad row")])),
        *(Status.FAILED, "2 errors: SystemExit: 3; ValueError: bad row", "error"),
    ),
    "group that raises": (raising(Untouchable("x", [ValueError()])), Status.FAILED, None, "error"),
    "JobError": (raising(JobError("no credit", code="credit")), Status.FAILED, "no credit", "credit"),
    "JobError without base": (raising(Quota()), Status.FAILED, "over quota", "error"),
    "JobError in a group": (
        raising(ExceptionGroup("x", [ExceptionGroup("y", [JobError("no credit", code="credit")])])),
        *(Status.FAILED, "no credit", "credit"),
    ),
    "code that raises": (
        raising(JobError("no credit", code=Unprintable())),  # type: ignore[arg-type]
        *(Status.FAILED, "no credit", "error"),
    ),
    "scope": (opens_a_scope, Status.SUCCESS, None, "done"),
    "scope and error": (opens_a_scope_and_raises, Status.FAILED, "bad row", "error"),
    "cancelled scope": (cancels_a_scope_it_left_open, Status.SUCCESS, None, "done"),
    "task group": (opens_a_task_group, Status.SUCCESS, None, "done"),
    "generator": (breaks_off_a_generator, Status.SUCCESS, None, "done"),
    "its task": (cancels_its_task, Status.SUCCESS, None, "done"),
    "its task, often": (cancels_its_task_often, Status.SUCCESS, None, "done"),
}


@pytest.fixture(autouse=True)
async def broken_off() -> AsyncIterator[None]:
    """Closes the generators that were left, as the event loop would some time later."""
    yield
    while BROKEN_OFF:
        with suppress(RuntimeError):  # its scope is gone
            await BROKEN_OFF.pop().aclose()


@pytest.mark.parametrize("name", BAD_ENDS)
async def test_one_job_that_ends_badly_harms_nobody_else(name: str, anyio_backend_name: str) -> None:
    """uvicorn#2308, celery#1285, dask/distributed#5958, celery#2409: its own run ends as it should, every
    other run finishes, and new ones can be started, of the same job too."""
    body, status, message, rest = BAD_ENDS[name]
    if name in ASYNCIO_ONLY and anyio_backend_name != "asyncio":
        body, status, message, rest = not_awaited, Status.FAILED, "at once", "error"
    jobs, gate = Jobs(), Gate()
    jobs.job("bad")(body)

    @jobs.job("sibling")
    async def sibling(run: Run) -> str:
        await gate.wait()
        await anyio.sleep(0)
        return "unharmed"

    async with jobs:
        await jobs.trigger("sibling")
        await gate.arrived()
        for _ in range(2):
            assert (await jobs.trigger("bad")).started is True
            ended = await jobs.wait("bad", timeout=10)
            assert ended.status is status
            assert message is None or ended.error_message == message
            assert ended.error_code == rest if status is Status.FAILED else ended.result == rest
            assert ended.error_message or status is Status.SUCCESS
        assert (await jobs.status("sibling")).status is Status.RUNNING
        gate.open()
        assert (await jobs.wait("sibling", timeout=10)).result == "unharmed"
        assert isinstance(jobs.store, MemoryStore)
        assert jobs.store.running == 0


@pytest.mark.parametrize(
    "body", [opens_a_scope, opens_a_task_group, breaks_off_a_generator, opens_a_scope_and_raises]
)
async def test_a_scope_left_open_is_named(
    body: Callable[[Run], Awaitable[Any]], caplog: pytest.LogCaptureFixture, anyio_backend_name: str
) -> None:
    """A warning says which job it was and what to use."""
    await run_job(body)
    if body is opens_a_task_group and anyio_backend_name == "trio":
        return  # a scope is only closed late there; what trio forgives it does not report
    assert "left a cancel scope or a task group open" in caplog.text
    assert "contextlib.aclosing" in caplog.text


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


class Faulty(MemoryStore):
    """A memory store whose settle does what it is told to."""

    answer: BaseException | bool = True
    settled = 0

    async def settle(self, run: Run) -> bool:
        self.settled += 1
        await super().settle(run)
        await anyio.sleep(0)
        if isinstance(self.answer, BaseException):
            raise self.answer
        return self.answer


@pytest.mark.parametrize("error", [RuntimeError("disk full"), SystemExit(), asyncio.CancelledError()])
async def test_a_failing_settle_is_logged_and_harms_nobody(
    error: BaseException, caplog: pytest.LogCaptureFixture
) -> None:
    """Rule 4: it must not escape; who waits for the run is not left waiting; siblings go on."""
    store, gate = Faulty(), Gate()
    jobs = Jobs(store=store)

    @jobs.job("a/{n}")
    async def job(run: Run) -> None:
        if run.params["n"] == "held":
            await gate.wait()

    async with jobs:
        await jobs.trigger("a/{n}", params={"n": "held"})
        store.answer = error
        await jobs.trigger("a/{n}", params={"n": "1"})
        assert (await jobs.wait("a/{n}", params={"n": "1"}, timeout=10)).status is Status.SUCCESS
        assert "could not be settled" in caplog.text
        store.answer = True
        gate.open()
        assert (await jobs.wait("a/{n}", params={"n": "held"}, timeout=10)).status is Status.SUCCESS
    assert store.settled == 2


async def test_an_outcome_that_was_refused_is_logged(caplog: pytest.LogCaptureFixture) -> None:
    """The fence said no: the key belongs to another run by now."""
    store = Faulty()
    store.answer = False
    jobs = Jobs(store=store)

    @jobs.job("job")
    async def job(run: Run) -> None: ...

    async with jobs:
        await jobs.trigger("job")
        await jobs.wait("job", timeout=10)
    assert "its outcome was refused" in caplog.text


async def test_the_settle_of_a_job_that_cancelled_its_task_is_not_hit(anyio_backend_name: str) -> None:
    """A cancellation that the body left pending must not strike the store's first await instead."""
    store = Faulty()
    jobs = Jobs(store=store)
    jobs.job("job")(cancels_its_task if anyio_backend_name == "asyncio" else not_awaited)
    async with jobs:
        await jobs.trigger("job")
        assert (await jobs.wait("job", timeout=10)).status.terminal
        store.answer = RuntimeError("settled once more")
    assert store.settled == 1


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
