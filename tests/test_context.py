"""Context: the caller's variables reach the job, and nothing else does."""

from __future__ import annotations

from contextvars import ContextVar

import anyio
import anyio.from_thread
import anyio.to_thread
import pytest

from asynctask import Jobs, Run
from asynctask.context import current_run
from asynctask.testing import Gate, run_job

user: ContextVar[str] = ContextVar("user", default="nobody")


@pytest.mark.anyio
async def test_a_job_sees_what_its_caller_had_set_and_nothing_that_comes_later() -> None:
    """Rule 2: a copy of the context at the trigger; later changes and resets of the caller are invisible."""
    jobs, gate, seen = Jobs(), Gate(), []

    @jobs.job("job")
    async def job(run: Run) -> None:
        seen.append(user.get())
        await gate.wait()
        seen.append(user.get())

    async with jobs:
        token = user.set("alice")
        await jobs.trigger("job")
        user.reset(token)
        await gate.arrived()
        user.set("bob")
        gate.open()
        await jobs.wait("job")
    assert seen == ["alice", "alice"]


@pytest.mark.anyio
async def test_what_a_job_sets_stays_in_it() -> None:
    """Neither the caller nor the job that runs beside it sees it."""
    jobs, gate = Jobs(), Gate()

    @jobs.job("a/{n}")
    async def job(run: Run) -> str:
        user.set(run.key)
        await gate.wait()
        return user.get()

    async with jobs:
        for n in ("1", "2"):
            await jobs.trigger("a/{n}", params={"n": n})
        await gate.arrived(2)
        assert user.get() == "nobody"
        gate.open()
        for n in ("1", "2"):
            assert (await jobs.wait("a/{n}", params={"n": n})).result == f"a/{n}"


@pytest.mark.anyio
async def test_the_context_of_the_start_counts_not_that_of_a_join() -> None:
    """Whoever joins a run does not change on whose behalf it works."""
    jobs, gate = Jobs(), Gate()

    @jobs.job("job")
    async def job(run: Run) -> str:
        await gate.wait()
        return user.get()

    async with jobs:
        user.set("alice")
        await jobs.trigger("job")
        user.set("bob")
        assert (await jobs.trigger("job")).started is False
        gate.open()
        assert (await jobs.wait("job")).result == "alice"


@pytest.mark.anyio
async def test_a_thread_of_the_job_has_the_jobs_context() -> None:
    """`anyio.to_thread.run_sync` carries it in, the run included."""
    inside: list[object] = []

    async def job(run: Run) -> None:
        user.set("in the job")
        await anyio.to_thread.run_sync(lambda: inside.extend([user.get(), current_run.get()]))
        inside.append(run)

    await run_job(job)
    assert inside[0] == "in the job"
    assert inside[1] is inside[2]
    assert current_run.get() is None


@pytest.mark.anyio
async def test_a_sync_endpoint_triggers_through_the_portal_of_its_thread() -> None:
    """A function in the thread pool reaches the jobs by `anyio.from_thread`, with its context."""
    jobs = Jobs()

    @jobs.job("job")
    async def job(run: Run) -> str:
        return user.get()

    def endpoint() -> bool:
        user.set("alice")
        return anyio.from_thread.run(jobs.trigger, "job").started is True

    async with jobs:
        assert await anyio.to_thread.run_sync(endpoint)
        assert (await jobs.wait("job")).result == "alice"
