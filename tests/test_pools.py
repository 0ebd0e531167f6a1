"""Spreading over pools, with pools that are counted rather than connected: rules, invariants, clean-up."""

from __future__ import annotations

from typing import Any

import anyio
import pytest
from anyio.lowlevel import checkpoint
from hypothesis import given, settings
from hypothesis import strategies as st

from asynctask.pools import Pool, Pools
from tests.batch_support import BACKENDS


class Fake:
    """Stands for a client's connection pool: knows whether it is open, and takes its time to close."""

    def __init__(self, size: int, world: World) -> None:
        self.size = size
        self.world = world
        world.connections += size
        world.peak = max(world.peak, world.connections)
        self.open = True

    async def aclose(self) -> None:
        await checkpoint()
        if self.open:
            self.open = False
            self.world.connections -= self.size


class World:
    """All fakes of a test, and a clock that moves when it is told to."""

    def __init__(self) -> None:
        self.connections = self.peak = 0
        self.now = 0.0

    def pools(
        self, total: int, size: int = 1, max_idle: int = 1000, expiry: float | None = None
    ) -> Pools[Fake]:
        return Pools(
            lambda size: Fake(size, self),
            total=total,
            size=size,
            max_idle=max_idle,
            expiry=expiry,
            clock=lambda: self.now,
        )


@pytest.mark.anyio
async def test_requests_go_to_the_least_loaded_pool() -> None:
    """A new pool while there is room for one, then the one with the fewest requests."""
    pools = World().pools(9, size=3)
    places = []
    for count in range(9):
        places.append(await pools.acquire("a", None))
        loads = [place.load for place in set(places)]
        assert sum(loads) == count + 1
        assert max(loads) - min(loads) <= 1
        assert len(loads) == min(count + 1, 3)
    emptied = places[1]
    for place in (places[0], emptied, emptied):
        await pools.release(place, whole=True)
    assert await pools.acquire("a", None) is emptied


@pytest.mark.anyio
async def test_the_remainder_is_a_smaller_pool() -> None:
    """Where the total is no multiple of the size, the last pool has what is left."""
    pools = World().pools(7, size=3)
    places = [await pools.acquire("a", None) for _ in range(7)]
    assert sorted(place.size for place in set(places)) == [1, 3, 3]
    with pytest.raises(TimeoutError):
        await pools.acquire("a", 0)


@pytest.mark.anyio
async def test_the_pool_used_last_is_used_first() -> None:
    """So that a few connections stay warm and the others can expire."""
    pools = World().pools(3)
    one, two = await pools.acquire("a", None), await pools.acquire("a", None)
    await pools.release(one, whole=True)
    await pools.release(two, whole=True)
    assert await pools.acquire("a", None) is two


@pytest.mark.anyio
async def test_another_origin_takes_the_pool_that_was_idle_longest() -> None:
    """It is the one whose connection is the least likely to be missed."""
    pools = World().pools(2)
    one, two = await pools.acquire("a", None), await pools.acquire("b", None)
    await pools.release(one, whole=True)
    await pools.release(two, whole=True)
    assert await pools.acquire("c", None) is one
    assert await pools.acquire("b", None) is two


@pytest.mark.anyio
async def test_a_retired_pool_counts_until_it_is_closed() -> None:
    """A pool that lost one request serves its others to their end, and its connections stay counted."""
    world = World()
    pools = world.pools(4, size=4)
    places = [await pools.acquire("a", None) for _ in range(3)]
    await pools.release(places[0], whole=False)
    assert places[1].transport.open
    with pytest.raises(TimeoutError):
        await pools.acquire("a", 0)
    await pools.release(places[1], whole=True)
    await pools.release(places[2], whole=True)
    assert not places[0].transport.open
    fresh = await pools.acquire("a", None)
    assert fresh is not places[0]
    assert world.peak == 4


@pytest.mark.anyio
async def test_a_pool_is_closed_even_while_everything_is_cancelled() -> None:
    """Closing is not cut off half-way: the place would be free and the connection still open."""
    world = World()
    pools = world.pools(1)
    place = await pools.acquire("a", None)
    with anyio.CancelScope() as scope:
        scope.cancel()
        await pools.release(place, whole=False)
    assert world.connections == 0


