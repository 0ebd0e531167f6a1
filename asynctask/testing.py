"""What an application needs to test its own jobs: no HTTP, no sleeping, no patching.

    async def test_counts_duplicates():
        snapshot = await run_job(check_duplicates, payload={"threshold": 0.9})
        assert snapshot.result == {"groups": 2}

Works on asyncio and on trio, under any test runner. For the HTTP side use Starlette's `TestClient`, as
`with TestClient(app)`, so that the lifespan runs.
"""

from __future__ import annotations

import math
from collections.abc import Awaitable, Callable, Mapping
from typing import Any

import anyio

from asynctask.errors import ConfigurationError
from asynctask.jobs import Jobs
from asynctask.runners.task_group import TaskGroupRunner
from asynctask.snapshot import Snapshot


async def run_job(
    fn: Callable[..., Awaitable[Any]],
    *,
    payload: Any = None,
    tenant: str = "",
    params: Mapping[str, str] | None = None,
    timeout: float = 10.0,
    expose_errors: bool = True,
) -> Snapshot:
    """Run one job function, with everything that `Jobs` does around it, and return its terminal snapshot.

    Args:
        fn: an async function of a `Run` and, optionally, the payload; registered somewhere or not.
        payload: validated to the function's parameter.
        tenant: whom the run belongs to.
        params: path parameters, as `run.params`.
        timeout: seconds after which the run is FAILED as `timeout`, so that no test hangs.
        expose_errors: as for `Jobs`.

    Raises:
        ConfigurationError, InvalidKeyError, InvalidPayloadError: as from `Jobs.job` and `Jobs.trigger`. What
            the function raises is in the snapshot.
    """
    path = "/".join(["job", *(f"{{{name}}}" for name in params or ())])
    jobs = Jobs(expose_errors=expose_errors)
    jobs.job(path, timeout=timeout)(fn)
    async with jobs:
        await jobs.trigger(path, tenant=tenant, payload=payload, params=params)
        return await jobs.wait(path, tenant=tenant, params=params)


async def drained(jobs: Jobs, *, timeout: float = 10.0) -> None:
    """Wait until no run of these jobs is under way.

    Args:
        jobs: whose; started, and with the runner that they have by default.
        timeout: longest wait, in seconds.

    Raises:
        TimeoutError: some are still under way; the message names them.
        ConfigurationError: the runs are not in this process.
    """
    runner = jobs.runner
    if not isinstance(runner, TaskGroupRunner):
        raise ConfigurationError(f"drained() knows the runs of a TaskGroupRunner, not of {runner!r}")
    with anyio.move_on_after(timeout):
        while runner.runs:
            await runner.runs[0].finished.wait()
        return
    names = ", ".join(run.key for run in runner.runs)
    raise TimeoutError(f"still under way after {timeout:g} s: {names}")


class ManualClock:
    """A clock that stands still until it is told to go on, for `MemoryStore(timer=clock)`.

    Args:
        now: what it shows at first, in seconds.
    """

    def __init__(self, now: float = 0.0) -> None:
        self._now = now

    def __call__(self) -> float:
        return self._now

    def advance(self, seconds: float) -> None:
        """Go on by 0 or more seconds; it stands for a monotonic clock, which never goes back."""
        if not 0 <= seconds < math.inf:
            raise ConfigurationError(f"a monotonic clock cannot go on by {seconds!r} seconds")
        self._now += seconds


class Gate:
    """A step at which jobs stop until the test opens it.

    gate = Gate()

    async def job(run):
        run.total = 2
        run.advance()
        await gate.wait()
        run.advance()

    await jobs.trigger("job")
    await gate.arrived()
    assert (await jobs.status("job")).percent == 50
    gate.open()
    """

    def __init__(self) -> None:
        self._opened = anyio.Event()
        self._count = 0
        self._news = anyio.Event()

    async def wait(self) -> None:
        """For the job: say that the step is reached, and wait until the gate is open."""
        self._count += 1
        self._news.set()
        self._news = anyio.Event()
        await self._opened.wait()

    async def arrived(self, count: int = 1, *, timeout: float = 10.0) -> None:
        """For the test: wait until jobs came to the gate, whether they wait there or went through.

        Args:
            count: how many times, since the gate was made.
            timeout: longest wait, in seconds.

        Raises:
            TimeoutError: fewer came.
        """
        with anyio.move_on_after(timeout):
            while self._count < count:
                await self._news.wait()
            return
        raise TimeoutError(f"{self._count} of {count} came to the gate within {timeout:g} s")

    def open(self) -> None:
        """Let all go on, those too that come later."""
        self._opened.set()
