"""The public test kit, used as an application's tests would use it."""

from __future__ import annotations

import math
from typing import Any

import anyio
import pytest

from asynctask import ConfigurationError, InvalidPayloadError, JobError, Jobs, MemoryStore, Run, Status
from asynctask.runners.base import Execute
from asynctask.testing import Gate, ManualClock, drained, run_job

pytestmark = pytest.mark.anyio


async def count(run: Run, payload: dict[str, int]) -> dict[str, Any]:
    """A job to test."""
    run.total = payload["n"]
    for _ in range(payload["n"]):
        run.advance()
    return {"tenant": run.tenant, "params": dict(run.params)}


async def test_run_job_runs_one_job_to_its_end() -> None:
    """Payload, tenant and parameters reach it; the terminal snapshot comes back."""
    snapshot = await run_job(count, payload={"n": 3}, tenant="acme", params={"file": "a/b", "page": "2"})
    assert (snapshot.status, snapshot.processed, snapshot.percent) == (Status.SUCCESS, 3, 100)
    assert snapshot.result == {"tenant": "acme", "params": {"file": "a/b", "page": "2"}}
    assert snapshot.key == "job/a%2Fb/2"


async def test_run_job_has_the_guarantees() -> None:
    """Validation before, containment and time limit around, and what may be shown."""
    with pytest.raises(InvalidPayloadError):
        await run_job(count, payload={"n": "many"})
    with pytest.raises(ConfigurationError):
        await run_job(print)  # type: ignore[arg-type]

    async def fails(run: Run) -> None:
        raise ValueError("bad row")

    async def hangs(run: Run) -> None:
        await anyio.sleep_forever()

    async def refuses(run: Run) -> None:
        raise JobError("no credit", code="credit")

    assert (await run_job(fails)).error_message == "bad row"
    assert "bad row" not in str(await run_job(fails, expose_errors=False))
    assert (await run_job(hangs, timeout=0.01)).error_code == "timeout"
    assert (await run_job(refuses)).error_code == "credit"


async def test_run_job_leaves_the_application_alone() -> None:
    """A function that is registered somewhere can be run all the same."""
    jobs = Jobs()
    jobs.job("count")(count)
    assert (await run_job(count, payload={"n": 1})).status is Status.SUCCESS
    assert (await jobs.status("count")).status is Status.IDLE


async def test_a_gate_holds_a_job_at_a_step() -> None:
    """Deterministically: the job is there when `arrived` returns, and goes on when the gate opens."""
    jobs, gate = Jobs(), Gate()

    @jobs.job("job/{n}")
    async def job(run: Run) -> None:
        run.total = 2
        run.advance()
        await gate.wait()
        run.advance()

    async with jobs:
        for n in ("1", "2"):
            await jobs.trigger("job/{n}", params={"n": n})
        await gate.arrived(2)
        for n in ("1", "2"):
            assert (await jobs.status("job/{n}", params={"n": n})).percent == 50
        gate.open()
        await drained(jobs)
        assert {run.percent for run in await jobs.runs()} == {100}
        await jobs.trigger("job/{n}", params={"n": "late"})
        await gate.arrived(3)
        await drained(jobs)


async def test_a_gate_that_nobody_reaches_says_so() -> None:
    """Instead of a test that hangs."""
    with pytest.raises(TimeoutError, match=r"0 of 1 came to the gate within 0\.01 s"):
        await Gate().arrived(timeout=0.01)


async def test_drained_waits_for_all_and_names_what_does_not_end() -> None:
    """Whatever tenant they belong to."""
    jobs, gate = Jobs(shutdown_grace=0), Gate()

    @jobs.job("job")
    async def job(run: Run) -> None:
        await gate.wait()

    async with jobs:
        await drained(jobs)
        for tenant in ("acme", "globex"):
            await jobs.trigger("job", tenant=tenant)
        with pytest.raises(TimeoutError, match=r"still under way after 0\.01 s: job, job"):
            await drained(jobs, timeout=0.01)
        gate.open()
        await drained(jobs)
        for tenant in ("acme", "globex"):
            assert (await jobs.status("job", tenant=tenant)).status is Status.SUCCESS


class Elsewhere:
    """A runner whose runs are in another process."""

    async def __aenter__(self) -> Elsewhere:
        return self

    async def __aexit__(self, *args: object) -> None: ...

    def check(self) -> None: ...

    def start(self, run: Run, execute: Execute) -> None: ...

    async def drain(self, grace: float) -> None: ...


async def test_drained_says_when_it_cannot_know() -> None:
    """Runs of another process are not to be seen from here."""
    with pytest.raises(ConfigurationError, match="TaskGroupRunner"):
        await drained(Jobs(runner=Elsewhere()))


async def test_a_manual_clock_lets_snapshots_expire() -> None:
    """Without waiting an hour."""
    clock = ManualClock()
    jobs = Jobs(store=MemoryStore(ttl=3600, timer=clock))
    jobs.job("count")(count)
    async with jobs:
        await jobs.trigger("count", payload={"n": 1})
        await drained(jobs)
        clock.advance(3599)
        assert (await jobs.status("count")).status is Status.SUCCESS
        clock.advance(1)
        assert (await jobs.status("count")).status is Status.IDLE


async def test_a_manual_clock_never_goes_back() -> None:
    """It stands for a monotonic one."""
    clock = ManualClock(5)
    assert clock() == 5
    for seconds in (-1, math.nan, math.inf):
        with pytest.raises(ConfigurationError, match=f"{seconds!r} seconds"):
            clock.advance(seconds)
    assert clock() == 5
