"""MemoryStore: its bounds. What it shares with every store is in test_contract."""

from __future__ import annotations

import logging
import math
import time
from typing import Any

import pytest

from asynctask import ConfigurationError, MemoryStore, Snapshot, Status
from asynctask.keys import Key
from asynctask.run import Run
from asynctask.stores.base import Store
from asynctask.stores.memory import _worker_count
from asynctask.testing import ManualClock

pytestmark = pytest.mark.anyio


def key(name: str, tenant: str = "") -> Key:
    """A key of its own."""
    return Key("job", f"job/{name}", tenant)


async def finished(store: MemoryStore, name: str, tenant: str = "") -> Snapshot:
    """Run one key to its end."""
    run = Run(key(name, tenant))
    assert (await store.claim(run)).ours
    run.finish(Status.SUCCESS, result=name)
    assert await store.settle(run)
    return run.snapshot()


async def test_it_is_a_store() -> None:
    """What type checkers see in the protocol is what it offers."""
    store: Store = MemoryStore()
    async with store as entered:
        assert entered is store


@pytest.mark.parametrize("cap", [0, -1, 1.0, True, "9", None, math.nan])
async def test_an_unfit_cap_is_refused(cap: Any) -> None:
    """When the store is made, with the value in the message."""
    with pytest.raises(ConfigurationError, match=f"cap={cap!r}"):
        MemoryStore(cap=cap)


@pytest.mark.parametrize("ttl", [0, -1.0, math.nan, True, "9", None])
async def test_an_unfit_ttl_is_refused(ttl: Any) -> None:
    """A ttl of 0 or NaN would keep entries that nobody can see."""
    with pytest.raises(ConfigurationError, match=f"ttl={ttl!r}"):
        MemoryStore(ttl=ttl)


async def test_the_ttl_counts_from_the_finish() -> None:
    """Not from the start, nor from the last look; at its end the key is IDLE again and the memory free."""
    clock = ManualClock()
    store = MemoryStore(ttl=60, timer=clock)
    run = Run(key("a"))
    await store.claim(run)
    clock.advance(3600)
    run.finish(Status.SUCCESS)
    await store.settle(run)
    clock.advance(59.9)
    assert await store.read(key("a")) is run.snapshot()
    clock.advance(0.1)
    assert await store.read(key("a")) is None
    assert (store.kept, store.expired, store.evicted) == (0, 1, 0)


@pytest.mark.parametrize("jump", [-3600.0, 3600.0 * 24])
async def test_a_wall_clock_that_jumps_changes_no_ttl(jump: float, monkeypatch: pytest.MonkeyPatch) -> None:
    """apscheduler#351, quartz#270: an hour back, or a day forth: the snapshot is still there."""
    store, now = MemoryStore(ttl=60), time.time
    snapshot = await finished(store, "a")
    monkeypatch.setattr(time, "time", lambda: now() + jump)
    assert await store.read(key("a")) is snapshot


@pytest.mark.parametrize("listing", [False, True])
async def test_every_read_purges_what_has_expired(listing: bool) -> None:
    """Trap #2: entries of keys that nobody asks for again leave memory all the same."""
    clock = ManualClock()
    store = MemoryStore(ttl=60, timer=clock)
    for n in range(100):
        await finished(store, str(n))
    clock.advance(60)
    await (store.list("") if listing else store.read(key("unknown")))
    assert len(store._finished._Cache__data) == 0  # type: ignore[attr-defined]
    assert store.expired == 100


async def test_an_infinite_ttl_is_bounded_by_the_cap_alone() -> None:
    """For ever is a choice."""
    clock = ManualClock()
    store = MemoryStore(ttl=math.inf, timer=clock)
    await finished(store, "a")
    clock.advance(1e12)
    assert await store.read(key("a")) is not None


async def test_beyond_the_cap_the_least_recently_read_goes_first() -> None:
    """A million tenants seen leave no more than the cap; what pollers look at stays longest."""
    store = MemoryStore(cap=3)
    for name in "abc":
        await finished(store, name)
    await store.read(key("a"))
    await finished(store, "d")
    assert [name for name in "abcd" if await store.read(key(name))] == ["a", "c", "d"]
    for n in range(1000):
        await finished(store, str(n))
    assert (store.kept, store.evicted, store.expired) == (3, 1001, 0)


async def test_a_new_finish_of_a_key_counts_as_recent() -> None:
    """The key's older snapshot is replaced, not kept beside, nor is its age."""
    clock = ManualClock()
    store = MemoryStore(cap=2, ttl=60, timer=clock)
    await finished(store, "a")
    clock.advance(50)
    await finished(store, "b")
    await finished(store, "a")
    clock.advance(50)
    await finished(store, "c")
    assert await store.read(key("a")) is not None
    assert await store.read(key("b")) is None
    assert (store.kept, store.evicted) == (2, 1)


async def test_running_runs_are_never_evicted_nor_expired() -> None:
    """The specification's checklist: "they must not be!"; nor do they take the room of finished ones."""
    clock = ManualClock()
    store = MemoryStore(cap=1, ttl=1, timer=clock)
    running = [Run(key(str(n))) for n in range(1000)]
    for run in running:
        await store.claim(run)
    for n in range(10):
        await finished(store, f"x{n}")
        clock.advance(100)
    assert store.running == 1000
    for run in running:
        seen = await store.read(run.claim_key)
        assert seen is not None
        assert (seen.status, seen.run_id) == (Status.RUNNING, run.run_id)


