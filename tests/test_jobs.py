"""Jobs: trigger, status, wait and runs; fresh runs after each end."""

from __future__ import annotations

import itertools
from typing import Any

import anyio
import pytest

from asynctask import (
    ConfigurationError,
    InvalidKeyError,
    InvalidPayloadError,
    Jobs,
    Run,
    Status,
    UnknownJobError,
)
from asynctask.testing import Gate, drained
from tests.shop import Shop

pytestmark = pytest.mark.anyio


async def test_a_job_from_trigger_to_summary() -> None:
    """202's snapshot, RUNNING with progress, SUCCESS with what it returned."""
    jobs, gate = Jobs(), Gate()

    @jobs.job("check")
    async def check(run: Run) -> dict[str, int]:
        run.total, run.message = 4, "comparing"
        run.advance(2)
        await gate.wait()
        run.advance(2, failed=1)
        return {"groups": 3}

    async with jobs:
        assert (await jobs.status("check")).status is Status.IDLE
        first = await jobs.trigger("check")
        assert (first.status, first.started, first.version) == (Status.RUNNING, True, 1)
        await gate.arrived()
        half = await jobs.status("check")
        assert (half.run_id, half.percent, half.message) == (first.run_id, 50, "comparing")
        gate.open()
        last = await jobs.wait("check")
    assert (last.status, last.result, last.percent) == (Status.SUCCESS, {"groups": 3}, 100)
    assert (last.processed, last.succeeded, last.failed, last.total) == (4, 3, 1, 4)
    assert last == await jobs.status("check")
    assert last.version > half.version > first.version


async def test_the_function_itself_stays_as_it_was() -> None:
    """The decorator registers and returns it; it can be called and tested as any other."""
    jobs = Jobs()

    async def check(run: Run) -> int:
        return 1

    assert jobs.job("check")(check) is check


async def test_tenants_and_parameters_make_runs_of_their_own() -> None:
    """Another tenant, or another file, is another key; each sees its own."""
    shop = Shop()
    async with shop.jobs:
        runs = [await shop.jobs.trigger("check", tenant=tenant) for tenant in ("", "acme", "globex")]
        runs += [
            await shop.jobs.trigger("import/{file}", params={"file": name}, payload={"n": 1})
            for name in ("a/b", "a%2Fb", "a:b")
        ]
        assert all(run.started for run in runs)
        assert len({run.run_id for run in runs}) == 6
        shop.gate.open()
        assert (await shop.jobs.wait("check", tenant="acme")).result == "acme"
        loaded = await shop.jobs.wait("import/{file}", params={"file": "a/b"})
        assert (loaded.key, loaded.result) == ("import/a%2Fb", {"file": "a/b", "n": 1})
        assert (await shop.jobs.status("check", tenant="nobody")).status is Status.IDLE


async def test_the_payload_of_a_start_counts_and_every_one_is_validated() -> None:
    """Whoever joins does not change it, but is told if his does not fit."""
    shop, key = Shop(), {"file": "x"}
    async with shop.jobs:
        await shop.jobs.trigger("import/{file}", params=key, payload={"n": 1})
        joined = await shop.jobs.trigger("import/{file}", params=key, payload={"n": 2})
        assert joined.started is False
        with pytest.raises(InvalidPayloadError):
            await shop.jobs.trigger("import/{file}", params=key, payload={"n": "many"})
        shop.gate.open()
        assert (await shop.jobs.wait("import/{file}", params=key)).result == {"file": "x", "n": 1}
    assert shop.calls == [("", {"n": 1})]


@pytest.mark.parametrize("fails", [False, True])
async def test_a_trigger_right_after_the_end_is_a_fresh_run(fails: bool) -> None:
    """arq#432, #531, rq#1701: new run id, fresh times and counts, whether it had finished or failed."""
    jobs, seen = Jobs(), []

    @jobs.job("check")
    async def check(run: Run) -> None:
        run.advance()
        if fails:
            raise ValueError("bad row")

    async with jobs:
        for _ in range(20):
            started = await jobs.trigger("check")
            assert (started.started, started.version, started.processed) == (True, 1, 0)
            assert (started.error_message, started.finished_at, started.result) == (None, None, None)
            ended = await jobs.wait("check")
            assert ended.run_id == started.run_id
            seen.append(ended)
    assert len({ended.run_id for ended in seen}) == 20
    for before, after in itertools.pairwise(seen):
        assert (before.finished_at or "?") <= (after.started_at or "")


async def test_a_job_that_ends_before_the_first_look_is_seen_at_its_end() -> None:
    """saq#118: SUCCESS at the first GET, and startedAt ≤ finishedAt."""
    jobs = Jobs()

    @jobs.job("check")
    async def check(run: Run) -> str:
        return "done"

    async with jobs:
        await jobs.trigger("check")
        await drained(jobs)
        first = await jobs.status("check")
    assert (first.status, first.result) == (Status.SUCCESS, "done")
    assert first.started_at is not None
    assert first.finished_at is not None
    assert first.started_at <= first.finished_at
    assert first.duration_ms is not None
    assert first.duration_ms >= 0


