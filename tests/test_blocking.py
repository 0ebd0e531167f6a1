"""Naming the job that blocks the event loop; and the engine itself never does."""

from __future__ import annotations

import logging
import time
from collections.abc import AsyncIterator, Generator
from typing import Any

import anyio
import pytest
from blockbuster import BlockingError, blockbuster_ctx

from asynctask import Jobs, MemoryStore, Run
from asynctask.blocking import THRESHOLD, Watched
from asynctask.context import logger
from asynctask.keys import Key
from asynctask.testing import Gate, ManualClock, run_job


@pytest.fixture
def clock(monkeypatch: pytest.MonkeyPatch) -> ManualClock:
    """Time as the watch sees it."""
    clock = ManualClock()
    monkeypatch.setattr("asynctask.blocking.perf_counter", clock)
    return clock


def warnings(caplog: pytest.LogCaptureFixture) -> list[str]:
    """What was said of blocked loops."""
    return [r.getMessage() for r in caplog.records if "blocked the event loop" in r.getMessage()]


@pytest.mark.anyio
async def test_a_job_that_blocks_the_loop_is_named(
    clock: ManualClock, caplog: pytest.LogCaptureFixture
) -> None:
    """fastapi#1313: the warning says which job, for how long, and where it stood when it let go."""

    async def job(run: Run) -> None:
        clock.advance(1.5)  # stands for work that does not await
        await anyio.sleep(0)

    snapshot = await run_job(job, tenant="acme")
    (warning,) = warnings(caplog)
    assert warning.startswith("job job blocked the event loop for 1.50 s")
    assert "test_blocking.py:" in warning
    assert str(snapshot.run_id) in warning
    record = next(r for r in caplog.records if r.getMessage() == warning)
    assert (record.job, record.tenant, record.levelno) == (  # type: ignore[attr-defined]
        *("job", "acme"),
        logging.WARNING,
    )


@pytest.mark.anyio
async def test_a_last_step_that_blocks_is_named_too(
    clock: ManualClock, caplog: pytest.LogCaptureFixture
) -> None:
    """Also when it ends in an exception."""

    async def job(run: Run) -> None:
        await anyio.sleep(0)
        clock.advance(2)
        raise ValueError

    await run_job(job)
    assert len(warnings(caplog)) == 1


@pytest.mark.anyio
async def test_an_item_of_map_that_blocks_is_named(
    clock: ManualClock, caplog: pytest.LogCaptureFixture
) -> None:
    """The calls of a batch run in tasks of their own, and are watched as well."""

    async def call(item: int) -> None:
        await anyio.sleep(0)
        clock.advance(item)

    async def job(run: Run) -> None:
        await run.map(call, [0, 3, 0])

    await run_job(job)
    assert len(warnings(caplog)) == 1


@pytest.mark.anyio
async def test_waiting_is_not_blocking(clock: ManualClock, caplog: pytest.LogCaptureFixture) -> None:
    """Time that passes while the job awaits is nobody's fault; a step of just the threshold passes."""
    jobs, gate = Jobs(), Gate()

    @jobs.job("job")
    async def job(run: Run) -> None:
        clock.advance(THRESHOLD)
        await gate.wait()

    async with jobs:
        await jobs.trigger("job")
        await gate.arrived()
        clock.advance(60)
        gate.open()
        await jobs.wait("job")
    assert warnings(caplog) == []


def new_run() -> Run:
    """A run to name."""
    return Run(Key("job", "job", ""))


class Step:
    """An awaitable that hands out a value and wants to be sent one."""

    def __init__(self, value: object) -> None:
        self.value = value

    def __await__(self) -> Generator[object, Any, Any]:
        return (yield self.value)


async def talk(log: list[object]) -> str:
    """A coroutine that notes all that is sent to it and thrown into it."""
    try:
        log.append(await Step("one"))
        try:
            log.append(await Step("two"))
        except ValueError as exc:
            log.append(exc.args[0])
        log.append(await Step("three"))
        return "done"
    finally:
        log.append("closed")


@pytest.mark.parametrize("watch", [False, True])
def test_a_watched_coroutine_is_driven_as_if_it_were_not(watch: bool) -> None:
    """Values, exceptions thrown in, the result and closing pass through unchanged."""

    def drive(log: list[object]) -> Any:
        coroutine = talk(log)

        async def host() -> str:
            return await (Watched(coroutine, new_run()) if watch else coroutine)

        return host()

    log: list[object] = []
    host = drive(log)
    assert [host.send(None), host.send(1), host.throw(ValueError("thrown"))] == ["one", "two", "three"]
    with pytest.raises(StopIteration) as stop:
        host.send(3)
    assert stop.value.value == "done"
    assert log == [1, "thrown", 3, "closed"]
    log = []
    host = drive(log)
    host.send(None)
    with pytest.raises(KeyError):
        host.throw(KeyError("x"))
    assert log == ["closed"]
    log = []
    host = drive(log)
    host.send(None)
    host.close()
    assert log == ["closed"]


@pytest.fixture
async def no_blocking_calls() -> AsyncIterator[None]:
    """Any call of the engine that would block the loop raises."""
    with blockbuster_ctx("asynctask"):
        yield


@pytest.mark.anyio
@pytest.mark.parametrize("anyio_backend", ["asyncio"])
async def test_the_engine_makes_no_blocking_call(no_blocking_calls: None, anyio_backend: str) -> None:
    """A run's whole life, success, failure, cancel and shutdown, without file, socket, lock or sleep."""
    jobs, gate = Jobs(shutdown_grace=0.01), Gate()
    quiet = logger.level
    logger.setLevel(logging.CRITICAL)  # where a record goes is the application's choice

    @jobs.job("works")
    async def works(run: Run) -> int:
        run.total, run.message = 3, "counting"
        return len(await run.map(anyio.sleep, [0, 0, 0]))

    @jobs.job("fails")
    async def fails(run: Run) -> None:
        raise ValueError("bad row")

    @jobs.job("waits", cancelable=True, timeout=60)
    async def waits(run: Run) -> None:
        await gate.wait()

    async with jobs:
        for path in ("works", "fails", "waits"):
            await jobs.trigger(path)
            await jobs.trigger(path)
        assert (await jobs.wait("works")).result == 3
        assert (await jobs.wait("fails")).error_message == "bad row"
        await jobs.cancel("waits")
        assert (await jobs.wait("waits")).error_code == "cancelled"
        await jobs.trigger("waits")
        await jobs.runs()
    assert (await jobs.status("waits")).error_code == "interrupted"
    logger.setLevel(quiet)


@pytest.mark.anyio
@pytest.mark.parametrize("anyio_backend", ["asyncio"])
async def test_blocking_calls_would_be_noticed(anyio_backend: str) -> None:
    """The alarm of the test above is armed: a blocking call made on the engine's behalf raises."""

    class Sleepy(ManualClock):
        def __call__(self) -> float:
            time.sleep(0.001)
            return super().__call__()

    jobs = Jobs(store=MemoryStore(timer=Sleepy()))

    @jobs.job("job")
    async def job(run: Run) -> None: ...

    async with jobs:
        with blockbuster_ctx("asynctask"), pytest.raises(BlockingError):
            await jobs.status("job")