async def test_a_running_run_hides_the_finished_one_of_its_key() -> None:
    """And a run that is not the holder cannot touch either."""
    store = MemoryStore()
    first = await finished(store, "a")
    second, stranger = Run(key("a")), Run(key("a"))
    assert (await store.claim(second)).ours
    assert not (await store.claim(stranger)).ours
    stranger.finish(Status.FAILED)
    assert not await store.settle(stranger)
    assert (await store.read(key("a"))) is second.snapshot()
    second.finish(Status.SUCCESS)
    assert await store.settle(second)
    assert not await store.settle(second)
    assert (await store.read(key("a"))) is second.snapshot()
    assert first.run_id != second.run_id


async def test_a_poll_of_an_unknown_key_stores_nothing() -> None:
    """IDLE is made on demand: a scan of a million keys costs no memory."""
    store = MemoryStore()
    for n in range(1000):
        assert await store.read(key(str(n))) is None
        assert store.peek(key(str(n))) is None
        assert await store.cancel(key(str(n))) is None
    assert (store.running, store.kept) == (0, 0)


async def test_peek_shows_running_runs_alone() -> None:
    """What a trigger may join without asking."""
    store = MemoryStore()
    await finished(store, "a")
    run = Run(key("b"))
    await store.claim(run)
    assert store.peek(key("a")) is None
    assert store.peek(key("b")) is run.snapshot()


async def test_claim_and_settle_never_give_way() -> None:
    """Await-free: stepped by hand, each is over at its first step, so no other task comes in between."""
    store, run = MemoryStore(), Run(key("a"))
    steps: list[Any] = [store.claim(run)]
    with pytest.raises(StopIteration):
        steps[0].send(None)
    run.finish(Status.SUCCESS)
    steps.append(store.settle(run))
    with pytest.raises(StopIteration) as settled:
        steps[1].send(None)
    assert settled.value.value is True


async def test_listing_shows_one_tenant_running_first_then_the_newest() -> None:
    """Of a key that runs again the run, not its past; other tenants' never; expired ones neither."""
    clock = ManualClock()
    store = MemoryStore(ttl=60, timer=clock)
    await finished(store, "old", "acme")
    clock.advance(61)
    await finished(store, "a", "acme")
    await finished(store, "b", "globex")
    await finished(store, "c", "acme")
    again = Run(key("a", "acme"))
    await store.claim(again)
    listed = await store.list("acme")
    assert [(s.key, s.status) for s in listed] == [
        ("job/a", Status.RUNNING),
        ("job/c", Status.SUCCESS),
    ]
    assert listed[0].run_id == again.run_id
    assert await store.list("nobody") == []


class Restless(ManualClock):
    """A clock that goes on whenever somebody looks at it."""

    def __call__(self) -> float:
        self.advance(1)
        return super().__call__()


async def test_what_expires_while_it_is_listed_or_read_is_left_out() -> None:
    """Time does not stand still between the purge and the look."""
    for ttl in range(1, 60):
        store = MemoryStore(ttl=ttl, timer=Restless())
        for n in range(5):
            await finished(store, str(n))
        await store.list("")
        for n in range(5):
            await store.read(key(str(n)))


@pytest.mark.parametrize(
    ("command", "environment", "expected"),
    [
        ("uvicorn app:app", {}, 1),
        ("uvicorn app:app --workers 4", {}, 4),
        ("uvicorn app:app --workers=2 --port 80", {}, 2),
        ("gunicorn -w 3 app:app", {}, 3),
        ("gunicorn -w3 app:app", {}, 3),
        ("fastapi run --workers 8", {"WEB_CONCURRENCY": "2"}, 8),
        ("uvicorn app:app", {"WEB_CONCURRENCY": "2"}, 2),
        ("uvicorn app:app", {"WEB_CONCURRENCY": "many"}, 1),
        ("uvicorn app:app", {"WEB_CONCURRENCY": ""}, 1),
        ("uvicorn app:app --workers many", {}, 1),
        ("pytest -k not-w 3x --workerss 4", {}, 1),
        ("x --workers 99999999999999999999", {}, 1),
    ],
)
async def test_the_number_of_workers_is_read_from_the_command_line(
    command: str, environment: dict[str, str], expected: int
) -> None:
    """As uvicorn, gunicorn, hypercorn, granian and `fastapi run` spell it."""
    assert _worker_count(command.split(), environment) == expected


@pytest.mark.parametrize(("workers", "warned"), [("1", False), ("2", True)])
async def test_several_workers_are_warned(
    workers: str, warned: bool, monkeypatch: pytest.MonkeyPatch, caplog: pytest.LogCaptureFixture
) -> None:
    """Each process would have runs of its own; the warning says what to use."""
    caplog.set_level(logging.INFO)
    monkeypatch.setattr("sys.argv", ["uvicorn", "app:app", "--workers", workers])
    async with MemoryStore():
        pass
    assert ("RedisStore" in caplog.text) is warned
    assert (f"one of {workers} worker processes" in caplog.text) is warned
