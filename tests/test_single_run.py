"""One run for each key, and no more runs than there is room for."""

from __future__ import annotations

import anyio
import pytest

from asynctask import CapacityError, Jobs, Run, Status, StoreUnavailableError, TenantLimitError
from asynctask.testing import Gate, drained
from tests.shop import Away, Remote, Shop

pytestmark = pytest.mark.anyio


@pytest.mark.parametrize("callers", [2, 200])
async def test_concurrent_triggers_of_one_key_are_one_run(callers: int) -> None:
    """nautobot#9176, jobrunr#236: a fast double click; N answers, one run id, one start, one execution."""
    shop, answers = Shop(max_running=1, max_running_per_tenant=1), []

    async def click() -> None:
        answers.append(await shop.jobs.trigger("check", tenant="acme"))

    async with shop.jobs:
        async with anyio.create_task_group() as group:
            for _ in range(callers):
                group.start_soon(click)
        assert len({answer.run_id for answer in answers}) == 1
        assert sum(answer.started is True for answer in answers) == 1
        assert len(answers) == callers
        shop.gate.open()
        await shop.jobs.wait("check", tenant="acme")
    assert shop.calls == [("acme", None)]


async def test_claims_that_are_under_way_together_are_one_run() -> None:
    """The store decides which of them is the start; the others are given its run, and their places back."""
    store = Remote()
    shop, answers = Shop(store=store, max_running=3), []

    async def click() -> None:
        answers.append(await shop.jobs.trigger("check"))

    async with shop.jobs:
        for _ in range(2):
            async with anyio.create_task_group() as group:
                for _ in range(2):
                    group.start_soon(click)
                await anyio.wait_all_tasks_blocked()
                store.answers.set()
        assert [answer.started for answer in answers].count(True) == 1
        assert len({answer.run_id for answer in answers}) == 1
        assert store.asked == 4
        for tenant in ("acme", "globex"):
            assert (await shop.jobs.trigger("check", tenant=tenant)).started is True


async def test_a_double_click_at_the_limit_joins_the_claim_that_is_under_way() -> None:
    """The first click took the tenant's last place, and the store is slow: no 429 for the second."""
    store = Remote()
    shop, answers = Shop(store=store, max_running_per_tenant=1), []

    async def click() -> None:
        answers.append(await shop.jobs.trigger("check", tenant="acme"))

    async with shop.jobs:
        async with anyio.create_task_group() as group:
            for _ in range(3):
                group.start_soon(click)
            await anyio.wait_all_tasks_blocked()
            assert (store.asked, answers) == (1, [])
            store.answers.set()
        assert sorted(answer.started is True for answer in answers) == [False, False, True]
        assert len({answer.run_id for answer in answers}) == 1


async def test_one_thousand_runs_under_way() -> None:
    """All are RUNNING at once, and all end."""
    jobs, gate = Jobs(), Gate()

    @jobs.job("a/{n}")
    async def job(run: Run) -> str:
        await gate.wait()
        return run.params["n"]

    async with jobs:
        for n in range(1000):
            await jobs.trigger("a/{n}", params={"n": str(n)})
        await gate.arrived(1000)
        assert {run.status for run in await jobs.runs()} == {Status.RUNNING}
        with pytest.raises(CapacityError):
            await jobs.trigger("a/{n}", params={"n": "one more"})
        gate.open()
        await drained(jobs)
        ended = await jobs.runs()
    assert sorted(int(run.result) for run in ended) == list(range(1000))


async def test_no_room_refuses_a_start_but_not_a_join() -> None:
    """503 when the process is full, 429 when the tenant is; the place is free again at the end."""
    shop = Shop(max_running=2, max_running_per_tenant=1)
    async with shop.jobs:
        await shop.jobs.trigger("check", tenant="acme")
        with pytest.raises(TenantLimitError):
            await shop.jobs.trigger("import/{file}", tenant="acme", params={"file": "x"}, payload={})
        await shop.jobs.trigger("check", tenant="globex")
        with pytest.raises(CapacityError):
            await shop.jobs.trigger("check", tenant="initech")
        for tenant in ("acme", "globex"):
            assert (await shop.jobs.trigger("check", tenant=tenant)).started is False
        shop.gate.open()
        await drained(shop.jobs)
        assert (await shop.jobs.trigger("check", tenant="initech")).started is True


@pytest.mark.parametrize("end", ["return", "raise", "cancel", "timeout"])
async def test_every_end_gives_the_place_back(end: str) -> None:
    """Or the limit would creep to nothing."""
    jobs = Jobs(max_running=1)

    @jobs.job("check", cancelable=True, timeout=0.01 if end == "timeout" else None)
    async def check(run: Run) -> None:
        if end == "raise":
            raise SystemExit
        if end != "return":
            await anyio.sleep_forever()

    async with jobs:
        for _ in range(3):
            assert (await jobs.trigger("check")).started is True
            if end == "cancel":
                await jobs.cancel("check")
            assert (await jobs.wait("check", timeout=10)).status.terminal


async def test_a_claim_that_fails_gives_the_place_back_and_starts_nothing() -> None:
    """The error is the caller's; nothing is RUNNING, nothing counted."""
    shop = Shop(store=Away(), max_running=1)
    async with shop.jobs:
        for _ in range(3):
            with pytest.raises(StoreUnavailableError):
                await shop.jobs.trigger("check")
        assert (await shop.jobs.status("check")).status is Status.IDLE
    assert shop.calls == []
