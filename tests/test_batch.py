"""map_concurrently: order, bound, exactly once, and where items come from."""

from __future__ import annotations

from collections import Counter
from contextlib import aclosing
from typing import TYPE_CHECKING, Any

import anyio
import pytest
from anyio.lowlevel import checkpoint
from hypothesis import given, settings
from hypothesis import strategies as st

from asynctask.batch import Outcome, map_concurrently
from tests.batch_support import BACKENDS, SOURCES, Gauge, agen, at_once, double, plans

if TYPE_CHECKING:
    from collections.abc import AsyncIterator, Callable, Generator, Iterator


@pytest.mark.parametrize("backend", BACKENDS)
@given(plan=plans, max_at_once=st.integers(1, 12), source=st.sampled_from(sorted(SOURCES)))
@settings(max_examples=60, deadline=None)
def test_results_come_in_order_once_each_and_never_too_many_at_once(
    backend: str, plan: list[tuple[int, bool]], max_at_once: int, source: str
) -> None:
    """Whatever the calls await, wherever the items come from: order, bound and exactly-once hold."""
    gauge = Gauge()
    seen: Counter[int] = Counter()

    async def call(index: int) -> int:
        with gauge:
            seen[index] += 1
            for _ in range(plan[index][0]):
                await checkpoint()
            return index * index

    async def main() -> list[int]:
        return await map_concurrently(call, SOURCES[source](list(range(len(plan)))), max_at_once=max_at_once)

    assert anyio.run(main, backend=backend) == [index * index for index in range(len(plan))]
    assert seen == Counter(range(len(plan)))
    assert gauge.peak <= max_at_once
    assert gauge.now == 0


@pytest.mark.parametrize("backend", BACKENDS)
@given(plan=plans, max_at_once=st.integers(1, 12), source=st.sampled_from(sorted(SOURCES)))
@settings(max_examples=60, deadline=None)
def test_collected_outcomes_tell_what_became_of_each_item(
    backend: str, plan: list[tuple[int, bool]], max_at_once: int, source: str
) -> None:
    """With "collect" every item has its outcome in its place, and each was counted once."""
    gauge = Gauge()
    progress: list[tuple[int, int]] = []
    failures: list[BaseException] = []
    latencies: list[float] = []

    async def call(index: int) -> int:
        with gauge:
            for _ in range(plan[index][0]):
                await checkpoint()
            if plan[index][1]:
                raise LookupError(index)
            return index

    async def main() -> list[Outcome[int]]:
        return await map_concurrently(
            call,
            SOURCES[source](list(range(len(plan)))),
            max_at_once=max_at_once,
            on_error="collect",
            on_progress=lambda n, failed: progress.append((n, failed)),
            on_failure=failures.append,
            on_latency=latencies.append,
        )

    outcomes = anyio.run(main, backend=backend)
    failing = [index for index, (_, fails) in enumerate(plan) if fails]
    assert [outcome.index for outcome in outcomes] == list(range(len(plan)))
    assert [outcome.item for outcome in outcomes] == list(range(len(plan)))
    assert [outcome.index for outcome in outcomes if not outcome.ok] == failing
    assert all(outcome.value == outcome.index for outcome in outcomes if outcome.ok)
    assert all(outcome.value is None for outcome in outcomes if not outcome.ok)
    assert gauge.peak <= max_at_once
    assert sorted(progress) == sorted((1, int(fails)) for _, fails in plan)
    assert sorted(failure.args[0] for failure in failures) == failing
    assert len(latencies) == len(plan)
    assert all(seconds >= 0 for seconds in latencies)


@pytest.mark.anyio
@pytest.mark.parametrize("call", [double, at_once])
@pytest.mark.parametrize("max_at_once", [1, 7])
async def test_items_are_pulled_only_as_slots_free_up(call: Callable[[int], Any], max_at_once: int) -> None:
    """However long the input, never more than `max_at_once` items have been pulled and are not done."""
    done = 0
    ahead = 0

    def items() -> Iterator[int]:
        nonlocal ahead
        for index in range(2000):
            ahead = max(ahead, index + 1 - done)
            yield index

    async def counted(index: int) -> int:
        nonlocal done
        result: int = await call(index)
        done += 1
        return result

    assert len(await map_concurrently(counted, items(), max_at_once=max_at_once)) == 2000
    assert ahead <= max_at_once


