"""One job that ends badly: its own run is FAILED, and nobody else's."""

from __future__ import annotations

import asyncio
from collections.abc import AsyncIterator, Awaitable, Callable
from contextlib import suppress
from typing import Any

import anyio
import pytest

from asynctask import Jobs, MemoryStore, Run, Status
from asynctask.testing import Gate, run_job
from tests.runners.bad_ends import (
    ASYNCIO_ONLY,
    BAD_ENDS,
    BROKEN_OFF,
    breaks_off_a_generator,
    cancels_its_task,
    not_awaited,
    opens_a_scope,
    opens_a_scope_and_raises,
    opens_a_task_group,
)

pytestmark = pytest.mark.anyio


@pytest.fixture(autouse=True)
async def broken_off() -> AsyncIterator[None]:
    """Closes the generators that were left, as the event loop would some time later."""
    yield
    while BROKEN_OFF:
        with suppress(RuntimeError):  # its scope is gone
            await BROKEN_OFF.pop().aclose()


@pytest.mark.parametrize("name", BAD_ENDS)
async def test_one_job_that_ends_badly_harms_nobody_else(name: str, anyio_backend_name: str) -> None:
    """uvicorn#2308, celery#1285, dask/distributed#5958: its own run ends as it should, every
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
