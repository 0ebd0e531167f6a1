"""The lifespan of Jobs: before it, in it once at a time, and after it."""

from __future__ import annotations

from typing import Any, Self

import anyio
import anyio.lowlevel
import pytest

from asynctask import (
    ConfigurationError,
    Jobs,
    MemoryStore,
    NotStartedError,
    Run,
    ShuttingDownError,
    Snapshot,
    Status,
)
from tests.shop import Remote, Shop

pytestmark = pytest.mark.anyio


async def test_a_trigger_whose_claim_outlives_the_application_leaves_nothing_running() -> None:
    """The store answers after shutdown began: 503 to the caller, and the claim is settled, not left."""
    store = Remote()
    shop, errors = Shop(store=store, max_running=1), []

    async def click() -> None:
        try:
            await shop.jobs.trigger("check")
        except ShuttingDownError as exc:
            errors.append(exc)

    async with anyio.create_task_group() as group:
        async with shop.jobs:
            group.start_soon(click)
            await anyio.wait_all_tasks_blocked()
        store.answers.set()
    assert len(errors) == 1
    left = await shop.jobs.status("check")
    assert (left.status, left.error_code) == (Status.FAILED, "interrupted")
    assert left.error_message == "The run was not started."
    async with shop.jobs:
        assert (await shop.jobs.trigger("check")).started is True


async def test_without_a_lifespan_a_trigger_is_refused() -> None:
    """Rule 6: before it is entered and after its end; status can be read all the same."""
    shop = Shop()
    with pytest.raises(NotStartedError):
        await shop.jobs.trigger("check")
    async with shop.jobs:
        pass
    with pytest.raises(ShuttingDownError):
        await shop.jobs.trigger("check")
    assert (await shop.jobs.status("check")).status is Status.IDLE


async def test_the_lifespan_is_entered_once_at_a_time_but_again_after_its_end() -> None:
    """A second entry meanwhile is an error, also in mid-shutdown; the first is not disturbed."""
    shop, refused = Shop(), []

    async def enter() -> None:
        await anyio.lowlevel.checkpoint()
        try:
            async with shop.jobs:
                pass
        except ConfigurationError as exc:
            refused.append(exc)

    for n in range(2):
        async with anyio.create_task_group() as group, shop.jobs.lifespan(object()):
            with pytest.raises(ConfigurationError, match="only once at a time"):
                await shop.jobs.__aenter__()
            assert (await shop.jobs.trigger("check")).started is True
            group.start_soon(enter)
            await anyio.wait_all_tasks_blocked()
            assert len(refused) == n + 1
            assert (await shop.jobs.status("check")).status is Status.RUNNING


def test_jobs_can_move_from_one_event_loop_to_the_next() -> None:
    """asyncio, trio, asyncio: a test suite, or a server that restarts in its process."""
    jobs = Jobs(shutdown_grace=0.01)

    @jobs.job("check/{n}")
    async def check(run: Run) -> None:
        if run.params["n"] == "waits":
            await anyio.sleep_forever()

    async def live() -> list[Snapshot]:
        async with jobs:
            for n in ("waits", "ends"):
                assert (await jobs.trigger("check/{n}", params={"n": n})).started is True
            await jobs.wait("check/{n}", params={"n": "ends"})
        return await jobs.runs()

    for backend in ("asyncio", "trio", "asyncio"):
        ended = anyio.run(live, backend=backend)
        assert {run.key: run.error_code for run in ended} == {
            "check/waits": "interrupted",
            "check/ends": None,
        }


class Steps(MemoryStore):
    """A memory store that notes when it is opened and closed."""

    def __init__(self) -> None:
        super().__init__()
        self.steps: list[str] = []

    async def __aenter__(self) -> Self:
        self.steps.append("enter")
        return await super().__aenter__()

    async def __aexit__(self, *args: Any) -> None:
        self.steps.append("exit")


async def test_the_lifespan_cannot_be_entered_while_it_ends() -> None:
    """In mid-shutdown the runs under way still need the store; a second entry would take it from them."""
    store = Steps()
    shop, refused = Shop(store=store, shutdown_grace=3600), []

    async def enter() -> None:
        await anyio.wait_all_tasks_blocked()
        try:
            async with shop.jobs:
                pass
        except ConfigurationError as exc:
            refused.append(exc)
        shop.gate.open()

    async with anyio.create_task_group() as group:
        async with shop.jobs:
            await shop.jobs.trigger("check", tenant="acme")
            group.start_soon(enter)
    assert len(refused) == 1
    assert (await shop.jobs.status("check", tenant="acme")).result == "acme"
    assert store.steps == ["enter", "exit"]
