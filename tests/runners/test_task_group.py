"""The task group runner: when it accepts runs, how it ends, and that it can begin again."""

from __future__ import annotations

import threading
from collections.abc import Awaitable, Callable

import anyio
import anyio.lowlevel
import anyio.to_thread
import pytest

from asynctask.errors import ConfigurationError, NotStartedError, ShuttingDownError
from asynctask.keys import Key
from asynctask.run import Run
from asynctask.runners.base import Runner
from asynctask.runners.task_group import RETRY_AFTER, TaskGroupRunner
from asynctask.snapshot import Code, Status
from asynctask.testing import Gate


def new_run(name: str = "job") -> Run:
    """A run to execute."""
    return Run(Key(name, name, ""))


def executing(body: Callable[[], Awaitable[object]]) -> Callable[[Run], Awaitable[None]]:
    """What the runner is given to call: runs the body in a scope that the run can cancel."""

    async def execute(run: Run) -> None:
        with anyio.CancelScope() as scope:
            run.bind(scope)
            await body()
        run.finish(Status.SUCCESS if run.cancel_code is None else Status.FAILED, error_code=run.cancel_code)
        run.finished.set()

    return execute


def test_it_is_a_runner() -> None:
    """What type checkers see in the protocol is what it offers."""
    runner: Runner = TaskGroupRunner()
    assert runner is not None


def test_without_a_lifespan_nothing_starts_and_the_refusal_says_what_to_do() -> None:
    """Rule 6, fastapi#811, starlette#649: 503 with Retry-After and a sentence, never a silent task."""
    runner = TaskGroupRunner()
    for attempt in (runner.check, lambda: runner.start(new_run(), executing(anyio.sleep_forever))):
        with pytest.raises(NotStartedError, match=r"lifespan=jobs\.lifespan.*with TestClient") as caught:
            attempt()
        assert (caught.value.status, caught.value.retry_after) == (503, RETRY_AFTER)
    assert runner.runs == []


@pytest.mark.anyio
async def test_a_run_is_under_way_until_it_ends() -> None:
    """`start` returns at once; the run is listed from then to its end."""
    gate = Gate()
    async with TaskGroupRunner() as runner:
        run = new_run()
        runner.start(run, executing(gate.wait))
        assert runner.runs == [run]
        await gate.arrived()
        gate.open()
        await run.finished.wait()
        assert runner.runs == []
    assert run.snapshot().status is Status.SUCCESS


@pytest.mark.anyio
async def test_draining_waits_for_what_ends_in_time() -> None:
    """Rule 5: as long as it must and no longer, and accepts nothing meanwhile."""
    gate, runner = Gate(), TaskGroupRunner()
    async with anyio.create_task_group() as group, runner:
        run = new_run()
        runner.start(run, executing(gate.wait))
        await gate.arrived()
        group.start_soon(runner.drain, 3600)
        await anyio.wait_all_tasks_blocked()
        with pytest.raises(ShuttingDownError) as caught:
            runner.check()
        assert (caught.value.status, caught.value.retry_after) == (503, RETRY_AFTER)
        assert not run.cancel_requested
        gate.open()
        await run.finished.wait()
    assert run.snapshot().status is Status.SUCCESS


@pytest.mark.anyio
async def test_draining_interrupts_what_does_not_end_in_time() -> None:
    """After the grace, each is told to stop, and the runner ends when they have."""
    async with TaskGroupRunner() as runner:
        runs = [new_run() for _ in range(3)]
        for run in runs:
            runner.start(run, executing(anyio.sleep_forever))
        await runner.drain(0.01)
        assert {run.cancel_code for run in runs} == {Code.INTERRUPTED}
        with pytest.raises(ShuttingDownError):
            runner.start(new_run(), executing(anyio.sleep_forever))
    assert all(run.snapshot().status is Status.FAILED for run in runs)
    assert runner.runs == []


@pytest.mark.anyio
async def test_draining_nothing_returns_at_once() -> None:
    """An idle application does not sit out its grace."""
    async with TaskGroupRunner() as runner:
        await runner.drain(3600)


@pytest.mark.anyio
async def test_leaving_without_draining_interrupts() -> None:
    """The block may end by an exception before anybody drained; nothing is left running, nor hidden."""
    run = new_run()
    with pytest.raises(ValueError, match="as itself"):
        async with TaskGroupRunner() as runner:
            runner.start(run, executing(anyio.sleep_forever))
            raise ValueError("as itself, not in a group")
    assert run.cancel_code is Code.INTERRUPTED


@pytest.mark.anyio
async def test_a_runner_starts_once_at_a_time_but_again_after_its_end() -> None:
    """Entering it twice would leave the first group's jobs unreachable."""
    runner = TaskGroupRunner()
    for _ in range(2):
        async with runner:
            with pytest.raises(ConfigurationError, match="already started"):
                await runner.__aenter__()
            run = new_run()
            runner.start(run, executing(anyio.lowlevel.checkpoint))
            await run.finished.wait()
        with pytest.raises(ShuttingDownError):
            runner.check()


def test_a_runner_can_move_from_one_event_loop_to_the_next() -> None:
    """asyncio and trio one after the other, drained in each."""
    runner = TaskGroupRunner()
    runs: list[Run] = []

    async def live() -> None:
        async with runner:
            runs.append(new_run())
            runner.start(runs[-1], executing(anyio.sleep_forever))
            await runner.drain(0.01)

    for backend in ("asyncio", "trio", "asyncio"):
        anyio.run(live, backend=backend)
    assert [run.cancel_code for run in runs] == [Code.INTERRUPTED] * 3


@pytest.mark.anyio
async def test_another_threads_event_loop_is_refused() -> None:
    """A sync endpoint that calls `asyncio.run(jobs.trigger(…))` would start a task that nobody owns."""
    refused: list[NotStartedError] = []

    async def elsewhere(runner: TaskGroupRunner) -> None:
        try:
            runner.start(new_run(), executing(anyio.sleep_forever))
        except NotStartedError as exc:
            refused.append(exc)

    async with TaskGroupRunner() as runner:
        thread = threading.Thread(target=anyio.run, args=(elsewhere, runner))
        thread.start()
        await anyio.to_thread.run_sync(thread.join)
        assert runner.runs == []
    assert "anyio.from_thread.run(jobs.trigger, path)" in str(refused[0])


@pytest.mark.anyio
async def test_a_run_that_could_not_be_started_is_not_listed(monkeypatch: pytest.MonkeyPatch) -> None:
    """Or draining would wait for it."""
    async with TaskGroupRunner() as runner:
        with monkeypatch.context() as patch:
            patch.setattr(type(runner._group), "start_soon", lambda *args, **kwargs: 1 / 0)
            with pytest.raises(ZeroDivisionError):
                runner.start(new_run(), executing(anyio.sleep_forever))
        assert runner.runs == []