@pytest.mark.anyio
@pytest.mark.parametrize(("count", "max_at_once", "workers"), [(0, 50, 0), (3, 50, 3), (500, 10, 10)])
async def test_there_are_no_more_tasks_than_items_or_slots(
    count: int, max_at_once: int, workers: int
) -> None:
    """Many items are not many tasks, and many slots for few items are not many either."""
    before = len(anyio.get_running_tasks())
    most = 0

    async def call(index: int) -> None:
        nonlocal most
        await checkpoint()
        most = max(most, len(anyio.get_running_tasks()) - before)

    await map_concurrently(call, range(count), max_at_once=max_at_once)
    assert most == workers
    assert len(anyio.get_running_tasks()) == before


@pytest.mark.anyio
async def test_an_async_generator_is_closed_when_the_batch_ends_early() -> None:
    """Its clean-up runs before the error comes out, not some time later in the garbage collector."""
    closed = []

    async def items() -> AsyncIterator[int]:
        try:
            for index in range(100):
                yield index
        finally:
            await checkpoint()
            closed.append(True)

    async def fails(index: int) -> None:
        raise LookupError(index)

    with pytest.raises(LookupError):
        await map_concurrently(fails, items(), max_at_once=3)
    assert closed == [True]


@pytest.mark.anyio
async def test_an_async_iterator_is_not_asked_again_after_its_end() -> None:
    """Some iterators wait for ever when they are asked once too often; and they are never asked by two."""

    class Once:
        asked = 0
        asking = False

        def __aiter__(self) -> Once:
            return self

        async def __anext__(self) -> int:
            assert not self.asking
            self.asking = True
            await checkpoint()
            self.asking = False
            self.asked += 1
            if self.asked <= 4:
                return self.asked
            if self.asked == 5:
                raise StopAsyncIteration
            await anyio.sleep_forever()
            raise AssertionError

    assert await map_concurrently(double, Once(), max_at_once=10) == [2, 4, 6, 8]


@pytest.mark.anyio
async def test_a_stream_given_as_input_stays_open() -> None:
    """Only async generators are closed; another thing with an `aclose` is the caller's."""
    send, receive = anyio.create_memory_object_stream[int](5)

    async def fails(index: int) -> None:
        raise LookupError(index)

    with send, receive:
        send.send_nowait(1)
        send.send_nowait(2)
        with pytest.raises(LookupError):
            await map_concurrently(fails, receive, max_at_once=1)
        assert receive.receive_nowait() == 2


@pytest.mark.anyio
async def test_any_awaitable_will_do() -> None:
    """A function that returns some awaitable is as good as a coroutine function; so are old iterables."""

    class Later:
        def __init__(self, n: int) -> None:
            self.n = n

        def __await__(self) -> Generator[Any, Any, int]:
            yield from double(self.n).__await__()
            return self.n

    class Old:
        def __getitem__(self, index: int) -> int:
            if index > 3:
                raise IndexError
            return index

    assert await map_concurrently(Later, range(4)) == [0, 1, 2, 3]
    old: Any = Old()
    assert await map_concurrently(double, old) == [0, 2, 4, 6]


@pytest.mark.anyio
async def test_a_batch_in_a_batch_and_over_a_generator_of_its_own() -> None:
    """Batches nest, and their bounds are independent."""

    async def inner(n: int) -> list[int]:
        async with aclosing(agen(range(n))) as items:  # type: ignore[type-var]
            return await map_concurrently(double, items, max_at_once=2)

    assert await map_concurrently(inner, range(4), max_at_once=3) == [[], [0], [0, 2], [0, 2, 4]]
