"""What every store promises (`asynctask.stores.base.Store`), tested on each of them.

Two instances of an application stand side by side in each test: with a MemoryStore they are one store, with
the others two, in two "processes" that share nothing but the server.
"""

from __future__ import annotations

from typing import TYPE_CHECKING

import anyio
import pytest

from asynctask.keys import Key
from asynctask.run import Run
from asynctask.snapshot import Snapshot, Status
from asynctask.stores.base import PROGRESS_INTERVAL
from tests.stores.support import KEY, LIMIT, settled, started, until

if TYPE_CHECKING:
    from asynctask.stores.base import Store
    from tests.stores.conftest import Case, Instances

pytestmark = pytest.mark.anyio


@pytest.fixture
def anyio_backend(case: Case) -> str:
    """The event loop that belongs to the store."""
    return case.backend


async def test_first_claim_starts_and_second_joins(instances: Instances) -> None:
    """The run that was claimed first holds the key; whoever comes later, anywhere, is shown it."""
    async with started(instances()) as (one, two):
        run = Run(KEY)
        mine = await one.claim(run)
        assert (mine.ours, mine.snapshot.run_id, mine.snapshot.status) == (True, run.run_id, Status.RUNNING)
        for store in (one, two):
            other = await store.claim(Run(KEY))
            assert (other.ours, other.snapshot.run_id) == (False, run.run_id)


async def test_claim_is_idempotent_by_run_id(instances: Instances) -> None:
    """A claim that is repeated, since its answer was lost, is still ours and starts nothing else."""
    async with started(instances()) as (one, two):
        run = Run(KEY)
        assert (await one.claim(run)).ours
        assert (await one.claim(run)).ours
        assert not (await two.claim(Run(KEY))).ours
        assert len(await two.list("acme")) == 1


async def test_one_of_many_concurrent_claims_wins(instances: Instances) -> None:
    """Of 60 claims at once over two instances one is ours, and all name the same run."""
    async with started(instances()) as stores:
        claims = []

        async def claim(store: Store) -> None:
            claims.append(await store.claim(Run(KEY)))

        async with anyio.create_task_group() as group:
            for number in range(60):
                group.start_soon(claim, stores[number % 2])
        assert sum(claim.ours for claim in claims) == 1
        assert len({claim.snapshot.run_id for claim in claims}) == 1


async def test_key_without_a_run_is_none(instances: Instances) -> None:
    """What never ran is not there for any verb."""
    async with started(instances()) as (one, _):
        assert await one.read(KEY) is None
        assert one.peek(KEY) is None
        assert await one.cancel(KEY) is None
        assert await one.list("acme") == []
        seen = Snapshot(job="report", key="report", status=Status.RUNNING, run_id="gone")
        assert await one.changed(KEY, seen, timeout=LIMIT, finished=True) is None


async def test_progress_is_seen_everywhere(instances: Instances) -> None:
    """What a run counts reaches pollers of every instance, without anybody asking the run."""
    async with started(instances()) as (one, two):
        run = Run(KEY)
        await one.claim(run)
        run.total = 10
        run.advance(4, failed=1)
        run.message = "counting"
        for store in (one, two):
            seen = await until(store, lambda s: s is not None and s.message is not None)
            assert seen is not None
            assert (seen.processed, seen.failed, seen.total, seen.percent) == (4, 1, 10, 40)
            assert seen == run.snapshot()


async def test_versions_are_monotone_for_a_poller(instances: Instances) -> None:
    """While a run advances and ends, pollers see no older version after a newer, nor one with two faces."""
    async with started(instances()) as (one, two):
        run, faces = Run(KEY), dict[int, Snapshot]()
        await one.claim(run)

        async def work() -> None:
            for _ in range(40):
                run.advance()
                await anyio.sleep(0.02)
            await settled(one, run)

        async with anyio.create_task_group() as group:
            group.start_soon(work)
            version = 0
            while True:
                seen = await two.read(KEY)
                assert seen is not None
                assert seen.version >= version
                assert faces.setdefault(seen.version, seen) == seen
                version = seen.version
                if seen.status.terminal:
                    break
                await anyio.sleep(0.01)
        assert len(faces) > 3  # it was seen moving


async def test_settle_shows_the_outcome_everywhere(instances: Instances) -> None:
    """The terminal snapshot counts, and every instance shows the same one."""
    async with started(instances()) as (one, two):
        run = Run(KEY)
        await one.claim(run)
        run.advance(3)
        assert await settled(one, run, {"groups": 7})
        seen = [await store.read(KEY) for store in (one, two)]
        assert seen == [run.snapshot(), run.snapshot()]
        assert one.peek(KEY) is None


async def test_outcome_never_changes(instances: Instances) -> None:
    """After the end nothing moves a snapshot: not progress, not a second settle, not a cancellation."""
    async with started(instances()) as (one, two):
        run = Run(KEY)
        await one.claim(run)
        await settled(one, run, {"groups": 7})
        before = await two.read(KEY)
        run.advance(5)
        run.request_cancel()
        await one.settle(run)
        assert await two.cancel(KEY) == before
        await anyio.sleep(2 * PROGRESS_INTERVAL)  # longer than anything late would take
        assert await two.read(KEY) == before


