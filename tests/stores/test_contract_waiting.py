"""More of what every store promises (`asynctask.stores.base.Store`), tested on each: waiting, and `Jobs`.

Two instances of an application stand side by side in each test: with a MemoryStore they are one store, with
the others two, in two "processes" that share nothing but the server.
"""

from __future__ import annotations

from contextlib import AsyncExitStack
from typing import TYPE_CHECKING

import anyio
import pytest

from asynctask.jobs import Jobs
from asynctask.run import Run
from asynctask.snapshot import Snapshot, Status
from asynctask.stores.base import PROGRESS_INTERVAL
from tests.stores.support import KEY, LIMIT, settled, started

if TYPE_CHECKING:
    from asynctask.stores.base import Store
    from tests.stores.conftest import Case, Instances

pytestmark = pytest.mark.anyio


@pytest.fixture
def anyio_backend(case: Case) -> str:
    """The event loop that belongs to the store."""
    return case.backend


async def test_changed_returns_at_once_what_is_not_what_was_seen(instances: Instances) -> None:
    """A caller that has seen something older, or another run, waits for nothing."""
    async with started(instances()) as (one, two):
        first, second = Run(KEY), Run(KEY)
        old = (await one.claim(first)).snapshot
        await settled(one, first)
        for store in (one, two):
            seen = await store.changed(KEY, old, timeout=LIMIT, finished=True)
            assert seen is not None
            assert seen.status is Status.SUCCESS
        await one.claim(second)
        for store in (one, two):
            seen = await store.changed(KEY, old, timeout=LIMIT, finished=True)
            assert seen is not None
            assert seen.run_id == second.run_id


@pytest.mark.parametrize("where", [0, 1])
async def test_changed_waits_for_the_end(instances: Instances, where: int) -> None:
    """With `finished` progress is no news; the end is, on the instance that runs it and on another."""
    async with started(instances()) as stores:
        run = Run(KEY)
        seen = (await stores[0].claim(run)).snapshot
        found: list[Snapshot | None] = []

        async def wait() -> None:
            found.append(await stores[where].changed(KEY, seen, timeout=LIMIT, finished=True))

        with anyio.fail_after(LIMIT):
            async with anyio.create_task_group() as group:
                group.start_soon(wait)
                run.advance()
                await anyio.sleep(2 * PROGRESS_INTERVAL)
                assert found == []
                await settled(stores[0], run)
        assert found == [run.snapshot()]


@pytest.mark.parametrize("where", [0, 1])
async def test_changed_tells_of_progress(instances: Instances, where: int) -> None:
    """Without `finished` a new version is news."""
    async with started(instances()) as stores:
        run = Run(KEY)
        seen = (await stores[0].claim(run)).snapshot
        run.advance(2)
        with anyio.fail_after(LIMIT):
            news = await stores[where].changed(KEY, seen, timeout=LIMIT, finished=False)
        assert news is not None
        assert (news.status, news.processed) == (Status.RUNNING, 2)


async def test_changed_gives_up_after_its_timeout(instances: Instances) -> None:
    """Nothing new within the timeout: the same picture again, and no error."""
    async with started(instances()) as (one, two):
        seen = (await one.claim(Run(KEY))).snapshot
        for store in (one, two):
            assert await store.changed(KEY, seen, timeout=0.1, finished=False) == seen


async def test_jobs_share_one_run(instances: Instances) -> None:
    """Through `Jobs` of two instances: one execution for 50 triggers, one outcome for all who wait."""
    executions: list[str] = []
    gate = anyio.Event()

    def application(store: Store) -> Jobs:
        jobs = Jobs(store=store)

        @jobs.job("report")
        async def report(run: Run) -> dict[str, int]:
            executions.append(run.run_id)
            await gate.wait()
            return {"lines": 3}

        return jobs

    one, two = instances()
    first = application(one)
    second = first if one is two else application(two)
    async with AsyncExitStack() as stack:
        for jobs in {id(j): j for j in (first, second)}.values():
            await stack.enter_async_context(jobs)
        answers: list[Snapshot] = []

        async def trigger(jobs: Jobs) -> None:
            answers.append(await jobs.trigger("report", tenant="acme"))

        async with anyio.create_task_group() as group:
            for number in range(50):
                group.start_soon(trigger, (first, second)[number % 2])
        gate.set()
        ends = [await jobs.wait("report", tenant="acme", timeout=LIMIT) for jobs in (first, second)]
        assert ends[0] == ends[1]
        assert (ends[0].status, ends[0].result) == (Status.SUCCESS, {"lines": 3})
        assert executions == [ends[0].run_id]
        assert {answer.run_id for answer in answers} == {ends[0].run_id}
        assert sum(answer.started is True for answer in answers) == 1
        assert [s.run_id for s in await second.runs(tenant="acme")] == executions