async def test_the_state_can_be_read_before_the_trigger_has_answered() -> None:
    """No window in which a poll would show IDLE."""
    shop = Shop()
    async with shop.jobs:
        answer = await shop.jobs.trigger("check")
        assert (await shop.jobs.status("check")).same_version(answer)


async def test_waiting() -> None:
    """IDLE at once, RUNNING at the end of patience, the terminal snapshot as soon as there is one."""
    shop = Shop()
    async with shop.jobs:
        assert (await shop.jobs.wait("check")).status is Status.IDLE
        await shop.jobs.trigger("check")
        for timeout in (0, 0.01):
            assert (await shop.jobs.wait("check", timeout=timeout)).status is Status.RUNNING
        shop.gate.open()
        assert (await shop.jobs.wait("check")).status is Status.SUCCESS
        assert (await shop.jobs.wait("check")).status is Status.SUCCESS


async def test_waiting_is_for_one_run() -> None:
    """Who waits for a run is told of its end, though the key runs again by then."""
    jobs = Jobs(shutdown_grace=0)

    @jobs.job("check")
    async def check(run: Run) -> None:
        if first.run_id != run.run_id:
            await anyio.sleep_forever()

    async with jobs:
        first = await jobs.trigger("check")
        await jobs.wait("check")
        second = await jobs.trigger("check")
        told = await jobs.wait_beyond(first, finished=True, timeout=10)
        assert told.run_id == second.run_id


async def test_waiting_beyond_a_version() -> None:
    """A long poll returns at the next change, within a quarter of a second, and at the end at once."""
    jobs, gates = Jobs(), [Gate(), Gate()]

    @jobs.job("check")
    async def check(run: Run) -> None:
        await gates[0].wait()
        run.advance()
        await gates[1].wait()

    async with jobs:
        seen = await jobs.trigger("check")
        assert (await jobs.wait_beyond(seen, timeout=0.01)).same_version(seen)
        gates[0].open()
        moved = await jobs.wait_beyond(seen, timeout=10)
        assert (moved.processed, moved.status) == (1, Status.RUNNING)
        gates[1].open()
        assert (await jobs.wait_beyond(moved, timeout=10)).status is Status.SUCCESS


async def test_runs_are_the_tenants_own() -> None:
    """RUNNING ones first, then the newest; nobody else's."""
    shop = Shop()
    async with shop.jobs:
        await shop.jobs.trigger("check", tenant="acme")
        shop.gate.open()
        await drained(shop.jobs)
        shop.gate = Gate()
        await shop.jobs.trigger("import/{file}", tenant="acme", params={"file": "x"}, payload={})
        await shop.jobs.trigger("check", tenant="globex")
        assert [run.key for run in await shop.jobs.runs(tenant="acme")] == ["import/x", "check"]
        assert await shop.jobs.runs() == []


async def test_mistakes_are_errors_that_say_so() -> None:
    """An unknown job, a key that is none, a payload that does not fit: nothing starts."""
    shop = Shop()
    async with shop.jobs:
        for verb in (shop.jobs.trigger, shop.jobs.status, shop.jobs.wait, shop.jobs.cancel):
            with pytest.raises(UnknownJobError, match=r"'chekc'; registered: 'check'"):
                await verb("chekc")
            with pytest.raises(InvalidKeyError):
                await verb("import/{file}")
        with pytest.raises(InvalidKeyError):
            await shop.jobs.trigger("check", tenant=None)  # type: ignore[arg-type]
        with pytest.raises(InvalidKeyError):
            await shop.jobs.runs(tenant=3)  # type: ignore[arg-type]
        with pytest.raises(InvalidPayloadError):
            await shop.jobs.trigger("check", payload={"n": 1})
        assert await shop.jobs.runs() == []


@pytest.mark.parametrize(
    "options",
    [
        {"max_running": 0},
        {"max_running_per_tenant": 0},
        *({"shutdown_grace": grace} for grace in (-1, float("nan"), float("inf"), "5", True, None)),
    ],
)
async def test_unfit_options_are_refused(options: dict[str, Any]) -> None:
    """When the Jobs are made, with the name and the value."""
    (name,) = options
    with pytest.raises(ConfigurationError, match=f"{name}={options[name]!r}"):
        Jobs(**options)


async def test_a_job_is_assessed_by_what_it_measured() -> None:
    """Runs, records and triggers are taken down as they happen."""
    jobs = Jobs()

    @jobs.job("check")
    async def check(run: Run) -> None:
        run.advance(7)

    async with jobs:
        for _ in range(3):
            await jobs.trigger("check")
            await jobs.wait("check")
    figures = jobs.registry.find("check").history.figures()
    assert (figures.runs, figures.succeeded) == (3, 3)
    assert figures.records is not None
    assert figures.records.max == 7
    assert figures.longest_trigger_seconds is not None
    assert jobs.assess("check") is not None
    with pytest.raises(UnknownJobError):
        jobs.assess("chekc")
