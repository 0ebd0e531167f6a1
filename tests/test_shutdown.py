"""The end of the application: what is under way may finish within the grace, then it is interrupted."""

from __future__ import annotations

import asyncio

import anyio
import pytest

from asynctask import Jobs, MemoryStore, Run, ShuttingDownError, Status
from asynctask.testing import Gate
from tests.stubborn import STUBBORN, Body, maps, over, sleeps, started, swallows_once

pytestmark = pytest.mark.anyio


@pytest.mark.parametrize("body", STUBBORN)
async def test_a_run_cut_off_by_the_end_of_the_application_is_failed_as_interrupted(body: Body) -> None:
    """uvicorn#451: within the grace it may finish, then it is cut off, and nothing stays RUNNING."""
    jobs = Jobs(shutdown_grace=0.01)
    async with jobs:
        await started(jobs, body)
    snapshot = await over(jobs)
    assert (snapshot.status, snapshot.error_code) == (Status.FAILED, "interrupted")
    assert snapshot.error_message == "The server shut down before the run finished."


@pytest.mark.parametrize("serving", [True, False], ids=["while it serves", "during the grace"])
@pytest.mark.parametrize("body", STUBBORN)
async def test_a_run_whose_application_is_cancelled_is_failed_as_interrupted(
    body: Body, serving: bool
) -> None:
    """The server is to leave at once: the task of the lifespan itself is cancelled."""
    jobs = Jobs(shutdown_grace=3600)

    async def serve() -> None:
        async with jobs:
            await started(jobs, body)
            if serving:
                await anyio.sleep_forever()

    async with anyio.create_task_group() as group:
        group.start_soon(serve)
        await anyio.wait_all_tasks_blocked()
        assert (await jobs.status("job")).status is Status.RUNNING
        group.cancel_scope.cancel()
    snapshot = await over(jobs)
    assert (snapshot.status, snapshot.error_code) == (Status.FAILED, "interrupted")


@pytest.mark.parametrize("body", [sleeps, swallows_once, maps])
async def test_a_run_whose_applications_task_is_cancelled_by_asyncio(
    body: Body, anyio_backend_name: str
) -> None:
    """Servers on asyncio cancel the lifespan's task itself, without a scope."""
    if anyio_backend_name != "asyncio":
        return
    jobs = Jobs(shutdown_grace=3600)

    async def serve() -> None:
        async with jobs:
            await started(jobs, body)
            await anyio.sleep_forever()

    task = asyncio.create_task(serve())
    await anyio.wait_all_tasks_blocked()
    task.cancel()
    with pytest.raises(asyncio.CancelledError):
        await task
    assert (await over(jobs)).error_code == "interrupted"


async def test_an_exception_of_the_application_interrupts_at_once() -> None:
    """There is no point in a grace when what holds the application together is gone."""
    jobs = Jobs(shutdown_grace=3600)
    with pytest.raises(ValueError, match="broken"):
        async with jobs:
            await started(jobs, sleeps)
            raise ValueError("broken")
    assert (await over(jobs)).error_code == "interrupted"


async def test_a_run_may_finish_within_the_grace() -> None:
    """The application ends as soon as the last run has; triggers are refused meanwhile."""
    jobs, gate = Jobs(shutdown_grace=3600), Gate()
    refused: list[Exception] = []

    async def finishes(run: Run) -> str:
        await gate.wait()
        return "done"

    async def open_during_shutdown() -> None:
        await anyio.wait_all_tasks_blocked()
        try:
            await jobs.trigger("job")
        except ShuttingDownError as exc:
            refused.append(exc)
        gate.open()

    async with anyio.create_task_group() as group:
        async with jobs:
            await started(jobs, finishes)
            group.start_soon(open_during_shutdown)
    assert (await over(jobs)).result == "done"
    assert len(refused) == 1


async def test_many_runs_end_together() -> None:
    """1,000 runs under way when the application ends: each is told, none is left."""
    jobs = Jobs(shutdown_grace=0, max_running=1000)

    @jobs.job("a/{n}")
    async def job(run: Run) -> None:
        await anyio.sleep_forever()

    async with jobs:
        for n in range(1000):
            await jobs.trigger("a/{n}", params={"n": str(n)})
    runs = await jobs.runs()
    assert len(runs) == 1000
    assert {run.error_code for run in runs} == {"interrupted"}


async def test_a_visitors_cancel_outlives_the_shutdown_that_follows() -> None:
    """Who asked first decides the code."""
    jobs = Jobs(shutdown_grace=0)

    async def slow(run: Run) -> None:
        try:
            await anyio.sleep_forever()
        finally:
            with anyio.CancelScope(shield=True):
                await anyio.sleep(0.01)

    async with jobs:
        await started(jobs, slow, cancelable=True)
        await jobs.cancel("job")
    assert (await over(jobs)).error_code == "cancelled"


class Slow(MemoryStore):
    """A memory store whose steps take a moment, as those of a remote one; shielded as the protocol asks."""

    async def settle(self, run: Run) -> bool:
        with anyio.CancelScope(shield=True):
            await anyio.sleep(0.005)
        return await super().settle(run)  # which never awaits


@pytest.mark.parametrize("grace", [0, 0.002])
async def test_outcomes_reach_a_slow_store_before_the_application_is_gone(grace: float) -> None:
    """Shutdown waits for settling, also under a cancellation from outside."""
    jobs = Jobs(store=Slow(), shutdown_grace=grace)
    async with jobs:
        await started(jobs, sleeps)
    assert (await over(jobs)).error_code == "interrupted"
    with anyio.CancelScope() as scope:
        async with jobs:
            await jobs.trigger("job")
            await anyio.wait_all_tasks_blocked()
            scope.cancel()
            await anyio.sleep_forever()
    assert (await over(jobs)).error_code == "interrupted"


class Unshielded(MemoryStore):
    """A store whose author forgot the shield."""

    async def settle(self, run: Run) -> bool:
        await anyio.sleep(0.005)
        return await super().settle(run)


async def test_the_engine_shields_the_settling_of_a_run_that_was_cut_off() -> None:
    """A store without a shield of its own still hears how the run ended."""
    jobs = Jobs(store=Unshielded())
    with anyio.CancelScope() as scope:
        async with jobs:
            await started(jobs, sleeps)
            scope.cancel()
            await anyio.sleep_forever()
    assert (await over(jobs)).error_code == "interrupted"