@pytest.mark.anyio
async def test_a_pool_that_fails_to_close_gives_its_place_back() -> None:
    """The error comes out, but the place is not lost."""

    class Broken:
        async def aclose(self) -> None:
            raise OSError("cannot close")

    pools: Pools[Any] = Pools(lambda size: Broken(), total=1, size=1, max_idle=1, expiry=None)
    place = await pools.acquire("a", None)
    with pytest.raises(OSError, match="cannot close"):
        await pools.release(place, whole=False)
    assert await pools.acquire("a", 0) is not place


@pytest.mark.anyio
async def test_idle_pools_expire() -> None:
    """The next release closes those that were idle for too long, oldest first, and no others."""
    world = World()
    pools = world.pools(4, expiry=5)
    places = [await pools.acquire("a", None) for _ in range(4)]
    for place, world.now in zip(places[:3], (0, 4, 8), strict=True):
        await pools.release(place, whole=True)
    assert [place.transport.open for place in places] == [False, True, True, True]
    world.now = 10
    await pools.release(places[3], whole=True)
    assert [place.transport.open for place in places] == [False, False, True, True]


@pytest.mark.anyio
async def test_closing_closes_everything_and_turns_the_waiting_away() -> None:
    """Pools with requests are closed too; a request that waits is told, and its place is not taken."""
    world = World()
    pools = world.pools(1)
    place = await pools.acquire("a", None)
    turned_away = []

    async def wait() -> None:
        with pytest.raises(anyio.ClosedResourceError):
            await pools.acquire("a", None)
        turned_away.append(True)

    async with anyio.create_task_group() as group:
        group.start_soon(wait)
        await anyio.wait_all_tasks_blocked()
        await pools.aclose()
    assert turned_away == [True]
    assert world.connections == 0
    await pools.release(place, whole=True)
    assert (await pools.acquire("a", 0)).transport.open
    assert world.peak == 1


@pytest.mark.parametrize("backend", BACKENDS)
@given(
    total=st.integers(1, 7),
    size=st.integers(1, 4),
    max_idle=st.integers(1, 7),
    # For each request: origin, turns until it begins, turns it takes, how it ends, patience in turns.
    requests=st.lists(
        st.tuples(
            st.sampled_from("ab"), st.integers(0, 6), st.integers(0, 4), st.booleans(), st.integers(0, 12)
        ),
        max_size=25,
    ),
)
@settings(max_examples=80, deadline=None)
def test_whatever_happens_the_bounds_hold_and_no_place_is_lost(
    backend: str, total: int, size: int, max_idle: int, requests: list[tuple[str, int, int, bool, int]]
) -> None:
    """Requests come, wait, end well or badly and are cancelled at any moment; then all places are there."""
    world = World()

    async def main() -> None:
        pools = world.pools(total, size=min(size, total), max_idle=max_idle)
        under_way: dict[Pool[Fake], int] = {}

        async def request(origin: str, begin: int, turns: int, whole: bool, patience: int) -> None:
            for _ in range(begin):
                await checkpoint()
            async with anyio.create_task_group() as group:
                group.start_soon(give_up, group.cancel_scope, patience)
                pool = await pools.acquire(origin, None)
                try:
                    under_way[pool] = under_way.get(pool, 0) + 1
                    assert pool.transport.open
                    assert under_way[pool] <= pool.size
                    assert sum(under_way.values()) <= total
                    for _ in range(turns):
                        await checkpoint()
                except BaseException:
                    whole = False
                    raise
                finally:
                    under_way[pool] -= 1
                    await pools.release(pool, whole=whole)
                group.cancel_scope.cancel()

        async def give_up(scope: anyio.CancelScope, patience: int) -> None:
            for _ in range(patience):
                await checkpoint()
            scope.cancel()

        async with anyio.create_task_group() as group:
            for plan in requests:
                group.start_soon(request, *plan)
        assert world.connections <= total
        places = [await pools.acquire("a", 0) for _ in range(total)]
        assert all(place.transport.open for place in places)
        for place in places:
            await pools.release(place, whole=True)
        assert len(pools) <= max(max_idle, 1)
        await pools.aclose()
        assert len(pools) == 0

    anyio.run(main, backend=backend)
    assert world.peak <= total
    assert world.connections == 0