async def test_settle_is_not_cut_off_by_a_cancellation(instances: Instances) -> None:
    """A run that ends while its caller is cancelled is settled all the same, and not left RUNNING."""
    async with started(instances()) as (one, two):
        run = Run(KEY)
        await one.claim(run)
        run.finish(Status.SUCCESS, result={"groups": 7})
        with anyio.CancelScope() as scope:
            scope.cancel()
            await one.settle(run)
        seen = await two.read(KEY)
        assert seen is not None
        assert (seen.status, seen.run_id) == (Status.SUCCESS, run.run_id)


async def test_settle_is_fenced_by_run_id(instances: Instances) -> None:
    """A run that does not hold its key cannot end the one that does."""
    async with started(instances()) as (one, two):
        run, stranger = Run(KEY), Run(KEY)
        await one.claim(run)
        assert not (await two.claim(stranger)).ours
        assert not await settled(two, stranger)
        seen = await two.read(KEY)
        assert seen is not None
        assert (seen.run_id, seen.status) == (run.run_id, Status.RUNNING)


async def test_a_finished_key_starts_afresh(instances: Instances) -> None:
    """A claim after an end is a new run with a new id, which the old one cannot touch."""
    async with started(instances()) as (one, two):
        first, second = Run(KEY), Run(KEY)
        await one.claim(first)
        await settled(one, first)
        claim = await two.claim(second)
        assert claim.ours
        await one.settle(first)
        seen = await one.read(KEY)
        assert seen is not None
        assert (seen.run_id, seen.status, seen.version) == (second.run_id, Status.RUNNING, 1)
        assert seen.result is None


async def test_cancel_reaches_the_holder(instances: Instances) -> None:
    """A cancellation is visible at once, with a new version, and the run is told wherever it executes."""
    async with started(instances()) as (one, two):
        run = Run(KEY)
        claim = await one.claim(run)
        seen = await two.cancel(KEY)
        assert seen is not None
        assert (seen.cancel_requested, seen.status) == (True, Status.RUNNING)
        assert seen.version > claim.snapshot.version
        again = await two.cancel(KEY)
        assert again is not None
        assert again.cancel_requested
        assert again.version >= seen.version
        with anyio.fail_after(LIMIT):
            while not run.cancel_requested:
                await anyio.sleep(0.02)
        await settled(one, run)
        last = await two.read(KEY)
        assert last is not None
        assert last.cancel_requested
        assert last.version > again.version


async def test_list_is_the_tenants_own(instances: Instances) -> None:
    """A tenant's keys, RUNNING ones first and then the newest; nothing of anybody else."""
    async with started(instances()) as (one, two):
        runs = []
        for number, tenant in enumerate(["acme", "acme", "acme", "acme", "globex"]):
            await anyio.sleep(0.002)  # so that each starts in a millisecond of its own
            runs.append(Run(Key("import/{n}", f"import/{number % 4}", tenant)))
            await one.claim(runs[-1])
        await settled(one, runs[3])
        await settled(one, runs[1])
        assert [s.run_id for s in await two.list("acme")] == [runs[n].run_id for n in (2, 0, 3, 1)]
        assert [s.run_id for s in await two.list("globex")] == [runs[4].run_id]
        assert await two.list("nobody") == []


ODD = ["", "a", "a:b", "a/b", "a%2Fb", "a%b", "{a}", "}{", "ü", "日本", "a b", "*", "a*", "t:a", "A"]


async def test_odd_texts_form_keys_of_their_own(instances: Instances) -> None:
    """No two different keys meet, whatever the texts of tenants and parameters hold."""
    async with started(instances()) as (one, two):
        keys = [Key("x/{p}", f"x/{part}", tenant) for part in ODD for tenant in ODD]
        keys += [Key("x/{p}:x", "", "a"), Key("x/{p}", ":x", "a"), Key("x", "x/{p}:", "a")]
        runs = {key: Run(key) for key in keys}
        for key, run in runs.items():
            assert (await one.claim(run)).ours, key
        for key, run in runs.items():
            seen = await two.read(key)
            assert seen is not None
            assert seen.run_id == run.run_id
        assert len(await two.list("a:b")) == len(ODD)


async def test_finished_runs_expire_and_running_ones_do_not(instances: Instances) -> None:
    """The TTL counts from the finish: a run longer than it stays, and its outcome is kept that long after."""
    ttl = 0.3
    async with started(instances(ttl=ttl)) as (one, two):
        run, long = Run(KEY), Run(Key("long", "long", "acme"))
        await one.claim(run)
        await one.claim(long)
        await anyio.sleep(2 * ttl)
        assert [s.status for s in await two.list("acme")] == [Status.RUNNING, Status.RUNNING]
        await settled(one, run)
        assert (await two.read(KEY)) is not None
        assert await until(two, lambda s: s is None) is None
        assert [s.run_id for s in await two.list("acme")] == [long.run_id]
